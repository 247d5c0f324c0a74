//! Totals in the file: one row a quarter hour, with all its cards packed together.

mod packed;

use std::collections::HashMap;

use gua_model::{CardQuarter, GpuUuid, Quarter, QuarterTotal, Totals, Uid};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::codec::Damage;
use crate::error::ReadError;

pub use packed::decode_any_totals;

/// Replaces the rows of the quarters `[from, to)` by what `totals` has for them.
pub(crate) fn save(
    connection: &Connection,
    (from, to): (i64, i64),
    totals: &Totals,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM quarter_total WHERE quarter >= ?1 AND quarter < ?2")?
        .execute([from, to])?;
    for (quarter, cards) in &totals.quarters {
        let mut numbered = Vec::with_capacity(cards.len());
        for (uuid, total) in cards {
            numbered.push((crate::names::card(connection, uuid, 0)?, total));
        }
        connection
            .prepare_cached("INSERT INTO quarter_total (quarter, body) VALUES (?1, ?2)")?
            .execute(params![quarter.0, packed::pack(*quarter, &numbered)])?;
    }
    Ok(())
}

/// Gives the stored quarters of `[from, to)` one after the other. The room of one serves for the next.
pub(crate) fn each(
    connection: &Connection,
    (from, to): (i64, i64),
    mut give: impl FnMut(Quarter, &[CardQuarter]),
) -> Result<(), ReadError> {
    walk(connection, (from, to), |quarter, read| {
        give(quarter, read.map_err(|damage| damaged(quarter, damage))?);
        Ok(())
    })
}

/// Up to `most` stored quarters that cannot be read.
pub(crate) fn unreadable(connection: &Connection, most: usize) -> Result<Vec<Quarter>, ReadError> {
    let mut found = Vec::new();
    walk(connection, (i64::MIN, i64::MAX), |quarter, read| {
        if read.is_err() && found.len() < most {
            found.push(quarter);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The stored totals of the quarters `[from, to)`, without those that cannot be read.
pub(crate) fn readable(connection: &Connection, ends: (i64, i64)) -> Result<Totals, ReadError> {
    let mut totals = Totals::default();
    walk(connection, ends, |quarter, read| {
        if let Ok(cards) = read {
            totals.put(quarter, cards);
        }
        Ok(())
    })?;
    Ok(totals)
}

fn walk(
    connection: &Connection,
    (from, to): (i64, i64),
    mut each: impl FnMut(Quarter, Result<&[CardQuarter], Damage>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    if from >= to {
        return Ok(());
    }
    let mut reader = packed::Reader::new(cards(connection)?);
    let mut statement = connection.prepare_cached(
        "SELECT quarter, body FROM quarter_total WHERE quarter >= ?1 AND quarter < ?2 ORDER BY quarter",
    )?;
    let mut rows = statement.query([from, to])?;
    while let Some(row) = rows.next()? {
        let quarter = Quarter(row.get(0)?);
        let body = row.get_ref(1)?.as_blob().unwrap_or_default();
        each(quarter, reader.read(quarter, body))?;
    }
    Ok(())
}

/// Gives the time of one user to another number, in every quarter.
pub(crate) fn rename_owner(connection: &Connection, from: Uid, to: Uid) -> Result<(), ReadError> {
    let mut reader = packed::Reader::new(cards(connection)?);
    let mut next = connection.prepare(
        "SELECT quarter, body FROM quarter_total WHERE quarter > ?1 ORDER BY quarter LIMIT 1",
    )?;
    let mut update = connection.prepare("UPDATE quarter_total SET body = ?2 WHERE quarter = ?1")?;
    let mut after = i64::MIN;
    loop {
        let row: Option<(i64, Vec<u8>)> = next
            .query_row([after], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((number, body)) = row else {
            return Ok(());
        };
        after = number;
        let quarter = Quarter(number);
        reader
            .read(quarter, &body)
            .map_err(|damage| damaged(quarter, damage))?;
        let has_it = |total: &QuarterTotal| total.owners.get(&Some(from)).is_some();
        if !reader.totals().any(|(_, total)| has_it(total)) {
            continue;
        }
        let mut changed: Vec<(u64, QuarterTotal)> = reader
            .totals()
            .map(|(card, total)| (card, total.clone()))
            .collect();
        for (_, total) in &mut changed {
            if let Some(sums) = total.owners.remove(&Some(from)) {
                total.owners.entry(Some(to)).merge(&sums);
            }
        }
        let numbered: Vec<_> = changed.iter().map(|(card, total)| (*card, total)).collect();
        update.execute(params![number, packed::pack(quarter, &numbered)])?;
    }
}

fn damaged(quarter: Quarter, source: Damage) -> ReadError {
    ReadError::Totals {
        from: quarter.period().from(),
        source,
    }
}

fn cards(connection: &Connection) -> Result<HashMap<u64, GpuUuid>, ReadError> {
    let mut statement = connection.prepare_cached("SELECT id, uuid FROM card")?;
    let mut rows = statement.query([])?;
    let mut cards = HashMap::new();
    while let Some(row) = rows.next()? {
        let uuid: String = row.get(1)?;
        let uuid = uuid.parse().map_err(|_| ReadError::Value("card"))?;
        cards.insert(row.get::<_, i64>(0)?.cast_unsigned(), uuid);
    }
    Ok(cards)
}
