//! The archive: closed days of the history that the board lacks, sent as compressed CSV, then the lists of runs and cards.
//! It runs only for those who ask for it, and needs no more memory for a long day than for a short one.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gua_store::legacy::{LegacyError, OldCell, OldForm, OldTables};
use gua_wire::archive::{CsvWriter, Extent, Object, Plan, Table, Value, compressed};
use gua_wire::users::UserPolicy;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::client::CallError;
use super::enrolment::Enrolled;
use super::link_state::LinkError;
use super::state_file;

/// What is to be archived.
#[derive(Clone, Copy, Debug)]
pub struct Archive<'a> {
    pub enrolled: &'a Enrolled,
    pub history: &'a OldForm,
    pub users: &'a UserPolicy,
    /// In UTC; days before it are closed.
    pub today: Date,
    pub retention_days: u32,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archived {
    /// Closed days with rows, within the retention.
    pub closed_days: usize,
    /// Files of days that the board lacked.
    pub uploaded: usize,
}

impl Archived {
    /// In the words of gpu-usage-audit.
    #[must_use]
    pub fn told(self, retention_days: u32) -> String {
        let Self {
            closed_days,
            uploaded,
        } = self;
        format!(
            "{closed_days} closed day(s) in {retention_days}d window, uploaded {uploaded} missing object(s)"
        )
    }
}

/// The day in UTC by which a moment is archived.
#[must_use]
pub fn utc_day(moment: Timestamp) -> Date {
    TimeZone::UTC.to_datetime(moment).date()
}

