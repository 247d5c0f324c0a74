//! The writer of a history. It holds the file's lock. Each tick is one transaction, and a failed one leaves the store
//! usable.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::period::Quarter;
use gua_model::{BootId, Gpu, Outage, Place, Thresholds, Tick, sane};
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, params};
use serde::{Deserialize, Serialize};

use crate::codec::{self, Frame, Link};
use crate::error::{OpenError, WriteError};
use crate::files::remove_database;
use crate::fold::tick_before;
use crate::intact::refuse_damage;
use crate::kind::{FileKind, what_is_this};
use crate::lock::{WriterLock, network_filesystem};
use crate::names::{self, Interner, Known};
use crate::open_file::{OpenFile, journal_of, rescue_journal};
use crate::quiet::{hardened, refuse_foreign_objects};
use crate::rule;
use crate::schema;
use crate::sql;

/// Requirement on the file at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The path must not exist.
    Create,
    /// The path must be a history of gua.
    Append,
    /// A history of gua, an empty file, or no file.
    CreateOrAppend,
}

/// Options of a writer.
#[derive(Clone, Debug, Default)]
pub struct WriterOptions {
    /// Retention time of ticks, whose totals stay, and of watched runs. `None` keeps all. After the clock jumps ahead, once
    /// or several times, nothing is deleted early until ticks have arrived for a day (or an eighth of this time, if that is
    /// less).
    pub keep_raw: Option<Duration>,
    /// Thresholds for the totals of a new file. A file never changes its thresholds, so that its totals stay
    /// comparable; reports with other thresholds read the ticks.
    pub thresholds: Thresholds,
    /// Permissions of a new file, as for chmod(2).
    pub file_mode: Option<u32>,
    /// Maximum number of pages of the file, for tests of a full disk.
    pub most_pages: Option<u32>,
}

/// A collector run that starts to write.
#[derive(Clone, Debug)]
pub struct NewRun {
    pub started: Timestamp,
    pub interval: Duration,
    pub host: String,
    /// Version of the program.
    pub version: String,
    pub boot: Option<BootId>,
}

/// Id of one collector run within one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunId(pub i64);

/// The only writer of a history.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) options: WriterOptions,
    known: Known,
    chain: Option<Chain>,
    /// Time of the latest tick. A later tick has an unused key and changes nothing that has been folded.
    newest: Option<i64>,
    /// Journal that was set aside because it did not belong to the file.
    pub(crate) stranded: Option<PathBuf>,
    /// Device and inode of the journal.
    pub(crate) journal: Option<(u64, u64)>,
    /// Last fields, so that the database is closed before the locks are released.
    pub(crate) file: OpenFile,
    _lock: WriterLock,
}

/// A database that was opened for writing.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) file: OpenFile,
    pub(crate) stranded: Option<PathBuf>,
}

/// The last tick written, which the next one is encoded relative to.
#[derive(Debug)]
struct Chain {
    run: RunId,
    at: i64,
    /// Number of times the clock was set back in this run: its ticks then interleave with earlier ones.
    jumps: u32,
    link: Link,
}

impl Store {
    /// Opens a history for writing. A file that is not a history of gua, newer, damaged or in use is refused and left
    /// unchanged.
    pub fn open(path: &Path, mode: OpenMode, options: &WriterOptions) -> Result<Self, OpenError> {
        let path = resolved(path)?;
        refuse_others(&path, mode)?;
        if let Some(filesystem) = network_filesystem(&path) {
            return Err(OpenError::NetworkFilesystem { path, filesystem });
        }
        let lock = WriterLock::take(&path)?;
        let opened = Self::open_file(&path, mode, options);
        let opened = opened.inspect_err(|_| {
            // The lock is still held, so no other writer has used it.
            if lock.is_new {
                let _ = std::fs::remove_file(crate::beside(&path, "-lock"));
            }
        })?;
        Ok(Self {
            journal: journal_of(&path),
            connection: opened.connection,
            file: opened.file,
            stranded: opened.stranded,
            path,
            options: options.clone(),
            known: Known::default(),
            chain: None,
            newest: None,
            _lock: lock,
        })
    }

