//! Files of gpu-usage-audit where gua keeps its history: taken over, or written to by both programs.

use std::path::Path;

use gua_test::TestHost;
use gua_test::old_history::{self, Shape};

use crate::{TWO_GPUS, host};

const SMALL: Shape = Shape {
    gpus: 2,
    ticks: 10,
    interval_seconds: 30,
    process_rows: 20,
};

/// Writes the tables of the Python tool, with rows that end an hour ago, into a file that may exist.
fn write_old_rows(path: &Path) {
    let end = gua_probe::clock::now() - jiff::SignedDuration::from_hours(1);
    old_history::write(path, &SMALL, end).unwrap();
}

fn imported_rows(host: &TestHost, db: &str) -> u64 {
    let stats = host.json(&format!("db stats --format json --db {db}"));
    stats["imported"]["gpu_rows"].as_u64().unwrap()
}

#[test]
fn a_takeover_is_announced_before_and_on_the_terminal() {
    let host = host(TWO_GPUS);
    std::fs::create_dir(host.path(".gua")).unwrap();
    write_old_rows(&host.state("gua.db"));
    let doctor = host.fine("doctor");
    assert!(
        doctor.contains("`gua daemon` imports it into a new file and keeps it as"),
        "{doctor}"
    );
    let started = host.gua("start --interval 1h");
    host.fine("stop");
    assert_eq!(started.code, 0, "{started:?}");
    let aside = host.state("gua.db.gpu-usage-audit-1");
    for part in [
        "is a history of gpu-usage-audit: importing its 40 rows into a new file".to_owned(),
        format!("the old file is kept as {}", aside.display()),
    ] {
        assert!(started.stderr.contains(&part), "{part}: {started:?}");
    }
    assert!(aside.exists());
    assert_eq!(imported_rows(&host, ".gua/gua.db"), 20);
}

#[test]
fn an_old_history_of_the_service_is_taken_over_and_one_elsewhere_is_refused() {
    let host = host(TWO_GPUS);
    for name in ["service.db", "other.db"] {
        write_old_rows(&host.path(name));
    }
    let other = host.path("other.db");
    let refused = host.gua(&format!(
        "daemon --foreground --append --db {}",
        other.display()
    ));
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("`gua import "), "{refused:?}");
    let service = host.path("service.db");
    host.fine(&format!(
        "start --interval 1h --append --db {}",
        service.display()
    ));
    host.fine("stop");
    assert_eq!(imported_rows(&host, "service.db"), 20);
    assert!(host.path("service.db.gpu-usage-audit-1").exists());
}

#[test]
fn rows_that_the_python_tool_writes_into_our_history_are_reported_and_imported() {
    let host = host(TWO_GPUS);
    host.fine("start --interval 1h");
    host.fine("stop");
    write_old_rows(&host.state("gua.db"));
    let warned = host.gua("report --since 2h");
    assert_eq!(warned.code, 0, "{warned:?}");
    assert!(
        warned.stderr.contains("gpu-usage-audit wrote 40 rows into")
            && warned.stderr.contains("crontab -l"),
        "{warned:?}"
    );
    let doctor = host.fine("doctor");
    assert!(
        doctor.contains("gpu-usage-audit has written 40 rows into it"),
        "{doctor}"
    );
    host.fine("start --interval 1h");
    host.fine("stop");
    assert!(
        host.log()
            .contains("gpu-usage-audit writes into the history"),
        "{}",
        host.log()
    );
    assert_eq!(imported_rows(&host, ".gua/gua.db"), 20);
    let quiet = host.gua("report --since 2h");
    assert_eq!(quiet.stderr, "");
    // The same by hand: there is nothing left to import.
    let db = host.state("gua.db");
    let line = format!("import {} --db {0}", db.display());
    assert_eq!(host.gua(&line).code, 2);
    let row = "INSERT INTO gpu_sample (ts, gpu_uuid, util_pct) VALUES ('2026-11-01T00:00:00+00:00', 'GPU-x', 5)";
    old_history::change(&db, row).unwrap();
    let again = host.fine(&line);
    assert!(again.starts_with("imported 1 GPU row, "), "{again}");
    assert!(host.fine("db check").contains("no errors"));
}

#[test]
fn every_command_uses_the_services_history_and_says_so_beside_ones_own() {
    let host = host(TWO_GPUS);
    let service = host.path("service.db").display().to_string();
    host.fine("start --interval 1h");
    host.fine("stop");
    let own = host.state("gua.db").display().to_string();
    write_old_rows(&host.path("old.db"));
    let before = host.gua("report");
    assert_eq!(before.stderr, "", "there is only one history");
    host.fine(&format!("start --interval 1h --db {service}"));
    host.fine("stop");
    let note =
        format!("note: using {service}, the history of the host's service; `--db {own}` chooses");
    for line in [
        "report",
        "db stats",
        "db check",
        "export",
        "runs list",
        "import old.db",
    ] {
        let ended = host.gua(line);
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        assert!(ended.stderr.contains(&note), "{line}: {ended:?}");
    }
    assert_eq!(imported_rows(&host, &service), 20);
    assert_eq!(imported_rows(&host, &own), 0);
    let chosen = host.gua(&format!("report --db {own}"));
    assert_eq!(chosen.stderr, "");
    let doctor = host.fine("doctor");
    assert!(doctor.contains(&service), "{doctor}");

    // While one's own daemon runs, its history is the one, for every command.
    host.fine("start --interval 1h");
    for (line, code) in [("report", 0), ("db stats", 0), ("import old.db", 1)] {
        let ended = host.gua(line);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        let note = format!("note: using {own}, your own history; `--db {service}`");
        let daemons = format!("note: using {own}, ");
        assert!(
            ended.stderr.contains(&note) || ended.stderr.contains(&daemons),
            "{line}: {ended:?}"
        );
    }
    host.fine("stop");
}

#[test]
fn a_board_without_tls_does_not_stop_the_collecting() {
    let host = host(TWO_GPUS);
    let enrolment = r#"{"serverUrl":"http://board.invalid","hostId":"h","displayName":"lab","agentToken":"secret","tokenPrefix":"s"}"#;
    std::fs::create_dir(host.path(".gua")).unwrap();
    std::fs::write(host.state("cloud.json"), enrolment).unwrap();
    let started = host.gua("start --interval 1h --cloud");
    host.fine("stop");
    assert_eq!(started.code, 0, "{started:?}");
    for part in ["warning: ", "http", "ticks are stored locally"] {
        assert!(started.stderr.contains(part), "{part}: {started:?}");
    }
    assert!(
        host.log().contains("nothing is pushed to the board"),
        "{}",
        host.log()
    );
    assert_eq!(host.ticks(".gua/gua.db").len(), 1);
    // One sample: stored too, and an error because it was not pushed.
    let once = host.gua("sync-once");
    assert_eq!(once.code, 2, "{once:?}");
    assert!(
        once.stderr.contains("the local snapshot is saved to"),
        "{once:?}"
    );
    assert_eq!(host.ticks(".gua/gua.db").len(), 2);
}
