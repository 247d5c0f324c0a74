//! Iterates over stored ticks in wall-clock order, with only a few in memory at a time.

use std::collections::HashMap;

use gua_model::{Tick, sane};
use rusqlite::{Connection, Rows, Statement, params};

use crate::codec::{self, Damage, Link};
use crate::error::ReadError;
use crate::fold::tick_before;
use crate::lookup::Catalogue;
use crate::sql;
use crate::store::{RunId, quarter};

/// A tick and the run that wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTick {
    pub run: RunId,
    pub tick: Tick,
}

const QUERY: &str = "SELECT at, run, body FROM tick WHERE at >= ?1 AND at < ?2 ORDER BY at";

/// Start of the quarter hour of `at`. Every chain begins at a quarter hour.
pub(crate) fn quarter_start(at: i64) -> i64 {
    quarter(at).saturating_mul(MICROS_PER_QUARTER)
}

pub(crate) const MICROS_PER_QUARTER: i64 = gua_model::period::Quarter::SECONDS * 1_000_000;

pub(crate) fn statement(connection: &Connection) -> rusqlite::Result<Statement<'_>> {
    connection.prepare(QUERY)
}

/// Ticks of a window. A damaged tick is an error in its place; the next readable tick follows.
pub(crate) struct Ticks<'a> {
    rows: Rows<'a>,
    from: i64,
    chains: Chains,
    catalogue: Catalogue<'a>,
}

impl<'a> Ticks<'a> {
    /// Reads the sane times of `[from, to)`. Ticks before `from` in its quarter hour are decoded but not returned.
    pub(crate) fn new(
        connection: &'a Connection,
        statement: &'a mut Statement<'_>,
        from: i64,
        to: i64,
    ) -> rusqlite::Result<Self> {
        let start = quarter_start(from.max(sane::FIRST));
        Ok(Self {
            rows: statement.query(params![start, to.min(sane::END)])?,
            from,
            chains: Chains::default(),
            catalogue: Catalogue::new(connection),
        })
    }

    pub(crate) fn step(&mut self) -> rusqlite::Result<Option<(i64, Result<StoredTick, Damage>)>> {
        while let Some(row) = self.rows.next()? {
            let at: i64 = row.get(0)?;
            let run = RunId(row.get(1)?);
            let body = row.get_ref(2)?.as_blob().unwrap_or_default();
            let link = self.chains.follow(run, at, body);
            if at < self.from {
                continue;
            }
            let tick = link.and_then(|link| link.frame.to_tick(&mut self.catalogue));
            return Ok(Some((at, tick.map(|tick| StoredTick { run, tick }))));
        }
        Ok(None)
    }
}

impl Iterator for Ticks<'_> {
    type Item = Result<StoredTick, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Ok(None) => None,
            Ok(Some((_, Ok(tick)))) => Some(Ok(tick)),
            Ok(Some((at, Err(source)))) => Some(Err(damaged(at, source))),
            Err(error) => Some(Err(error.into())),
        }
    }
}

fn damaged(at: i64, source: Damage) -> ReadError {
    let at = sane::nearest(at);
    ReadError::Tick { at, source }
}

/// Times of the ticks with an impossible time, at most `most` of them. No fold reads them.
pub(crate) fn absurd(connection: &Connection, most: usize) -> rusqlite::Result<Vec<i64>> {
    let sql =
        "SELECT at FROM tick WHERE at < ?1 UNION ALL SELECT at FROM tick WHERE at >= ?2 LIMIT ?3";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    sql::rows(connection, sql, [sane::FIRST, sane::END, most], |row| {
        row.get(0)
    })
}

/// The last readable tick of a window, with its key.
pub(crate) fn last_readable(
    connection: &Connection,
    (begin, mut end): (i64, i64),
) -> Result<Option<(i64, StoredTick)>, ReadError> {
    while let Some(last) = tick_before(connection, end)?.filter(|last| *last >= begin) {
        let from = quarter_start(last);
        let mut statement = statement(connection)?;
        let mut stored = Ticks::new(connection, &mut statement, from, end)?;
        let mut found = None;
        while let Some((at, tick)) = stored.step()? {
            let readable = tick.ok().filter(|_| at >= begin);
            found = readable.map(|tick| (at, tick)).or(found);
        }
        if found.is_some() {
            return Ok(found);
        }
        end = from;
    }
    Ok(None)
}

/// Last tick of each chain in one quarter hour. There are several chains only if the clock was set back or a collector
/// was restarted.
#[derive(Default)]
pub(crate) struct Chains {
    quarter: i64,
    ends: HashMap<(RunId, u32), Link>,
}

impl Chains {
    pub(crate) fn follow(&mut self, run: RunId, at: i64, body: &[u8]) -> Result<&Link, Damage> {
        if quarter(at) != self.quarter {
            self.ends.clear();
            self.quarter = quarter(at);
        }
        let (chain, _) = codec::bytes::chain(body)?;
        let before = self.ends.remove(&(run, chain));
        let link = codec::decode(body, before.as_ref())?;
        Ok(self.ends.entry((run, chain)).or_insert(link))
    }
}
