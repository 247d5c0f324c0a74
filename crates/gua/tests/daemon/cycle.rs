//! Start, status and stop, and everything that can happen in between.

use std::time::Duration;

use gua_probe::clock;
use rustix::process::Signal;

use crate::{TWO_GPUS, host};
use gua_test::{is_running, send, wait_for};

#[test]
fn status_names_the_log_file_given_at_start() {
    let host = host(TWO_GPUS);
    host.fine("daemon --interval 20ms --pid-file b/g.pid --log-file b/g.log");
    let status = host.fine("status --pid-file b/g.pid");
    let log = format!("\n  log: {}\n", host.path("b/g.log").display());
    assert!(status.contains(&log), "{status}");
    host.fine("stop --pid-file b/g.pid");
}

#[test]
fn the_health_of_a_background_daemon_is_that_of_its_last_tick() {
    let host = host(TWO_GPUS);
    let before = host.gua("daemon --health");
    assert_eq!(before.code, 1, "{before:?}");
    assert!(before.stdout.starts_with("unhealthy: "), "{before:?}");

    host.fine("daemon --interval 250ms");
    let running = host.gua("daemon --health");
    assert_eq!(running.code, 0, "{running:?}");
    assert!(
        running.stdout.starts_with("healthy: last tick ")
            && running.stdout.ends_with(" (interval 250ms)\n"),
        "{running:?}"
    );

    host.fine("stop");
    let after = host.gua("daemon --health");
    assert_eq!(after.code, 1, "{after:?}");
    let stopped = "unhealthy: the daemon stopped ";
    assert!(after.stdout.starts_with(stopped), "{after:?}");
    host.write(".gua/config.toml", "[collect]\nintervall = \"30s\"\n");
    let invalid = host.gua("daemon --health");
    assert_eq!((invalid.code, &*invalid.stderr), (1, ""), "{invalid:?}");
    let lines: Vec<&str> = invalid.stdout.lines().collect();
    assert!(
        lines.len() == 1 && lines[0].contains("config.toml:2:1: "),
        "{invalid:?}"
    );
}

#[test]
fn a_daemon_is_started_shown_and_stopped() {
    let host = host(TWO_GPUS);
    assert_eq!(host.fine("status"), "gua daemon: not running\n");
    assert_eq!(host.fine("stop"), "gua daemon: not running\n");

    // Long enough that a busy machine loses no tick.
    let output = host.fine("daemon --interval 250ms");
    let pid = host.pid().expect("a pid file");
    let (db, log, pid_file) = (
        host.state("gua.db"),
        host.state("gua.log"),
        host.state("gua.pid"),
    );
    assert_eq!(
        output,
        format!(
            "gua daemon: started pid {pid}\n  db: {}\n  log: {}\n  stop: gua stop\n",
            db.display(),
            log.display()
        )
    );
    assert_eq!(
        std::fs::read_to_string(&pid_file).unwrap(),
        format!("{pid}\n")
    );
    assert!(!host.ticks(".gua/gua.db").is_empty(), "the first is stored");

    let again = format!("gua daemon: already running (pid {pid})\n");
    assert_eq!(host.fine("start"), again);
    assert_eq!(host.fine("daemon --interval 250ms --append"), again);
    for options in ["--db elsewhere.db", "--interval 1s", "--keep-raw 1d"] {
        let refused = host.gua(&format!("daemon {options}"));
        let said = format!(
            "gua daemon: already running (pid {pid}) without these options: {options}\nhint: run `gua stop` first, then repeat this command\n"
        );
        assert_eq!((refused.code, refused.stderr), (1, said));
    }

    let status = host.fine("status");
    let begin = format!(
        "gua daemon: running (pid {pid})\n  pid file: {}\n  log: {}\n  history: {}\n  interval: 250ms\n  last tick: ",
        pid_file.display(),
        log.display(),
        db.display()
    );
    assert!(status.starts_with(&begin), "{status}");
    assert!(status.ends_with("s ago)\n  ticks lost: 0\n"), "{status}");

    wait_for("five ticks", || {
        (host.ticks(".gua/gua.db").len() >= 5).then_some(())
    });
    assert_eq!(
        host.fine("stop"),
        format!("gua daemon: stopped pid {pid}\n")
    );
    assert!(!is_running(pid));
    assert!(!pid_file.exists());
    assert_eq!(host.fine("status"), "gua daemon: not running\n");

    let left: Vec<_> = std::fs::read_dir(host.path(".gua"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("wal") || name.contains("shm"))
        .collect();
    assert_eq!(left, [""; 0], "a clean shutdown leaves one file");

    let log = host.log();
    let rows = host.ticks(".gua/gua.db").len() * 2;
    assert!(log.contains(" daemon started (host="), "{log}");
    assert!(log.contains("interval=0:00:00.250000)"), "{log}");
    assert!(
        log.contains("GPU-a=active      GPU-b=truly-idle\n"),
        "{log}"
    );
    assert!(log.contains(" shutdown signal received"), "{log}");
    assert!(
        log.ends_with(&format!(
            "\n\n{}: {rows} total gpu_sample rows\n",
            db.display()
        )),
        "{log}"
    );

    // The default history is appended to.
    host.fine("start --interval 20ms");
    wait_for("more ticks", || {
        (host.ticks(".gua/gua.db").len() * 2 > rows).then_some(())
    });
}

#[test]
fn of_many_concurrent_starts_one_starts_and_the_others_find_it() {
    let host = host(TWO_GPUS);
    let output: Vec<String> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| host.fine("start --interval 1h")))
            .collect();
        starts
            .into_iter()
            .map(|start| start.join().unwrap())
            .collect()
    });
    let pid = host.pid().unwrap();
    let started = output
        .iter()
        .filter(|text| text.starts_with(&format!("gua daemon: started pid {pid}\n")));
    assert_eq!(started.count(), 1, "{output:?}");
    let running = format!("gua daemon: already running (pid {pid})\n");
    assert_eq!(
        output.iter().filter(|text| **text == running).count(),
        5,
        "{output:?}"
    );
    assert!(is_running(pid));
}

