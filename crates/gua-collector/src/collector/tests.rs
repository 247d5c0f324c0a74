//! The loop in a simulated runtime: time passes only while it sleeps or the driver is being read.

mod stage;

use stage::*;

use super::*;

#[test]
fn ticks_come_on_schedule_and_a_signal_ends_them() {
    let summary = check(
        Play::default(),
        &[
            "0 ready",
            "0 tick 0",
            "30 tick 1",
            "60 tick 2",
            "90 tick 3",
            "100 stopping after 4",
        ],
    );
    assert_eq!(summary, Summary { ticks: 4, lost: 0 });
}

#[test]
fn a_hung_driver_is_logged_at_start_and_end_and_its_ticks_are_counted() {
    // Read at 30, it hangs until 40; at 60 and 90 the reader backs off; at 120 the driver responds.
    let summary = check(
        Play {
            acts: vec![
                Act::Reads(0),
                Act::Hangs(10_000),
                Act::BacksOff,
                Act::BacksOff,
                Act::Reads(0),
            ],
            events: vec![(130, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "40 ERROR tick 1 failed: the driver did not answer within 10 s",
            "120 INFO driver responds again (tick=4, ticks_lost=3)",
            "outage driver-hung 30..120 lost 3",
            "120 tick 4",
            "130 stopping after 5",
        ],
    );
    assert_eq!(summary, Summary { ticks: 5, lost: 3 });
}

#[test]
fn ticks_skipped_while_the_driver_hangs_belong_to_its_outage() {
    // Every second; read at 1, failed at 11: the ticks due at 2 to 10 were skipped.
    check(
        Play {
            interval: 1,
            acts: vec![Act::Reads(0), Act::Hangs(10_000), Act::Reads(0)],
            events: vec![(12, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "11 ERROR tick 1 failed: the driver did not answer within 10 s",
            "11 INFO driver responds again (tick=2, ticks_lost=10)",
            "outage driver-hung 1..11 lost 10",
            "11 tick 2",
            "12 stopping after 3",
        ],
    );
}

#[test]
fn a_driver_that_fails_in_two_ways_leaves_two_outages() {
    check(
        Play {
            acts: vec![Act::Refuses, Act::Hangs(1000), Act::Reads(0)],
            events: vec![(61, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ERROR tick 0 failed: NVML initialization failed: the NVIDIA kernel driver is not loaded. \
             Detail: no driver (NVML code 9)",
            "31 ERROR tick 1 failed: the driver did not answer within 10 s",
            "60 INFO driver responds again (tick=2, ticks_lost=1)",
            "outage driver-unavailable 0..30 lost 1",
            "outage driver-hung 30..60 lost 1",
            "60 ready",
            "60 tick 2",
            "61 stopping after 3",
        ],
    );
}

#[test]
fn an_open_outage_is_recorded_when_the_loop_ends() {
    check(
        Play {
            acts: vec![Act::Reads(0), Act::Hangs(10_000), Act::BacksOff],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "40 ERROR tick 1 failed: the driver did not answer within 10 s",
            "100 stopping after 4",
            "outage driver-hung 30..100 lost 3",
        ],
    );
}

#[test]
fn a_stop_signal_works_while_the_driver_hangs() {
    check(
        Play {
            acts: vec![Act::Hangs(1_000_000)],
            events: vec![(5, Event::Stop)],
            ..Play::default()
        },
        &["5 stopping after 1"],
    );
}

#[test]
fn a_full_disk_loses_ticks_and_never_stops_the_loop() {
    let summary = check(
        Play {
            disk_full: 30..80,
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "30 ERROR tick not stored: no space (sink=history, tick=1)",
            "30 tick 1",
            "60 tick 2",
            "90 INFO ticks are stored again (sink=history, tick=3, ticks_lost=2)",
            "outage disk-full 30..90 lost 2",
            "90 tick 3",
            "100 stopping after 4",
        ],
    );
    assert_eq!(summary, Summary { ticks: 4, lost: 2 });
}

#[test]
fn a_sink_that_follows_the_history_gets_its_ticks_and_outages_and_another_gets_every_tick() {
    check(
        Play {
            acts: vec![
                Act::Reads(0),
                Act::Reads(0),
                Act::Refuses,
                Act::Reads(0),
                Act::Reads(0),
            ],
            disk_full: 30..80,
            events: vec![(130, Event::Stop)],
            is_quiet: true,
            is_followed: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "follower: tick",
            "independent: tick",
            "30 ERROR tick not stored: no space (sink=history, tick=1)",
            "independent: tick",
            "60 ERROR tick 2 failed: NVML initialization failed: the NVIDIA kernel driver is not loaded. \
             Detail: no driver (NVML code 9)",
            "90 INFO driver responds again (tick=3, ticks_lost=1)",
            "90 INFO ticks are stored again (sink=history, tick=3, ticks_lost=1)",
            "outage driver-unavailable 60..90 lost 1",
            "outage disk-full 30..90 lost 1",
            "follower: tick",
            "follower: outage driver-unavailable 60..90 lost 1",
            "follower: outage disk-full 30..90 lost 1",
            "independent: tick",
            "follower: tick",
            "independent: tick",
            "130 stopping after 5",
        ],
    );
}

#[test]
fn an_outage_that_is_never_stored_is_logged_at_the_end() {
    let summary = check(
        Play {
            disk_full: 30..200,
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 ERROR tick not stored: no space (sink=history, tick=1)",
            "100 stopping after 4",
            "100 ERROR outage not stored: no space (sink=history, from=1970-01-01T00:17:10Z, \
             to=1970-01-01T00:18:20Z, reason=disk-full, ticks_lost=3)",
        ],
    );
    assert_eq!(summary, Summary { ticks: 4, lost: 3 });
}

#[test]
fn a_driver_outage_during_a_full_disk_is_queued_until_it_can_be_written() {
    check(
        Play {
            acts: vec![Act::Reads(0), Act::Refuses, Act::Reads(0), Act::Reads(0)],
            disk_full: 30..80,
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 ERROR tick 1 failed: NVML initialization failed: the NVIDIA kernel driver is not loaded. \
             Detail: no driver (NVML code 9)",
            "60 INFO driver responds again (tick=2, ticks_lost=1)",
            "60 ERROR tick not stored: no space (sink=history, tick=2)",
            "90 INFO ticks are stored again (sink=history, tick=3, ticks_lost=1)",
            "outage driver-unavailable 30..60 lost 1",
            "outage disk-full 60..90 lost 1",
            "100 stopping after 4",
        ],
    );
}

#[test]
fn overruns_of_a_slow_driver_are_logged_once_and_cause_no_burst() {
    let summary = check(
        Play {
            interval: 1,
            acts: vec![
                Act::Reads(0),
                Act::Reads(2500),
                Act::Reads(1500),
                Act::Reads(0),
            ],
            events: vec![(7, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "3.5 tick 1",
            "3.5 WARN tick 1 overran by 1.500 s",
            "5 tick 2",
            "5 tick 3",
            "5 INFO on schedule again (late_ticks=2)",
            "6 tick 4",
            "7 stopping after 5",
        ],
    );
    assert_eq!(summary.lost, 1, "the one due at 3 was skipped");
}

#[test]
fn the_heartbeat_continues_while_the_driver_hangs() {
    check(
        Play {
            acts: vec![Act::Hangs(25_000)],
            events: vec![(26, Event::Stop)],
            heartbeat: Some(10),
            ..Play::default()
        },
        &[
            "0 alive",
            "10 alive",
            "20 alive",
            "25 ERROR tick 0 failed: the driver did not answer within 10 s",
            "26 stopping after 1",
            "outage driver-hung 0..26 lost 1",
        ],
    );
}

#[test]
fn a_reload_changes_the_interval_and_a_bad_one_changes_nothing() {
    check(
        Play {
            events: vec![
                (5, Event::Reload(10)),
                (15, Event::Reload(0)),
                (25, Event::Stop),
            ],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "5 INFO settings reloaded",
            "10 tick 1",
            "15 WARN settings not reloaded; the previous ones stay in force: no interval",
            "20 tick 2",
            "25 stopping after 3",
        ],
    );
}

#[test]
fn a_suspend_and_a_clock_step_are_logged_and_recorded() {
    check(
        Play {
            events: vec![
                (10, Event::Sleep(600)),
                (40, Event::Set(3600)),
                (70, Event::Set(-7200)),
                (100, Event::Stop),
            ],
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 WARN time discontinuity: the host was suspended for 600 s (ticks_lost=20)",
            "outage suspended 0..630 lost 20",
            "60 WARN time discontinuity: the clock was set forward by 3600.0 s (ticks_lost=0)",
            "outage clock-set 660..4260 lost 0",
            "90 WARN time discontinuity: the clock was set back by 7200.0 s (ticks_lost=0)",
            "outage clock-set -2910..-2910 lost 0",
            "100 stopping after 4",
        ],
    );
}

#[test]
fn a_stalled_process_leaves_a_gap_and_no_burst() {
    let summary = check(
        Play {
            interval: 1,
            events: vec![(1, Event::Freeze(5)), (8, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "6 WARN time not observed: the collector stalled for 5.0 s (ticks_lost=5)",
            "outage collector-down 1..6 lost 5",
            "6 tick 1",
            "7 tick 2",
            "8 stopping after 3",
        ],
    );
    assert_eq!(summary, Summary { ticks: 3, lost: 5 });
}

#[test]
fn a_problem_of_one_gpu_is_logged_when_it_starts_and_when_it_ends() {
    check(
        Play {
            acts: vec![
                Act::Reads(0),
                Act::HasProblem,
                Act::HasProblem,
                Act::Reads(0),
            ],
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 WARN reading unavailable: gpu 0: nvmlDeviceGetPowerUsage: unknown (999)",
            "90 INFO reading available again: gpu 0: nvmlDeviceGetPowerUsage: unknown (999) (ticks=2)",
            "100 stopping after 4",
        ],
    );
}
