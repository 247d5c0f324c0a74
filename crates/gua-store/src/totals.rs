//! Stored totals: one row per quarter hour, with all its GPUs packed together, and one row per completed day.
//!
//! Every quarter that is written gets the next change number (`revision`), so that code that copies quarters elsewhere
//! can find the new and changed ones.

pub(crate) mod days;
mod packed;

use gua_model::{
    GpuDay, GpuQuarter, GpuUuid, OwnerKey, Quarter, QuarterTotal, Totals, UtcDay, sane,
};
use gua_query::records::QuarterVisitor;
use rusqlite::{Connection, OptionalExtension as _, params};

use self::packed::{Names, OwnerIds};
use crate::codec::Damage;
use crate::error::ReadError;
use crate::first_sight::FirstSights;
use crate::history::History;
use crate::maintain::{TOTALS_UNTIL, fold_again};
use crate::names;
use crate::sql::undamaged_rows;
use crate::store::{meta, quarter, set_meta};
use crate::ticks::MICROS_PER_QUARTER;
use crate::window::unreadable_quarter;

pub use packed::decode_any_totals;
pub(crate) use packed::pack_imported;

/// Key of the last change number in use.
const REVISION: &str = "revision";

/// Replaces the rows of the quarters `[from, to)` by the quarters of `totals`.
pub(crate) fn save(
    connection: &Connection,
    (from, to): (i64, i64),
    totals: &Totals,
) -> Result<(), ReadError> {
    days::remove(connection, (from, to))?;
    connection
        .prepare_cached("DELETE FROM quarter_total WHERE quarter >= ?1 AND quarter < ?2")?
        .execute([from, to])?;
    let mut revision = last_revision(connection)?;
    for (quarter, cards) in &totals.quarters {
        let mut numbered = Vec::with_capacity(cards.len());
        for (uuid, total) in cards {
            numbered.push((names::card(connection, uuid, 0)?, total));
        }
        let owners = owner_ids(connection, cards.values(), start_of(*quarter))?;
        let body = packed::pack(*quarter, &numbered, &owners);
        revision += 1;
        connection
            .prepare_cached(
                "INSERT INTO quarter_total (quarter, body, revision) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![quarter.0, body, revision])?;
    }
    set_meta(connection, REVISION, revision)?;
    days::close(connection, (from, to))
}

fn start_of(quarter: Quarter) -> i64 {
    quarter.0.saturating_mul(MICROS_PER_QUARTER)
}

/// Ids of the owners in the totals; new ones were first seen at `at`.
fn owner_ids<'a>(
    connection: &Connection,
    totals: impl Iterator<Item = &'a QuarterTotal>,
    at: i64,
) -> rusqlite::Result<OwnerIds> {
    let mut ids = OwnerIds::new();
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
        let mut reader = packed::Reader::new(names_of(connection)?);
        let (mut after, mut revision) = (i64::MIN, 0);
        while let Some((number, body)) = next_after(connection, after)? {
            after = number;
            revision += 1;
            let quarter = Quarter(number);
            let body = match reader.read(quarter, &body) {
                Ok(_) => repacked(connection, quarter, &reader)?,
                Err(_) => body,
            };
            connection
                .prepare_cached(
                    "UPDATE quarter_total SET body = ?2, revision = ?3 WHERE quarter = ?1",
                )?
                .execute(params![number, body, revision])?;
        }
        set_meta(connection, REVISION, revision)?;
        if !reader.has_instances() {
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

fn repacked(
    connection: &Connection,
    quarter: Quarter,
    reader: &packed::Reader,
) -> rusqlite::Result<Vec<u8>> {
    let numbered: Vec<_> = reader.totals().collect();
    let totals = numbered.iter().map(|(_, total)| *total);
    let owners = owner_ids(connection, totals, start_of(quarter))?;
    Ok(packed::pack(quarter, &numbered, &owners))
}

fn next_after(connection: &Connection, after: i64) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
    connection
        .prepare_cached(
            "SELECT quarter, body FROM quarter_total WHERE quarter > ?1 ORDER BY quarter LIMIT 1",
        )?
        .query_row([after], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

impl History {
    /// Quarters whose change number is greater than `after`, each with its number, ordered by it. Returns at most
    /// `limit` of them.
    pub fn changed_quarters(
        &self,
        after: u64,
        limit: u32,
    ) -> Result<Vec<(Quarter, u64)>, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT quarter, revision FROM quarter_total WHERE revision > ?1 ORDER BY revision LIMIT ?2",
            )?;
            let rows = statement.query_map(params![after.cast_signed(), limit], |row| {
                let revision: i64 = row.get(1)?;
                Ok((Quarter(row.get(0)?), revision.unsigned_abs()))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

/// Where totals come from: own ticks, or imported rows. Each has its own tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Own,
    Imported,
}

impl Source {
    fn quarters(self) -> &'static str {
        match self {
            Source::Own => "quarter_total",
            Source::Imported => "old_quarter",
        }
    }

    fn days(self) -> &'static str {
        match self {
            Source::Own => "day_total",
            Source::Imported => "old_day",
        }
    }
}

/// Stored sums of a day of imported rows; `None` if there are none, or they cannot be read.
pub(crate) fn imported_day(
    connection: &Connection,
    day: UtcDay,
) -> rusqlite::Result<Option<Vec<GpuDay>>> {
    days::read_with(connection, Source::Imported, day, |body| {
        let gpus: Vec<GpuDay> = packed::unpack_imported(day, body)?;
        let is_whole = |gpu: &GpuDay| gpu.quarters.len() == UtcDay::QUARTERS;
        match gpus.iter().all(is_whole) {
            true => Ok(gpus),
            false => Err(Damage::Value("day of imported rows")),
        }
    })
}

/// Returns the last change number in use. If the stored number is damaged, the highest one of the rows is used.
pub(crate) fn last_revision(connection: &Connection) -> rusqlite::Result<i64> {
    const END: i64 = i64::MAX / 2;
    match meta(connection, REVISION)? {
        None => Ok(0),
        Some(last) if (0..END).contains(&last) => Ok(last),
        Some(_) => connection.query_row(
            "SELECT ifnull(max(revision), 0) FROM
             (SELECT revision FROM quarter_total UNION ALL SELECT revision FROM old_quarter) WHERE revision BETWEEN 0 AND ?1",
            [END],
            |row| row.get(0),
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
    source: Source,
    (from, to): (i64, i64),
    visitor: &mut dyn QuarterVisitor,
) -> Result<u32, ReadError> {
    let (from, to) = sane_quarters((from, to));
    let (first_day, end_day) = (from.saturating_add(95).div_euclid(96), to.div_euclid(96));
    let mut unreadable = 0;
    let mut quarters = |visitor: &mut dyn QuarterVisitor, ends: (i64, i64)| {
        walk(connection, source, ends, |quarter, read| {
            match (source, read) {
                (_, Ok(gpus)) => visitor.quarter(quarter, gpus),
                (Source::Own, Err(_)) => {
                    unreadable += unreadable_quarter(connection, quarter, visitor)?;
                }
                (Source::Imported, Err(damage)) => return Err(damaged(quarter, damage)),
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
    let mut statement = connection.prepare_cached(&format!(
        "SELECT day FROM {} WHERE day >= ?1 AND day < ?2 ORDER BY day",
        source.days()
    ))?;
    let mut rows = statement.query([first_day, end_day])?;
    while let Some(row) = rows.next()? {
        let day = UtcDay(row.get(0)?);
        let cards = match source {
            Source::Own => days::read(connection, &names, day)?,
            Source::Imported => imported_day(connection, day)?,
        };
        let Some(cards) = cards else {
            continue;
        };
        let first = day.first_quarter().0;
        quarters(visitor, (waiting, first))?;
        waiting = match visitor.day(day, &cards) {
            true => first.saturating_add(96),
            false => first,
        };
    }
    quarters(visitor, (waiting, to))?;
    Ok(unreadable)
}

/// Calls `give` with the stored quarters of `[from, to)` in order, and without those that cannot be read. The buffers of one
/// quarter are reused for the next.
pub(crate) fn each(
    connection: &Connection,
    source: Source,
    ends: (i64, i64),
    mut give: impl FnMut(Quarter, &[GpuQuarter]),
) -> Result<(), ReadError> {
    walk(connection, source, ends, |quarter, read| {
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
    walk(
        connection,
        Source::Own,
        (i64::MIN, i64::MAX),
        |quarter, read| {
            match read {
                Ok(cards) => {
                    for card in cards {
                        if let Some(first) = card.total.card.first {
                            sights.add(&card.gpu, first.as_microsecond());
                        }
                    }
                }
                Err(_) if found.len() < most => found.push(quarter),
                Err(_) => {}
            }
            Ok(())
        },
    )?;
    let (first, end) = sane_quarters((i64::MIN, i64::MAX));
    let mut absurd = connection.prepare(
        "SELECT quarter FROM quarter_total WHERE quarter < ?1 OR quarter >= ?2 LIMIT ?3",
    )?;
    let left = i64::try_from(most - found.len()).unwrap_or(i64::MAX);
    let absurd = absurd.query_map([first, end, left], |row| row.get(0).map(Quarter))?;
    found.extend(absurd.collect::<Result<Vec<_>, _>>()?);
    Ok(found)
}

/// Stored totals of the quarters `[from, to)`, without unreadable ones.
pub(crate) fn readable(connection: &Connection, ends: (i64, i64)) -> Result<Totals, ReadError> {
    let mut totals = Totals::default();
    each(connection, Source::Own, ends, |quarter, cards| {
        totals.put(quarter, cards);
    })?;
    Ok(totals)
}

/// The part of a range of quarters whose times are sane.
fn sane_quarters((from, to): (i64, i64)) -> (i64, i64) {
    let (first, end) = (quarter(sane::FIRST), quarter(sane::END));
    (from.clamp(first, end), to.clamp(first, end))
}

fn walk(
    connection: &Connection,
    source: Source,
    (from, to): (i64, i64),
    mut each: impl FnMut(Quarter, Result<&[GpuQuarter], Damage>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let (from, to) = sane_quarters((from, to));
    if from >= to {
        return Ok(());
    }
    let mut reader = packed::Reader::new(names_of(connection)?);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT quarter, body FROM {} WHERE quarter >= ?1 AND quarter < ?2 ORDER BY quarter",
        source.quarters()
    ))?;
    let mut rows = statement.query([from, to])?;
    while let Some(row) = rows.next()? {
        let quarter = Quarter(row.get(0)?);
        let body = row.get_ref(1)?.as_blob().unwrap_or_default();
        match source {
            Source::Own => each(quarter, reader.read(quarter, body))?,
            Source::Imported => {
                let read = packed::unpack_imported(quarter, body);
                each(quarter, read.as_deref().map_err(Damage::clone))?;
            }
        }
    }
    Ok(())
}

/// Moves the time of some owners to another one in every quarter. The row of owner `id` is about to become that one.
pub(crate) fn rename_owners(
    connection: &Connection,
    from: &[OwnerKey],
    (to, id): (&OwnerKey, i64),
) -> Result<(), ReadError> {
    let mut reader = packed::Reader::new(names_of(connection)?);
    let mut after = i64::MIN;
    while let Some((number, body)) = next_after(connection, after)? {
        after = number;
        let quarter = Quarter(number);
        reader
            .read(quarter, &body)
            .map_err(|damage| damaged(quarter, damage))?;
        let has_them =
            |total: &QuarterTotal| from.iter().any(|owner| total.owners.get(owner).is_some());
        if !reader.totals().any(|(_, total)| has_them(total)) {
            continue;
        }
        let mut changed: Vec<(u64, QuarterTotal)> = reader
            .totals()
            .map(|(card, total)| (card, total.clone()))
            .collect();
        for (_, total) in &mut changed {
            for owner in from {
                if let Some(sums) = total.owners.remove(owner) {
                    total.owners.entry(to.clone()).merge(&sums);
                }
            }
        }
        let mut owners = OwnerIds::from([(to.clone(), id.cast_unsigned())]);
        let others = changed.iter().flat_map(|(_, total)| total.owners.keys());
        for owner in others.filter(|owner| *owner != to) {
            if let Some(id) = names::owner(connection, owner, start_of(quarter))? {
                owners.insert(owner.clone(), id);
            }
        }
        let numbered: Vec<_> = changed.iter().map(|(card, total)| (*card, total)).collect();
        let revision = last_revision(connection)? + 1;
        connection
            .prepare_cached("UPDATE quarter_total SET body = ?2, revision = ?3 WHERE quarter = ?1")?
            .execute(params![
                number,
                packed::pack(quarter, &numbered, &owners),
                revision
            ])?;
        set_meta(connection, REVISION, revision)?;
        days::remove(connection, (number, number + 1))?;
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
    let mut statement = connection.prepare_cached("SELECT id, uuid, parent FROM card")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let uuid = |column: usize| -> Result<Option<GpuUuid>, ReadError> {
            let text: Option<String> = row.get(column)?;
            Ok(text.and_then(|text| text.parse().ok()))
        };
        // Totals of a GPU without a readable name are damaged.
        let Some(gpu) = uuid(1)? else {
            continue;
        };
        if let Some(parent) = uuid(2)? {
            names.parents.insert(gpu.clone(), parent);
        }
        let id = row.get::<_, i64>(0)?.cast_unsigned();
        names.cards.insert(id, gpu);
    }
    for (id, owner) in undamaged_rows(connection, names::OWNERS, [], names::owner_row)? {
        if let Some(uid) = owner.uid() {
            names.users.insert(uid, owner.clone());
        }
        names.owners.insert(id, owner);
    }
    Ok(names)
}