#[test]
fn after_a_kill_it_starts_again_and_loses_nothing() {
    let host = host(TWO_GPUS);
    host.fine("start --interval 20ms");
    let pid = host.pid().unwrap();
    wait_for("three ticks", || {
        (host.ticks(".gua/gua.db").len() >= 3).then_some(())
    });
    send(pid, Signal::KILL);
    wait_for("its end", || (!is_running(pid)).then_some(()));
    let before = host.ticks(".gua/gua.db").len();
    assert!(
        host.state("gua.pid").exists(),
        "nothing removed the PID file"
    );
    let output = host.fine("start --interval 20ms");
    let second = host.pid().unwrap();
    assert!(
        output.starts_with(&format!("gua daemon: started pid {second}\n")),
        "{output}"
    );
    wait_for("more ticks", || {
        (host.ticks(".gua/gua.db").len() > before).then_some(())
    });
}

#[test]
fn the_reader_child_exits_with_a_killed_daemon() {
    let host = host("[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n")
        .variable("GUA_DRIVER_DEADLINE", "1h");
    let mut daemon = host.foreground("daemon --foreground");
    let children = format!("/proc/{pid}/task/{pid}/children", pid = daemon.child.id());
    let all_threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.child.id())).ok()?;
        tasks.flatten().find_map(|task| {
            let text = std::fs::read_to_string(task.path().join("children")).ok()?;
            text.split_whitespace().next()?.parse::<u32>().ok()
        })
    };
    assert!(std::path::Path::new(&children).exists());
    let reader = wait_for("a reader", all_threads);
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    wait_for("the reader's end", || (!is_running(reader)).then_some(()));
}

#[test]
fn sighup_reloads_settings_and_invalid_ones_change_nothing() {
    let host = host(TWO_GPUS);
    let file = ".gua/config.toml";
    host.write(file, "[collect]\ninterval = \"1h\"\n");
    host.fine("start");
    let pid = host.pid().unwrap();
    assert_eq!(host.ticks(".gua/gua.db").len(), 1);

    host.write(
        file,
        "[collect]\ninterval = \"30ms\"\n[states]\nactive_util = 60\n",
    );
    send(pid, Signal::HUP);
    wait_for("ticks at the new interval", || {
        (host.ticks(".gua/gua.db").len() >= 4).then_some(())
    });
    let last = host.ticks(".gua/gua.db").pop().unwrap();
    assert_eq!(last.interval, Duration::from_millis(30));
    wait_for("the new threshold in the log", || {
        host.log().contains("GPU-a=truly-idle").then_some(())
    });
    assert!(host.fine("status").contains("  interval: 30ms\n"));

    host.write(file, "[collect]\ninterval = \"0s\"\n");
    send(pid, Signal::HUP);
    wait_for("the message", || {
        host.log()
            .contains("settings not reloaded; the previous ones stay in force")
            .then_some(())
    });
    let before = host.ticks(".gua/gua.db").len();
    wait_for("ticks as before", || {
        (host.ticks(".gua/gua.db").len() > before + 2).then_some(())
    });
    let stopped = format!("gua daemon: stopped pid {pid}\n");
    assert_eq!(host.fine("stop"), stopped, "also with a broken file");
}

