//! The history that a collector writes: whether it may, where it goes on, and what `gua status` says about it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gua_collector::Options;
use gua_collector::history::HistorySink;
use gua_model::{BootId, Sample};
use gua_probe::{clock, host};
use gua_store::{FileKind, History, NewRun, OpenMode, Store, WriterOptions, what_is_this};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Append;
use crate::config;
use crate::dispatch::VERSION;
use crate::duration;
use crate::failure::Failure;

/// The file that a collector is to write.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    choice: Choice,
}

/// Whether the path is the one that gua takes without being told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Default,
    Custom,
}

/// Who is refused: the advice differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Background,
    Foreground,
}

impl Place {
    /// Paths are compared as text, component by component: `//` and `/./` count for nothing, links and `..` are kept.
    pub(super) fn of(path: &Path, home: Option<&Path>) -> Self {
        let choice = match home.map(config::default_db) {
            Some(default) if default == path => Choice::Default,
            _ => Choice::Custom,
        };
        Self {
            path: path.to_owned(),
            choice,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_default(&self) -> bool {
        self.choice == Choice::Default
    }

    /// Refuses a file that exists, unless it is the default one or ours to go on with. Touches nothing.
    pub(super) fn admit(&self, append: Append, form: Form) -> Result<(), Failure> {
        let path = self.path.display();
        match (self.choice, what_is_this(&self.path), append) {
            (_, FileKind::Missing, _) => Ok(()),
            (Choice::Default, FileKind::GpuUsageAudit, _) => Ok(()),
            (Choice::Default, _, _) => Ok(()),
            (_, FileKind::GpuUsageAudit, Append::Yes) => Err(Failure::usage(format!(
                "`{path}` is a history of gpu-usage-audit, which is never changed"
            ))
            .hint(format!(
                "choose another path with --db, and take its rows over with `gua import {path}`"
            ))),
            (_, FileKind::OurHistory { .. } | FileKind::NewerHistory { .. }, Append::Yes) => Ok(()),
            (_, FileKind::Empty, Append::Yes) => Ok(()),
            (_, kind, Append::Yes) => Err(Failure::usage(format!(
                "`{path}` is {kind}, not a history of gua"
            ))),
            (_, _, Append::No) => {
                let advice = match form {
                    Form::Background => format!(
                        "read it with `gua report --db {path}`, go on with it with --append, or choose another path \
                         with --db"
                    ),
                    Form::Foreground => {
                        "choose another path with --db, remove the file, or go on with it with --append"
                            .to_owned()
                    }
                };
                Err(Failure::usage(format!("`{path}` exists already; {advice}")))
            }
        }
    }

    /// Opens the history, after the driver has answered, and begins a run in it.
    pub(super) fn open(
        &self,
        append: Append,
        sample: &Sample,
        options: &Options,
    ) -> anyhow::Result<HistorySink> {
        if what_is_this(&self.path) == FileKind::GpuUsageAudit {
            let path = self.path.display();
            return Err(Failure::usage(format!(
                "`{path}` is a history of gpu-usage-audit, which is never changed"
            ))
            .hint(format!("take its rows over with `gua import {path}`"))
            .into());
        }
        let mode = match (self.choice, append) {
            (Choice::Default, _) | (_, Append::Yes) => OpenMode::CreateOrAppend,
            (Choice::Custom, Append::No) => OpenMode::Create,
        };
        let writer = WriterOptions {
            keep_raw: Some(options.keep_raw),
            thresholds: options.thresholds,
            ..WriterOptions::default()
        };
        let store = Store::open(&self.path, mode, &writer)?;
        let run = NewRun {
            started: clock::now(),
            interval: options.interval,
            host: host::name(),
            version: VERSION.to_owned(),
            boot: boot(sample),
        };
        HistorySink::begin(store, run)
            .with_context(|| format!("cannot write to the history at `{}`", self.path.display()))
    }

    /// How many readings of a card the file holds, in all.
    pub(super) fn card_ticks(&self) -> anyhow::Result<u64> {
        let history = History::open(&self.path)?;
        Ok(history.info()?.ticks)
    }
}

fn boot(sample: &Sample) -> Option<BootId> {
    sample.boot.ok()
}

/// What a running daemon has written so far, for `gua status`. A history that cannot be read is said so.
pub(super) fn summary(db: &Path) -> String {
    let mut text = format!("  history: {}\n", db.display());
    match look(db) {
        Ok(lines) => text.push_str(&lines),
        Err(error) => text.push_str(&format!("  it cannot be read now: {error:#}\n")),
    }
    text
}

fn look(db: &Path) -> anyhow::Result<String> {
    let history = History::open(db)?;
    let runs = history.runs()?;
    let mut text = String::new();
    let Some(run) = runs.last() else {
        return Ok(text);
    };
    text.push_str(&format!(
        "  interval: {}\n",
        duration::written(run.interval)
    ));
    if let Some(last) = history.info()?.last_tick {
        text.push_str(&format!("  last tick: {}\n", with_age(last, clock::now())));
    }
    Ok(text)
}

/// In the local zone, which is named; and how long ago that was.
fn with_age(at: Timestamp, now: Timestamp) -> String {
    let shown = at.to_zoned(TimeZone::system());
    let age = now.duration_since(at);
    let age = if age.is_negative() {
        "in the future: the clock was set".to_owned()
    } else {
        format!("{} s ago", age.as_secs())
    };
    format!("{} ({age})", shown.strftime("%Y-%m-%d %H:%M:%S %Z"))
}
