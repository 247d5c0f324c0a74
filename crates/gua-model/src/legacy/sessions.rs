//! Sessions from imported rows, by the rule of the tool that wrote them: the compute rows of one PID on one GPU are one
//! session until it has not been seen for more than three minutes, or for two samples of gpu_stats.
//!
//! A session is stored in pieces, one for each quarter hour, so that a window has exactly the rows inside it.
//! [`OpenSessions`] joins the pieces. An imported row does not contain the start time of its process, so a PID that was
//! reused soon cannot be distinguished.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::fmt::serde::timestamp::microsecond::required as micros;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{LegacyGpuTick, LegacyProcess, LegacyRun, LegacyTool};
use crate::id::GpuUuid;
use crate::lookup::entry;

/// Maximum gap between two rows of a session.
const MAX_GAP: Duration = Duration::from_secs(180);

/// Maximum gap in intervals. gpu_stats samples every few minutes: its sessions continue over one missing sample.
const MAX_INTERVALS: u32 = 2;

/// Session of one PID on one GPU, or a piece of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedSession {
    pub pid: i64,
    /// First known index of the GPU.
    pub index: Option<i64>,
    /// First known login user, or else first known user that the process ran as.
    pub owner: Option<String>,
    /// Whether any row had a login user.
    pub has_login: bool,
    /// First known name.
    pub name: Option<String>,
    /// Times of its first and its last row.
    #[serde(with = "micros")]
    pub from: Timestamp,
    #[serde(with = "micros")]
    pub to: Timestamp,
    /// Recorded interval that the last row covers.
    pub last_row: Duration,
    /// Maximum time to the next row of the session.
    longest_gap: Duration,
    /// Sum of the GPU's utilisation at the moments of its rows, and the number of moments at which it was known.
    pub util_sum: i64,
    pub util_known: u64,
    pub peak_mb: Option<u64>,
    pub samples: u64,
    /// Whether other compute processes were on the GPU at some of these moments.
    pub shared: bool,
}

impl ImportedSession {
    /// Returns its end: the last row covers `interval`, or the recorded interval if that is `None`.
    pub fn end(&self, interval: Option<Duration>) -> Timestamp {
        let covered = interval.unwrap_or(self.last_row);
        self.to.checked_add(covered).unwrap_or(self.to)
    }

    /// Returns the mean utilisation of the GPU in percent.
    pub fn util(&self) -> Option<f64> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "sums of percentages stay far below 2^52"
        )]
        (self.util_known > 0).then(|| self.util_sum as f64 / self.util_known as f64)
    }

    fn is_over(&self, now: Timestamp, longest_gap: Duration) -> bool {
        now.duration_since(self.to)
            > SignedDuration::try_from(longest_gap).unwrap_or(SignedDuration::MAX)
    }

    /// Reports whether a later piece of the same PID belongs to this session.
    pub(super) fn continues_with(&self, later: &Self) -> bool {
        !self.is_over(later.from, self.longest_gap.max(later.longest_gap))
    }

    /// Adds a later piece.
    pub(super) fn merge(&mut self, later: &Self) {
        self.to = later.to;
        self.last_row = later.last_row;
        self.longest_gap = self.longest_gap.max(later.longest_gap);
        self.index = self.index.or(later.index);
        if self.owner.is_none() {
            self.owner.clone_from(&later.owner);
        }
        self.has_login |= later.has_login;
        if self.name.is_none() {
            self.name.clone_from(&later.name);
        }
        self.util_sum = self.util_sum.saturating_add(later.util_sum);
        self.util_known += later.util_known;
        self.peak_mb = self.peak_mb.max(later.peak_mb);
        self.samples += later.samples;
        self.shared |= later.shared;
    }
}

/// Joins pieces to sessions. It keeps the sessions that may still continue.
#[derive(Clone, Debug, Default)]
pub struct OpenSessions {
    gpus: BTreeMap<GpuUuid, Vec<ImportedSession>>,
}

