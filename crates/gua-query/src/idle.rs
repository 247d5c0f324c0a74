//! For how long idle GPUs and their holders have been idle. The rule is in [`gua_model::idle`]; this module finds the last
//! use of each GPU, however far back it is.
//!
//! Totals are read back from the moment in growing steps, because most idle time is short. Within the quarter hour of the
//! last use, the ticks tell when it ended; where they are no longer kept, the end of the quarter hour is the bound.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::idle::{Idle, IdleGpu, idle_since};
use gua_model::since::{Since, Start};
use gua_model::{
    GpuDay, GpuQuarter, GpuUuid, LegacyMoment, Micros, Period, ProcessKey, Quarter, QuarterTotal,
    RollUp, Session, Span, State, Thresholds, Tick, UtcDay,
};
use jiff::{SignedDuration, Timestamp};

use crate::error::RecordsError;
use crate::question::IdleQuestion;
use crate::records::{Origin, QuarterVisitor, Records};
use crate::since::STEPS;

type Result<T> = std::result::Result<T, RecordsError>;

/// For how long each GPU and its holders have been idle. Empty
/// if no tick is recorded.
pub fn idle(records: &dyn Records, question: &IdleQuestion) -> Result<BTreeMap<GpuUuid, IdleGpu>> {
    let mut found = BTreeMap::new();
    let Some(last) = records.last_tick_before(Period::at(question.at).to())? else {
        return Ok(found);
    };
    if question.gpus.is_empty() {
        return Ok(found);
    }
    let wanted: BTreeSet<GpuUuid> = question.gpus.iter().cloned().collect();
    let sessions = current_sessions(records, &wanted, &last)?;
    let search = Search {
        origin: Origin::Own,
        records,
        thresholds: question.thresholds,
        at: question.at,
    };
    let mut seen = Seen::since(question.at);
    for session in &sessions {
        let first = seen.held.entry(session.key.gpu.clone());
        let first = first.or_insert(session.from);
        *first = session.from.min(*first);
    }
    let used = search.run(&wanted, seen)?;
    for gpu in wanted {
        // Nothing was observed of a GPU that appeared with the last tick.
        let used = used.get(&gpu).cloned().unwrap_or_default();
        let mut holders: Vec<(ProcessKey, Idle)> = Vec::new();
        for session in sessions.iter().filter(|session| session.key.gpu == gpu) {
            let held = arrival(records, session.from)?;
            if let Some(since) = idle_since(Some(held), used.last_use) {
                holders.push((session.key.process, used.idle(since, question.at)));
            }
        }
        holders.sort_by_key(|(process, idle)| (idle.since.at, *process));
        let longest = match holders.first() {
            Some((_, idle)) => *idle,
            None => {
                let at_least = Since {
                    at: last.sample.at.min(question.at),
                    start: Start::AtLatest,
                };
                let since = idle_since(used.held, used.last_use).unwrap_or(at_least);
                used.idle(since, question.at)
            }
        };
        found.insert(gpu, IdleGpu { longest, holders });
    }
    Ok(found)
}

/// The same for the GPUs of imported rows, whose holders have no recorded beginning: since each GPU was last active or free.
/// `seen` is what the caller has read of the time up to the moment.
pub(crate) fn idle_imported(
    records: &dyn Records,
    question: &IdleQuestion,
    mut seen: Seen,
) -> Result<BTreeMap<GpuUuid, Idle>> {
    let wanted: BTreeSet<GpuUuid> = question.gpus.iter().cloned().collect();
    let search = Search {
        origin: Origin::Imported,
        records,
        thresholds: question.thresholds,
        at: question.at,
    };
    // The moment itself is one of the rows.
    seen.from = seen.from.min(Period::at(question.at).to());
    let used = search.run(&wanted, seen)?.into_iter();
    let idle = used.filter_map(|(gpu, used)| {
        let since = idle_since(used.held, used.last_use)?;
        Some((gpu, used.idle(since, question.at)))
    });
    Ok(idle.collect())
}

/// Sessions of these GPUs that were there at a tick.
fn current_sessions(
    records: &dyn Records,
    gpus: &BTreeSet<GpuUuid>,
    tick: &Tick,
) -> Result<Vec<Session>> {
    let mut found = Vec::new();
    let thresholds = records.thresholds()?;
    records.sessions(Period::at(tick.sample.at), &mut |session: &Session| {
        if gpus.contains(&session.key.gpu) && session.is_there_at(tick, &thresholds) {
            found.push(session.clone());
        }
    })?;
    Ok(found)
}

/// Returns the arrival of a holder; it is a bound if no tick directly preceded the holder's first one.
fn arrival(records: &dyn Records, first: Timestamp) -> Result<Since> {
    let before = records.last_tick_before(first)?;
    let was_watched = before.is_some_and(|tick| {
        let elapsed = first.duration_since(tick.sample.at).unsigned_abs();
        !tick.cadence().is_missed(elapsed)
    });
    Ok(Since {
        at: first,
        start: match was_watched {
            true => Start::Seen,
            false => Start::AtLatest,
        },
    })
}