#[test]
fn a_flag_overrides_the_file_after_sighup() {
    let host = host(TWO_GPUS);
    host.fine("start --interval 1h");
    host.write(".gua/config.toml", "[collect]\ninterval = \"10ms\"\n");
    send(host.pid().unwrap(), Signal::HUP);
    wait_for("the message", || {
        host.log().contains("settings reloaded").then_some(())
    });
    assert!(host.fine("status").contains("  interval: 1h\n"));
}

#[test]
fn a_large_log_is_rotated_and_two_old_ones_are_kept() {
    let host = host(TWO_GPUS).variable("GUA_LOG_MB", "1");
    let full = "x".repeat(1 << 20) + "\n";
    host.write(".gua/gua.log", &full);
    host.write(".gua/gua.log.1", "younger\n");
    host.write(".gua/gua.log.2", "older\n");
    host.fine("start --interval 20ms");
    // A busy machine can log a late tick before the first line of the next one.
    wait_for("a new log", || {
        let log = host.log();
        (!log.starts_with('x') && log.contains("Tick ")).then_some(())
    });
    assert!(host.read(".gua/gua.log.1").starts_with("xxx"));
    assert!(host.read(".gua/gua.log.1").contains("daemon started"));
    assert_eq!(host.read(".gua/gua.log.2"), "younger\n");
    assert!(!host.state("gua.log.3").exists());

    // Another program can rotate the log and send SIGHUP.
    std::fs::rename(host.state("gua.log"), host.state("moved")).unwrap();
    send(host.pid().unwrap(), Signal::HUP);
    wait_for("a log again", || host.log().contains("Tick ").then_some(()));
}

