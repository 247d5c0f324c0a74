//! `gua db check` for imported rows: every block can be read, its texts and runs exist, and no rows are missing at the
//! end. SQLite's foreign key check verifies that their sources exist.

use std::collections::{HashMap, HashSet};

use gua_model::{GpuUuid, sane};
use rusqlite::Connection;

use super::block::unpack;
use super::error::LegacyError;
use super::rows::{Cell, GpuRow, ImportedRow, ProcessRow, Texts};
use super::stamp::Stamp;
use super::stored::load_texts;
use super::totals;
use crate::check::CheckReport;
use crate::sql;

/// Checks everything that was imported, and adds at most `most` findings to the report.
pub(crate) fn check(
    connection: &Connection,
    most: usize,
    report: &mut CheckReport,
) -> Result<(), LegacyError> {
    report.old_rows_wrong.extend(texts_wrong(connection)?);
    let texts = load_texts(connection)?;
    blocks::<GpuRow>(connection, &texts, most, report)?;
    blocks::<ProcessRow>(connection, &texts, most, report)?;
    if report.old_rows_wrong.is_empty() {
        for day in totals::wrong(connection, most)? {
            let day = day.first_quarter().period().from().strftime("%Y-%m-%d");
            let what = format!("totals of imported rows of {day} do not match their rows");
            report.old_rows_wrong.push(what);
        }
    }
    Ok(())
}

/// Finds a missing text. Rows refer to texts by position, so a missing one shifts all that follow.
fn texts_wrong(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let all: i64 = sql::value(
        connection,
        "SELECT ifnull(max(id), -1) + 1 FROM old_text",
        [],
    )?;
    let count: i64 = sql::value(connection, "SELECT count(*) FROM old_text", [])?;
    let missing = all - count;
    Ok((missing != 0).then(|| format!("{missing} of {all} texts of imported rows are missing")))
}

fn blocks<R: ImportedRow>(
    connection: &Connection,
    texts: &Texts,
    most: usize,
    report: &mut CheckReport,
) -> rusqlite::Result<()> {
    let runs = runs(connection)?;
    let mut ends: HashMap<i64, i64> = HashMap::new();
    let sql = format!(
        "SELECT source, first_row, at_us, written_as, run, rows, cells FROM {} ORDER BY source, first_row",
        R::BLOCKS
    );
    sql::each(connection, &sql, [], |row| {
        let (source, first_row): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (at_us, written_as): (i64, Option<String>) = (row.get(2)?, row.get(3)?);
        let (run, count): (Option<i64>, i64) = (row.get(4)?, row.get(5)?);
        let cells = row.get_ref(6)?.as_blob().unwrap_or_default();
        let found = usize::try_from(count)
            .ok()
            .and_then(|count| unpack::<R>(cells, count));
        let stamp = match &written_as {
            Some(text) => Stamp::micros(text),
            None => Some(at_us),
        };
        let stamp = stamp.filter(|at| sane::time(*at).is_some());
        let end = first_row.saturating_add(count);
        let overlaps = ends.insert(source, end).is_some_and(|end| end > first_row);
        let what = match found {
            None => Some("cannot be read"),
            Some(rows) if !rows.iter().all(|row| row.knows(texts)) => {
                Some("refer to missing texts")
            }
            Some(rows) if !rows.iter().all(|row| has_gpu(row, texts)) => {
                Some("have a GPU without a valid name")
            }
            Some(_) if stamp != Some(at_us) => Some("have an impossible time"),
            Some(_) if run.is_some_and(|run| !runs.contains(&(source, run))) => {
                Some("refer to a missing run")
            }
            Some(_) if overlaps => Some("are there twice"),
            Some(_) => None,
        };
        report.old_rows_read += count.unsigned_abs();
        if let Some(what) = what
            && report.old_rows_wrong.len() < most
        {
            let last = end.saturating_sub(1);
            report.old_rows_wrong.push(format!(
                "rows {first_row} to {last} of {} imported from source {source} {what}",
                R::TABLE
            ));
        }
        Ok::<_, rusqlite::Error>(())
    })?;
    for (source, last) in last_rows::<R>(connection)? {
        // A table without rows was read up to no row.
        let found = ends.get(&source).map_or(i64::MIN, |end| end - 1);
        if found != last && report.old_rows_wrong.len() < most {
            report.old_rows_wrong.push(format!(
                "{} imported from source {source} ends at row {found}, and {last} was the last",
                R::TABLE
            ));
        }
    }
    Ok(())
}

/// Whether the GPU of a row has a valid name. Rows of processes are not checked: leaving one out changes no other row.
fn has_gpu<R: ImportedRow>(row: &R, texts: &Texts) -> bool {
    let gpu = match row.cells().next() {
        Some(Cell::Text(gpu)) if R::TABLE == GpuRow::TABLE => texts.get(gpu),
        _ => return true,
    };
    gpu.is_some_and(|gpu| gpu.parse::<GpuUuid>().is_ok())
}

fn runs(connection: &Connection) -> rusqlite::Result<HashSet<(i64, i64)>> {
    let sql = "SELECT source, row FROM old_run";
    let runs = sql::rows(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    runs.map(HashSet::from_iter)
}

/// Number of the last imported row of each source.
fn last_rows<R: ImportedRow>(connection: &Connection) -> rusqlite::Result<Vec<(i64, i64)>> {
    let sql = format!("SELECT id, {} FROM old_source", R::LAST_ROW);
    sql::rows(connection, &sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
}
