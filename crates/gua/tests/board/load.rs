//! The load bench in small: nothing that a board acknowledged is lost, also when it is killed under load. The times are
//! measured by `scripts/bench board`.

use std::time::Duration;

use gua_test::load::Load;

#[test]
fn nothing_acknowledged_is_lost_under_load() {
    let data = tempfile::tempdir().unwrap();
    let load = Load {
        gua: env!("CARGO_BIN_EXE_gua").into(),
        directory: data.path().join("board"),
        hosts: 300,
        gpus: 8,
        streams: 24,
        period: Duration::from_secs(5),
        duration: Duration::from_secs(8),
        pages: 2,
        kills: 3,
    };
    let outcome = load.run();
    assert_eq!(outcome.faults(), Vec::<String>::new(), "{outcome}");
    // Every host pushed; how often depends on the machine.
    assert!(outcome.acknowledged >= u64::from(load.hosts), "{outcome}");
    assert!(
        outcome.frames_sent > 0 && !outcome.pages.took.is_empty(),
        "{outcome}"
    );
    assert!(outcome.pages.largest < 100_000, "{outcome}");
}