    /// Opens or creates the file while the lock is held. If that fails, a created file is removed: an empty history would
    /// make the next call fail.
    pub(crate) fn open_file(
        path: &Path,
        mode: OpenMode,
        options: &WriterOptions,
    ) -> Result<Opened, OpenError> {
        // Another writer may have used the file between the check and the lock.
        refuse_others(path, mode)?;
        let stranded = rescue_journal(path).map_err(OpenError::in_directory(path))?;
        let is_new = !path.exists();
        let open = || {
            if is_new {
                create_file(path, options.file_mode)?;
            }
            let file = OpenFile::lock(path)?;
            let connection = connect(path, options)?;
            set_meta(&connection, CLEAN, 0).map_err(|error| OpenError::from_sqlite(path, error))?;
            Ok(Opened {
                connection,
                file,
                stranded,
            })
        };
        open().inspect_err(|_| {
            if is_new {
                // The original error is more useful than one about a leftover file.
                let _ = remove_database(path);
            }
        })
    }

    /// Journal beside the history that did not belong to it and was renamed to this when it was opened.
    pub fn stranded_journal(&self) -> Option<&Path> {
        self.stranded.as_deref()
    }

    /// Changes the retention time of ticks; `None` keeps all ticks.
    pub fn keep_raw_for(&mut self, time: Option<Duration>) {
        self.options.keep_raw = time;
    }

    /// Changes the time for which a write waits for a lock that another process holds.
    pub fn wait_for_lock(&self, time: Duration) -> Result<(), WriteError> {
        Ok(self.connection.busy_timeout(time)?)
    }

    /// Thresholds that the totals of this file use.
    pub(crate) fn thresholds(&self) -> rusqlite::Result<Thresholds> {
        rule::load(&self.connection)
    }

    /// Path of the history, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn begin_run(&mut self, run: &NewRun) -> Result<RunId, WriteError> {
        sql::run(
            &self.connection,
            "INSERT INTO collector_run (started, interval, host, version, boot) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                run.started.as_microsecond(),
                micros(run.interval),
                run.host,
                run.version,
                run.boot.map(|boot| boot.0.to_be_bytes()),
            ],
        )?;
        Ok(RunId(self.connection.last_insert_rowid()))
    }

    /// Records that a run ended cleanly.
    pub fn end_run(&mut self, run: RunId, at: Timestamp) -> Result<(), WriteError> {
        let update = "UPDATE collector_run SET ended = ?2 WHERE id = ?1";
        sql::run(&self.connection, update, [run.0, at.as_microsecond()])?;
        Ok(())
    }

    /// Writes one tick with all its names in one transaction. Once this returns `Ok`, the tick survives a crash of the
    /// process.
    pub fn record(&mut self, run: RunId, tick: &Tick) -> Result<(), WriteError> {
        let mut recorded = self.try_record(run, tick);
        // Merging the journal may free space.
        if matches!(recorded, Err(WriteError::DiskFull(_))) && self.merge_journal().unwrap_or(false)
        {
            self.known.forget();
            recorded = self.try_record(run, tick);
        }
        match recorded {
            Ok(()) => self.known.end_tick(),
            Err(_) => self.known.forget(),
        }
        recorded
    }

    fn try_record(&mut self, run: RunId, tick: &Tick) -> Result<(), WriteError> {
        if !sane::is_time(tick.sample.at) || !sane::is_interval(tick.interval) {
            return Err(WriteError::Time(tick.sample.at));
        }
        let wanted = tick.sample.at.as_microsecond();
        let transaction = sql::begin(&mut self.connection)?;
        let comes_last = self.newest.is_some_and(|newest| newest < wanted);
        let at = match comes_last {
            true => wanted,
            false => free_key(&transaction, wanted)?.ok_or(WriteError::Time(tick.sample.at))?,
        };
        let mut interner = Interner {
            connection: &transaction,
            known: &mut self.known,
            at,
        };
        let is_new = |gpu: &&Gpu| !interner.known.has_gpu(&gpu.uuid);
        let new: Vec<&Gpu> = tick.sample.gpus.iter().filter(is_new).collect();
        let frame = Frame::new(tick, &mut interner)?;
        let chain = self.chain.as_ref().filter(|chain| chain.run == run);
        let went_back = chain.is_some_and(|chain| at <= chain.at);
        let jumps = chain.map_or(0, |chain| chain.jumps + u32::from(went_back));
        let before = chain
            .filter(|chain| !went_back && quarter(chain.at) == quarter(at))
            .map(|chain| &chain.link);
        let is_key = before.is_none();
        let (body, link) = codec::encode(frame, before, jumps);
        // A MIG instance may be gone before the next key tick.
        let changed = match is_key {
            true => tick.sample.gpus.iter().collect(),
            false => new,
        };
        for gpu in changed {
            update_gpu(&transaction, gpu, at)?;
        }
        let insert = "INSERT INTO tick (at, run, body) VALUES (?1, ?2, ?3)";
        sql::run(&transaction, insert, params![at, run.0, body])?;
        if !comes_last {
            for gpu in &tick.sample.gpus {
                names::note_sight(&transaction, &gpu.uuid, at)?;
            }
            crate::maintain::note_tick(&transaction, at)?;
        }
        let newest = match comes_last {
            true => Some(at),
            false => tick_before(&transaction, i64::MAX)?,
        };
        transaction.commit()?;
        self.newest = newest;
        self.chain = Some(Chain {
            run,
            at,
            jumps,
            link,
        });
        Ok(())
    }

    pub fn record_outage(&mut self, outage: &Outage) -> Result<(), WriteError> {
        sql::run(
            &self.connection,
            "INSERT INTO outage (began, ended, reason, detail, ticks_lost) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                outage.from.as_microsecond(),
                outage.to.as_microsecond(),
                outage.reason.as_str(),
                outage.detail,
                outage.ticks_lost,
            ],
        )?;
        Ok(())
    }

    /// Discards cached ids, which may have changed: the next tick is a key tick and looks up all its names.
    pub(crate) fn restart_chain(&mut self) {
        self.known.forget();
        self.chain = None;
        self.newest = None;
    }

    /// Closes the history: merges the journal into the file and marks it as closed cleanly.
    pub fn close(self) -> Result<(), WriteError> {
        set_meta(&self.connection, CLEAN, 1)?;
        let Self { connection, .. } = self;
        connection.close().map_err(|(_, error)| error.into())
    }
}

