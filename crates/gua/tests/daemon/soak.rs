//! A driver that hangs for a long time by the real clock. `scripts/soak` makes it ten minutes; the gate uses less.

use std::time::Duration;

use gua_model::{GapReason, Tick};
use gua_probe::clock;
use jiff::SignedDuration;
use rustix::process::Signal;

use crate::{TWO_GPUS, host};
use gua_test::{Running, wait_for};

const DB: &str = ".gua/gua.db";
const INTERVAL: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(2);
/// Maximum time for the first answer of a new child, the pause before it, and the rest of a tick.
const RECOVERY: Duration = Duration::from_secs(2 * 3 + 1 + 2);
/// Allowed delay on a busy machine.
const SLACK: Duration = Duration::from_millis(700);

/// Time for which the driver hangs.
fn length() -> Duration {
    #[expect(
        clippy::disallowed_methods,
        reason = "the caller selects the long mode of this test"
    )]
    let asked = std::env::var("GUA_SOAK_SECONDS");
    let seconds = asked.map_or(20, |text| text.parse().expect("whole seconds"));
    Duration::from_secs(seconds)
}

/// Lets time pass on the monotonic clock and calls `check` meanwhile.
fn pass(time: Duration, mut check: impl FnMut()) {
    let end = clock::monotonic() + time;
    while clock::monotonic() < end {
        let left = end.saturating_sub(clock::monotonic());
        std::thread::park_timeout(left.min(Duration::from_secs(1)));
        check();
    }
}

/// Number of live child processes of a daemon.
fn children(daemon: &Running) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.child.id())).unwrap();
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .map(|text| text.split_whitespace().count())
        .sum()
}

/// Checks that consecutive ticks are one interval apart.
#[track_caller]
fn on_schedule(ticks: &[Tick]) {
    for pair in ticks.windows(2) {
        let apart = pair[1].sample.at.duration_since(pair[0].sample.at);
        let off = (apart - SignedDuration::try_from(INTERVAL).unwrap()).unsigned_abs();
        assert!(off <= SLACK, "{apart:?} apart at {}", pair[1].sample.at);
        assert_eq!(pair[1].sample.gpus.len(), 2);
    }
}

#[test]
fn a_long_driver_hang_costs_only_its_own_ticks_and_is_recovered_from() {
    let deadline = format!("{}s", DEADLINE.as_secs());
    let host = host(TWO_GPUS).variable("GUA_DRIVER_DEADLINE", &deadline);
    let mut daemon = host.foreground("daemon --foreground --interval 1s");
    wait_for("healthy ticks", || {
        (host.ticks(DB).len() >= 4).then_some(())
    });

    let hang = "[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n";
    host.play(&format!("{TWO_GPUS}{hang}"));
    let began = clock::now();
    let mut most_children = 0;
    pass(length(), || {
        most_children = most_children.max(children(&daemon));
    });
    host.play(TWO_GPUS);
    let ended = clock::now();
    wait_for("healthy ticks again", || {
        let ticks = host.ticks(DB);
        let again = ticks.iter().filter(|tick| tick.sample.at > ended);
        (again.count() >= 5).then_some(())
    });
    daemon.stop();

    assert!(most_children <= 2, "{most_children} readers at once");
    let outages = host.outages(DB);
    let [outage] = outages.as_slice() else {
        panic!("one outage: {outages:?}\n{}", daemon.stderr());
    };
    assert_eq!(outage.reason, GapReason::DriverHung);
    let tick = SignedDuration::try_from(INTERVAL + SLACK).unwrap();
    let begins_after = outage.from.duration_since(began);
    assert!(begins_after <= tick, "it began at {began}: {outage:?}");
    assert!(begins_after >= -tick, "it began at {began}: {outage:?}");
    let found_after = outage.to.duration_since(ended);
    let recovery = SignedDuration::try_from(RECOVERY).unwrap();
    assert!(
        found_after <= recovery,
        "it was over at {ended}: {outage:?}"
    );

    let ticks = host.ticks(DB);
    let (from, to) = (outage.from.as_microsecond(), outage.to.as_microsecond());
    let at = |tick: &Tick| tick.sample.at.as_microsecond();
    let before: Vec<Tick> = ticks
        .iter()
        .filter(|tick| at(tick) < from)
        .cloned()
        .collect();
    let after: Vec<Tick> = ticks
        .iter()
        .filter(|tick| at(tick) >= to)
        .cloned()
        .collect();
    assert_eq!(before.len() + after.len(), ticks.len(), "none in between");
    assert!(before.len() >= 4 && after.len() >= 5);
    on_schedule(&before);
    on_schedule(&after);
    assert_eq!(at(&after[0]), to, "it ends with a tick");

    // Each interval of the gap had a tick that was due.
    let gap = outage.to.duration_since(outage.from).as_secs();
    let lost = i64::from(outage.ticks_lost);
    assert!((lost - gap).abs() <= 2 + gap / 20, "{gap} s: {outage:?}");
    let stderr = daemon.stderr();
    assert_eq!(stderr.matches(" failed: ").count(), 1, "{stderr}");
    eprintln!(
        "hung for {} s: {} ticks before, {lost} lost, found again {:.1} s after its end, {} ticks after, {most_children} reader at most",
        length().as_secs(),
        before.len(),
        found_after.as_secs_f64(),
        after.len()
    );
    // The stored outage agrees.
    assert!(host.fine("db check").contains("no errors"));
}

#[test]
fn a_stopped_daemon_leaves_a_gap_with_its_reason_and_no_burst_of_ticks() {
    let interval = Duration::from_millis(500);
    let host = host(TWO_GPUS);
    let mut daemon = host.foreground("daemon --foreground --interval 500ms");
    // Just after a tick was printed, so that the daemon is stopped between two ticks.
    let lines = wait_for("three ticks", || {
        let lines = daemon.stdout().lines().count();
        (lines >= 3).then_some(lines)
    });
    wait_for("the next one", || {
        (daemon.stdout().lines().count() > lines).then_some(())
    });
    daemon.signal(Signal::STOP);
    pass(Duration::from_millis(3200), || {});
    daemon.signal(Signal::CONT);
    let stored = host.ticks(DB).len();
    wait_for("ticks again", || {
        (host.ticks(DB).len() >= stored + 4).then_some(())
    });
    daemon.stop();

    let outages = host.outages(DB);
    let [outage] = outages.as_slice() else {
        panic!("one outage: {outages:?}\n{}", daemon.stderr());
    };
    assert_eq!(outage.reason, GapReason::CollectorDown);
    assert!(
        outage.detail.starts_with("the collector stalled for "),
        "{outage:?}"
    );
    assert!((4..=7).contains(&outage.ticks_lost), "{outage:?}");
    let half = SignedDuration::try_from(interval / 2).unwrap();
    for pair in host.ticks(DB).windows(2) {
        let apart = pair[1].sample.at.duration_since(pair[0].sample.at);
        assert!(apart > half, "a burst: {apart:?}\n{}", daemon.stdout());
    }
    assert!(daemon.stderr().contains(&outage.detail));
}
