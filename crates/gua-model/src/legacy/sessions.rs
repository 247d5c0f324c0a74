//! Sessions from old rows, by the rule of the tool that wrote them: the compute rows of one PID on one GPU are one
//! session until it has not been seen for more than three minutes, or for two samples of gpu_stats.
//!
//! An old row does not contain the start time of its process, so a PID that was reused soon cannot be distinguished.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{LegacyMoment, LegacyProcess, LegacyRun, LegacyTool};
use crate::id::GpuUuid;
use crate::sample::ProcessKind;

/// Maximum gap between two rows of a session.
const LONGEST_GAP: SignedDuration = SignedDuration::from_secs(180);

/// gpu_stats samples every few minutes: its sessions continue over one missing sample.
const LOOKS: u32 = 2;

/// Session of one PID on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacySession {
    pub gpu: GpuUuid,
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
    pub from: Timestamp,
    pub to: Timestamp,
    /// Recorded interval that the last row covers.
    pub last_row: Duration,
    /// Sum of the GPU's utilisation at the moments of its rows, and the number of moments at which it was known.
    pub util_sum: i64,
    pub util_known: u64,
    pub peak_mb: Option<u64>,
    pub samples: u64,
    /// Whether other compute processes were on the GPU at some of these moments.
    pub shared: bool,
}

impl LegacySession {
    /// Returns its end: the last row covers `interval`, or the recorded interval if that is `None`.
    #[must_use]
    pub fn end(&self, interval: Option<Duration>) -> Timestamp {
        let stands_for = SignedDuration::try_from(interval.unwrap_or(self.last_row));
        let end = stands_for.map(|stands_for| self.to.checked_add(stands_for));
        end.map_or(self.to, |end| end.unwrap_or(self.to))
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
}

/// Folds old rows to sessions. It keeps the sessions that may still continue.
#[derive(Clone, Debug, Default)]
pub struct LegacySessions {
    cards: Vec<Card>,
    /// Probable position of the next row's GPU.
    next: usize,
    /// Time of the last search for ended sessions.
    swept: Option<Timestamp>,
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
    longest_gap: SignedDuration,
    open: Vec<LegacySession>,
}

impl LegacySessions {
    /// Adds a moment, which must come after the last one. Ended sessions are passed to `give`, in no particular order.
    pub fn push(&mut self, moment: &LegacyMoment<'_>, give: &mut impl FnMut(LegacySession)) {
        self.sweep(moment.at, give);
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
                let looks = SignedDuration::try_from(looks).unwrap_or(LONGEST_GAP);
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

    /// Emits the remaining sessions.
    pub fn finish(self, give: &mut impl FnMut(LegacySession)) {
        self.cards
            .into_iter()
            .flat_map(|card| card.open)
            .for_each(give);
    }

    /// Emits sessions that can no longer continue. Running it occasionally is enough.
    fn sweep(&mut self, now: Timestamp, give: &mut impl FnMut(LegacySession)) {
        if self
            .swept
            .is_some_and(|swept| now.duration_since(swept) <= LONGEST_GAP)
        {
            return;
        }
        self.swept = Some(now);
        for card in &mut self.cards {
            card.open
                .extract_if(.., |session| is_over(session, now, card.longest_gap))
                .for_each(&mut *give);
        }
        self.cards.retain(|card| !card.open.is_empty());
        self.next = 0;
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

fn is_over(session: &LegacySession, now: Timestamp, longest_gap: SignedDuration) -> bool {
    now.duration_since(session.to) > longest_gap
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
        give: &mut impl FnMut(LegacySession),
    ) {
        let mut all = self.open.iter();
        let place = match all.position(|session| session.pid == process.pid) {
            Some(place) if is_over(&self.open[place], at, self.longest_gap) => {
                let over = std::mem::replace(&mut self.open[place], begin(&self.gpu, at, process));
                give(over);
                place
            }
            Some(place) => place,
            None => {
                self.open.push(begin(&self.gpu, at, process));
                self.open.len() - 1
            }
        };
        let session = &mut self.open[place];
        session.to = at;
        session.last_row = self.interval;
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

fn begin(gpu: &GpuUuid, at: Timestamp, process: &LegacyProcess<'_>) -> LegacySession {
    LegacySession {
        gpu: gpu.clone(),
        pid: process.pid,
        index: None,
        owner: None,
        has_login: false,
        name: None,
        from: at,
        to: at,
        last_row: Duration::ZERO,
        util_sum: 0,
        util_known: 0,
        peak_mb: None,
        samples: 0,
        shared: false,
    }
}

#[cfg(test)]
mod tests;
