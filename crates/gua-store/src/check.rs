//! `gua db check`: verifies that the file is intact, that every tick and every imported row can be read, and that the
//! totals and the first sights of GPUs match the ticks.
//!
//! It also lists the damaged rows of the small tables, which queries leave out: collector runs, GPUs, owners, outages, requests that
//! were not granted, and watched runs. Reports count the damaged rows of all these tables except watched runs, which
//! they do not use.

use gua_model::{Quarter, Thresholds, Totals, UtcDay, sane};
use jiff::Timestamp;
use rusqlite::{Connection, Row};

use crate::codec::Damage;
use crate::error::ReadError;
use crate::first_sight::{FirstSights, LateSight};
use crate::fold::{each_span, each_tick, tick_from};
use crate::history::{self, History};
use crate::imported::{self, LegacyError};
use crate::maintain::{TOTALS_UNTIL, whole_from};
use crate::rule;
use crate::schema;
use crate::sessions;
use crate::sql::{self, undamaged};
use crate::store::{meta, quarter};
use crate::ticks::{self, MICROS_PER_QUARTER, quarter_start};
use crate::totals;
use crate::{names, refusal, watched};

/// Result of a check. The history is intact if every list is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Problems reported by SQLite's integrity check.
    pub file: Vec<String>,
    /// References to missing rows, by table.
    pub dangling: Vec<String>,
    pub ticks_read: u64,
    pub ticks_damaged: Vec<(Timestamp, Damage)>,
    /// Quarter hours whose totals were compared with their ticks.
    pub quarters_compared: u64,
    /// Quarter hours whose totals cannot be read or do not match their ticks.
    pub quarters_wrong: Vec<Quarter>,
    /// GPUs whose stored first sight is later than their earliest tick.
    pub first_sights_late: Vec<LateSight>,
    /// Sessions with impossible values: observed for longer than they lasted, or overlapping for one process.
    pub sessions_wrong: Vec<String>,
    /// Damaged rows about collector runs, GPUs, owners, outages, requests and watched runs.
    pub rows_damaged: Vec<String>,
    /// Rows that were imported from old histories.
    pub old_rows_read: u64,
    pub old_rows_wrong: Vec<String>,
}

impl CheckReport {
    pub fn is_clean(&self) -> bool {
        self.file.is_empty()
            && self.dangling.is_empty()
            && self.ticks_damaged.is_empty()
            && self.quarters_wrong.is_empty()
            && self.first_sights_late.is_empty()
            && self.sessions_wrong.is_empty()
            && self.rows_damaged.is_empty()
            && self.old_rows_wrong.is_empty()
    }

    /// Whether [`Store::repair`](crate::Store::repair) may correct some of the findings.
    pub fn can_be_repaired(&self) -> bool {
        !(self.quarters_wrong.is_empty()
            && self.first_sights_late.is_empty()
            && self.sessions_wrong.is_empty()
            && self.old_rows_wrong.is_empty())
    }
}

/// Time compared at once: one day, to bound memory.
const CHUNK: i64 = 96 * MICROS_PER_QUARTER;
/// Maximum number of findings per list.
const MAX_FINDINGS: usize = 100;

impl History {
    /// Checks the whole history. `progress` receives the fraction of the ticks read so far, from 0 to 1.
    pub fn check(&self, mut progress: impl FnMut(f64)) -> Result<CheckReport, ReadError> {
        self.read(|connection| {
            let mut sights = FirstSights::default();
            let mut report = CheckReport {
                file: file(connection)?,
                dangling: dangling(connection)?,
                quarters_wrong: totals::survey(connection, &mut sights, MAX_FINDINGS)?,
                sessions_wrong: sessions::impossible(connection, MAX_FINDINGS)?,
                rows_damaged: damaged_rows(connection, MAX_FINDINGS)?,
                ..CheckReport::default()
            };
            read_ticks(connection, &mut report, &mut sights, &mut progress)?;
            report.first_sights_late = sights.late(connection)?;
            compare_totals(connection, &mut report)?;
            let days = totals::days::wrong(connection, MAX_FINDINGS)?;
            let first_quarters = days.into_iter().map(UtcDay::first_quarter);
            report.quarters_wrong.extend(first_quarters);
            report.quarters_wrong.sort();
            report.quarters_wrong.dedup();
            match imported::check(connection, MAX_FINDINGS, &mut report) {
                Ok(()) => {}
                Err(LegacyError::Write(error)) => return Err(error.into()),
                Err(other) => report.old_rows_wrong.push(other.to_string()),
            }
            Ok(report)
        })
    }
}

fn file(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = format!("PRAGMA integrity_check({MAX_FINDINGS})");
    let mut lines: Vec<String> = sql::rows(connection, &sql, [], |row| row.get(0))?;
    lines.retain(|line| line != "ok");
    Ok(lines)
}

fn dangling(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql =
        format!("SELECT \"table\", parent FROM pragma_foreign_key_check LIMIT {MAX_FINDINGS}");
    sql::rows(connection, &sql, [], |row| {
        let (table, parent): (String, String) = (row.get(0)?, row.get(1)?);
        Ok(format!("a row of {table} refers to a missing {parent}"))
    })
}

