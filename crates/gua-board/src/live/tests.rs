use super::*;

fn report(second: i64, name: &str) -> LiveReport {
    let text = format!(
        r#"{{"schemaVersion":"gua.live.v1","observedAt":"{}","host":{{"hostname":"{name}","agentVersion":"1","driverVersion":null}},
        "gpus":[{{"uuid":"GPU-a","index":0,"name":null,"instance":null,"state":"truly-idle","obstacle":null,"utilPercent":0,
        "memoryUsedBytes":{{"missing":"unsupported"}},"memoryTotalBytes":{{"missing":"unsupported"}},"temperatureCelsius":30,
        "powerMilliwatts":1,"health":[],"claim":null,"processes":[]}}],"waiting":0,"problems":[]}}"#,
        at(second)
    );
    serde_json::from_str(&text).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn host(name: &str) -> HostId {
    HostId(name.to_owned())
}

#[test]
fn only_changed_hosts_are_in_the_difference() {
    let state = LiveState::default();
    let revisions = state.watch();
    let apply = |name: &str, second| {
        let report = report(second, name);
        state.apply(&host(name), Form::Snapshot, report, at(second));
    };
    let changed = |since| {
        let (revision, hosts) = state.changes_since(since);
        let names: Vec<String> = hosts.into_iter().map(|(host, _)| host.0).collect();
        (revision, names.join(" "))
    };
    apply("a", 1);
    apply("b", 1);
    apply("a", 2);
    assert_eq!(changed(0), (3, "b a".to_owned()));
    assert_eq!(changed(2), (3, "a".to_owned()));
    assert_eq!(changed(3), (3, String::new()));
    assert_eq!(*revisions.borrow(), 3);
    // A late push of a spool changes nothing.
    apply("a", 1);
    assert_eq!(changed(3), (3, String::new()));
    state.remove(&host("a"));
    assert_eq!(changed(0), (3, "b".to_owned()));
    assert_eq!(state.with_all(|hosts| hosts.len()), 1);
}

#[test]
fn a_live_report_is_preferred_over_the_snapshot_of_the_same_tick() {
    let state = LiveState::default();
    let form_after = |form, second| {
        state.apply(&host("a"), form, report(second, "a"), at(second));
        state.host(&host("a")).unwrap().form
    };
    assert_eq!(form_after(Form::Snapshot, 0), Form::Snapshot);
    assert_eq!(form_after(Form::Live, 0), Form::Live);
    assert_eq!(form_after(Form::Snapshot, 30), Form::Live);
    assert_eq!(form_after(Form::Live, 30), Form::Live);
    // The agent was replaced by one that sends snapshots only.
    assert_eq!(form_after(Form::Snapshot, 151), Form::Snapshot);
}

#[test]
fn a_clock_that_was_ahead_does_not_freeze_a_host() {
    let state = LiveState::default();
    state.apply(&host("a"), Form::Snapshot, report(7200, "ahead"), at(0));
    state.apply(&host("a"), Form::Snapshot, report(30, "back"), at(30));
    let live = state.host(&host("a")).unwrap();
    assert_eq!(live.report.host.hostname, "back");
    assert!(!live.is_stale(at(150)) && live.is_stale(at(151)));
}

#[test]
fn a_frame_adds_to_the_curves_of_known_gpus() {
    let state = LiveState::default();
    let frame: UtilFrame = serde_json::from_str(
        r#"{"type":"util","ts":1.5,"gpus":[{"deviceUuid":"GPU-a","utilPct":7,"memUsedMb":1},{"deviceUuid":"GPU-x","utilPct":7,"memUsedMb":1}]}"#,
    )
    .unwrap();
    state.frame(&host("a"), &frame, at(1));
    state.apply(&host("a"), Form::Snapshot, report(1, "a"), at(1));
    state.frame(&host("a"), &frame, at(2));
    let live = state.host(&host("a")).unwrap();
    assert_eq!(live.curves.len(), 1);
    let curve = live.curves.values().next().unwrap();
    let values: Vec<_> = curve.last(2, at(2).as_second()).collect();
    assert_eq!(values, [None, Some(7)]);
    assert_eq!(state.changes_since(1).1.len(), 1);
}

#[test]
fn a_state_lasts_since_its_change_and_restarts_after_a_gap() {
    let state = LiveState::default();
    let since = |second: i64, change: fn(&mut LiveReport)| {
        let mut report = report(second, "a");
        change(&mut report);
        state.apply(&host("a"), Form::Live, report, at(second));
        let live = state.host(&host("a")).unwrap();
        let since = live.since.values().next().unwrap();
        (since.at.as_second() - at(0).as_second(), since.is_exact)
    };
    let busy = |report: &mut LiveReport| report.gpus[0].state = State::Active;
    // Nobody saw how the first state began.
    assert_eq!(since(0, |_| ()), (0, false));
    assert_eq!(since(30, |_| ()), (0, false));
    assert_eq!(since(60, busy), (60, true));
    assert_eq!(since(90, busy), (60, true));
    assert_eq!(since(1000, busy), (1000, false));
}

