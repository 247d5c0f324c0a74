//! Stored totals: one row per quarter hour, with all its GPUs packed together, and one row per completed day.
//!
//! Every quarter that is written gets the next change number (`revision`), so that code that copies quarters elsewhere
//! can find the new and changed ones. Nothing reads it yet.

pub(crate) mod days;
mod packed;

use gua_model::{
    GpuDay, GpuQuarter, GpuUuid, NamedTotal, OwnerKey, Quarter, QuarterTotal, Totals, UtcDay, sane,
};
use gua_query::records::{Origin, QuarterVisitor};
use rusqlite::{Connection, params};

use self::packed::{Names, OwnerIds};
use crate::codec::Damage;
use crate::error::ReadError;
use crate::first_sight::FirstSights;
use crate::maintain::{TOTALS_UNTIL, fold_again};
use crate::names;
use crate::sql::{self, undamaged_rows};
use crate::store::{meta, quarter, set_meta};
use crate::ticks::MICROS_PER_QUARTER;
use crate::window::unreadable_quarter;

pub use packed::decode_any_totals;
pub(crate) use packed::{IMPORTED_FORM, pack_imported};

/// Key of the last change number in use.
const REVISION: &str = "revision";

/// Replaces the rows of the quarters `[from, to)` by the quarters of `totals`.
pub(crate) fn save(
    connection: &Connection,
    (from, to): (i64, i64),
    totals: &Totals,
) -> Result<(), ReadError> {
    days::remove(connection, (from, to))?;
    let delete = "DELETE FROM quarter_total WHERE quarter >= ?1 AND quarter < ?2";
    sql::run(connection, delete, [from, to])?;
    let mut revision = last_revision(connection)?;
    for (quarter, gpus) in &totals.quarters {
        revision += 1;
        put(connection, (*quarter, revision), gpus, OwnerIds::new())?;
    }
    set_meta(connection, REVISION, revision)?;
    days::close(connection, (from, to))
}

/// Writes the row of a quarter. Owners that are not in `ids` are looked up.
fn put<'a>(
    connection: &Connection,
    (quarter, revision): (Quarter, i64),
    gpus: impl IntoIterator<Item = NamedTotal<'a>>,
    ids: OwnerIds,
) -> rusqlite::Result<()> {
    let mut numbered = Vec::new();
    for (uuid, total) in gpus {
        numbered.push((names::gpu(connection, uuid, 0)?, total));
    }
    let totals = numbered.iter().map(|(_, total)| *total);
    let ids = add_owner_ids(ids, connection, totals, start_of(quarter))?;
    let body = packed::pack(quarter, &numbered, ids);
    let insert =
        "INSERT OR REPLACE INTO quarter_total (quarter, body, revision) VALUES (?1, ?2, ?3)";
    sql::run(connection, insert, params![quarter.0, body, revision]).map(drop)
}

fn start_of(quarter: Quarter) -> i64 {
    quarter.0.saturating_mul(MICROS_PER_QUARTER)
}

/// Adds the ids of the owners in the totals; new ones were first seen at `at`.
fn add_owner_ids<'a>(
    mut ids: OwnerIds,
    connection: &Connection,
    totals: impl Iterator<Item = &'a QuarterTotal>,
    at: i64,
) -> rusqlite::Result<OwnerIds> {
    for owner in totals.flat_map(|total| total.owners.keys()) {
        if !ids.contains_key(owner)
            && let Some(id) = names::owner(connection, owner, at)?
        {
            ids.insert(owner.clone(), id);
        }
    }
    Ok(ids)
}

/// Rewrites every quarter of a file with schema 1 in the newest form, numbered in order of time, and adds the completed
/// days. Unreadable quarters stay unchanged.
pub(crate) fn convert(connection: &Connection) -> rusqlite::Result<()> {
    let convert = || -> Result<(), ReadError> {
        let names = names_of(connection)?;
        let (mut after, mut revision) = (i64::MIN, 0);
        while let Some((quarter, body)) = next_after(connection, after)? {
            after = quarter.0;
            revision += 1;
            if let Ok(gpus) = packed::read(&names, quarter, &body) {
                let row = (quarter, revision);
                put(
                    connection,
                    row,
                    gpus.iter().map(GpuQuarter::named),
                    OwnerIds::new(),
                )?;
            } else {
                let update = "UPDATE quarter_total SET revision = ?2 WHERE quarter = ?1";
                sql::run(connection, update, [quarter.0, revision])?;
            }
        }
        set_meta(connection, REVISION, revision)?;
        if names.parents.is_empty() {
            return fill_days(connection);
        }
        // Ticks have the slices of MIG instances, which these totals lack.
        Ok(fold_again(connection)?)
    };
    convert().map_err(|error| match error {
        ReadError::Sqlite(error) => error,
        // Unreadable quarters were skipped before.
        other => rusqlite::Error::ToSqlConversionFailure(Box::new(other)),
    })
}

