//! The histories that a daemon writes, and those that it leaves alone.

use crate::{TWO_GPUS, host, without_driver};
use gua_test::wait_for;

#[test]
fn an_existing_custom_history_is_refused_before_the_driver_is_loaded() {
    let host = without_driver();
    for (content, kind) in [("", "an empty file"), ("no database", "not a database")] {
        host.write("x.db", content);
        let ended = host.gua("daemon --db x.db");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(
            ended.stderr.starts_with(&format!(
                "gua daemon: `x.db` exists already and is {kind}; "
            )),
            "{ended:?}"
        );
        assert!(
            !ended.stderr.contains("gua report"),
            "there is no such command yet: {ended:?}"
        );
        let ended = host.gua("daemon --foreground --db x.db");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(
            ended.stderr.starts_with(&format!(
                "gua daemon --foreground: `x.db` exists already and is {kind}; "
            )),
            "{ended:?}"
        );
        assert_eq!(host.read("x.db"), content);
    }
    assert!(!host.path(".gua").exists(), "nothing was made");
}

#[test]
fn append_continues_our_own_history_and_nothing_else() {
    let host = host(TWO_GPUS);
    host.fine("start --db x.db --interval 20ms");
    host.fine("stop");
    let before = host.ticks("x.db").len();
    assert_eq!(host.gua("start --db x.db").code, 2);
    host.fine("start --db x.db --append --interval 20ms");
    wait_for("more ticks", || {
        (host.ticks("x.db").len() > before).then_some(())
    });
    host.fine("stop");

    host.fine("start --db new.db --append");
    host.fine("stop");
    assert_eq!(host.ticks("new.db").len(), 1, "a missing file is created");

    host.write("text.db", "no database");
    let ended = host.gua("daemon --foreground --append --db text.db");
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("not a database"), "{ended:?}");
    assert_eq!(host.read("text.db"), "no database");
}

#[test]
fn a_machine_without_a_driver_gets_no_history() {
    let host = without_driver();
    let sentence = "NVML initialization failed: the NVIDIA driver library";
    let ended = host.gua("daemon --foreground");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended
            .stderr
            .starts_with(&format!("gua daemon --foreground: {sentence}")),
        "{ended:?}"
    );
    let ended = host.gua("daemon");
    assert_eq!(ended.code, 1, "{ended:?}");
    let mut lines = ended.stderr.lines();
    let log = host.state("gua.log");
    assert_eq!(
        lines.next(),
        Some(&*format!(
            "gua daemon: failed to start (exit 1); log: {}",
            log.display()
        ))
    );
    assert!(lines.next().unwrap().contains(sentence), "{ended:?}");
    assert_eq!(ended.stdout, "");
    let left: Vec<_> = std::fs::read_dir(host.path(".gua"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["gua.log"]);
}

#[test]
fn a_custom_history_in_a_missing_directory_is_not_created() {
    let host = host(TWO_GPUS);
    let ended = host.gua("daemon --foreground --db missing/x.db");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("missing"), "{ended:?}");
    assert!(!host.path("missing").exists());
}

#[test]
fn two_collectors_on_one_history_are_refused() {
    let host = host(TWO_GPUS);
    host.fine("start --interval 1h");
    let pid = host.pid().unwrap();
    let ended = host.gua("daemon --foreground");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("another collector writes to")
            && ended.stderr.contains(&format!("process {pid}")),
        "{ended:?}"
    );
    let ended = host.gua("start --pid-file second.pid --log-file second.log");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("another collector writes to"),
        "{ended:?}"
    );
    assert!(!host.path("second.pid").exists());
    assert_eq!(host.pid(), Some(pid), "the first is not disturbed");
}

#[test]
fn a_newer_history_is_refused_before_a_daemon_is_started() {
    let host = host(TWO_GPUS);
    host.fine("start --interval 1h");
    host.fine("stop");
    let path = host.state("gua.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // SQLite's user version is at byte 60 of the file.
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let log = host.log();
    for (line, name) in [
        ("daemon", "gua daemon"),
        ("start", "gua start"),
        ("daemon --foreground", "gua daemon --foreground"),
    ] {
        let ended = host.gua(line);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(
            ended.stderr.starts_with(&format!("{name}: `"))
                && ended
                    .stderr
                    .contains("a history of a newer gua (schema 99)"),
            "{ended:?}"
        );
    }
    assert_eq!(host.log(), log, "no daemon was started");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_damaged_history_stops_a_daemon_with_a_hint() {
    let host = host(TWO_GPUS);
    host.write(".gua/gua.db", "no database ".repeat(400));
    for line in ["daemon", "daemon --foreground"] {
        let ended = host.gua(line);
        assert_eq!(ended.code, 1, "{ended:?}");
        let way = "gua db set-aside --db ";
        assert!(ended.stderr.contains(way), "{line}: {ended:?}");
        assert!(
            !line.ends_with("daemon") || !ended.stderr.contains("--foreground"),
            "with the path as it was typed: {ended:?}"
        );
    }
    host.fine("db set-aside --yes");
    host.fine("start --interval 1h");
    host.fine("stop");
}
