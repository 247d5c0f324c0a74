//! The history file of a collector: whether it may be written, how it is opened, and its summary for `gua status`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_compat::gpu_usage_audit::{Adopted, LegacyError, OldCollector, OnProgress, adopt};
use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_model::period::Period;
use gua_model::{Cadence, Sample, duration};
use gua_probe::clock;
use gua_probe::host::{self, HostRoot};
use gua_settings::Loaded;
use gua_store::{FileKind, History, NewRun, OpenMode, Store, WriterOptions, what_is_this};
use jiff::Timestamp;
use tracing::warn;

use super::{Append, DaemonError, add_line, with_age};
use crate::history::HistorySink;
use crate::python_collector::python_writer;
use crate::{Options, VERSION};

/// The history file of a collector.
#[derive(Clone, Debug)]
pub struct HistoryFile {
    path: PathBuf,
    choice: Choice,
}

/// Whether the path is the default one, that of the host's service, or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Default,
    Host,
    Custom,
}

impl HistoryFile {
    /// The history that the settings name, with that of the host's service recognised.
    pub fn configured(loaded: &Loaded) -> Self {
        let history = &loaded.settings.history;
        let home = loaded.inputs.home.as_deref();
        Self::of(&history.db.value, home, &history.service_db.value)
    }

    /// Compares paths by components: `//` and `/./` are ignored, links and `..` are not resolved.
    pub fn of(path: &Path, home: Option<&Path>, host: &Path) -> Self {
        let choice = match home.map(gua_settings::default_db) {
            Some(default) if default == path => Choice::Default,
            _ if path == host => Choice::Host,
            _ => Choice::Custom,
        };
        Self {
            path: path.to_owned(),
            choice,
        }
    }

