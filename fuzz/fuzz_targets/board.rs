//! Documents that agents send to a board: snapshots, live reports and frames of the stream. A document that is accepted
//! is written and read back the same.
#![no_main]

use gua_wire::LiveReport;
use gua_wire::snapshot::Snapshot;
use gua_wire::stream::UtilFrame;
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = serde_json::from_slice::<Snapshot>(bytes) {
        let report = LiveReport::from_snapshot(&snapshot, Timestamp::UNIX_EPOCH);
        check(&report);
    }
    if let Ok(report) = serde_json::from_slice::<LiveReport>(bytes) {
        check(&report);
    }
    let _ = serde_json::from_slice::<UtilFrame>(bytes);
});

fn check(report: &LiveReport) {
    let written = report.body();
    let again: LiveReport = serde_json::from_str(&written).expect("what was written can be read");
    assert_eq!(again.body(), written);
}