#[test]
fn nothing_changes_after_the_last_possible_revision() {
    let (_, hosts) = LiveState::default().changes_since(u64::MAX);
    assert!(hosts.is_empty());
}

#[test]
fn an_idle_gpu_with_a_fault_cannot_be_used() {
    use crate::availability::Group;
    use gua_wire::live::ObstacleWord;
    let mut gpu = report(0, "a").gpus.remove(0);
    assert_eq!(Group::of(&gpu, false), Group::Free);
    gpu.obstacle = Some(ObstacleWord::Unhealthy);
    assert_eq!(Group::of(&gpu, false), Group::Unusable);
}

#[test]
fn every_host_of_many_is_loaded_with_its_better_report() {
    let stored = |name: &str, form, second, body: String| Observation {
        host: host(name),
        form,
        observed_at: at(second),
        received_at: at(second),
        body: body.into_bytes(),
    };
    let snapshot = |second: i64| {
        format!(
            r#"{{"schemaVersion":"availability.snapshot.v1","collectionStatus":"ok","observedAt":"{}","host":{{"hostname":"snapshot","agentVersion":"1","driverVersion":"1"}},"gpus":[],"errors":[]}}"#,
            at(second)
        )
    };
    let mut latest = Vec::new();
    for number in 0..501 {
        let name = format!("host {number:03}");
        let live = match number {
            // Damage costs the live report and not the host.
            7 => "{".to_owned(),
            _ => report(0, "live").body(),
        };
        latest.push(stored(&name, Form::Live, 0, live));
        // The snapshot of the same tick, or of an agent that sends nothing else since.
        let second = if number == 9 { 600 } else { 0 };
        latest.push(stored(&name, Form::Snapshot, second, snapshot(second)));
    }
    let state = LiveState::load(&latest);
    assert_eq!(state.with_all(|hosts| hosts.len()), 501);
    for number in 0..501 {
        let live = state.host(&host(&format!("host {number:03}"))).unwrap();
        let expected = if number == 7 || number == 9 {
            "snapshot"
        } else {
            "live"
        };
        assert_eq!(live.report.host.hostname, expected, "{number}");
    }
    assert_eq!(state.changes_since(0).1.len(), 501);
}

#[test]
fn a_host_that_reports_every_five_minutes_is_not_stale_in_between() {
    let state = LiveState::default();
    let live = || state.host(&host("a")).unwrap();
    for second in [0, 300, 600] {
        // Agents of gua send both forms at each tick.
        for form in [Form::Snapshot, Form::Live] {
            state.apply(&host("a"), form, report(second, "a"), at(second));
        }
    }
    assert_eq!(live().form, Form::Live);
    assert!(!live().is_stale(at(600 + 299)) && live().is_stale(at(600 + 751)));
    // Its state and its day strip continue from the second report on, when its interval was first seen.
    let since = *live().since.values().next().unwrap();
    assert_eq!((since.at, since.is_exact), (at(300), false));
    assert_eq!(live().days.len(), 1);
    let day = live().days.values().next().unwrap().clone();
    let seen = day.cells(at(600).as_second()).flatten();
    assert!(seen.count() >= 1);
}

#[test]
fn an_earlier_start_replaces_one_that_is_not_exact() {
    let state = LiveState::default();
    let id = host("a");
    let since = || state.host(&id).unwrap().since[&"GPU-a".parse().unwrap()];
    let extend = |second| {
        let earlier = Since {
            at: at(second),
            is_exact: false,
        };
        state.extend_since(&id, vec![("GPU-a".parse().unwrap(), earlier)]);
    };
    state.apply(&id, Form::Live, report(30, "a"), at(30));
    extend(-3600);
    assert_eq!(since().at, at(-3600));
    extend(0);
    assert_eq!(since().at, at(-3600));
    // The holder changed at 60 s; the state alone is older.
    let mut changed = report(60, "a");
    changed.gpus[0].state = State::IdleHeld;
    state.apply(&id, Form::Live, changed, at(60));
    extend(-3600);
    assert_eq!(since().at, at(60));
}

#[test]
fn a_driver_that_could_not_be_read_does_not_remove_the_past() {
    let state = LiveState::default();
    let id = host("a");
    for second in [0, 30] {
        state.apply(&id, Form::Live, report(second, "a"), at(second));
    }
    let mut failed = report(60, "a");
    failed.gpus.clear();
    state.apply(&id, Form::Live, failed, at(60));
    let live = state.host(&id).unwrap();
    assert_eq!((live.curves.len(), live.days.len()), (1, 1));
}

#[test]
fn a_gap_is_measured_by_the_clock_of_the_board() {
    let state = LiveState::default();
    let id = host("a");
    for second in [0, 30] {
        let mut failed = report(second, "a");
        failed.gpus[0].state = State::Unobserved;
        state.apply(&id, Form::Live, failed, at(second + 90));
        let live = state.host(&id).unwrap();
        assert_eq!(live.unobserved_since, Some(at(90)));
    }
}
