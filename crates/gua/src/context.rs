//! Context of every command: the settings of this process, loaded once, and access to the driver and to recorded data.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use gua_collector::service::{Place, Scope};
use gua_collector::{location, log, reader};
use gua_files::TemporaryDirectory;
use gua_model::failure::Failure;
use gua_model::{Identity, Pid, Sample};
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::process::ProcessTable;
use gua_probe::reader::Reader;
use gua_query::{QueryError, Source};
use gua_render::chart::Language;
use gua_settings::{FlagValue, Loaded, Settings};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::output;

pub use gua_collector::VERSION;

/// Delay after which a message says that the driver is slow.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// The settings of this process.
#[derive(Debug)]
pub struct Context {
    pub loaded: Loaded,
    /// Flags that override settings.
    pub flags: Vec<FlagValue>,
    /// Time that counts as now, for a simulated history.
    simulated_now: Option<Timestamp>,
}

impl Context {
    /// Loads the settings. A mistake in them is a usage error.
    pub fn load(flags: &[FlagValue]) -> Result<Self, Failure> {
        let context = Self::load_unchecked(flags);
        context.loaded.checked()?;
        Ok(context)
    }

    /// Loads the settings for commands that also work with an invalid configuration: only an invalid flag is an error.
    pub fn load_with_valid_flags(flags: &[FlagValue]) -> Result<Self, Failure> {
        let context = Self::load_unchecked(flags);
        context.loaded.check_flags()?;
        Ok(context)
    }

    /// Loads the settings for commands that handle mistakes in them.
    pub fn load_unchecked(flags: &[FlagValue]) -> Self {
        Self {
            loaded: Loaded::of_this_process(flags),
            flags: flags.to_vec(),
            simulated_now: None,
        }
    }

    /// Loads the settings for a command on a simulated history that ends at `now`. A mistake in the configuration does not
    /// concern it.
    pub fn load_simulated(flags: &[FlagValue], db: &Path, now: Timestamp) -> Result<Self, Failure> {
        let flags = flags.iter().cloned();
        let flags = flags.chain(FlagValue::of("--db", "history", "db", Some(db)));
        let flags: Vec<FlagValue> = flags.collect();
        let context = Self::load_with_valid_flags(&flags)?;
        Ok(Self {
            simulated_now: Some(now),
            ..context
        })
    }

    pub fn settings(&self) -> &Settings {
        &self.loaded.settings
    }

    pub fn is_simulated(&self) -> bool {
        self.simulated_now.is_some()
    }

    /// Current time, or the end of a simulated history.
    pub fn now(&self) -> Timestamp {
        self.simulated_now.unwrap_or_else(clock::now)
    }

    /// Local time zone; UTC for a simulated history, which is the same everywhere.
    pub fn zone(&self) -> TimeZone {
        match self.simulated_now {
            Some(_) => TimeZone::UTC,
            None => TimeZone::system(),
        }
    }

    /// The requested language, or that of the locale.
    pub fn language(&self, requested: Option<Language>) -> Language {
        requested.unwrap_or(match self.loaded.inputs.is_korean() {
            true => Language::Korean,
            false => Language::English,
        })
    }

    /// Path of the history to read.
    pub fn history(&self) -> PathBuf {
        location::history(&self.loaded)
    }

    /// Path of the history to use, with a message on stderr if it is not obvious which one that is.
    pub fn announced_history(&self) -> PathBuf {
        let path = self.history();
        if let Some(note) = location::note(&self.loaded, &path) {
            output::eprint(&format!("note: {note}\n"));
        }
        path
    }

    /// Path of the history for a command that opens the file itself.
    pub fn history_to_open(&self) -> Result<PathBuf, Failure> {
        let path = self.announced_history();
        location::refuse_service_elsewhere(&path, self.settings())?;
        Ok(path)
    }

    /// Source of queries for the history to read.
    pub fn source(&self) -> Box<dyn Source> {
        location::source(&self.loaded)
    }

    /// Runs a query on the history.
    pub fn ask<T>(
        &self,
        question: impl FnOnce(&dyn Source) -> Result<T, QueryError>,
    ) -> anyhow::Result<T> {
        let path = self.announced_history();
        let source = location::source_at(&path, self.settings());
        if let Ok(rows @ 1..) = gua_compat::gpu_usage_audit::rows_inside(&path) {
            let path = path.display();
            output::eprint(&format!(
                "warning: gpu-usage-audit wrote {rows} rows into {path} that are not imported yet and not counted here\n\
                 hint: `gua daemon` imports them, or `gua import {path} --db {path}`; stop the old collector (see `crontab -l` and `systemctl list-timers`)\n"
            ));
        }
        Ok(question(source.as_ref())?)
    }

    /// Creates a reader, which starts its child process at the first request.
    pub fn reader(&self) -> Reader {
        Reader::new(reader::options(self.settings()))
    }

    /// Returns where systemd units are installed.
    pub fn place(&self, scope: Option<Scope>, root: Option<PathBuf>) -> Result<Place, Failure> {
        Place::new(scope, root, self.loaded.inputs.home.as_deref())
    }

    /// Starts the log of a server on stderr.
    pub fn start_log(&self) {
        log::start(log::Form::of_server(&self.loaded), output::eprint);
    }

    /// Shows the records of a command that a timer may run: in the journal all, on a terminal only those with a `line`.
    pub fn start_command_log(&self) {
        log::start(log::Form::of_command(&self.loaded.inputs), output::eprint);
    }

    /// Creates a directory for temporary files that only this user can open, and that is removed on drop.
    pub fn passing_directory(&self, prefix: &str) -> anyhow::Result<TemporaryDirectory> {
        let parent = self.loaded.inputs.temporary();
        let created = TemporaryDirectory::create(&parent, prefix);
        created.with_context(|| format!("cannot create a directory in {}", parent.display()))
    }

    /// Creates a directory for temporary files that only this user can open, and that stays.
    pub fn temporary_directory(&self, prefix: &str) -> anyhow::Result<PathBuf> {
        let unique = format!("{prefix}-{:x}", clock::now().as_nanosecond());
        let path = self.loaded.inputs.temporary().join(unique);
        let created = std::fs::DirBuilder::new().mode(0o700).create(&path);
        created.with_context(|| format!("cannot create directory {}", path.display()))?;
        Ok(path)
    }

    /// Takes one sample.
    pub fn sample(&self) -> Result<Sample, DriverFault> {
        sample(&mut self.reader())
    }
}

/// Identity of this process; `None` if it is not visible.
pub fn this_process() -> Option<Identity> {
    let mut table = ProcessTable::default();
    table.resolve(Pid(std::process::id())).ok()
}

/// Takes one sample, with a message on stderr if the driver is slow: a long silence looks like a hang to users and in logs.
pub fn sample(reader: &mut Reader) -> Result<Sample, DriverFault> {
    reader.begin()?;
    let until = reader.waiting().map(|waiting| waiting.until);
    let longest = until.unwrap_or_default().saturating_sub(clock::monotonic());
    let (done, wait) = mpsc::channel::<()>();
    // If the thread cannot be started, only the message is missing.
    let _ = thread::Builder::new().spawn(move || {
        if wait.recv_timeout(SLOW_AFTER) == Err(RecvTimeoutError::Timeout) {
            output::eprint(&format!(
                "the driver has not answered for {} s; waiting up to {:.0} s\n",
                SLOW_AFTER.as_secs(),
                longest.as_secs_f64()
            ));
        }
    });
    let sample = reader.finish();
    drop(done);
    sample
}
