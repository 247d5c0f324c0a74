//! The daily CSV, written by `gua csv`, by the daemon and by a systemd timer.

use std::fs;
use std::path::Path;

use crate::{TWO_GPUS, host, without_driver};
use gua_test::{Ended, wait_for};

const HEADER: &str = "timestamp,user,pid,gpu,usage\n";

/// Scenario of two GPUs, with this test process on the first.
fn with_process() -> String {
    let pid = std::process::id();
    format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 50\n[[gpu.process]]\npid = {pid}\nmemory_mib = 512\n\
         [[gpu]]\nuuid = \"GPU-b\"\n"
    )
}

/// Name and text of the only file in a directory.
#[track_caller]
fn only_file(directory: &Path) -> (String, String) {
    let mut entries = fs::read_dir(directory).unwrap();
    let entry = entries.next().unwrap().unwrap();
    assert!(entries.next().is_none());
    let name = entry.file_name().into_string().unwrap();
    (name, fs::read_to_string(entry.path()).unwrap())
}

#[test]
fn a_sample_is_appended_to_the_daily_file_in_gpu_stats_format() {
    let host = host(&with_process());
    let output = host.fine("csv sample");
    assert!(
        output.contains("/gpu_stats/") && output.ends_with("_gpu_stats.csv: 1 row\n"),
        "{output}"
    );
    let (name, text) = only_file(&host.path("gpu_stats"));
    let row = text.strip_prefix(HEADER).unwrap();
    let fields: Vec<&str> = row.trim_end().split(',').collect();
    let stamp: i64 = fields[0].parse().unwrap();
    assert_eq!(stamp % 60, 0);
    let day = jiff::Timestamp::from_second(stamp)
        .unwrap()
        .strftime("%Y%m%d")
        .to_string();
    assert_eq!(name, format!("{day}_gpu_stats.csv"));
    let pid = std::process::id().to_string();
    let user = std::process::Command::new("id")
        .arg("-un")
        .output()
        .unwrap();
    let user = String::from_utf8(user.stdout).unwrap();
    assert_eq!(&fields[1..], [user.trim(), pid.as_str(), "0", "50"]);
}

#[test]
fn without_processes_classic_writes_a_row_of_dashes_and_full_lists_all_gpus() {
    let host = host(TWO_GPUS);
    host.fine("csv sample --dir days");
    let (_, text) = only_file(&host.path("days"));
    assert!(
        text.starts_with(HEADER) && text.ends_with(",-,-,-,0\n"),
        "{text}"
    );
    let output = host.fine("csv sample --dir full --csv-format full");
    assert!(
        output.ends_with("_gpu_stats_full.csv: 2 rows\n"),
        "{output}"
    );
    let (_, text) = only_file(&host.path("full"));
    assert_eq!(text.lines().count(), 3);
    assert!(text.contains(",GPU-a,"), "{text}");
}

#[test]
fn a_sample_that_cannot_be_written_fails_with_one_sentence() {
    let host = host(TWO_GPUS);
    host.write("blocked", "");
    let ended = host.gua("csv sample --dir blocked/days");
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .stderr
            .starts_with("gua csv sample: cannot create directory"),
        "{ended:?}"
    );
    let ended = host.gua("csv sample --csv-format fancy");
    assert_eq!(ended.code, 2);
    assert!(
        ended
            .stderr
            .contains("expected classic or full, found `fancy`"),
        "{ended:?}"
    );
    let none = without_driver().gua("csv sample");
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.stderr.starts_with("gua csv sample: "), "{none:?}");
}

#[test]
fn messages_of_a_sample_have_a_priority_in_the_journal() {
    let host = host(TWO_GPUS);
    host.fine("csv sample --dir days");
    let (name, _) = only_file(&host.path("days"));
    fs::write(host.path("days").join(name), format!("{HEADER}17")).unwrap();
    host.write("blocked", "");
    let check = |directory: &str, code: i32, expected: &str| {
        let mut command = host.command("sh");
        let line =
            r#"JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec "$0" csv sample --dir "$1""#;
        command
            .arg("-c")
            .arg(line)
            .arg(host.program())
            .arg(directory);
        let ended: Ended = command.output().unwrap().into();
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.stderr.starts_with(expected), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    };
    check("days", 0, "<4>gua csv sample: the last line of ");
    let error = "<3>gua csv sample: cannot create directory";
    check("blocked/days", 1, error);
}

#[test]
fn the_daemon_writes_the_csv_and_keeps_ticking_when_it_cannot() {
    let host = host(TWO_GPUS);
    let mut daemon = host.foreground("daemon --foreground --interval 50ms --csv-dir days");
    wait_for("a row", || host.path("days").exists().then_some(()));
    wait_for("ticks", || {
        (host.ticks(".gua/gua.db").len() >= 3).then_some(())
    });
    daemon.stop();
    let (_, text) = only_file(&host.path("days"));
    assert!(
        text.starts_with(HEADER) && text.lines().count() <= 3,
        "{text}"
    );

    host.write("blocked", "");
    let before = host.ticks(".gua/gua.db").len();
    let mut daemon = host.foreground("daemon --foreground --interval 250ms --csv-dir blocked/days");
    wait_for("more ticks", || {
        (host.ticks(".gua/gua.db").len() >= before + 5).then_some(())
    });
    fs::remove_file(host.path("blocked")).unwrap();
    wait_for("a row after the fault", || {
        host.path("blocked/days").exists().then_some(())
    });
    wait_for("the recovery message", || {
        daemon
            .stderr()
            .contains("ticks are stored again (sink=daily CSV")
            .then_some(())
    });
    daemon.stop();
    let output = daemon.stderr();
    let count = output
        .matches("tick not stored: cannot create directory")
        .count();
    assert_eq!(count, 1, "{output}");
    assert!(
        !output.contains("ticks were lost during this run"),
        "{output}"
    );
}

#[test]
fn the_timer_is_installed_enabled_and_removed() {
    let host = host(TWO_GPUS);
    let image = host.path("image");
    let output = host.fine("csv install --root image --every 10m --dir /data/stats");
    assert!(output.contains("gua-csv.timer"), "{output}");
    let unit = |name: &str| image.join("etc/systemd/user").join(name);
    let service = fs::read_to_string(unit("gua-csv.service")).unwrap();
    assert!(
        service.contains(" csv sample --dir /data/stats\n"),
        "{service}"
    );
    let timer = fs::read_to_string(unit("gua-csv.timer")).unwrap();
    assert!(timer.contains("OnCalendar=*:0/10\n"), "{timer}");
    let wanted = unit("timers.target.wants").join("gua-csv.timer");
    assert!(wanted.symlink_metadata().is_ok());
    host.fine("csv install --root image");
    host.fine("csv uninstall --root image");
    assert!(!unit("gua-csv.timer").exists() && wanted.symlink_metadata().is_err());
    assert!(
        host.fine("csv uninstall --root image")
            .contains("not installed")
    );

    fs::write(unit("gua-csv.timer"), "[Timer]\n").unwrap();
    let refused = host.gua("csv install --root image");
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("was not written by gua"),
        "{refused:?}"
    );
    assert_eq!(
        fs::read_to_string(unit("gua-csv.timer")).unwrap(),
        "[Timer]\n"
    );
    let printed = host.fine("csv install --print");
    assert!(
        printed.contains("# gua-csv.service\n") && printed.contains("OnCalendar=*:0/5\n"),
        "{printed}"
    );
}