#[test]
fn a_signal_ends_it_within_a_second_while_the_driver_hangs() {
    let host = host(TWO_GPUS);
    let mut daemon = host.foreground("daemon --foreground --interval 50ms");
    wait_for("a tick", || {
        (!host.ticks(".gua/gua.db").is_empty()).then_some(())
    });
    host.play("[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGet*\"\nhang = true\n");
    let ticks = wait_for("no more ticks", || {
        let before = host.ticks(".gua/gua.db").len();
        let since = clock::monotonic();
        while clock::monotonic() - since < Duration::from_millis(300) {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        (host.ticks(".gua/gua.db").len() == before).then_some(before)
    });
    let took = daemon.stop();
    assert!(took < Duration::from_secs(1), "{took:?}");
    let rows = ticks * 2;
    assert!(
        daemon
            .stdout()
            .ends_with(&format!("/gua.db: {rows} total gpu_sample rows\n")),
        "{}",
        daemon.stdout()
    );

    // The same before the first answer, when there is no history yet.
    let other = crate::host("[[gpu]]\n[[fault]]\nfunction = \"nvmlInit*\"\nhang = true\n");
    let mut daemon = other.foreground("daemon --foreground");
    // The daemon installs its signal handlers before it starts its reader.
    let pid = daemon.child.id();
    wait_for("the reader", || {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        (!children.unwrap().is_empty()).then_some(())
    });
    let took = daemon.stop();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(!other.state("gua.db").exists());
}

#[test]
fn the_foreground_prints_ticks_on_stdout_and_messages_on_stderr() {
    let host = host(TWO_GPUS);
    let mut daemon = host.foreground("daemon --foreground --interval 20ms --db ./x.db");
    wait_for("three lines", || {
        (daemon.stdout().lines().count() >= 3).then_some(())
    });
    daemon.stop();
    let stdout = daemon.stdout();
    let first = stdout.lines().next().unwrap();
    let (number, rest) = first.split_once("  ts=").unwrap();
    assert_eq!(number, "Tick 0");
    assert_eq!(&rest[2..3], ":");
    assert_eq!(&rest[12..], "  GPU-a=active      GPU-b=truly-idle");
    let rows = host.ticks("x.db").len() * 2;
    assert!(
        stdout.ends_with(&format!("\n\n./x.db: {rows} total gpu_sample rows\n")),
        "as it was typed: {stdout}"
    );
    assert!(daemon.stderr().contains("daemon started (host="));
    assert!(!host.state("gua.pid").exists(), "it is not managed");
    assert_eq!(host.fine("status"), "gua daemon: not running\n");
}

#[test]
fn a_daemon_that_stores_nothing_is_shown_as_overdue() {
    let host = host(TWO_GPUS);
    host.fine("start --interval 100ms");
    assert!(!host.fine("status").contains("overdue"));
    let pid = host.pid().unwrap();
    send(pid, Signal::STOP);
    wait_for("the message", || {
        let status = host.fine("status");
        let has_warning =
            status.contains("\n  overdue: ") && status.contains(" ticks (see the log)\n");
        has_warning.then_some(())
    });
    send(pid, Signal::CONT);
    host.fine("stop");
}

#[test]
fn lost_ticks_are_shown_with_their_reason_until_ticks_return() {
    let host = host(TWO_GPUS).variable("GUA_DRIVER_DEADLINE", "200ms");
    host.fine("start --interval 100ms");
    assert!(!host.fine("status").contains("losing ticks"));
    let hang = "[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n";
    host.play(&format!("{TWO_GPUS}{hang}"));
    let status = wait_for("the message", || {
        let status = host.fine("status");
        status
            .contains("\n  losing ticks since: ")
            .then_some(status)
    });
    assert!(
        status.contains("\n  reason: driver-hung: the driver did not answer"),
        "{status}"
    );
    assert!(status.contains(" so far\n"), "{status}");
    host.play(TWO_GPUS);
    wait_for("the end of the outage", || {
        let status = host.fine("status");
        let is_over = !status.contains("losing ticks") && !status.contains("overdue");
        is_over.then_some(())
    });
    assert!(!host.fine("status").contains("ticks lost: 0\n"));
    host.fine("stop");
    assert!(!host.state("gua.pid-outage").exists());
}

#[test]
fn settings_that_need_a_restart_are_logged_in_one_line() {
    let host = host(TWO_GPUS);
    let file = ".gua/config.toml";
    host.write(file, "[collect]\ninterval = \"50ms\"\n");
    host.fine("start");
    host.write(
        file,
        "[collect]\ninterval = \"50ms\"\nlog_file = \"~/other.log\"\n[driver]\ndeadline = \"3s\"\n[states]\nactive_util = 60\n",
    );
    send(host.pid().unwrap(), Signal::HUP);
    wait_for("the message", || {
        host.log().contains("settings reloaded").then_some(())
    });
    let log = host.log();
    assert!(
        log.contains(
            "changed settings apply after a restart (settings=driver.deadline, collect.log_file)\n"
        ),
        "{log}"
    );
    assert!(
        log.contains("totals keep the thresholds of the history"),
        "{log}"
    );
}

#[test]
fn under_its_old_name_it_stays_in_the_foreground() {
    let host = host(TWO_GPUS);
    let link = host.link("gpu-usage-audit");
    let launch = |line: &str| {
        let mut command = host.command(&link);
        command.args(line.split(' '));
        host.start(command)
    };
    let mut daemon = launch("daemon --db x.db --int 20ms");
    wait_for("a tick", || (!host.ticks("x.db").is_empty()).then_some(()));
    daemon.stop();
    assert!(daemon.stdout().starts_with("Tick 0  ts="));
    let again = launch("daemon --db x.db").child.wait().unwrap();
    assert_eq!(again.code(), Some(2));
    let output = host.read("foreground.err");
    assert!(
        output.starts_with(
            "gpu-usage-audit daemon: `x.db` exists already and is a history of gua (schema "
        ),
        "{output}"
    );
}

#[test]
fn usage_errors_exit_with_2() {
    let host = host(TWO_GPUS);
    for (line, expected) in [
        ("daemon --interval 0s", "--interval"),
        ("daemon --interval 30", "30s, 1h, 200ms"),
        ("daemon --foreground --interval 0ms", "--interval"),
        ("daemon --interval 999999999d", "from 1ms to 31d"),
        ("daemon --keep-raw 1s", "--keep-raw"),
        ("start --foreground", "--foreground"),
        ("daemon --frobnicate", "--frobnicate"),
        ("status --db x", "--db"),
    ] {
        let ended = host.gua(line);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{line}: {ended:?}");
    }
    assert!(!host.path(".gua").exists(), "nothing was made");
    // The replaced tool misparsed this value and wrote 1e+06s.
    host.fine("start --interval 1000000s");
    assert!(host.log().contains("interval=11 days, 13:46:40)"));
    host.fine("stop");
}