/// Why the archive is not complete. What was uploaded stays there, and is not sent again.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the board did not tell which files it has")]
    Listing(#[source] CallError),
    #[error("{} of {} was not uploaded", .0.table.name(), .0.extent)]
    Upload(Object, #[source] CallError),
    #[error("the board did not delete what is older than {0} days")]
    Prune(u32, #[source] CallError),
    #[error("the rows for the archive could not be read")]
    Rows(#[from] LegacyError),
    #[error("the history could not be opened")]
    Open(#[source] Box<gua_store::OpenError>),
    #[error("a file of the archive could not be written")]
    File(#[from] io::Error),
    #[error("stopped")]
    Stopped,
}

impl ArchiveError {
    /// Whether the board refused for good.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            ArchiveError::Listing(error)
            | ArchiveError::Upload(_, error)
            | ArchiveError::Prune(_, error) => error.may_pass(),
            _ => true,
        }
    }
}

/// Is told the share that is done, from 0 to 1, and may end the work.
pub type OnShare<'a> = &'a mut dyn FnMut(f64) -> ControlFlow<()>;

impl Archive<'_> {
    /// Sends what the board lacks, then asks it to delete what is older than the retention.
    ///
    /// # Errors
    /// When something could not be read or sent; what comes after it is not tried.
    pub fn upload(&self, on_share: OnShare<'_>) -> Result<Archived, ArchiveError> {
        let Enrolled { config, client } = self.enrolled;
        let reach = SignedDuration::from_hours(24 * i64::from(self.retention_days));
        let oldest = self.today.saturating_sub(reach);
        let days = self.history.days(oldest, self.today)?;
        let listing = client.archives(config).map_err(ArchiveError::Listing)?;
        let plan = Plan::new(self.today, self.retention_days, days, &listing);
        let files = plan.missing.len() + Plan::WHOLE.len();
        let mut done = 0_usize;
        let mut archived = Archived {
            closed_days: plan.closed_days.len(),
            uploaded: 0,
        };
        for day in plan.closed_days {
            let of_day = |object: &&Object| object.extent == Extent::Day(day);
            let missing: Vec<Object> = plan.missing.iter().filter(of_day).copied().collect();
            if missing.is_empty() {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "a share for the eye")]
            let share = done as f64 / files as f64;
            let tables = self.history.day(day, &mut |_| on_share(share))?;
            if is_empty(&tables)? {
                // Ticks without a single card that the form can hold.
                archived.closed_days -= 1;
                done += missing.len();
                continue;
            }
            for object in missing {
                if on_share(share).is_break() {
                    return Err(ArchiveError::Stopped);
                }
                self.send(&tables, object)?;
                archived.uploaded += 1;
                done += 1;
            }
        }
        let tables = self.history.lists(&mut |_| on_share(1.0))?;
        for object in Plan::WHOLE {
            self.send(&tables, object)?;
        }
        client
            .prune_archives(self.retention_days, config)
            .map_err(|error| ArchiveError::Prune(self.retention_days, error))?;
        Ok(archived)
    }

    fn send(&self, tables: &OldTables<'_>, object: Object) -> Result<(), ArchiveError> {
        let Enrolled { config, client } = self.enrolled;
        let file = packed(tables, object.table, self.users)?;
        client
            .put_archive(object, &file, config)
            .map_err(|error| ArchiveError::Upload(object, error))
    }
}

fn is_empty(tables: &OldTables<'_>) -> Result<bool, ArchiveError> {
    for table in Table::DAILY {
        if tables.has_rows(table.name())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A table as a file without a name, which is gone when it is closed.
fn packed(tables: &OldTables<'_>, table: Table, users: &UserPolicy) -> Result<File, ArchiveError> {
    let columns = tables.columns(table.name())?;
    // Releases before 1.0.3 had no runs, those before 1.1 no cards.
    let header: Vec<&str> = match columns.as_slice() {
        [] => table.columns().to_vec(),
        columns => columns.iter().map(String::as_str).collect(),
    };
    let out = compressed(BufWriter::new(tempfile::tempfile()?));
    let mut csv = CsvWriter::new(out, &header, users.clone())?;
    if !columns.is_empty() {
        tables.rows(table.name(), &mut |row| -> Result<(), ArchiveError> {
            Ok(csv.row(row.iter().map(|cell| cell.map(value)).collect())?)
        })?;
    }
    let buffer = csv.finish()?.finish()?;
    let mut file = buffer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

fn value(cell: OldCell<'_>) -> Value<'_> {
    match cell {
        OldCell::Integer(number) => Value::Integer(number),
        OldCell::Real(number) => Value::Real(number),
        OldCell::Text(text) => Value::Text(Cow::Borrowed(text)),
    }
}

/// How the archive is doing, in a small file beside the history. There is no secret in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveState {
    /// The board's address.
    pub board: String,
    /// When it was last complete.
    pub completed: Option<Timestamp>,
    /// The UTC day that was today then.
    pub day: Option<Date>,
    /// The last failure since.
    pub last_error: Option<LinkError>,
}

impl ArchiveState {
    #[must_use]
    pub fn place(history: &Path) -> PathBuf {
        state_file::beside(history, "-archive")
    }

    #[must_use]
    pub fn read(history: &Path) -> Option<Self> {
        state_file::read(&Self::place(history))
    }

    /// Removes the file, if it is there.
    pub fn forget(history: &Path) {
        let _ = std::fs::remove_file(Self::place(history));
    }

    /// Whether a board has everything that was closed on a day.
    #[must_use]
    pub fn is_done(history: &Path, board: &str, today: Date) -> bool {
        let state = Self::read(history);
        state.is_some_and(|state| state.board == board && state.day == Some(today))
    }

    /// Notes what became of an attempt. A place that takes nothing costs only the note.
    pub fn note(
        history: &Path,
        board: &str,
        now: (Timestamp, Date),
        result: &Result<Archived, ArchiveError>,
    ) {
        let (at, today) = now;
        let known = Self::read(history).filter(|state| state.board == board);
        let mut state = known.unwrap_or_else(|| Self {
            board: board.to_owned(),
            ..Self::default()
        });
        match result {
            Ok(_) => {
                state.completed = Some(at);
                state.day = Some(today);
                state.last_error = None;
            }
            Err(ArchiveError::Stopped) => return,
            Err(error) => {
                let what = gua_model::text::harmless(&crate::chain::chain(error));
                state.last_error = Some(LinkError { at, what });
            }
        }
        let _: io::Result<()> = state_file::write(&Self::place(history), &state);
    }
}
