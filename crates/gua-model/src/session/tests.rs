//! Histories as short texts on the left; on the right `process@gpu from-to observed active idle`, in seconds.

use proptest::prelude::*;

use super::*;
use crate::history::{any_kept_ticks, any_thresholds, at, ticks};
use crate::period::micros_between;
use crate::spans::{Floors, Spans};

/// Returns all sessions of a history, ended ones first.
fn fold(ticks: &[Tick], thresholds: Thresholds) -> Vec<Session> {
    let mut spans = Spans::new(thresholds, Floors::new());
    let mut sessions = Sessions::new(thresholds, []);
    let mut all = Vec::new();
    for tick in ticks {
        let closed = spans.push(tick);
        all.extend(sessions.push(tick, &closed));
    }
    sessions.account(&spans.finish(Timestamp::MAX));
    all.extend(sessions.open().cloned());
    all
}

fn show(session: &Session) -> String {
    let seconds = |micros: Micros| micros.0 / Micros::PER_SECOND;
    let since = |moment| seconds(micros_between(at(0.0), moment));
    let owner = session.owner.as_ref().map(|owner| owner.who.shown());
    format!(
        "{}@{} {}-{}{} {} {} {}{}",
        owner.as_deref().unwrap_or("unknown"),
        session.key.gpu,
        since(session.from),
        since(session.to),
        if session.open { "+" } else { "" },
        seconds(session.observed),
        seconds(session.active),
        seconds(session.idle_held),
        if session.shared { " shared" } else { "" },
    )
}

#[track_caller]
fn check(history: &str, expected: &[&str]) {
    let sessions = fold(&ticks(history), Thresholds::default());
    let shown: Vec<String> = sessions.iter().map(show).collect();
    assert_eq!(shown, expected, "{history}");
}

#[test]
fn a_session_lasts_from_its_first_tick_to_the_end_of_its_last_span() {
    check(
        "0 gpu0 util=50 ada:900; 30 gpu0 ada:900; 60 gpu0",
        &["ada@gpu0 0-60 60 30 30"],
    );
    check("0 gpu0 ada:900", &["ada@gpu0 0-30+ 30 0 30"]);
}

#[test]
fn a_process_that_is_still_there_after_a_gap_was_there_all_along() {
    check(
        "0 gpu0 ada:900; 7200 gpu0 ada:900",
        &["ada@gpu0 0-7230+ 60 0 60"],
    );
    let session = &fold(
        &ticks("0 gpu0 ada:900; 7200 gpu0 ada:900"),
        Thresholds::default(),
    )[0];
    assert_eq!(session.unobserved(), Micros::from_secs(7170));
}

#[test]
fn a_process_that_left_and_came_back_has_two_sessions() {
    check(
        "0 gpu0 ada:900; 30 gpu0; 60 gpu0 ada:900",
        &["ada@gpu0 0-30 30 0 30", "ada@gpu0 60-90+ 30 0 30"],
    );
}

#[test]
fn a_list_that_could_not_be_read_ends_nothing() {
    check(
        "0 gpu0 ada:900; 30 gpu0 list=denied; 60 gpu0 ada:900",
        &["ada@gpu0 0-90+ 60 0 60"],
    );
    check(
        "0 gpu0 ada:900; 30 gpu1; 60 gpu0 ada:900",
        &["ada@gpu0 0-90+ 60 0 60"],
    );
}

#[test]
fn a_pid_that_cannot_be_seen_for_a_moment_ends_nothing_and_one_that_is_gone_does() {
    check(
        "0 gpu0 ada@7:900; 30 gpu0 ?@7:900; 60 gpu0 ada@7:900",
        &["ada@gpu0 0-90+ 60 0 60"],
    );
    check(
        "0 gpu0 ada@7:900; 30 gpu0 gone@7:900",
        &["ada@gpu0 0-30 30 0 30"],
    );
}

#[test]
fn another_process_with_the_same_pid_is_another_session() {
    check(
        "0 gpu0 ada@7:900; 30 gpu0 bob@7:900",
        &["ada@gpu0 0-30 30 0 30", "bob@gpu0 30-60+ 30 0 30"],
    );
}

#[test]
fn a_boot_ends_all_sessions_before_it() {
    check(
        "0#1 gpu0 ada:900, gpu1 ada:900; 300#2 gpu0 ada:900 list=denied",
        &[
            "ada@gpu0 0-30 30 0 30",
            "ada@gpu1 0-30 30 0 30",
            "ada@gpu0 300-330+ 30 0 30",
        ],
    );
}

#[test]
fn a_mig_instance_that_is_taken_away_ends_its_sessions_and_a_lost_gpu_does_not() {
    check(
        "0 gpu0 instances=1 ada:900, mig0 parent=gpu0 ada:900; 30 gpu0",
        &["ada@mig0 0-30 30 0 30"],
    );
    check(
        "0 gpu0 instances=1 ada:900, mig0 parent=gpu0 ada:900; 30 gpu1",
        &["ada@mig0 0-30+ 30 0 30"],
    );
}

#[test]
fn a_gpu_with_another_process_is_shared() {
    check(
        "0 gpu0 ada:900; 30 gpu0 ada:900 bob:900; 60 gpu0 bob:900; 90 gpu0",
        &[
            "ada@gpu0 0-60 60 0 60 shared",
            "bob@gpu0 30-90 60 0 60 shared",
        ],
    );
}

#[test]
fn a_desktop_has_no_session_unless_graphics_count() {
    check("0 gpu0 ada/desktop:900", &[]);
    let graphics = Thresholds {
        count_graphics: crate::CountGraphics::Yes,
        ..Thresholds::default()
    };
    assert_eq!(fold(&ticks("0 gpu0 ada/desktop:900"), graphics).len(), 1);
}

