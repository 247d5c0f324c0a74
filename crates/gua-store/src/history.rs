//! The reader of a history. It never writes, and it answers each query in one short read transaction.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::period::Period;
use gua_model::{BootId, Bytes, GapReason, Outage, OwnerKey, sane};
use gua_query::GpuInfo;
use jiff::Timestamp;
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

use crate::error::{OpenError, ReadError};
use crate::files::{FilePrint, length};
use crate::fold::{tick_before, tick_from};
use crate::names;
use crate::quiet::{self, print_without_writer};
use crate::sql::{self, undamaged_rows};
use crate::store::RunId;
use crate::ticks::{self, StoredTick, Ticks};
use crate::work::Work;

/// A history opened for reading.
#[derive(Debug)]
pub struct History {
    pub(crate) connection: Connection,
    path: PathBuf,
    /// Metadata of the file, if it was opened as one without a writer.
    quiet: Option<FilePrint>,
    work: Work,
}

/// Facts about a history: its size, its GPUs and the collectors that wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub info: Info,
    pub gpus: Vec<GpuInfo>,
    pub runs: Vec<RunInfo>,
}

/// Summary of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        let (mut connection, quiet) = quiet::open(path)?;
        let work = Work::limit(&mut connection, path);
        Ok(Self {
            work: work.map_err(|error| OpenError::from_sqlite(path, error))?,
            connection,
            path: path.to_owned(),
            quiet,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn facts(&self) -> Result<Facts, ReadError> {
        Ok(Facts {
            info: self.info()?,
            gpus: self.gpus()?,
            runs: self.runs()?,
        })
    }

    pub fn info(&self) -> Result<Info, ReadError> {
        self.read(|connection| {
            let count = |table: &str| -> rusqlite::Result<u64> {
                let count = sql::value(connection, &format!("SELECT count(*) FROM {table}"), []);
                count.map(i64::unsigned_abs)
            };
            Ok(Info {
                version: crate::schema::version(connection)?,
                host: host(connection)?,
                runs: count("collector_run")?,
                ticks: count("tick")?,
                first_tick: tick_from(connection, i64::MIN)?.map(sane::nearest),
                last_tick: tick_before(connection, i64::MAX)?.map(sane::nearest),
                bytes: length(&self.path, "") + length(&self.path, "-wal"),
            })
        })
    }

    /// Host name of the last collector run; `None` before the first run.
    pub fn host(&self) -> Result<Option<String>, ReadError> {
        self.read(|connection| Ok(host(connection)?))
    }

    /// All collector runs, in the order in which they started.
    pub fn runs(&self) -> Result<Vec<RunInfo>, ReadError> {
        self.read(|connection| undamaged_rows(connection, RUNS, [], run))
    }

    /// All GPUs ever seen, in the order in which they were first seen.
    pub fn gpus(&self) -> Result<Vec<GpuInfo>, ReadError> {
        self.read(|connection| {
            let mut gpus = undamaged_rows(connection, GPUS, [], |row| gpu(connection, row))?;
            gpus.sort_by_key(|gpu| gpu.first_seen);
            Ok(gpus)
        })
    }

    /// The last readable tick before a time.
    pub fn last_tick_before(&self, moment: Timestamp) -> Result<Option<StoredTick>, ReadError> {
        self.read(|connection| {
            let last = ticks::last_readable(connection, (i64::MIN, moment.as_microsecond()))?;
            Ok(last.map(|(_, tick)| tick))
        })
    }

    /// Number of ticks with an impossible time ([`sane`]). Nothing else reads them.
    pub fn absurd_ticks(&self) -> Result<u32, ReadError> {
        self.read(|connection| {
            let found = ticks::absurd(connection, usize::MAX)?.len();
            Ok(u32::try_from(found).unwrap_or(u32::MAX))
        })
    }

    /// Names of all owners that were ever seen, as reports show them.
    pub fn owners(&self) -> Result<BTreeSet<OwnerKey>, ReadError> {
        self.read(|connection| {
            let owners = undamaged_rows(connection, names::OWNERS, [], names::owner_row)?;
            Ok(owners.into_iter().map(|(_, owner)| owner).collect())
        })
    }

    /// Calls `each` with every tick of a window, in wall-clock order, with bounded memory. A damaged tick is passed as
    /// an error in its place. The read transaction stays open meanwhile, so `each` should fold rather than print.
    pub fn ticks<E: From<ReadError>>(
        &self,
        window: Period,
        mut each: impl FnMut(Result<StoredTick, ReadError>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (from, to) = sane::bounds(window);
        self.read(|connection| {
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
        let sql = format!("{OUTAGES} WHERE ended >= ?1 AND began < ?2 ORDER BY began, id");
        self.read(|connection| undamaged_rows(connection, &sql, sane::bounds(window), outage))
    }

    /// Runs one query in one transaction.
    pub(crate) fn read<T, E: From<ReadError>>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        self.work.restart();
        let transaction = self
            .connection
            .unchecked_transaction()
            .map_err(ReadError::from)?;
        let answer = question(&transaction);
        // Nothing was written, so there is nothing to commit.
        drop(transaction);
        match self.quiet.is_some() && self.quiet != print_without_writer(&self.path) {
            true => Err(ReadError::Changed.into()),
            false => answer,
        }
    }
}

/// Columns that [`run`] reads.
pub(crate) const RUNS: &str =
    "SELECT id, started, ended, interval, host, version, boot FROM collector_run ORDER BY id";

pub(crate) fn run(row: &Row<'_>) -> Result<RunInfo, ReadError> {
    let boot: Option<[u8; 16]> = row.get(6)?;
    let interval = Duration::from_micros(row.get::<_, i64>(3)?.unsigned_abs());
    Ok(RunInfo {
        id: RunId(row.get(0)?),
        started: sane::nearest(row.get(1)?),
        ended: row.get::<_, Option<i64>>(2)?.and_then(sane::time),
        interval: interval.min(sane::MAX_INTERVAL),
        host: row.get(4)?,
        version: row.get(5)?,
        boot: boot.map(|bytes| BootId(u128::from_be_bytes(bytes))),
    })
}

/// Columns that [`gpu`] reads.
pub(crate) const GPUS: &str =
    "SELECT uuid, first_seen, number, name, memory_total, parent, compute_slices, parent_slices, id
     FROM card ORDER BY id";

pub(crate) fn gpu(connection: &Connection, row: &Row<'_>) -> Result<GpuInfo, ReadError> {
    let name_of = |text: String| text.parse().map_err(|_| ReadError::Value("GPU"));
    let memory: Option<i64> = row.get(4)?;
    // A damaged number is missing. A GPU without a name, or with a parent without one, is left out.
    let number = |column: usize| row.get::<_, Option<u32>>(column).unwrap_or(None);
    let slices = number(6).zip(number(7));
    Ok(GpuInfo {
        uuid: name_of(row.get(0)?)?,
        first_seen: match sane::time(row.get(1)?) {
            Some(seen) => seen,
            // `gua db check` reports it. No tick of the GPU is older than the first tick.
            None => sane::nearest(tick_from(connection, i64::MIN)?.unwrap_or(sane::END)),
        },
        index: number(2),
        name: row.get(3)?,
        memory_total: memory.map(|bytes| Bytes(bytes.unsigned_abs())),
        parent: row.get::<_, Option<String>>(5)?.map(name_of).transpose()?,
        slice: slices.map(|(slices, of)| gua_model::Slice { slices, of }),
    })
}

/// Columns that [`outage`] reads.
pub(crate) const OUTAGES: &str = "SELECT began, ended, reason, detail, ticks_lost, id FROM outage";

pub(crate) fn outage(row: &Row<'_>) -> Result<Outage, ReadError> {
    let word: String = row.get(2)?;
    let reason = GapReason::ALL
        .into_iter()
        .find(|reason| reason.as_str() == word);
    Ok(Outage {
        from: at(row.get(0)?)?,
        to: at(row.get(1)?)?,
        reason: reason.ok_or(ReadError::Value("reason of a gap"))?,
        detail: row.get(3)?,
        ticks_lost: row.get(4)?,
    })
}

fn host(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT host FROM collector_run ORDER BY id DESC LIMIT 1";
    sql::find(connection, sql, [])
}

/// Reads the time of a row.
pub(crate) fn at(micros: i64) -> Result<Timestamp, ReadError> {
    sane::time(micros).ok_or(ReadError::Value("time"))
}

/// The sane part of the period between two keys.
pub(crate) fn period((from, to): (i64, i64)) -> Period {
    Period::new(sane::nearest(from), sane::nearest(to))
}