fn read_ticks(
    connection: &Connection,
    report: &mut CheckReport,
    sights: &mut FirstSights,
    progress: &mut impl FnMut(f64),
) -> Result<(), ReadError> {
    let all: i64 = sql::value(connection, "SELECT count(*) FROM tick", [])?;
    each_tick(connection, (i64::MIN, i64::MAX), |at, tick| {
        report.ticks_read += 1;
        match tick {
            Ok(stored) => {
                for gpu in &stored.tick.sample.gpus {
                    sights.add(&gpu.uuid, at);
                }
            }
            Err(damage) if report.ticks_damaged.len() < MAX_FINDINGS => {
                report.ticks_damaged.push((sane::nearest(at), damage));
            }
            Err(_) => {}
        }
        if report.ticks_read.is_multiple_of(1000) {
            #[expect(clippy::cast_precision_loss, reason = "a share to look at")]
            progress(report.ticks_read as f64 / all.max(1) as f64);
        }
    })?;
    for at in ticks::absurd(connection, MAX_FINDINGS)? {
        report.ticks_read += 1;
        let damage = (sane::nearest(at), Damage::Value("time"));
        report.ticks_damaged.push(damage);
    }
    report.ticks_damaged.truncate(MAX_FINDINGS);
    progress(1.0);
    Ok(())
}

/// Compares the totals of the quarters that still have all their ticks.
fn compare_totals(connection: &Connection, report: &mut CheckReport) -> Result<(), ReadError> {
    if schema::version(connection)? < 3 {
        // These totals follow earlier rules; the first writer folds them again.
        return Ok(());
    }
    let thresholds = rule::load(connection)?;
    let Some(until) = meta(connection, TOTALS_UNTIL)? else {
        return Ok(());
    };
    let Some(mut from) = whole_from(connection)? else {
        return Ok(());
    };
    while let Some(next) = tick_from(connection, from)?.filter(|_| from < until) {
        // Skip long gaps without ticks, except for the quarter that a span may reach into.
        let start = from.max(quarter_start(next).saturating_sub(CHUNK));
        let to = start.saturating_add(CHUNK).min(until);
        if start >= to {
            break;
        }
        compare(connection, thresholds, (from, to), report)?;
        from = to;
    }
    Ok(())
}

fn compare(
    connection: &Connection,
    thresholds: Thresholds,
    (from, to): (i64, i64),
    report: &mut CheckReport,
) -> Result<(), ReadError> {
    let period = history::period((from, to));
    let mut folded = Totals::default();
    each_span(connection, thresholds, (from, to), |span| {
        folded.add_within(span, period);
    })?;
    let stored = totals::readable(connection, (quarter(from), quarter(to)))?;
    report.quarters_compared += folded.quarters.len() as u64;
    let all = folded.quarters.keys().chain(stored.quarters.keys());
    let mut wrong: Vec<_> = all
        .filter(|quarter| folded.quarters.get(quarter) != stored.quarters.get(quarter))
        .copied()
        .collect();
    wrong.sort();
    wrong.dedup();
    // Unreadable quarters are already in the list.
    wrong.retain(|quarter| !report.quarters_wrong.contains(quarter));
    wrong.truncate(MAX_FINDINGS.saturating_sub(report.quarters_wrong.len()));
    report.quarters_wrong.extend(wrong);
    Ok(())
}

impl History {
    /// Number of damaged collector runs, GPUs, owners, outages and requests.
    pub fn damaged_rows(&self) -> Result<u32, ReadError> {
        let found = self.read(used_by_reports)?.len();
        Ok(u32::try_from(found).unwrap_or(u32::MAX))
    }
}

/// Describes up to `most` damaged rows.
fn damaged_rows(connection: &Connection, most: usize) -> Result<Vec<String>, ReadError> {
    let mut found = used_by_reports(connection)?;
    let runs = watched::COLUMNS;
    list_damaged(
        connection,
        "watched run",
        runs,
        &mut found,
        watched::from_row,
    )?;
    found.truncate(most);
    Ok(found)
}

fn used_by_reports(connection: &Connection) -> Result<Vec<String>, ReadError> {
    let mut found = Vec::new();
    let (runs, gpus, outages) = (history::RUNS, history::GPUS, history::OUTAGES);
    list_damaged(connection, "collector run", runs, &mut found, history::run)?;
    list_damaged(connection, "GPU", gpus, &mut found, |row| {
        history::gpu(connection, row)
    })?;
    list_damaged(
        connection,
        "owner",
        names::OWNERS,
        &mut found,
        names::owner_row,
    )?;
    list_damaged(connection, "outage", outages, &mut found, history::outage)?;
    list_damaged(
        connection,
        "request",
        refusal::COLUMNS,
        &mut found,
        refusal::request,
    )?;
    Ok(found)
}

/// Adds descriptions of the damaged rows of a query.
fn list_damaged<T>(
    connection: &Connection,
    what: &str,
    sql: &str,
    found: &mut Vec<String>,
    read: impl Fn(&Row<'_>) -> Result<T, ReadError>,
) -> Result<(), ReadError> {
    sql::each(connection, sql, [], |row| {
        if undamaged(read(row))?.is_none() {
            let id: i64 = row.get("id")?;
            found.push(format!("{what} {id} has an impossible value"));
        }
        Ok(())
    })
}
