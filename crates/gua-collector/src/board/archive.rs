//! The archive: closed days of the history that the board lacks, sent as compressed CSV, then the lists of runs and cards.
//! It runs only for those who ask for it, and needs no more memory for a long day than for a short one.

mod state;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _};
use std::ops::ControlFlow;

use gua_compat::gpu_usage_audit::{LegacyError, OldCell, OldForm, OldTables};
use gua_wire::archive::{CsvWriter, Extent, Object, Plan, Table, Value, compressed};
use gua_wire::users::UserPolicy;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::client::CallError;
use super::enrolment::Enrolled;

pub use state::{ArchiveState, Task};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Closed days with rows, within the retention.
    pub closed_days: usize,
    /// Files of days that the board lacked.
    pub uploaded: usize,
    /// Days that the board lacks and cannot have.
    pub cut: Option<CutDays>,
}

/// Days of which ticks are gone: half a day must not pass for a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutDays {
    pub days: usize,
    /// From when on there are ticks.
    pub raw_from: Timestamp,
}

impl Archived {
    /// In the words of gpu-usage-audit, and a sentence for what it does not know.
    #[must_use]
    pub fn told(self, retention_days: u32) -> String {
        let Self {
            closed_days,
            uploaded,
            cut,
        } = self;
        let mut text = format!(
            "{closed_days} closed day(s) in {retention_days}d window, uploaded {uploaded} missing object(s)"
        );
        if let Some(CutDays { days, raw_from }) = cut {
            text.push_str(&format!(
                "; {days} day(s) left out, since the history keeps no ticks from before {raw_from}"
            ));
        }
        text
    }
}

/// A day is left alone for so long after its end: its last tick may still be on its way to the disk.
const SETTLING: SignedDuration = SignedDuration::from_mins(5);

/// The day in UTC that is today for the archive: those before it are closed.
#[must_use]
pub fn open_day(now: Timestamp) -> Date {
    let settled = now.saturating_sub(SETTLING).unwrap_or(now);
    TimeZone::UTC.to_datetime(settled).date()
}

/// Why the archive is not complete. What was uploaded stays there, and is not sent again.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the board did not tell which files it has")]
    Listing(#[source] CallError),
    #[error("{} of {} was not uploaded", .0.table.name(), .0.extent)]
    Upload(Object, #[source] CallError),
    #[error(transparent)]
    Refused(Box<RefusedFiles>),
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

/// The rest is done.
#[derive(Debug, thiserror::Error)]
#[error(
    "the board did not take {count} file(s), the first of them {} of {} ({done})",
    .first.table.name(), .first.extent
)]
pub struct RefusedFiles {
    count: usize,
    first: Object,
    /// What was done all the same.
    done: String,
    source: CallError,
}

/// Files that the board did not take for what they are.
#[derive(Debug, Default)]
struct Refusals {
    count: usize,
    first: Option<(Object, CallError)>,
}

impl Refusals {
    /// Keeps what the board says of one file; what it says of everything is an error.
    fn keep(&mut self, sent: Result<(), ArchiveError>) -> Result<bool, ArchiveError> {
        match sent {
            Ok(()) => Ok(true),
            Err(ArchiveError::Upload(object, error)) if is_about_the_file(&error) => {
                self.count += 1;
                self.first.get_or_insert((object, error));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Too large, of a wrong kind or with something wrong in it. The next file may be taken.
fn is_about_the_file(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Refused {
            status: 400 | 409 | 413 | 415 | 422,
            ..
        }
    )
}

/// Is told the share that is done, from 0 to 1, and may end the work.
pub type OnShare<'a> = &'a mut dyn FnMut(f64) -> ControlFlow<()>;

impl Archive<'_> {
    /// Sends what the board lacks, then asks it to delete what is older than the retention. A file that the board does not
    /// take leaves the others their turn.
    ///
    /// # Errors
    /// When something could not be read or sent; what comes after it is not tried, unless the board refused that one file.
    pub fn upload(&self, on_share: OnShare<'_>) -> Result<Archived, ArchiveError> {
        let Enrolled { config, client } = self.enrolled;
        let reach = SignedDuration::from_hours(24 * i64::from(self.retention_days));
        let oldest = self.today.saturating_sub(reach);
        let days = self.history.days(oldest, self.today)?;
        let listing = client.archives(config).map_err(ArchiveError::Listing)?;
        let plan = |days| Plan::new(self.today, self.retention_days, days, &listing);
        let mut archived = Archived {
            cut: cut_days(&plan(days.cut), days.raw_from),
            ..Archived::default()
        };
        let plan = plan(days.whole);
        let mut refusals = Refusals::default();
        self.send_days(&plan, &mut archived, &mut refusals, on_share)?;
        let tables = self.history.lists(&mut |_| on_share(1.0))?;
        for object in Plan::WHOLE {
            refusals.keep(self.send(&tables, object))?;
        }
        client
            .prune_archives(self.retention_days, config)
            .map_err(|error| ArchiveError::Prune(self.retention_days, error))?;
        match refusals.first {
            None => Ok(archived),
            Some((first, source)) => Err(ArchiveError::Refused(Box::new(RefusedFiles {
                count: refusals.count,
                first,
                done: archived.told(self.retention_days),
                source,
            }))),
        }
    }

    fn send_days(
        &self,
        plan: &Plan,
        archived: &mut Archived,
        refusals: &mut Refusals,
        on_share: OnShare<'_>,
    ) -> Result<(), ArchiveError> {
        let files = plan.missing.len() + Plan::WHOLE.len();
        let mut done = 0_usize;
        archived.closed_days = plan.closed_days.len();
        for day in &plan.closed_days {
            let of_day = |object: &&Object| object.extent == Extent::Day(*day);
            let missing: Vec<Object> = plan.missing.iter().filter(of_day).copied().collect();
            if missing.is_empty() {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "a share for the eye")]
            let share = done as f64 / files as f64;
            let tables = self.history.day(*day, &mut |_| on_share(share))?;
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
                if refusals.keep(self.send(&tables, object))? {
                    archived.uploaded += 1;
                }
                done += 1;
            }
        }
        Ok(())
    }

    fn send(&self, tables: &OldTables<'_>, object: Object) -> Result<(), ArchiveError> {
        let Enrolled { config, client } = self.enrolled;
        let file = packed(tables, object.table, self.users)?;
        client
            .put_archive(object, &file, config)
            .map_err(|error| ArchiveError::Upload(object, error))
    }
}

/// Those that the board lacks, of days that cannot be sent whole.
fn cut_days(plan: &Plan, raw_from: Option<Timestamp>) -> Option<CutDays> {
    let lacks = |day: &&Date| {
        plan.missing
            .iter()
            .any(|object| object.extent == Extent::Day(**day))
    };
    let days = plan.closed_days.iter().filter(lacks).count();
    let raw_from = raw_from.filter(|_| days > 0)?;
    Some(CutDays { days, raw_from })
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