    /// The same file at another path: that of an image.
    #[must_use]
    pub fn found_at(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_default(&self) -> bool {
        self.choice == Choice::Default
    }

    /// Rejects an existing file, unless it is the default one or a history that may be continued. Changes nothing.
    pub fn admit(&self, append: Append) -> Result<(), Failure> {
        let path = self.path.display();
        let kind = what_is_this(&self.path);
        let (message, hint) = match (&kind, self.choice, append) {
            (FileKind::Missing, ..) => return Ok(()),
            (FileKind::NewerHistory { .. }, ..) => {
                return Err(Failure::failed(format!("`{path}` is {kind}"))
                    .hint("update gua, or choose another path with --db"));
            }
            (_, Choice::Default, _)
            | (FileKind::GpuUsageAudit, Choice::Host, Append::Yes)
            | (FileKind::OurHistory { .. } | FileKind::Empty, _, Append::Yes) => return Ok(()),
            (FileKind::GpuUsageAudit, _, Append::Yes) => (
                format!("`{path}` is a history of gpu-usage-audit, which gua never modifies"),
                Some(format!(
                    "choose another path, such as {path}.new: `gua import {path} --db {path}.new`, then --db {path}.new here"
                )),
            ),
            (_, _, Append::Yes) => (
                format!("`{path}` is {kind}, not a history of gua"),
                Some(format!(
                    "choose another path with --db, or rename the file: `mv {path} {path}.old`"
                )),
            ),
            (_, _, Append::No) => {
                let advice = self.advice(&kind);
                let message = format!("`{path}` exists already and is {kind}; {advice}");
                (message, None)
            }
        };
        Err(Failure::usage(message).hint_if(hint))
    }

    /// Advice about an existing file.
    fn advice(&self, kind: &FileKind) -> String {
        let path = self.path.display();
        let elsewhere = "choose another path with --db";
        match kind {
            FileKind::OurHistory { .. } => {
                let read = format!("read it with `gua report --db {path}`");
                format!("continue it with --append, {read}, or {elsewhere}")
            }
            FileKind::Empty => format!("continue it with --append, remove it, or {elsewhere}"),
            FileKind::GpuUsageAudit => {
                format!("{elsewhere} and import its rows with `gua import {path}`")
            }
            _ => elsewhere.to_owned(),
        }
    }

    /// Whether the directory is created by the collector or its unit if it does not exist.
    pub fn is_in_own_directory(&self) -> bool {
        self.choice != Choice::Custom
    }

    /// Whether an existing file is a history of gpu-usage-audit that [`HistoryFile::adopt_old`] takes over.
    pub fn will_be_adopted(&self) -> bool {
        self.choice != Choice::Custom && what_is_this(&self.path) == FileKind::GpuUsageAudit
    }

    /// Imports a gpu-usage-audit history at the default path or that of the host's service into a new file, verifies the
    /// counts, and renames the old file.
    pub fn adopt_old(
        &self,
        options: &Options,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<Adopted>, DaemonError> {
        if self.choice == Choice::Custom {
            return Ok(None);
        }
        let writer_pid = python_writer(&HostRoot::real(), &self.path);
        let collector = match writer_pid {
            Some(_) => OldCollector::Running,
            None => OldCollector::NotRunning,
        };
        let writer = self.writer(options);
        let adopted = adopt(&self.path, clock::now(), collector, &writer, on_progress);
        match (adopted, writer_pid) {
            (Err(error @ LegacyError::CollectorRuns { .. }), Some(pid)) => {
                let what =
                    format!("stop the collector with pid {pid} first, for example with `gua stop`");
                Err(Failure::because(what)(error).into())
            }
            (adopted, _) => Ok(adopted?),
        }
    }

    /// Opens the history and starts a collector run. Called after the driver has answered.
    pub fn open(
        &self,
        append: Append,
        sample: &Sample,
        options: &Options,
    ) -> Result<HistorySink, DaemonError> {
        let mode = match (self.choice, append) {
            (Choice::Default, _) | (_, Append::Yes) => OpenMode::CreateOrAppend,
            (Choice::Host | Choice::Custom, Append::No) => OpenMode::Create,
        };
        if let Some(pid) = python_writer(&HostRoot::real(), &self.path) {
            return Err(Failure::failed(format!(
                "a collector of gpu-usage-audit (pid {pid}) writes to `{}`",
                self.path.display()
            ))
            .hint("stop it first, for example with `gua stop`")
            .into());
        }
        let store = Store::open(&self.path, mode, &self.writer(options))?;
        if self.is_private() {
            self.close_to_others();
        }
        let run = NewRun {
            started: clock::now(),
            interval: options.interval,
            host: host::name(),
            version: VERSION.to_owned(),
            boot: sample.boot.ok(),
        };
        HistorySink::begin(store, run).map_err(|source| DaemonError::Write {
            path: self.path.display().to_string(),
            source,
        })
    }

    /// Whether only its owner and its group may open the file: the history of the host. A user who can open it can hold
    /// SQLite's locks and so stop the recording. Everyone else asks through the socket.
    fn is_private(&self) -> bool {
        match self.choice {
            Choice::Default => false,
            Choice::Host => true,
            Choice::Custom => rustix::process::geteuid().is_root(),
        }
    }

    fn writer(&self, options: &Options) -> WriterOptions {
        WriterOptions {
            keep_raw: Some(options.keep_raw),
            thresholds: options.thresholds,
            file_mode: self.is_private().then_some(PRIVATE),
            ..WriterOptions::default()
        }
    }

    /// Takes the permissions of others away from a file that an earlier version made.
    fn close_to_others(&self) {
        for suffix in ["", "-wal", "-shm"] {
            let name = gua_files::beside(&self.path, suffix);
            let Ok(facts) = fs::metadata(&name) else {
                continue;
            };
            let mode = facts.permissions().mode();
            let private = Permissions::from_mode(mode & !OTHERS);
            if mode & OTHERS != 0
                && let Err(error) = fs::set_permissions(&name, private)
            {
                warn!(%error, "other users can still open the history, and so stop the recording");
            }
        }
    }

    /// Total number of GPU samples in the file.
    pub(super) fn gpu_ticks(&self) -> Result<u64, DaemonError> {
        Ok(History::open(&self.path)?.gpu_ticks()?)
    }
}

/// Mode of the host's history: its owner writes, and its group reads.
const PRIVATE: u32 = 0o640;
/// Permissions of everyone else.
const OTHERS: u32 = 0o007;

/// Summary of a running daemon's history for `gua status`, or the reason why the history cannot be read.
pub fn summary(db: &Path, outage: Option<(Timestamp, String)>) -> String {
    let mut text = String::new();
    add_line(&mut text, "history", db.display());
    if let Err(error) = add_details(&mut text, db, outage) {
        add_line(&mut text, "cannot read the history", chain(&error));
    }
    text
}

fn add_details(
    text: &mut String,
    db: &Path,
    outage: Option<(Timestamp, String)>,
) -> Result<(), DaemonError> {
    let history = History::open(db)?;
    let runs = history.runs()?;
    let Some(run) = runs.last() else {
        return Ok(());
    };
    let now = clock::now();
    let last = history.info()?.last_tick;
    let outages = history.outages(Period::new(run.started, now))?;
    add_line(text, "interval", duration::written(run.interval));
    if let Some(last) = last {
        add_line(text, "last tick", with_age(last, now));
    }
    let lost: u64 = outages.iter().map(|gap| u64::from(gap.ticks_lost)).sum();
    add_line(text, "ticks lost", lost);
    if let Some((since, what)) = outage {
        let so_far = lost_since(since, run.interval, now);
        let since = with_age(since, now);
        let since = format_args!("{since}, {so_far} so far");
        add_line(text, "losing ticks since", since);
        add_line(text, "reason", what);
    } else if let Some(ticks) = overdue(run.started, last, run.interval, now) {
        add_line(text, "overdue", format_args!("{ticks} ticks (see the log)"));
    }
    Ok(())
}

/// Number of lost ticks: the one at `since` and one per interval after it.
fn lost_since(since: Timestamp, interval: Duration, now: Timestamp) -> u128 {
    let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    1 + age
        .as_micros()
        .checked_div(interval.as_micros())
        .unwrap_or(0)
}

/// Number of ticks that should have been stored since the last one. An open outage is not in the history yet.
pub(super) fn overdue(
    started: Timestamp,
    last: Option<Timestamp>,
    interval: Duration,
    now: Timestamp,
) -> Option<u128> {
    let since = last.map_or(started, |last| last.max(started));
    let age = Duration::try_from(now.duration_since(since)).ok()?;
    if !Cadence::new(interval).is_missed(age) {
        return None;
    }
    age.as_micros().checked_div(interval.as_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_history_at_the_path_of_the_host_is_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let shape = gua_test::old_history::Shape {
            gpus: 1,
            ticks: 4,
            interval_seconds: 30,
            process_rows: 4,
        };
        let end = Timestamp::from_second(1_790_000_000).unwrap();
        gua_test::old_history::write(&path, &shape, end).unwrap();
        let host = HistoryFile::of(&path, None, &path);
        let other = HistoryFile::of(&path, None, Path::new("/elsewhere.db"));
        // As the contract says, an existing file is only continued with --append.
        assert!(host.admit(Append::No).is_err());
        let refused = other.admit(Append::Yes).unwrap_err();
        let hint = refused.hint.unwrap();
        assert!(hint.contains("`gua import "), "{hint}");
        host.admit(Append::Yes).unwrap();
        assert!(host.will_be_adopted() && !other.will_be_adopted());

        let options = crate::daemon::options(&gua_settings::Settings::defaults(
            &gua_settings::kind::Home(None),
        ));
        let go_on = &mut |_| std::ops::ControlFlow::Continue(());
        assert!(other.adopt_old(&options, go_on).unwrap().is_none());
        let adopted = host.adopt_old(&options, go_on).unwrap().unwrap();
        assert!(adopted.imported.unwrap().new_gpu_rows > 0);
        assert!(matches!(what_is_this(&path), FileKind::OurHistory { .. }));
        assert_eq!(
            what_is_this(&adopted.old_renamed_to),
            FileKind::GpuUsageAudit
        );
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & OTHERS, 0);
    }

    #[test]
    fn the_default_path_is_recognized_by_its_text() {
        let is_default = |path: &str, home: Option<&str>| {
            let host = Path::new(crate::location::OF_THE_HOST);
            HistoryFile::of(Path::new(path), home.map(Path::new), host).is_default()
        };
        let check = |path: &str, expected| {
            assert_eq!(is_default(path, Some("/home/ada")), expected, "{path}");
        };
        check("/home/ada/.gua/gua.db", true);
        check("/home//ada/./.gua/gua.db", true);
        check("/home/ada/../ada/.gua/gua.db", false);
        check("/home/bob/.gua/gua.db", false);
        check("gua.db", false);
        assert!(!is_default("/x", None));
    }

    #[test]
    fn ticks_are_overdue_after_two_intervals_of_this_run() {
        let check = |started: i64, last: Option<i64>, interval: u64, expected: Option<u128>| {
            let at = |second| Timestamp::from_second(second).unwrap();
            let interval = Duration::from_secs(interval);
            let found = overdue(at(started), last.map(at), interval, at(1000));
            assert_eq!(found, expected, "{started} {last:?} {interval:?}");
        };
        check(0, Some(990), 30, None);
        check(0, Some(940), 30, None);
        check(0, Some(900), 30, Some(3));
        check(0, Some(998), 1, None);
        check(0, Some(997), 1, None);
        check(0, Some(996), 1, Some(4));
        // A run without ticks is measured from its start.
        check(990, Some(100), 30, None);
        check(400, Some(100), 30, Some(20));
        check(400, None, 30, Some(20));
        // The clock was set back.
        check(0, Some(2000), 30, None);
    }
}
