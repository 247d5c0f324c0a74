//! What a daemon's history remembers of the cards: when each was last in use, and since when it has been as it is.
//!
//! A history that is not there, or cannot be read, costs these answers and never the command.

use std::collections::BTreeMap;
use std::path::Path;

use gua_model::period::{Period, Quarter, micros_between};
use gua_model::pick::{LastUse, note_use};
use gua_model::since::{Since, Start, whole_quarters, within};
use gua_model::{GpuUuid, RollUp, Span, Spans, Thresholds, Totals};
use gua_store::{History, ReadError};
use jiff::{SignedDuration, Timestamp};

use crate::config::Loaded;
use crate::which;

/// How far back is looked for the beginning of a state, step by step: most states are young.
const STEPS: [SignedDuration; 3] = [
    SignedDuration::from_hours(2),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(7 * 24),
];

/// A history to ask.
#[derive(Debug)]
pub struct Recorded {
    history: History,
    thresholds: Thresholds,
}

impl Recorded {
    /// The history that was named; else that of the user's running daemon, else the host's. `None` where there is none.
    #[must_use]
    pub fn open(loaded: &Loaded) -> Option<Self> {
        Self::open_at(&which::history(loaded), loaded.settings.thresholds())
    }

    /// The history at a path.
    #[must_use]
    pub(crate) fn open_at(path: &Path, thresholds: Thresholds) -> Option<Self> {
        let history = History::open(path).ok()?;
        Some(Self {
            history,
            thresholds,
        })
    }

    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// When each card was last seen in use, between `from` and `now`.
    pub fn last_use(
        &self,
        from: Timestamp,
        now: Timestamp,
        as_free: &[String],
    ) -> Result<LastUse, ReadError> {
        // A tick stands for the time after it, so the one before the window matters too.
        let before = from.saturating_sub(SignedDuration::from_mins(10));
        let spans = self.spans(Period::new(before.unwrap_or(from), now), now)?;
        let mut last_use = LastUse::new();
        note_use(&mut last_use, &spans, as_free);
        for used in last_use.values_mut() {
            *used = (*used).min(now);
        }
        Ok(last_use)
    }

    /// Since when these cards have been in these roll-ups without a break.
    pub fn since(
        &self,
        cards: &[(&GpuUuid, RollUp)],
        now: Timestamp,
    ) -> Result<BTreeMap<GpuUuid, Since>, ReadError> {
        let recent_from = Quarter(Quarter::of(now).0.saturating_sub(1))
            .period()
            .from();
        let recent = self.spans(Period::new(recent_from, now), now)?;
        let mut found = BTreeMap::new();
        let mut to_follow = Vec::new();
        for (gpu, roll_up) in cards {
            let of_card = || recent.iter().filter(|span| span.gpu == **gpu);
            let Some(since) = within(of_card(), *roll_up, now) else {
                continue;
            };
            found.insert((*gpu).clone(), since);
            // It reaches to the first tick that was read: it may be older than that.
            let first = of_card().next();
            let reaches = first.is_some_and(|first| {
                first.from == since.at
                    && !first
                        .cadence()
                        .is_missed(since.at.duration_since(recent_from).unsigned_abs())
            });
            if reaches {
                to_follow.push((*gpu, *roll_up));
            }
        }
        for (gpu, roll_up) in to_follow {
            if let Some(since) = self.follow(gpu, roll_up, recent_from)? {
                found.insert(gpu.clone(), since);
            }
        }
        Ok(found)
    }

    /// Follows a roll-up back over closed quarter hours; `until` is where one begins.
    fn follow(
        &self,
        gpu: &GpuUuid,
        roll_up: RollUp,
        until: Timestamp,
    ) -> Result<Option<Since>, ReadError> {
        let mut first = Quarter::of(until);
        for step in STEPS {
            let from = until.saturating_sub(step).unwrap_or(Timestamp::MIN);
            let from = Quarter::of(from);
            let totals = self.totals(Period::new(from.period().from(), until))?;
            first = whole_quarters(&totals, gpu, roll_up, until);
            if first > from {
                break;
            }
        }
        let begin = first.period().from();
        // It began within the quarter hour before, or with this one.
        let before = Quarter(first.0.saturating_sub(1)).period();
        let spans = self.spans(before, begin)?;
        let mut of_card = spans.iter().filter(|span| span.gpu == *gpu);
        if let Some(since) = within(of_card.clone(), roll_up, begin) {
            return Ok(Some(since));
        }
        if begin == until {
            return Ok(None);
        }
        let was_watched = of_card.next_back().is_some_and(|last| {
            !last.cadence().is_break(micros_between(last.to, begin))
                && last
                    .shares
                    .iter()
                    .any(|share| share.verdict.state.roll_up().is_some())
        });
        Ok(Some(Since {
            at: begin,
            start: match was_watched {
                true => Start::Seen,
                false => Start::AtLatest,
            },
        }))
    }

    fn totals(&self, window: Period) -> Result<Totals, ReadError> {
        Ok(self.history.totals(window)?.totals)
    }

    fn spans(&self, window: Period, now: Timestamp) -> Result<Vec<Span>, ReadError> {
        let mut fold = Spans::new(self.thresholds, BTreeMap::new());
        let mut spans = Vec::new();
        self.history.ticks::<ReadError>(window, |tick| {
            // A damaged tick is a gap.
            if let Ok(stored) = tick {
                spans.extend(fold.push(&stored.tick));
            }
            Ok(())
        })?;
        spans.extend(fold.finish(now));
        Ok(spans)
    }
}
