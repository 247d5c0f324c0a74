//! `gua export`: the same numbers in every form, beside the report and the plots; files that are whole; wrong use.

mod equal;
mod files;
mod python;

use crate::without_driver;
use gua_test::TestHost;

use jiff::{SignedDuration, Timestamp};

/// A home with a history of our own of the last hour, into which an older one of gpu-usage-audit was imported, and the
/// moment that the last of its ticks stands for.
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

/// Flags for a window that ends at `until` and is so many minutes long.
pub(crate) fn window(until: Timestamp, minutes: i64) -> String {
    let moment = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let since = until - SignedDuration::from_mins(minutes);
    format!(
        "--since {} --until {} --tz UTC",
        moment(since),
        moment(until)
    )
}
