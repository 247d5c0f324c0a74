//! The reader of a history. It never writes, and it answers each query in one short read transaction.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::period::Period;
use gua_model::{BootId, Bytes, GapReason, Outage, Uid};
use gua_query::GpuInfo;
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::error::{OpenError, ReadError};
use crate::fold::tick_before;
use crate::quiet::{self, Quiet};
use crate::store::RunId;
use crate::ticks::{self, StoredTick, Ticks};

/// A history opened for reading.
#[derive(Debug)]
pub struct History {
    pub(crate) connection: Connection,
    path: PathBuf,
    quiet: Option<Quiet>,
}

/// Summary of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Schema version of the file.
    pub version: u32,
    /// Host name of the last collector run; `None` before the first run.
    pub host: Option<String>,
    pub runs: u64,
    pub ticks: u64,
    pub first_tick: Option<Timestamp>,
    pub last_tick: Option<Timestamp>,
    /// Size of the file and its journal.
    pub bytes: u64,
}

/// One collector run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    pub id: RunId,
    pub started: Timestamp,
    /// `None` while the collector runs, or if it did not exit cleanly.
    pub ended: Option<Timestamp>,
    pub interval: Duration,
    pub host: String,
    pub version: String,
    pub boot: Option<BootId>,
}

impl History {
    /// Opens a history for reading. The file may belong to another user, be a read-only copy, or have an active writer.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (connection, quiet) = quiet::open(path)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            quiet,
        })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn info(&self) -> Result<Info, ReadError> {
        self.read(|connection| {
            let one =
                |query: &str| connection.query_row(query, [], |row| row.get::<_, Option<i64>>(0));
            Ok(Info {
                version: crate::schema::version(connection)?,
                host: host(connection)?,
                runs: count(one("SELECT count(*) FROM collector_run")?),
                ticks: count(one("SELECT count(*) FROM tick")?),
                first_tick: time(one("SELECT min(at) FROM tick")?)?,
                last_tick: time(one("SELECT max(at) FROM tick")?)?,
                bytes: bytes_on_disk(&self.path),
            })
        })
    }

    /// Host name of the last collector run; `None` before the first run.
    pub fn host(&self) -> Result<Option<String>, ReadError> {
        self.read(|connection| Ok(host(connection)?))
    }

    /// All collector runs, in the order in which they started.
    pub fn runs(&self) -> Result<Vec<RunInfo>, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare(
                "SELECT id, started, ended, interval, host, version, boot FROM collector_run ORDER BY id",
            )?;
            let mut rows = statement.query([])?;
            let mut runs = Vec::new();
            while let Some(row) = rows.next()? {
                let boot: Option<[u8; 16]> = row.get(6)?;
                let interval: i64 = row.get(3)?;
                runs.push(RunInfo {
                    id: RunId(row.get(0)?),
                    started: at(row.get(1)?)?,
                    ended: time(row.get(2)?)?,
                    interval: Duration::from_micros(interval.unsigned_abs()),
                    host: row.get(4)?,
                    version: row.get(5)?,
                    boot: boot.map(|bytes| BootId(u128::from_be_bytes(bytes))),
                });
            }
            Ok(runs)
        })
    }

    /// All GPUs ever seen, in the order in which they were first seen.
    pub fn cards(&self) -> Result<Vec<GpuInfo>, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare(
                "SELECT uuid, first_seen, number, name, memory_total, parent FROM card ORDER BY first_seen, id",
            )?;
            let mut rows = statement.query([])?;
            let mut cards = Vec::new();
            while let Some(row) = rows.next()? {
                let name_of = |text: String| text.parse().map_err(|_| ReadError::Value("card"));
                let memory: Option<i64> = row.get(4)?;
                cards.push(GpuInfo {
                    uuid: name_of(row.get(0)?)?,
                    first_seen: at(row.get(1)?)?,
                    index: row.get(2)?,
                    name: row.get(3)?,
                    memory_total: memory.map(|bytes| Bytes(bytes.unsigned_abs())),
                    parent: row.get::<_, Option<String>>(5)?.map(name_of).transpose()?,
                });
            }
            Ok(cards)
        })
    }

    /// The last readable tick; `None` before the first.
    pub fn last_tick(&self) -> Result<Option<StoredTick>, ReadError> {
        self.last_tick_before(Timestamp::MAX)
    }

    /// The last readable tick before a time.
    pub fn last_tick_before(&self, moment: Timestamp) -> Result<Option<StoredTick>, ReadError> {
        self.read(|connection| {
            let mut end = moment.as_microsecond();
            while let Some(last) = tick_before(connection, end)? {
                let from = ticks::quarter_start(last);
                let mut statement = ticks::statement(connection)?;
                let mut stored = Ticks::new(connection, &mut statement, from, end)?;
                let mut found = None;
                while let Some((_, tick)) = stored.step()? {
                    found = tick.ok().or(found);
                }
                if found.is_some() {
                    return Ok(found);
                }
                end = from;
            }
            Ok(None)
        })
    }

    /// Latest known name of each uid. Uids never seen with a name are left out.
    pub fn people(&self) -> Result<BTreeMap<Uid, String>, ReadError> {
        self.read(|connection| {
            let mut statement = connection
                .prepare("SELECT uid, name FROM owner WHERE kind = 0 AND name IS NOT NULL AND uid IS NOT NULL ORDER BY id")?;
            let mut rows = statement.query([])?;
            let mut people = BTreeMap::new();
            while let Some(row) = rows.next()? {
                people.insert(Uid(row.get(0)?), row.get(1)?);
            }
            Ok(people)
        })
    }

    /// Calls `each` with every tick of a window, in wall-clock order, with bounded memory. A damaged tick is passed as
    /// an error in its place. The read transaction stays open meanwhile, so `each` should fold rather than print.
    pub fn ticks<E: From<ReadError>>(
        &self,
        window: Period,
        mut each: impl FnMut(Result<StoredTick, ReadError>) -> Result<(), E>,
    ) -> Result<(), E> {
        let from = window.from().as_microsecond();
        let to = window.to().as_microsecond();
        self.look(|connection| {
            let mut statement = ticks::statement(connection).map_err(ReadError::from)?;
            let stored =
                Ticks::new(connection, &mut statement, from, to).map_err(ReadError::from)?;
            for tick in stored {
                each(tick)?;
            }
            Ok(())
        })
    }

    /// Outages that overlap a window, ordered by start.
    pub fn outages(&self, window: Period) -> Result<Vec<Outage>, ReadError> {
        self.read(|connection| {
            let mut statement = connection.prepare(
                "SELECT began, ended, reason, detail, ticks_lost FROM outage WHERE ended >= ?1 AND began < ?2
                 ORDER BY began, id",
            )?;
            let (from, to) = (window.from(), window.to());
            let mut rows = statement.query(params![from.as_microsecond(), to.as_microsecond()])?;
            let mut outages = Vec::new();
            while let Some(row) = rows.next()? {
                outages.push(Outage {
                    from: at(row.get(0)?)?,
                    to: at(row.get(1)?)?,
                    reason: gap_reason(&row.get::<_, String>(2)?)?,
                    detail: row.get(3)?,
                    ticks_lost: row.get(4)?,
                });
            }
            Ok(outages)
        })
    }

    /// Runs one query in one transaction.
    pub(crate) fn read<T>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        self.look(question)
    }

    pub(crate) fn look<T, E: From<ReadError>>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let transaction = self
            .connection
            .unchecked_transaction()
            .map_err(ReadError::from)?;
        let answer = question(&transaction);
        // Nothing was written, so there is nothing to commit.
        drop(transaction);
        match &self.quiet {
            Some(quiet) if !quiet.still_holds(&self.path) => Err(ReadError::Changed.into()),
            _ => answer,
        }
    }
}

