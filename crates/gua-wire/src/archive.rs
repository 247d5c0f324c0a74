//! The archive: closed days of a history as compressed CSV files on the board. Two tables have one file per day, two
//! have a single file. This module decides which files are due, names them, and parses the board's listing.

pub mod csv;

use std::collections::HashSet;
use std::fmt;

use jiff::SignedDuration;
use jiff::civil::Date;
use serde_json::Value as Json;

use crate::fields::FieldsError;
use crate::server_url::ARCHIVES;

pub use csv::{CsvWriter, Value, compressed};

gua_model::words! {
    /// Tables of gpu-usage-audit that the archive contains.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Table {
        GpuSample = "gpu_sample",
        ProcSample = "proc_sample",
        DaemonRun = "daemon_run",
        GpuDevice = "gpu_device",
    }
}

impl Table {
    /// Tables with one file per day.
    pub const DAILY: [Self; 2] = [Self::GpuSample, Self::ProcSample];
    /// Tables with a single file, which is uploaded again each time.
    pub const WHOLE: [Self; 2] = [Self::DaemonRun, Self::GpuDevice];
    /// Columns of any table that contain user names.
    pub const USER_COLUMNS: [&str; 2] = ["loginuid_user", "owner_user"];

    /// Columns in the order of a file created by release 1.8. A file created by an older release and migrated has its
    /// own order.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Table::GpuSample => &[
                "ts",
                "gpu_uuid",
                "util_pct",
                "run_id",
                "usage_state",
                "gpu_index",
                "memory_used_mb",
                "temperature_c",
                "power_w",
            ],
            Table::ProcSample => &[
                "ts",
                "gpu_uuid",
                "pid",
                "mem_used_mb",
                "loginuid_user",
                "owner_user",
                "run_id",
                "gpu_index",
                "process_name",
                "process_type",
            ],
            Table::DaemonRun => &["id", "started_at", "interval_seconds"],
            Table::GpuDevice => &[
                "gpu_uuid",
                "name",
                "memory_total_mb",
                "first_seen",
                "last_seen",
            ],
        }
    }
}

/// Period that a file covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// A day in UTC.
    Day(Date),
    /// All rows. A board does not prune this file.
    Full,
}

impl fmt::Display for Extent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Day(date) => write!(out, "{date}"),
            Extent::Full => out.write_str("_full"),
        }
    }
}

/// One file of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    pub extent: Extent,
    pub table: Table,
}

impl Object {
    /// Path and query of the upload request.
    pub fn path(&self) -> String {
        format!("{ARCHIVES}?date={}&table={}", self.extent, self.table)
    }
}

/// Path and query of the request that deletes older files from the board.
pub fn prune_path(retention_days: u32) -> String {
    format!("{ARCHIVES}?olderThanDays={retention_days}")
}

/// Files that the board already has, by date and table as the board names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing(HashSet<(String, String)>);

impl Listing {
    /// Parses the response to `GET /agent/v1/archives`. Entries without a date or a table are skipped.
    ///
    /// # Errors
    /// If it is not a JSON object with a list `archives`.
    pub fn read(bytes: &[u8]) -> Result<Self, FieldsError> {
        let value: Json = serde_json::from_slice(bytes).map_err(|_| FieldsError::NotJson)?;
        let object = value.as_object().ok_or(FieldsError::NotAnObject)?;
        let archives = object.get("archives").and_then(Json::as_array);
        let archives = archives.ok_or(FieldsError::Missing(vec!["archives"]))?;
        let text = |entry: &Json, name| Some(entry.get(name)?.as_str()?.to_owned());
        let known = archives
            .iter()
            .filter_map(|entry| Some((text(entry, "date")?, text(entry, "table")?)));
        Ok(Self(known.collect()))
    }

    pub fn has(&self, object: Object) -> bool {
        let key = (object.extent.to_string(), object.table.to_string());
        self.0.contains(&key)
    }
}

