//! `gua export`: the same numbers in every format as in the report and the plots, complete files, and usage errors.

mod equal;
mod files;
mod mig;
mod python;

use crate::without_driver;
use gua_test::TestHost;

use jiff::{SignedDuration, Timestamp};

/// A home directory with our own history of the last hour, into which an older one of gpu-usage-audit was imported, and
/// the end of the time that its last tick covers.
pub(crate) fn home() -> (TestHost, Timestamp) {
    let home = without_driver();
    let run = |line: &str| home.fine(line);
    run("demo --db long.db --interval 30s --ticks 500");
    run("export --db long.db --format gpu-usage-audit -o old.db");
    run("demo --db both.db --interval 30s --ticks 120");
    run("import old.db --db both.db");
    let report = run("report --db both.db --json --tz UTC");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let made: Timestamp = report["made_at"].as_str().unwrap().parse().unwrap();
    (home, made)
}

/// Flags for a window of so many minutes that ends at `until`.
pub(crate) fn window(until: Timestamp, minutes: i64) -> String {
    let moment = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let since = until - SignedDuration::from_mins(minutes);
    format!(
        "--since {} --until {} --tz UTC",
        moment(since),
        moment(until)
    )
}
