//! The contract of a ledger.

use super::at;
use crate::HostId;
use crate::ledger::{ArchiveName, Form, Ledger, Observation};

/// Checks that an engine keeps the contract of [`Ledger`].
pub fn ledger<L: Ledger>(open: impl Fn() -> L) {
    a_batch_is_stored_once(&open());
    the_newest_observation_wins_in_any_order(&open());
    a_clock_that_was_ahead_does_not_freeze_a_host(&open());
    expired_snapshots_go_and_the_newest_stays(&open());
    days_are_replaced_per_host(&open());
    archives_are_replaced_listed_and_pruned_per_host(&open());
}

fn host(name: &str) -> HostId {
    HostId(name.to_owned())
}

fn observation(name: &str, form: Form, second: i64, body: &str) -> Observation {
    Observation {
        host: host(name),
        form,
        observed_at: at(second),
        received_at: at(second),
        body: body.as_bytes().to_vec(),
    }
}

fn snapshot(name: &str, second: i64, body: &str) -> Observation {
    observation(name, Form::Snapshot, second, body)
}

fn a_batch_is_stored_once(ledger: &dyn Ledger) {
    let batch = [
        snapshot("a", 1, "{1}"),
        snapshot("b", 1, "{2}"),
        snapshot("a", 2, "{3}"),
    ];
    for _ in 0..2 {
        ledger.record(&batch).unwrap();
    }
    // The same key with another body changes nothing.
    ledger.record(&[snapshot("a", 1, "{other}")]).unwrap();
    let stored = ledger.snapshots(&host("a"), at(0), at(9)).unwrap();
    assert_eq!(stored, [batch[0].clone(), batch[2].clone()]);
    let stored = ledger.snapshots(&host("a"), at(2), at(2)).unwrap();
    assert_eq!(stored, []);
    ledger.record(&[]).unwrap();
}

fn the_newest_observation_wins_in_any_order(ledger: &dyn Ledger) {
    ledger.record(&[snapshot("a", 5, "{new}")]).unwrap();
    let mut late = snapshot("a", 3, "{late}");
    late.received_at = at(6);
    let live = observation("a", Form::Live, 4, "{live}");
    ledger.record(&[late, live.clone()]).unwrap();
    let newest = [snapshot("a", 5, "{new}"), live];
    let mut latest = ledger.latest().unwrap();
    latest.sort_by_key(|one| (one.host.clone(), one.form));
    assert_eq!(latest, newest);
    // Only snapshots have a history.
    assert_eq!(ledger.snapshots(&host("a"), at(0), at(9)).unwrap().len(), 2);
}

fn a_clock_that_was_ahead_does_not_freeze_a_host(ledger: &dyn Ledger) {
    let mut ahead = snapshot("a", 7200, "{ahead}");
    ahead.received_at = at(0);
    ledger.record(&[ahead]).unwrap();
    ledger.record(&[snapshot("a", 30, "{back}")]).unwrap();
    assert_eq!(ledger.latest().unwrap(), [snapshot("a", 30, "{back}")]);
}

fn expired_snapshots_go_and_the_newest_stays(ledger: &dyn Ledger) {
    ledger
        .record(&[
            snapshot("a", 1, "{1}"),
            snapshot("a", 2, "{2}"),
            snapshot("b", 3, "{3}"),
        ])
        .unwrap();
    assert_eq!(ledger.expire_snapshots(at(3), 1).unwrap(), 1);
    assert_eq!(ledger.snapshots(&host("a"), at(0), at(9)).unwrap().len(), 1);
    assert_eq!(ledger.expire_snapshots(at(3), 10).unwrap(), 1);
    assert_eq!(ledger.snapshots(&host("a"), at(0), at(9)).unwrap(), []);
    assert_eq!(ledger.latest().unwrap().len(), 2);
}

fn days_are_replaced_per_host(ledger: &dyn Ledger) {
    let day = |name: &str, body: &[u8]| (host(name), body.to_vec());
    assert_eq!(ledger.days().unwrap(), []);
    ledger.put_days(&[day("a", b"1"), day("b", b"2")]).unwrap();
    ledger.put_days(&[day("b", b"3")]).unwrap();
    let mut days = ledger.days().unwrap();
    days.sort();
    assert_eq!(days, [day("a", b"1"), day("b", b"3")]);
}

fn archives_are_replaced_listed_and_pruned_per_host(ledger: &dyn Ledger) {
    let day = |text: &str| ArchiveName {
        day: Some(text.parse().unwrap()),
        table: "gpu_sample".to_owned(),
    };
    let full = ArchiveName {
        day: None,
        table: "daemon_run".to_owned(),
    };
    let names = [day("2026-01-09"), day("2026-01-10"), full];
    for name in &names {
        ledger
            .put_archive(&host("a"), name, b"first", at(0))
            .unwrap();
        ledger
            .put_archive(&host("a"), name, b"second", at(1))
            .unwrap();
    }
    ledger
        .put_archive(&host("b"), &names[0], b"other", at(0))
        .unwrap();
    assert_eq!(ledger.archives(&host("a")).unwrap(), names);
    let pruned = ledger.prune_archives(&host("a"), "2026-01-10".parse().unwrap());
    assert_eq!(pruned.unwrap(), 1);
    let far = ledger.prune_archives(&host("a"), jiff::civil::Date::MIN);
    assert_eq!(far.unwrap(), 0);
    assert_eq!(ledger.archives(&host("a")).unwrap(), names[1..]);
    assert_eq!(ledger.archives(&host("b")).unwrap(), names[..1]);
}
