use gua_model::State;

use super::*;
use crate::snapshot::Snapshot;

/// Checks the state and obstacle of a card in a snapshot.
fn check(card: &str, errors: &str, state: State, obstacle: Option<ObstacleWord>) {
    let text = format!(
        r#"{{"schemaVersion":"availability.snapshot.v1","collectionStatus":"partial","observedAt":"2026-01-02T03:04:05+00:00",
        "host":{{"hostname":"h","agentVersion":"1","driverVersion":"unknown"}},"errors":[{errors}],
        "gpus":[{{"index":0,"uuid":"GPU-a","name":"A100","memoryTotalMb":40000,"temperatureC":null,"powerW":55,{card}}}]}}"#
    );
    let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
    let report = LiveReport::from_snapshot(&snapshot, snapshot.observed_at.parse().unwrap());
    let gpu = &report.gpus[0];
    assert_eq!((gpu.state, gpu.obstacle), (state, obstacle), "{card}");
    assert_eq!(report.host.driver_version, None);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<LiveReport>(&json).unwrap(), report);
}

#[test]
fn a_snapshot_is_judged_by_the_rule_of_available() {
    let held = r#""utilPct":3,"memoryUsedMb":9000,"processes":[{"pid":7,"linuxUser":"ada","name":"python","memoryUsedMb":8000}]"#;
    check(held, "", State::IdleHeld, Some(ObstacleWord::Held));
    let free = r#""utilPct":0,"memoryUsedMb":3,"processes":[]"#;
    check(free, "", State::TrulyIdle, None);
    let full = r#""utilPct":0,"memoryUsedMb":30000,"processes":[]"#;
    check(full, "", State::TrulyIdle, Some(ObstacleWord::MemoryUsed));
    let ghost = r#""utilPct":90,"memoryUsedMb":3,"processes":[]"#;
    check(ghost, "", State::Ghost, Some(ObstacleWord::Busy));
}

#[test]
fn a_gpu_whose_process_list_is_missing_is_not_free() {
    let card = r#""utilPct":0,"memoryUsedMb":3,"processes":[]"#;
    let error = r#""process_list_unavailable""#;
    check(
        card,
        error,
        State::Unobserved,
        Some(ObstacleWord::Unobserved),
    );
    let read = r#""utilPct":0,"memoryUsedMb":3,"usageState":"idle","processes":[]"#;
    check(read, error, State::TrulyIdle, None);
}

#[test]
fn a_missing_value_has_its_reason_in_json() {
    let missing = LiveValue::<u8>::from(Err(Missing::Denied));
    assert_eq!(
        serde_json::to_string(&missing).unwrap(),
        r#"{"missing":"denied"}"#
    );
    assert_eq!(
        serde_json::from_str::<LiveValue<u8>>("7").unwrap(),
        LiveValue::Known(7)
    );
    for bad in ["null", r#"{"missing":"x"}"#, "\"7\"", "-1"] {
        assert!(serde_json::from_str::<LiveValue<u8>>(bad).is_err(), "{bad}");
    }
}