fn host(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection.query_row(
        "SELECT (SELECT host FROM collector_run ORDER BY id DESC LIMIT 1)",
        [],
        |row| row.get(0),
    )
}

fn bytes_on_disk(path: &Path) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |facts| facts.len());
    size(path) + size(&crate::beside(path, "-wal"))
}

fn count(number: Option<i64>) -> u64 {
    number.unwrap_or(0).unsigned_abs()
}

pub(crate) fn at(micros: i64) -> Result<Timestamp, ReadError> {
    Timestamp::from_microsecond(micros).map_err(|_| ReadError::Value("time"))
}

/// The period between two keys, clamped to the representable range of times.
pub(crate) fn period((from, to): (i64, i64)) -> Period {
    let end = |micros: i64| {
        if micros < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        }
    };
    let nearest = |micros: i64| Timestamp::from_microsecond(micros).unwrap_or_else(|_| end(micros));
    Period::new(nearest(from), nearest(to))
}

pub(crate) fn time(micros: Option<i64>) -> Result<Option<Timestamp>, ReadError> {
    micros.map(at).transpose()
}

pub(crate) fn gap_reason(word: &str) -> Result<GapReason, ReadError> {
    let known = GapReason::ALL
        .into_iter()
        .find(|reason| reason.as_str() == word);
    known.ok_or(ReadError::Value("reason of a gap"))
}