impl OpenSessions {
    /// Adds the pieces of a quarter hour or a day, which must not come before the last one. Ended sessions are passed to
    /// `give`, in no particular order.
    pub fn push<'a>(
        &mut self,
        begin: Timestamp,
        pieces: impl Iterator<Item = (&'a GpuUuid, &'a [ImportedSession])>,
        give: &mut impl FnMut(&GpuUuid, &ImportedSession),
    ) {
        for (gpu, open) in &mut self.gpus {
            let over = |session: &mut ImportedSession| session.is_over(begin, session.longest_gap);
            open.extract_if(.., over)
                .for_each(|session| give(gpu, &session));
        }
        for (gpu, pieces) in pieces.filter(|(_, pieces)| !pieces.is_empty()) {
            let open = entry(&mut self.gpus, gpu);
            for piece in pieces {
                join(open, piece.clone(), |ended| give(gpu, &ended));
            }
        }
    }

    /// Emits the remaining sessions.
    pub fn finish(self, give: &mut impl FnMut(&GpuUuid, &ImportedSession)) {
        for (gpu, open) in &self.gpus {
            open.iter().for_each(|session| give(gpu, session));
        }
    }
}

/// Adds a piece to the open sessions of a GPU, and returns the session that it belongs to. A session of the same PID that it
/// does not continue has ended, and is passed to `give`.
fn join(
    open: &mut Vec<ImportedSession>,
    piece: ImportedSession,
    give: impl FnOnce(ImportedSession),
) -> &mut ImportedSession {
    let known = open.iter().position(|session| session.pid == piece.pid);
    match known {
        Some(place) if open[place].continues_with(&piece) => open[place].merge(&piece),
        Some(place) => give(std::mem::replace(&mut open[place], piece)),
        None => open.push(piece),
    }
    let last = open.len() - 1;
    &mut open[known.unwrap_or(last)]
}

/// Folds the rows of one GPU in one quarter hour to pieces of sessions. At each moment, all rows are noted before the first one
/// is added.
#[derive(Clone, Debug, Default)]
pub(super) struct GpuRows {
    /// Utilisation at this moment.
    util: Option<i64>,
    /// A compute process at this moment, and whether there are others.
    pid: Option<i64>,
    is_shared: bool,
    /// Interval that each of its rows covers; `None` if it is unknown.
    interval: Option<Duration>,
    /// Maximum gap within its sessions, where that is longer than usual.
    longest_gap: Duration,
    open: Vec<ImportedSession>,
}

impl GpuRows {
    /// Begins a moment, which must come after the last one.
    pub(super) fn begin(&mut self) {
        self.util = None;
        self.pid = None;
        self.is_shared = false;
    }

    /// Notes the tick of the GPU and its processes.
    pub(super) fn note_tick(&mut self, tick: &LegacyGpuTick<'_>) {
        // Runs are not distinguished: if two saw the GPU, the later row counts.
        self.util = Some(*tick.more_rows.last().unwrap_or(&tick.util));
        self.interval = Some(tick.run.interval);
        let mut rows = tick.processes.iter();
        if rows.any(|row| row.tool == LegacyTool::GpuStats) {
            let longest = tick.run.interval.saturating_mul(MAX_INTERVALS);
            self.longest_gap = self.longest_gap.max(longest);
        }
        tick.processes.iter().for_each(|row| self.note(row));
    }

    /// Notes a process.
    pub(super) fn note(&mut self, row: &LegacyProcess<'_>) {
        if row.kind.computes() {
            self.is_shared |= self.pid.is_some_and(|other| other != row.pid);
            self.pid = Some(row.pid);
        }
    }

    /// Adds a process. A session that has ended is passed to `give`.
    pub(super) fn see(
        &mut self,
        at: Timestamp,
        row: &LegacyProcess<'_>,
        give: impl FnOnce(ImportedSession),
    ) {
        if !row.kind.computes() {
            return;
        }
        let piece = ImportedSession {
            pid: row.pid,
            index: row.index,
            owner: None,
            has_login: row.identity.is_some(),
            name: None,
            from: at,
            to: at,
            last_row: self.interval.unwrap_or(LegacyRun::NONE.interval),
            longest_gap: self.longest_gap.max(MAX_GAP),
            util_sum: self.util.unwrap_or(0),
            util_known: self.util.is_some().into(),
            peak_mb: row.memory_mb,
            samples: 1,
            shared: self.is_shared,
        };
        // Names are copied only if the session has none yet.
        let session = join(&mut self.open, piece, give);
        if session.owner.is_none() {
            session.owner = row.identity.or(row.owner).map(str::to_owned);
        }
        if session.name.is_none() {
            session.name = row.name.map(str::to_owned);
        }
    }

    /// Removes and returns the pieces that are still open.
    pub(super) fn take(&mut self) -> Vec<ImportedSession> {
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests;
