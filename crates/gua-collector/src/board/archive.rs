//! The archive: uploads the closed days that the board lacks as gzip-compressed CSV, then the tables of collector runs and
//! GPUs. It only runs on request, and its memory use does not depend on the length of a day.

mod state;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _};
use std::ops::ControlFlow;

use gua_compat::gpu_usage_audit::{LegacyError, OldForm, OldTables};
use gua_wire::archive::{CsvWriter, Extent, Object, Plan, Table, compressed};
use gua_wire::users::UserPolicy;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::client::CallError;
use super::enrolment::Enrolled;

pub use state::{ArchiveState, Task};

/// One upload of a history to the archive of a board.
#[derive(Clone, Copy, Debug)]
pub struct Archive<'a> {
    pub enrolled: &'a Enrolled,
    pub history: &'a OldForm,
    pub users: &'a UserPolicy,
    /// The current day in UTC; earlier days are closed.
    pub today: Date,
    pub retention_days: u32,
}

/// Result of an upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Number of closed days with rows, within the retention.
    pub closed_days: usize,
    /// Number of daily files that were uploaded.
    pub uploaded: usize,
    /// Days that the board lacks and that cannot be uploaded.
    pub cut: Option<CutDays>,
}

/// Days whose ticks were partly deleted. They are left out, because a partial day must not look complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutDays {
    pub days: usize,
    /// Time of the oldest tick.
    pub raw_from: Timestamp,
}

impl Archived {
    /// One line in the wording of gpu-usage-audit, with an addition for days left out.
    pub fn summary(self, retention_days: u32) -> String {
        let mut text = format!(
            "{} closed day(s) in {retention_days}d window, uploaded {} missing object(s)",
            self.closed_days, self.uploaded
        );
        if let Some(CutDays { days, raw_from }) = self.cut {
            text.push_str(&format!(
                "; {days} day(s) left out: the history has no ticks before {raw_from}"
            ));
        }
        text
    }
}

/// Time after the end of a day before it counts as closed: its last tick may not be stored yet.
const SETTLING: SignedDuration = SignedDuration::from_mins(5);

/// The UTC day that is not closed yet.
pub fn open_day(now: Timestamp) -> Date {
    let settled = now.saturating_sub(SETTLING).unwrap_or(now);
    TimeZone::UTC.to_datetime(settled).date()
}