#[test]
fn the_mean_is_the_process_own_if_the_driver_reports_it_and_the_gpus_otherwise() {
    let mean = |history: &str| fold(&ticks(history), Thresholds::default())[0].util();
    assert_eq!(
        mean("0 gpu0 util=80 ada:900%0; 30 gpu0 util=80 ada:900%20; 60 gpu0 ada:900%40; 90 gpu0"),
        Some((Centipercent(3000), UtilSource::Process))
    );
    assert_eq!(
        mean("0 gpu0 util=80 ada:900; 30 gpu0 util=20 ada:900; 60 gpu0"),
        Some((Centipercent(5000), UtilSource::Gpu))
    );
    assert_eq!(mean("0 gpu0 util=denied ada:900"), None);
}

#[test]
fn the_peak_is_the_most_that_was_seen_and_hidden_memory_is_not_zero() {
    let peak = |history: &str| fold(&ticks(history), Thresholds::default())[0].peak_memory;
    assert_eq!(
        peak("0 gpu0 ada:900; 30 gpu0 ada:1200; 60 gpu0 ada:hidden; 90 gpu0 ada:5"),
        Ok(Bytes::from_mb(1200))
    );
    assert_eq!(peak("0 gpu0 ada:hidden"), Err(Missing::Unsupported));
    assert_eq!(
        peak("0 gpu0 ada:hidden; 30 gpu0 ada:7"),
        Ok(Bytes::from_mb(7))
    );
}

/// Returns the sessions with a restart of the collector after the tick at `cut`: open sessions and that tick come from
/// the history.
fn with_restart(ticks: &[Tick], cut: usize, thresholds: Thresholds) -> Vec<Session> {
    let mut spans = Spans::new(thresholds, Floors::new());
    let mut sessions = Sessions::new(thresholds, []);
    let mut all = Vec::new();
    for (place, tick) in ticks.iter().enumerate() {
        let closed = spans.push(tick);
        all.extend(sessions.push(tick, &closed));
        if place == cut {
            spans = Spans::new(thresholds, Floors::new());
            spans.push(tick);
            sessions = Sessions::new(thresholds, sessions.open().cloned().collect::<Vec<_>>());
        }
    }
    sessions.account(&spans.finish(Timestamp::MAX));
    all.extend(sessions.open().cloned());
    all
}

proptest! {
    #![proptest_config(crate::history::cases())]

    #[test]
    fn a_restart_of_the_collector_changes_no_session(ticks in any_kept_ticks(), cut in 0usize..40, thresholds in any_thresholds()) {
        prop_assert_eq!(with_restart(&ticks, cut % ticks.len(), thresholds), fold(&ticks, thresholds));
    }

    #[test]
    fn the_times_of_a_session_fit_into_each_other(ticks in any_kept_ticks(), thresholds in any_thresholds()) {
        let sessions = fold(&ticks, thresholds);
        for session in &sessions {
            prop_assert!(session.active + session.idle_held <= session.observed);
            prop_assert!(session.observed <= session.period().micros());
            prop_assert!(session.ticks > 0);
        }
        // Sessions of one process on one GPU do not overlap.
        for (place, one) in sessions.iter().enumerate() {
            let later = sessions[place + 1..].iter().filter(|other| other.key == one.key);
            prop_assert!(later.into_iter().all(|other| !one.open && one.to <= other.from));
        }
    }
}

/// A process that is busy at `util` for every sixth tick: 16 % of the time. `gpu` is the utilisation of the GPU at each tick.
fn bursty(others: &str, util: u32, is_listed: impl Fn(usize) -> bool) -> Session {
    let tick = |number: usize| {
        // A record covers the time before its tick.
        let record = match number % 6 == 1 {
            true => util.to_string(),
            false => "none".to_owned(),
        };
        let busy = if number.is_multiple_of(6) { util } else { 0 };
        let record = if is_listed(number) {
            record
        } else {
            "none".to_owned()
        };
        format!("{} gpu0 util={busy} ada:900%{record} {others}", number * 30)
    };
    let history: Vec<String> = (0..=600).map(tick).collect();
    let sessions = fold(&ticks(&history.join("; ")), Thresholds::default());
    let mut ada = sessions.into_iter().filter(|session| {
        let owner = session.owner.as_ref().map(|owner| owner.who.shown());
        owner.as_deref() == Some("ada")
    });
    ada.next().unwrap()
}

#[test]
fn the_mean_of_a_bursty_process_counts_the_time_in_which_it_did_nothing() {
    let (mean, source) = bursty("", 65, |_| true).util().unwrap();
    assert_eq!(source, UtilSource::Process);
    // 65 % in one of six ticks.
    assert!((1070..1100).contains(&mean.0), "{mean:?}");
    // Beside a process that works all the time, its own share is the same.
    let (mean, source) = bursty("bob:900%80", 65, |_| true).util().unwrap();
    assert_eq!(source, UtilSource::Process);
    assert!((1070..1100).contains(&mean.0), "{mean:?}");
}

#[test]
fn a_process_without_any_record_on_a_busy_gpu_has_the_mean_of_the_gpu() {
    // Ticks in which the GPU is busy and no process has a record say nothing about the process.
    let session = bursty("", 65, |_| false);
    assert!(session.own_util.known < session.gpu_util.known);
    let history = |number: usize| format!("{} gpu0 util=90 ada:900%none", number * 30);
    let history: Vec<String> = (0..100).map(history).collect();
    let sessions = fold(&ticks(&history.join("; ")), Thresholds::default());
    assert_eq!(
        sessions[0].util(),
        Some((Centipercent(9000), UtilSource::Gpu))
    );
}