/// Files to upload in one run of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Days before today within the retention that have rows, in order.
    pub closed_days: Vec<Date>,
    /// Files of these days that the board lacks. [`Plan::whole`] is always uploaded after them.
    pub missing: Vec<Object>,
}

impl Plan {
    /// Returns the files that are uploaded each time.
    pub fn whole() -> [Object; 2] {
        let extent = Extent::Full;
        Table::WHOLE.map(|table| Object { extent, table })
    }

    /// Plans an upload. `days_with_rows` are the UTC days on which a daily table has rows, in any order; duplicates are
    /// allowed. A day is included if it is before `today` and at most `retention_days` old.
    pub fn new(
        today: Date,
        retention_days: u32,
        days_with_rows: impl IntoIterator<Item = Date>,
        listing: &Listing,
    ) -> Self {
        let reach = SignedDuration::from_hours(24 * i64::from(retention_days));
        let oldest = today.saturating_sub(reach);
        let mut closed_days: Vec<Date> = days_with_rows
            .into_iter()
            .filter(|day| (oldest..today).contains(day))
            .collect();
        closed_days.sort_unstable();
        closed_days.dedup();
        let objects = closed_days.iter().flat_map(|day| {
            let extent = Extent::Day(*day);
            Table::DAILY.map(|table| Object { extent, table })
        });
        let missing = objects.filter(|object| !listing.has(*object)).collect();
        Self {
            closed_days,
            missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(today: &str, retention: u32, days: &str, listing: &str, expected: &str) {
        let days = days.split(' ').map(|day| day.parse().unwrap());
        let listing = Listing::read(listing.as_bytes()).unwrap();
        let plan = Plan::new(today.parse().unwrap(), retention, days, &listing);
        let missing = plan
            .missing
            .iter()
            .map(|object| format!("{} {}", object.extent, object.table));
        assert_eq!(missing.collect::<Vec<_>>().join(", "), expected);
    }

    #[test]
    fn a_day_is_due_when_it_is_over_and_within_the_retention() {
        check(
            "2026-03-01",
            2,
            "2026-03-02 2026-03-01 2026-02-28 2026-02-27 2026-02-28 2026-02-26",
            r#"{"archives":[]}"#,
            "2026-02-27 gpu_sample, 2026-02-27 proc_sample, 2026-02-28 gpu_sample, 2026-02-28 proc_sample",
        );
        check(
            "2026-03-01",
            0,
            "2026-03-01 2026-02-28",
            r#"{"archives":[]}"#,
            "",
        );
        let all = "0001-01-01 gpu_sample, 0001-01-01 proc_sample";
        check(
            "2026-03-01",
            u32::MAX,
            "0001-01-01",
            r#"{"archives":[]}"#,
            all,
        );
    }

    #[test]
    fn what_the_board_has_is_not_due() {
        check(
            "2026-03-01",
            9,
            "2026-02-28",
            r#"{"archives":[{"date":"2026-02-28","table":"proc_sample"},{"date":3},5,{"date":"_full","table":"x"}]}"#,
            "2026-02-28 gpu_sample",
        );
        assert_eq!(Listing::read(b"{"), Err(FieldsError::NotJson));
        assert_eq!(Listing::read(b"[]"), Err(FieldsError::NotAnObject));
        let missing = FieldsError::Missing(vec!["archives"]);
        assert_eq!(Listing::read(br#"{"archives":{}}"#), Err(missing));
    }

    #[test]
    fn files_are_named_by_date_and_table() {
        let object = Object {
            extent: Extent::Day("2026-02-28".parse().unwrap()),
            table: Table::ProcSample,
        };
        assert_eq!(
            object.path(),
            "/agent/v1/archives?date=2026-02-28&table=proc_sample"
        );
        let whole = Plan::whole().map(|object| object.path());
        assert_eq!(
            whole,
            [
                "/agent/v1/archives?date=_full&table=daemon_run",
                "/agent/v1/archives?date=_full&table=gpu_device"
            ]
        );
        assert_eq!(prune_path(30), "/agent/v1/archives?olderThanDays=30");
    }
}