/// Writes the missing rows of all completed days.
pub(crate) fn fill_days(connection: &Connection) -> Result<(), ReadError> {
    let Some(until) = meta(connection, TOTALS_UNTIL)? else {
        return Ok(());
    };
    days::close(connection, (0, quarter(until)))
}

/// Returns the first stored quarter after the quarter `after`.
fn next_after(connection: &Connection, after: i64) -> rusqlite::Result<Option<(Quarter, Vec<u8>)>> {
    let sql = "SELECT quarter, body FROM quarter_total WHERE quarter > ?1 ORDER BY quarter LIMIT 1";
    let found = sql::rows(connection, sql, [after], |row| {
        Ok::<_, rusqlite::Error>((Quarter(row.get(0)?), row.get(1)?))
    });
    found.map(|found| found.into_iter().next())
}

/// Table of the totals by quarter hour.
fn quarter_table(origin: Origin) -> &'static str {
    match origin {
        Origin::Own => "quarter_total",
        Origin::Imported => "old_quarter",
    }
}

/// Stored sums of a day of imported rows; `None` if there are none, or they cannot be read.
pub(crate) fn imported_day(
    connection: &Connection,
    day: UtcDay,
) -> rusqlite::Result<Option<Vec<GpuDay>>> {
    days::read(connection, Origin::Imported, &Names::default(), day)
}

/// Returns the last change number in use. If the stored number is damaged, the highest one of the rows is used.
pub(crate) fn last_revision(connection: &Connection) -> rusqlite::Result<i64> {
    const END: i64 = i64::MAX / 2;
    match meta(connection, REVISION)? {
        None => Ok(0),
        Some(last) if (0..END).contains(&last) => Ok(last),
        Some(_) => sql::value(
            connection,
            "SELECT ifnull(max(revision), 0) FROM
             (SELECT revision FROM quarter_total UNION ALL SELECT revision FROM old_quarter) WHERE revision BETWEEN 0 AND ?1",
            [END],
        ),
    }
}

pub(crate) fn set_last_revision(connection: &Connection, revision: i64) -> rusqlite::Result<()> {
    set_meta(connection, REVISION, revision)
}

/// Visits the stored totals of the quarters `[from, to)` in order of time. Each completed day within them is offered
/// first; if it is not taken, its quarters follow. A quarter of own ticks that cannot be read is visited by its ticks;
/// returns the number of those that are damaged, and of quarters without ticks.
pub(crate) fn each_day(
    connection: &Connection,
    origin: Origin,
    (from, to): (i64, i64),
    visitor: &mut dyn QuarterVisitor,
) -> Result<u32, ReadError> {
    let (from, to) = sane_quarters((from, to));
    let (first_day, end_day) = (from.saturating_add(95).div_euclid(96), to.div_euclid(96));
    let mut unreadable = 0;
    let mut quarters = |visitor: &mut dyn QuarterVisitor, ends: (i64, i64)| {
        walk(connection, origin, ends, |quarter, read| {
            match (origin, read) {
                (_, Ok(gpus)) => visitor.quarter(quarter, gpus),
                (Origin::Own, Err(_)) => {
                    unreadable += unreadable_quarter(connection, quarter, visitor)?;
                }
                (Origin::Imported, Err(damage)) => return Err(damaged(quarter, damage)),
            }
            Ok(())
        })
    };
    if first_day >= end_day {
        quarters(visitor, (from, to))?;
        return Ok(unreadable);
    }
    let names = names_of(connection)?;
    // Start of the contiguous quarters that are still to be read one by one.
    let mut waiting = from;
    for day in days::stored(connection, origin, (first_day, end_day))? {
        let Some(gpus) = days::read(connection, origin, &names, day)? else {
            continue;
        };
        let first = day.first_quarter().0;
        quarters(visitor, (waiting, first))?;
        waiting = match visitor.day(day, &gpus) {
            true => first.saturating_add(96),
            false => first,
        };
    }
    quarters(visitor, (waiting, to))?;
    Ok(unreadable)
}

/// Calls `give` with the stored quarters of `[from, to)` in order, and without those that cannot be read.
pub(crate) fn each(
    connection: &Connection,
    origin: Origin,
    ends: (i64, i64),
    mut give: impl FnMut(Quarter, &[GpuQuarter]),
) -> Result<(), ReadError> {
    walk(connection, origin, ends, |quarter, read| {
        if let Ok(gpus) = read {
            give(quarter, gpus);
        }
        Ok(())
    })
}