struct Search<'a> {
    origin: Origin,
    records: &'a dyn Records,
    thresholds: Thresholds,
    at: Timestamp,
}

/// Results of the search for one GPU.
#[derive(Clone, Debug, Default)]
struct Used {
    /// End of its last use.
    last_use: Option<Since>,
    /// End of the last time in which nothing held it; only for a GPU without recorded sessions.
    held: Option<Since>,
    /// Observed time by quarter hour, as far back as it was read.
    observed: BTreeMap<Quarter, Micros>,
}

impl Used {
    fn idle(&self, since: Since, now: Timestamp) -> Idle {
        let first = Quarter::of(since.at);
        let whole = Period::new(since.at, now);
        let mut observed = 0u64;
        for (quarter, time) in self.observed.range(first..) {
            let part = quarter.period().overlap(whole);
            let part = part.map_or(Micros(0), Period::micros);
            // Of the first quarter hour, the latest part counts: what precedes it is the use.
            observed = observed.saturating_add(time.0.min(part.0));
        }
        Idle {
            since,
            unobserved: Micros(whole.micros().0.saturating_sub(observed)),
        }
    }
}

impl Search<'_> {
    fn run(&self, wanted: &BTreeSet<GpuUuid>, mut seen: Seen) -> Result<BTreeMap<GpuUuid, Used>> {
        let earliest = self.earliest()?;
        // One moment does not say for how long.
        if earliest >= self.at {
            return Ok(BTreeMap::new());
        }
        seen.choose(wanted);
        // The last step reaches to the beginning of the records.
        for step in STEPS.into_iter().chain([SignedDuration::MAX]) {
            let from = self.at.checked_sub(step).unwrap_or(Timestamp::MIN);
            let from = Quarter::of(from).period().from().max(earliest);
            if from < seen.from && !seen.is_done() {
                let window = Period::new(from, seen.from);
                seen.from = from;
                let records = self.records;
                records.totals(self.origin, window, self.thresholds, &mut seen)?;
            }
        }
        let mut found = BTreeMap::new();
        for (gpu, marks) in seen.gpus {
            if marks.observed.is_empty() {
                continue;
            }
            let end = |quarter: Option<Quarter>, roll_up| {
                let quarter = quarter.map(|quarter| self.end_of(&gpu, quarter, roll_up));
                quarter.transpose()
            };
            let last_use = end(marks.active, RollUp::Active)?;
            // Only the later one counts.
            let free = marks.free.filter(|free| Some(*free) >= marks.active);
            let free = end(free, RollUp::TrulyIdle)?;
            // Where nothing precedes the hold, it is as old as what is known of the GPU.
            let known = marks.observed.keys().next().map(|first| Since {
                at: first.period().from().max(earliest).min(self.at),
                start: Start::AtLatest,
            });
            found.insert(
                gpu.clone(),
                Used {
                    last_use,
                    held: free.or(known.filter(|_| last_use.is_none())),
                    observed: marks.observed,
                },
            );
        }
        Ok(found)
    }

    /// The moment before which nothing is to be found: the first tick, or the first one kept if other thresholds than the
    /// stored ones apply.
    fn earliest(&self) -> Result<Timestamp> {
        if self.origin == Origin::Imported {
            let facts = self.records.imported_facts()?;
            let began = facts.and_then(|facts| facts.began);
            return Ok(began.unwrap_or(Timestamp::MIN));
        }
        let gpus = self.records.gpus()?;
        let first = gpus.iter().map(|gpu| gpu.first_seen).min();
        let first = first.unwrap_or(Timestamp::MIN);
        if self.records.thresholds()? == self.thresholds {
            return Ok(first);
        }
        Ok(self.records.raw_from()?.unwrap_or(first).max(first))
    }

    /// End of a state that a quarter hour contains.
    fn end_of(&self, gpu: &GpuUuid, quarter: Quarter, roll_up: RollUp) -> Result<Since> {
        let period = quarter.period();
        let mut last = None;
        match self.origin {
            Origin::Own => {
                let raw_from = self.records.raw_from()?;
                if raw_from.is_none_or(|from| from <= period.from()) {
                    self.records
                        .spans(period, self.thresholds, &mut |span: &Span| {
                            if span.gpu == *gpu && span.has(roll_up) {
                                last = last.max(Some(span.to));
                            }
                        })?;
                }
            }
            Origin::Imported => {
                self.records
                    .imported_moments(period, &mut |moment: &LegacyMoment<'_>| {
                        for tick in moment.ticks.iter().filter(|tick| tick.gpu == gpu) {
                            if tick.class(&self.thresholds) == roll_up {
                                let end = tick.at.checked_add(tick.run.interval);
                                last = last.max(Some(end.unwrap_or(tick.at)));
                            }
                        }
                    })?;
            }
        }
        Ok(match last {
            Some(end) => Since {
                at: end.min(self.at),
                start: Start::Seen,
            },
            None => Since {
                at: period.to().min(self.at),
                start: Start::AtLatest,
            },
        })
    }
}

