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

use super::{LegacyMoment, LegacyProcess, LegacyRun, LegacyTool};
use crate::id::GpuUuid;
use crate::sample::ProcessKind;
use crate::total::GpuQuarter;

/// Maximum gap between two rows of a session.
const LONGEST_GAP: Duration = Duration::from_secs(180);

/// gpu_stats samples every few minutes: its sessions continue over one missing sample.
const LOOKS: u32 = 2;

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
    #[must_use]
    pub fn end(&self, interval: Option<Duration>) -> Timestamp {
        let covered = interval.unwrap_or(self.last_row);
        self.to.checked_add(covered).unwrap_or(self.to)
    }

    /// Returns the mean utilisation of the GPU in percent.
    #[must_use]
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
            if !self.gpus.contains_key(gpu) {
                self.gpus.insert(gpu.clone(), Vec::new());
            }
            let open = self.gpus.get_mut(gpu).expect("it was just inserted");
            for piece in pieces {
                match open.iter_mut().find(|session| session.pid == piece.pid) {
                    Some(session) if session.continues_with(piece) => session.merge(piece),
                    Some(session) => give(gpu, &std::mem::replace(session, piece.clone())),
                    None => open.push(piece.clone()),
                }
            }
        }
    }

    /// Adds the pieces of the totals of a quarter hour.
    pub fn push_quarter(
        &mut self,
        begin: Timestamp,
        gpus: &[GpuQuarter],
        give: &mut impl FnMut(&GpuUuid, &ImportedSession),
    ) {
        let pieces = gpus
            .iter()
            .map(|card| (&card.gpu, card.total.imported_sessions()));
        self.push(begin, pieces, give);
    }

    /// Emits the remaining sessions.
    pub fn finish(self, give: &mut impl FnMut(&GpuUuid, &ImportedSession)) {
        for (gpu, open) in &self.gpus {
            open.iter().for_each(|session| give(gpu, session));
        }
    }
}

/// Folds the rows of one quarter hour to pieces of sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct RowSessions {
    cards: Vec<Card>,
    /// Probable position of the next row's GPU.
    next: usize,
}

#[derive(Clone, Debug)]
struct Card {
    gpu: GpuUuid,
    /// Utilisation at this moment.
    util: Option<i64>,
    pid: Option<i64>,
    is_shared: bool,
    /// Interval that its rows cover.
    interval: Duration,
    /// Maximum gap within its sessions.
    longest_gap: Duration,
    open: Vec<ImportedSession>,
}

impl RowSessions {
    /// Adds a moment, which must come after the last one. Ended sessions are passed to `give`, in no particular order.
    pub(super) fn push(
        &mut self,
        moment: &LegacyMoment<'_>,
        give: &mut impl FnMut(&GpuUuid, ImportedSession),
    ) {
        for card in &mut self.cards {
            card.util = None;
            card.pid = None;
            card.is_shared = false;
        }
        for tick in moment.ticks {
            let card = self.card(tick.gpu);
            // Runs are not distinguished: if two saw the GPU, the later row counts.
            card.util = Some(*tick.more_rows.last().unwrap_or(&tick.util));
            card.interval = tick.run.interval;
            card.look_around(tick.processes.iter());
            if tick
                .processes
                .iter()
                .any(|row| row.tool == LegacyTool::GpuStats)
            {
                let looks = tick.run.interval.saturating_mul(LOOKS);
                card.longest_gap = card.longest_gap.max(looks);
            }
        }
        for (gpu, process) in moment.strays {
            self.card(gpu).look_around(std::iter::once(process));
        }
        for tick in moment.ticks {
            let card = self.card(tick.gpu);
            for process in tick.processes.iter().filter(|row| counts(row)) {
                card.see(moment.at, process, give);
            }
        }
        for (gpu, process) in moment.strays.iter().filter(|(_, row)| counts(row)) {
            self.card(gpu).see(moment.at, process, give);
        }
    }

    /// Emits the pieces that are still open.
    pub(super) fn drain(&mut self, give: &mut impl FnMut(&GpuUuid, ImportedSession)) {
        for card in &mut self.cards {
            for session in card.open.drain(..) {
                give(&card.gpu, session);
            }
        }
    }

    fn card(&mut self, gpu: &GpuUuid) -> &mut Card {
        let is_it = |card: &Card| card.gpu == *gpu;
        let likely = [self.next, self.next.saturating_sub(1), 0];
        let place = likely
            .into_iter()
            .find(|place| self.cards.get(*place).is_some_and(is_it))
            .or_else(|| self.cards.iter().position(is_it));
        let place = place.unwrap_or_else(|| {
            self.cards.push(Card {
                gpu: gpu.clone(),
                util: None,
                pid: None,
                is_shared: false,
                interval: LegacyRun::NONE.interval,
                longest_gap: LONGEST_GAP,
                open: Vec::new(),
            });
            self.cards.len() - 1
        });
        self.next = place + 1;
        &mut self.cards[place]
    }
}

fn counts(process: &LegacyProcess<'_>) -> bool {
    process.kind != ProcessKind::Graphics
}

impl Card {
    /// Records whether there is more than one compute process.
    fn look_around<'a>(&mut self, processes: impl Iterator<Item = &'a LegacyProcess<'a>>) {
        for process in processes.filter(|row| counts(row)) {
            self.is_shared |= self.pid.is_some_and(|other| other != process.pid);
            self.pid = Some(process.pid);
        }
    }

    fn see(
        &mut self,
        at: Timestamp,
        process: &LegacyProcess<'_>,
        give: &mut impl FnMut(&GpuUuid, ImportedSession),
    ) {
        let mut all = self.open.iter();
        let place = match all.position(|session| session.pid == process.pid) {
            Some(place) if self.open[place].is_over(at, self.longest_gap) => {
                let over = std::mem::replace(&mut self.open[place], begin(at, process.pid));
                give(&self.gpu, over);
                place
            }
            Some(place) => place,
            None => {
                self.open.push(begin(at, process.pid));
                self.open.len() - 1
            }
        };
        let session = &mut self.open[place];
        session.to = at;
        session.last_row = self.interval;
        session.longest_gap = self.longest_gap;
        session.samples += 1;
        session.index = session.index.or(process.index);
        if session.owner.is_none() {
            session.owner = process.identity.or(process.owner).map(str::to_owned);
        }
        session.has_login |= process.identity.is_some();
        if session.name.is_none() {
            session.name = process.name.map(str::to_owned);
        }
        session.peak_mb = session.peak_mb.max(process.memory_mb);
        session.shared |= self.is_shared;
        if let Some(util) = self.util {
            session.util_sum = session.util_sum.saturating_add(util);
            session.util_known += 1;
        }
    }
}

fn begin(at: Timestamp, pid: i64) -> ImportedSession {
    ImportedSession {
        pid,
        index: None,
        owner: None,
        has_login: false,
        name: None,
        from: at,
        to: at,
        last_row: Duration::ZERO,
        longest_gap: LONGEST_GAP,
        util_sum: 0,
        util_known: 0,
        peak_mb: None,
        samples: 0,
        shared: false,
    }
}

#[cfg(test)]
mod tests;