/// Whether the last writer closed the file cleanly: 1, or 0 while a writer is active or after it crashed.
pub(crate) const CLEAN: &str = "clean";

pub(crate) fn meta(connection: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    sql::find(connection, "SELECT value FROM meta WHERE key = ?1", [key])
}

pub(crate) fn set_meta(connection: &Connection, key: &str, value: i64) -> rusqlite::Result<()> {
    let put = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2 WHERE value <> ?2";
    sql::run(connection, put, params![key, value]).map(drop)
}

pub(crate) fn quarter(micros: i64) -> i64 {
    micros.div_euclid(Quarter::SECONDS * 1_000_000)
}

/// Converts a duration to microseconds, saturating at `i64::MAX`.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Path with symbolic links resolved, so that a file has the same lock under each of its names.
fn resolved(path: &Path) -> Result<PathBuf, OpenError> {
    if let Ok(whole) = path.canonicalize() {
        return Ok(whole);
    }
    let resolved = crate::directory(path).canonicalize();
    let resolved = resolved.map_err(OpenError::in_directory(path))?;
    match path.file_name() {
        Some(name) => Ok(resolved.join(name)),
        None => Err(OpenError::NotOurs {
            path: path.to_owned(),
            kind: FileKind::Directory,
        }),
    }
}

fn refuse_others(path: &Path, mode: OpenMode) -> Result<(), OpenError> {
    let path = path.to_owned();
    match (what_is_this(&path), mode) {
        (FileKind::Missing | FileKind::Empty, OpenMode::Append) => Err(OpenError::Missing { path }),
        (FileKind::Missing, _) => Ok(()),
        (kind, OpenMode::Create) => Err(OpenError::Exists { path, kind }),
        (FileKind::Empty | FileKind::OurHistory { .. }, _) => Ok(()),
        (FileKind::NewerHistory { version: found }, _) => Err(OpenError::TooNew { path, found }),
        (FileKind::NotSqlite, _) => {
            Err(OpenError::damaged(&path, "it is not a database".to_owned()))
        }
        (kind, _) => Err(OpenError::not_ours(path, kind)),
    }
}

/// Creates the file with its permissions, which SQLite copies to its companion files.
fn create_file(path: &Path, mode: Option<u32>) -> Result<(), OpenError> {
    let as_open_error = OpenError::in_directory(path);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    if let Some(mode) = mode {
        options.mode(mode);
    }
    let file = options.open(path).map_err(&as_open_error)?;
    let Some(mode) = mode else {
        return Ok(());
    };
    // Apply the requested mode regardless of the umask.
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
        .map_err(as_open_error)?;
    Ok(())
}