/// Why an upload is incomplete. Files that were uploaded are not sent again.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("cannot list the archive files of the board")]
    Listing(#[source] CallError),
    #[error("cannot upload {} of {}", .0.table, .0.extent)]
    Upload(Object, #[source] CallError),
    /// All other files were uploaded; `done` is their summary.
    #[error("the board rejected {count} file(s), first {} of {} ({done})", .first.table, .first.extent)]
    Rejected {
        count: usize,
        first: Object,
        done: String,
        source: CallError,
    },
    #[error("the board did not delete files older than {0} days")]
    Prune(u32, #[source] CallError),
    #[error("cannot read the rows for the archive")]
    Rows(#[from] LegacyError),
    #[error("cannot open the history")]
    Open(#[source] Box<gua_store::OpenError>),
    #[error("cannot write a file of the archive")]
    File(#[from] io::Error),
    #[error("stopped")]
    Stopped,
}

/// Files that the board rejected, each with its error.
type Rejected = Vec<(Object, CallError)>;

/// Whether the error concerns this file alone: too large, wrong type or invalid content.
fn is_about_the_file(error: &CallError) -> bool {
    let statuses = [400, 409, 413, 415, 422];
    matches!(error, CallError::Refused { status, .. } if statuses.contains(status))
}

/// Progress callback: gets the completed share from 0 to 1 and can stop the upload.
pub type OnProgress<'a> = &'a mut dyn FnMut(f64) -> ControlFlow<()>;

impl Archive<'_> {
    /// Uploads what the board lacks, then deletes files older than the retention there. A rejected file does not hold up
    /// the others.
    ///
    /// # Errors
    /// If rows cannot be read or a file cannot be sent. The upload then stops, except after the rejection of a single file.
    pub fn upload(&self, on_progress: OnProgress<'_>) -> Result<Archived, ArchiveError> {
        let reach = SignedDuration::from_hours(24 * i64::from(self.retention_days));
        let oldest = self.today.saturating_sub(reach);
        let days = self.history.days(oldest, self.today)?;
        let listing = self.enrolled.archives().map_err(ArchiveError::Listing)?;
        let plan = |days| Plan::new(self.today, self.retention_days, days, &listing);
        let mut archived = Archived {
            cut: cut_days(&plan(days.cut), days.raw_from),
            ..Archived::default()
        };
        let plan = plan(days.whole);
        let mut rejected = Rejected::new();
        self.send_days(&plan, &mut archived, &mut rejected, on_progress)?;
        let tables = self.history.lists(&mut |_| on_progress(1.0))?;
        for object in Plan::whole() {
            self.send(&tables, object, &mut rejected)?;
        }
        self.enrolled
            .prune_archives(self.retention_days)
            .map_err(|error| ArchiveError::Prune(self.retention_days, error))?;
        let count = rejected.len();
        match rejected.into_iter().next() {
            None => Ok(archived),
            Some((first, source)) => Err(ArchiveError::Rejected {
                count,
                first,
                done: archived.summary(self.retention_days),
                source,
            }),
        }
    }

    fn send_days(
        &self,
        plan: &Plan,
        archived: &mut Archived,
        rejected: &mut Rejected,
        on_progress: OnProgress<'_>,
    ) -> Result<(), ArchiveError> {
        let files = plan.missing.len() + Plan::whole().len();
        let mut done = 0_usize;
        archived.closed_days = plan.closed_days.len();
        for day in &plan.closed_days {
            let of_day = |object: &&Object| object.extent == Extent::Day(*day);
            let missing: Vec<Object> = plan.missing.iter().filter(of_day).copied().collect();
            if missing.is_empty() {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "the share is only displayed")]
            let share = done as f64 / files as f64;
            let tables = self.history.day(*day, &mut |_| on_progress(share))?;
            let [gpus, processes] = Table::DAILY.map(|table| tables.has_rows(table.as_str()));
            if !gpus? && !processes? {
                // Ticks without a GPU that the format can represent.
                archived.closed_days -= 1;
                done += missing.len();
                continue;
            }
            for object in missing {
                if on_progress(share).is_break() {
                    return Err(ArchiveError::Stopped);
                }
                archived.uploaded += usize::from(self.send(&tables, object, rejected)?);
                done += 1;
            }
        }
        Ok(())
    }

    /// Uploads one file; returns whether the board accepted it.
    fn send(
        &self,
        tables: &OldTables<'_>,
        object: Object,
        rejected: &mut Rejected,
    ) -> Result<bool, ArchiveError> {
        let file = compressed_table(tables, object.table, self.users)?;
        match self.enrolled.put_archive(object, &file) {
            Ok(()) => Ok(true),
            Err(error) if is_about_the_file(&error) => {
                rejected.push((object, error));
                Ok(false)
            }
            Err(error) => Err(ArchiveError::Upload(object, error)),
        }
    }
}

/// Counts the days that the board lacks and that are only partly in the history.
fn cut_days(plan: &Plan, raw_from: Option<Timestamp>) -> Option<CutDays> {
    let days: HashSet<Extent> = plan.missing.iter().map(|object| object.extent).collect();
    let days = days.len();
    let raw_from = raw_from.filter(|_| days > 0)?;
    Some(CutDays { days, raw_from })
}

/// Writes a table to an unnamed temporary file.
fn compressed_table(
    tables: &OldTables<'_>,
    table: Table,
    users: &UserPolicy,
) -> Result<File, ArchiveError> {
    let columns = tables.columns(table.as_str())?;
    // Releases before 1.0.3 had no table of runs, those before 1.1 none of GPUs.
    let header: Vec<&str> = match columns.as_slice() {
        [] => table.columns().to_vec(),
        columns => columns.iter().map(String::as_str).collect(),
    };
    let out = compressed(BufWriter::new(tempfile::tempfile()?));
    let mut csv = CsvWriter::new(out, &header, users.clone())?;
    if !columns.is_empty() {
        tables.rows(table.as_str(), &mut |row| -> Result<(), ArchiveError> {
            Ok(csv.row(row.to_vec())?)
        })?;
    }
    let buffer = csv.finish()?.finish()?;
    let mut file = buffer.into_inner().map_err(io::Error::from)?;
    file.rewind()?;
    Ok(file)
}
