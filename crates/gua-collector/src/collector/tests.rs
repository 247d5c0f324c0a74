//! The loop in a played runtime: time passes only when it sleeps or the driver takes its time.

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
fn a_hung_driver_is_told_twice_and_its_ticks_are_counted() {
    // Asked at 30 it hangs until 40; at 60 and 90 the reader is left alone; at 120 it answers.
    let summary = check(
        Play {
            acts: vec![
                Act::Reads(0),
                Act::Hangs(10_000),
                Act::Waits,
                Act::Waits,
                Act::Reads(0),
            ],
            events: vec![(130, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "40 tick 1 failed: the driver did not answer within 10 s",
            "120 the driver answers again at tick 4; 3 ticks were lost",
            "outage driver-hung 30..120 lost 3",
            "120 tick 4",
            "130 stopping after 5",
        ],
    );
    assert_eq!(summary, Summary { ticks: 5, lost: 3 });
}

#[test]
fn ticks_that_fall_out_while_the_driver_hangs_are_lost_to_it() {
    // Every second; asked at 1, answered at 11: the ones due at 2 to 10 fell out.
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
            "11 tick 1 failed: the driver did not answer within 10 s",
            "11 the driver answers again at tick 2; 10 ticks were lost",
            "outage driver-hung 1..11 lost 10",
            "11 tick 2",
            "12 stopping after 3",
        ],
    );
}

#[test]
fn a_driver_sick_in_two_ways_leaves_two_outages() {
    check(
        Play {
            acts: vec![Act::Refuses, Act::Hangs(1000), Act::Reads(0)],
            events: vec![(61, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 tick 0 failed: NVML initialization failed: the NVIDIA kernel driver is not loaded. \
             Detail: no driver (NVML code 9)",
            "31 tick 1 failed: the driver did not answer within 10 s",
            "60 the driver answers again at tick 2; 1 ticks were lost",
            "outage driver-unavailable 0..30 lost 1",
            "outage driver-hung 30..60 lost 1",
            "60 ready",
            "60 tick 2",
            "61 stopping after 3",
        ],
    );
}

#[test]
fn an_outage_that_goes_on_is_written_when_the_loop_ends() {
    check(
        Play {
            acts: vec![Act::Reads(0), Act::Hangs(10_000), Act::Waits],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "40 tick 1 failed: the driver did not answer within 10 s",
            "100 stopping after 4",
            "outage driver-hung 30..100 lost 3",
        ],
    );
}

#[test]
fn a_stop_is_heard_while_the_driver_hangs() {
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
fn a_full_disk_costs_ticks_and_never_the_loop() {
    let summary = check(
        Play {
            disk_full: 30..80,
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "30 tick 1 is lost to the history: no space",
            "30 tick 1",
            "60 tick 2",
            "outage disk-full 30..90 lost 2",
            "90 history takes ticks again at tick 3; 2 were lost",
            "90 tick 3",
            "100 stopping after 4",
        ],
    );
    assert_eq!(summary, Summary { ticks: 4, lost: 2 });
}

#[test]
fn an_outage_that_finds_no_room_until_the_end_is_told_to_the_log() {
    let summary = check(
        Play {
            disk_full: 30..200,
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 tick 1 is lost to the history: no space",
            "100 stopping after 4",
            "100 the history does not know of 3 lost ticks from 1970-01-01T00:17:10Z to 1970-01-01T00:18:20Z \
             (disk-full): no space",
        ],
    );
    assert_eq!(summary, Summary { ticks: 4, lost: 3 });
}

#[test]
fn a_driver_outage_during_a_full_disk_is_kept_until_it_can_be_written() {
    check(
        Play {
            acts: vec![Act::Reads(0), Act::Refuses, Act::Reads(0), Act::Reads(0)],
            disk_full: 30..80,
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 tick 1 failed: NVML initialization failed: the NVIDIA kernel driver is not loaded. \
             Detail: no driver (NVML code 9)",
            "60 the driver answers again at tick 2; 1 ticks were lost",
            "60 tick 2 is lost to the history: no space",
            "outage driver-unavailable 30..60 lost 1",
            "outage disk-full 60..90 lost 1",
            "90 history takes ticks again at tick 3; 1 were lost",
            "100 stopping after 4",
        ],
    );
}

#[test]
fn a_slow_driver_overruns_once_in_the_log_and_makes_no_burst() {
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
            "3.5 tick 1 overran by 1.500 s",
            "5 tick 2",
            "5 tick 3",
            "5 on schedule again after 2 late ticks",
            "6 tick 4",
            "7 stopping after 5",
        ],
    );
    assert_eq!(summary.lost, 1, "the one due at 3 fell out");
}

#[test]
fn the_heart_beats_while_the_driver_hangs() {
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
            "25 tick 0 failed: the driver did not answer within 10 s",
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
            "5 settings were read again",
            "10 tick 1",
            "15 settings were not read again, the old ones stand: no interval",
            "20 tick 2",
            "25 stopping after 3",
        ],
    );
}

#[test]
fn a_sleeping_machine_and_a_clock_that_is_set_are_told() {
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
            "30 the machine slept for 600 s",
            "outage suspended 0..630 lost 20",
            "60 the clock was set forward by 3600.0 s",
            "outage clock-set 660..4260 lost 0",
            "90 the clock was set back by 7200.0 s",
            "outage clock-set -2910..-2910 lost 0",
            "100 stopping after 4",
        ],
    );
}

#[test]
fn a_process_that_stood_still_leaves_a_gap_and_no_burst() {
    let summary = check(
        Play {
            interval: 1,
            events: vec![(1, Event::Freeze(5)), (8, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "6 the collector stood still for 5.0 s",
            "outage collector-down 1..6 lost 5",
            "6 tick 1",
            "7 tick 2",
            "8 stopping after 3",
        ],
    );
    assert_eq!(summary, Summary { ticks: 3, lost: 5 });
}

#[test]
fn a_problem_of_one_card_is_told_when_it_begins_and_when_it_ends() {
    check(
        Play {
            acts: vec![Act::Reads(0), Act::Complains, Act::Complains, Act::Reads(0)],
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 reading unavailable: gpu 0: nvmlDeviceGetPowerUsage: unknown (999)",
            "90 over after 2 ticks: gpu 0: nvmlDeviceGetPowerUsage: unknown (999)",
            "100 stopping after 4",
        ],
    );
}