fn connect(path: &Path, options: &WriterOptions) -> Result<Connection, OpenError> {
    let as_open_error = |error| OpenError::from_sqlite(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = hardened(path.as_os_str(), flags).map_err(as_open_error)?;
    refuse_content(path, &connection)?;
    refuse_foreign_objects(path, &connection)?;
    refuse_damage(path, &connection)?;
    prepare(&mut connection, options).map_err(as_open_error)?;
    bound_journal(&connection, path).map_err(as_open_error)?;
    Ok(connection)
}

/// Checks the content again, including the journal: nothing is added to a file that is not a history of gua.
fn refuse_content(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let as_open_error = |error| OpenError::from_sqlite(path, error);
    let found = schema::version(connection).map_err(as_open_error)?;
    let foreign = "SELECT EXISTS (SELECT 1 FROM sqlite_schema) AND (SELECT application_id FROM pragma_application_id) <> ?1";
    let foreign = sql::value(connection, foreign, [schema::APPLICATION_ID]);
    let path = path.to_owned();
    match foreign.map_err(as_open_error)? {
        true => Err(OpenError::NotOurs {
            path,
            kind: FileKind::OtherSqlite,
        }),
        false if found > schema::VERSION => Err(OpenError::TooNew { path, found }),
        false => Ok(()),
    }
}

fn prepare(connection: &mut Connection, options: &WriterOptions) -> rusqlite::Result<()> {
    let is_new = schema::version(connection)? == 0;
    // A tick and a closed quarter hour together use about thirty statements.
    connection.set_prepared_statement_cache_capacity(48);
    connection.pragma_update(None, "page_size", PAGE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    connection.pragma_update(None, "secure_delete", "FAST")?;
    connection.pragma_update(None, "cache_size", -1024)?;
    if let Some(pages) = options.most_pages {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    schema::migrate(connection)?;
    rule::keep(connection, &options.thresholds)?;
    if is_new {
        // From now on the main file identifies itself, even if its journal is lost.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(())
}

pub(crate) const BUSY: Duration = Duration::from_secs(5);
/// Maximum size of the journal in pages before it is merged, and after that on the disk.
const MAX_JOURNAL: i64 = 1000;
/// Size in pages to which a journal is limited on a full disk. A tick takes one to three.
const MIN_JOURNAL: i64 = 16;
const PAGE: i64 = 4096;

/// Limits the journal to a part of the free space. A journal that fills the disk could not be merged, because merging needs
/// space too.
pub(crate) fn bound_journal(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    let free = gua_files::free_bytes(path);
    let free = free.and_then(|free| i64::try_from(free).ok());
    let free = free.unwrap_or(i64::MAX);
    let pages = (free / 4 / PAGE).clamp(MIN_JOURNAL, MAX_JOURNAL);
    connection.pragma_update(None, "wal_autocheckpoint", pages)?;
    connection.pragma_update(None, "journal_size_limit", pages * PAGE)
}

/// First unused microsecond at or after `wanted`. Two ticks can have the same time if the clock was set back.
fn free_key(connection: &Connection, wanted: i64) -> rusqlite::Result<Option<i64>> {
    let mut is_taken = connection.prepare_cached("SELECT 1 FROM tick WHERE at = ?1")?;
    let mut at = wanted;
    while is_taken.exists([at])? {
        let Some(next) = at.checked_add(1) else {
            return Ok(None);
        };
        at = next;
    }
    Ok(Some(at))
}

/// Updates the stored properties of a GPU, for readers that do not read ticks. Writes only if something changed.
fn update_gpu(connection: &Connection, gpu: &Gpu, at: i64) -> rusqlite::Result<()> {
    let (parent, slice) = match &gpu.place {
        Place::Instance { parent, slice, .. } => (Some(parent.as_str()), slice.ok()),
        Place::Whole | Place::Parent { .. } => (None, None),
    };
    if let Some(parent) = gpu.place.parent() {
        // It has the time that no instance has, also while the driver does not list it.
        names::gpu(connection, parent, at)?;
    }
    let memory = gpu
        .memory_total
        .ok()
        .and_then(|bytes| i64::try_from(bytes.0).ok());
    sql::run(
        connection,
            "UPDATE card SET number = ?2, name = ifnull(?3, name), memory_total = ifnull(?4, memory_total), parent = ?5,
             compute_slices = ifnull(?6, compute_slices), parent_slices = ifnull(?7, parent_slices)
             WHERE uuid = ?1 AND (number IS NOT ?2 OR name IS NOT ifnull(?3, name)
             OR memory_total IS NOT ifnull(?4, memory_total) OR parent IS NOT ?5
             OR compute_slices IS NOT ifnull(?6, compute_slices) OR parent_slices IS NOT ifnull(?7, parent_slices))",
        params![
            gpu.uuid.as_str(),
            gpu.index,
            gpu.name.as_ref().ok(),
            memory,
            parent,
            slice.map(|slice| slice.slices),
            slice.map(|slice| slice.of),
        ],
    )
    .map(drop)
}