/// The last quarter hours with a use of each GPU, as far back as totals were read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The moment since which totals were read.
    from: Timestamp,
    gpus: BTreeMap<GpuUuid, Marks>,
    /// Arrival of the oldest current holder of each GPU; absent for holders without a session.
    held: BTreeMap<GpuUuid, Timestamp>,
}

#[derive(Clone, Debug, Default)]
struct Marks {
    active: Option<Quarter>,
    free: Option<Quarter>,
    /// Observed time, from the later mark on.
    observed: BTreeMap<Quarter, Micros>,
}

impl Seen {
    /// Begins at a moment.
    pub(crate) fn since(from: Timestamp) -> Self {
        Self {
            from,
            gpus: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// Begins with the first whole quarter hour of a window.
    pub(crate) fn within(window: Period) -> Self {
        let first = Quarter::of(window.from()).period();
        Self::since(match first.from() == window.from() {
            true => first.from(),
            false => first.to(),
        })
    }

    fn choose(&mut self, wanted: &BTreeSet<GpuUuid>) {
        self.gpus.retain(|gpu, _| wanted.contains(gpu));
        for gpu in wanted {
            self.gpus.entry(gpu.clone()).or_default();
        }
    }

    /// Whether nothing earlier can change the answer.
    fn is_done(&self) -> bool {
        self.gpus.iter().all(|(gpu, marks)| {
            let is_bounded = match self.held.get(gpu) {
                Some(came) => *came >= self.from,
                None => marks.free.is_some(),
            };
            marks.active.is_some() || is_bounded
        })
    }

    /// Adds a quarter hour that a reader came to, which reads all totals in order of time.
    pub(crate) fn follow(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        if quarter.period().from() < self.from {
            return;
        }
        for gpu in gpus {
            let marks = self.gpus.entry(gpu.gpu.clone()).or_default();
            marks.note(quarter, &Observed::of(&gpu.total), true);
        }
    }

    fn note(&mut self, gpu: &GpuUuid, quarter: Quarter, seen: &Observed) {
        let needs_free = !self.held.contains_key(gpu);
        if let Some(marks) = self.gpus.get_mut(gpu) {
            marks.note(quarter, seen, needs_free);
        }
    }
}

impl Marks {
    fn note(&mut self, quarter: Quarter, seen: &Observed, needs_free: bool) {
        let free = seen.free && needs_free;
        // A visit may start over, so nothing is added up.
        if seen.observed > Micros(0) {
            self.observed.insert(quarter, seen.observed);
            if seen.active || free {
                self.observed = self.observed.split_off(&quarter);
            }
        }
        // Later steps go further back in time.
        if seen.active {
            self.active = self.active.max(Some(quarter));
        }
        if free {
            self.free = self.free.max(Some(quarter));
        }
    }
}

struct Observed {
    observed: Micros,
    active: bool,
    free: bool,
}

impl Observed {
    fn of(total: &QuarterTotal) -> Self {
        let missing = total.states.iter();
        let missing = missing.filter(|((state, _), _)| *state == State::Unobserved);
        let missing: Micros = missing.map(|(_, time)| time.micros).sum();
        let present = match &total.imported {
            Some(part) => part.row_time,
            None => total.gpu.present,
        };
        Self {
            observed: Micros(present.0.saturating_sub(missing.0)),
            active: total.time_in(RollUp::Active) > Micros(0),
            free: total.time_in(RollUp::TrulyIdle) > Micros(0),
        }
    }
}

impl QuarterVisitor for Seen {
    fn begin(&mut self, _: Period) {}

    fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        for gpu in gpus {
            self.note(&gpu.gpu, quarter, &Observed::of(&gpu.total));
        }
    }

    fn day(&mut self, day: UtcDay, gpus: &[GpuDay]) -> bool {
        // The sums of a day do not say in which of its quarter hours the GPU was free, and those of an instance count
        // slices instead of time.
        let hides = |gpu: &GpuDay| {
            let needs_free = !self.held.contains_key(&gpu.gpu);
            let is_part = gpu.total.gpu.set_aside > Micros(0);
            let hides = is_part || (needs_free && Observed::of(&gpu.total).free);
            hides && self.gpus.contains_key(&gpu.gpu)
        };
        if gpus.iter().any(hides) {
            return false;
        }
        for gpu in gpus {
            for (quarter, seen) in day.quarters().zip(&gpu.quarters) {
                let seen = Observed {
                    observed: seen.observed,
                    active: seen.active > Micros(0),
                    free: false,
                };
                self.note(&gpu.gpu, quarter, &seen);
            }
        }
        true
    }
}