/// Reads all quarters: adds the GPUs in them to `sights`, and returns up to `most` unreadable quarters.
pub(crate) fn survey(
    connection: &Connection,
    sights: &mut FirstSights,
    most: usize,
) -> Result<Vec<Quarter>, ReadError> {
    let mut found = Vec::new();
    walk(connection, Origin::Own, EVER, |quarter, read| {
        match read {
            Ok(gpus) => {
                for gpu in gpus {
                    if let Some(first) = gpu.total.gpu.first {
                        sights.add(&gpu.gpu, first.as_microsecond());
                    }
                }
            }
            Err(_) if found.len() < most => found.push(quarter),
            Err(_) => {}
        }
        Ok(())
    })?;
    let (first, end) = sane_quarters(EVER);
    let absurd = "SELECT quarter FROM quarter_total WHERE quarter < ?1 OR quarter >= ?2 LIMIT ?3";
    let left = i64::try_from(most - found.len()).unwrap_or(i64::MAX);
    found.extend(sql::rows(connection, absurd, [first, end, left], |row| {
        row.get(0).map(Quarter)
    })?);
    Ok(found)
}

/// Stored totals of the quarters `[from, to)`, without unreadable ones.
pub(crate) fn readable(connection: &Connection, ends: (i64, i64)) -> Result<Totals, ReadError> {
    let mut totals = Totals::default();
    each(connection, Origin::Own, ends, |quarter, gpus| {
        totals.put(quarter, gpus);
    })?;
    Ok(totals)
}

const EVER: (i64, i64) = (i64::MIN, i64::MAX);

/// The part of a range of quarters whose times are sane.
fn sane_quarters((from, to): (i64, i64)) -> (i64, i64) {
    let (first, end) = (quarter(sane::FIRST), quarter(sane::END));
    (from.clamp(first, end), to.clamp(first, end))
}

pub(crate) fn walk(
    connection: &Connection,
    origin: Origin,
    (from, to): (i64, i64),
    mut each: impl FnMut(Quarter, Result<&[GpuQuarter], Damage>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let (from, to) = sane_quarters((from, to));
    if from >= to {
        return Ok(());
    }
    let names = names_of(connection)?;
    let sql = format!(
        "SELECT quarter, body FROM {} WHERE quarter >= ?1 AND quarter < ?2 ORDER BY quarter",
        quarter_table(origin)
    );
    sql::each(connection, &sql, [from, to], |row| {
        let quarter = Quarter(row.get(0)?);
        let body = row.get_ref(1)?.as_blob().unwrap_or_default();
        let read = match origin {
            Origin::Own => packed::read(&names, quarter, body),
            Origin::Imported => packed::unpack_imported(quarter, body),
        };
        each(quarter, read.as_deref().map_err(Damage::clone))
    })
}

/// Moves the time of some owners to another one in every quarter. The row of owner `id` is about to become that one.
pub(crate) fn rename_owners(
    connection: &Connection,
    from: &[OwnerKey],
    (to, id): (&OwnerKey, i64),
) -> Result<(), ReadError> {
    let names = names_of(connection)?;
    let mut after = i64::MIN;
    while let Some((quarter, body)) = next_after(connection, after)? {
        after = quarter.0;
        let read = packed::read(&names, quarter, &body);
        let mut gpus = read.map_err(|damage| damaged(quarter, damage))?;
        let mut is_changed = false;
        for total in gpus.iter_mut().map(|gpu| &mut gpu.total) {
            for owner in from {
                if let Some(sums) = total.owners.remove(owner) {
                    total.owners.entry(to.clone()).merge(&sums);
                    is_changed = true;
                }
            }
        }
        if is_changed {
            let revision = last_revision(connection)? + 1;
            let ids = OwnerIds::from([(to.clone(), id.cast_unsigned())]);
            let gpus = gpus.iter().map(GpuQuarter::named);
            put(connection, (quarter, revision), gpus, ids)?;
            set_meta(connection, REVISION, revision)?;
            days::remove(connection, (quarter.0, quarter.0 + 1))?;
        }
    }
    Ok(())
}

fn damaged(quarter: Quarter, source: Damage) -> ReadError {
    ReadError::Totals {
        from: quarter.period().from(),
        source,
    }
}

/// The GPUs and owners of the file.
fn names_of(connection: &Connection) -> Result<Names, ReadError> {
    let mut names = Names::default();
    sql::each(connection, "SELECT id, uuid, parent FROM card", [], |row| {
        let uuid = |column: usize| -> Result<Option<GpuUuid>, ReadError> {
            let text: Option<String> = row.get(column)?;
            Ok(text.and_then(|text| text.parse().ok()))
        };
        // Totals of a GPU without a readable name are damaged.
        let Some(gpu) = uuid(1)? else {
            return Ok(());
        };
        if let Some(parent) = uuid(2)? {
            names.parents.insert(gpu.clone(), parent);
        }
        let id = row.get::<_, i64>(0)?.cast_unsigned();
        names.gpus.insert(id, gpu);
        Ok::<_, ReadError>(())
    })?;
    for (id, owner) in undamaged_rows(connection, names::OWNERS, [], names::owner_row)? {
        if let Some(uid) = owner.uid() {
            names.users.insert(uid, owner.clone());
        }
        names.owners.insert(id, owner);
    }
    Ok(names)
}
