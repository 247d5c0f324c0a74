//! What a daemon's history remembers of the cards: when each was last in use, and since when it has been as it is.
//!
//! A history that is not there, or cannot be read, costs these answers and never the command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_collector::managed::{Maker, Occupant, occupant};
use gua_collector::pid_file::PidFile;
use gua_model::period::{Period, Quarter};
use gua_model::pick::{LastUse, note_use};
use gua_model::since::{Since, Start, whole_quarters, within};
use gua_model::{GpuUuid, RollUp, Span, Spans, Thresholds, Totals};
use gua_store::{FileKind, History, ReadError, what_is_this};
use jiff::{SignedDuration, Timestamp};

use crate::config::{Loaded, Source};

/// Where the service keeps the host's history.
const OF_THE_HOST: &str = "/var/lib/gua/gua.db";

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
        Self::open_at(&path(loaded)?, loaded.settings.thresholds())
    }

    /// The history at a path that [`path`] gave.
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
                let length = first.to.duration_since(first.from);
                first.from == since.at && since.at.duration_since(recent_from) <= length + LATE
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
            begin.duration_since(last.to) <= LATE
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

/// Ticks come a little late.
const LATE: SignedDuration = SignedDuration::from_secs(2);

/// Where it is: as for [`Recorded::open`].
pub(crate) fn path(loaded: &Loaded) -> Option<PathBuf> {
    let db = &loaded.settings.history.db;
    let is_history = |path: &Path| matches!(what_is_this(path), FileKind::OurHistory { .. });
    if matches!(db.source, Source::Flag(_)) {
        return Some(db.value.clone());
    }
    let own = of_own_daemon(loaded).or_else(|| {
        // A daemon in the foreground has no pid file; its ticks tell.
        is_fresh(&db.value).then(|| db.value.clone())
    });
    let host = Path::new(OF_THE_HOST);
    own.or_else(|| is_history(host).then(|| host.to_owned()))
}

fn of_own_daemon(loaded: &Loaded) -> Option<PathBuf> {
    let pid_file = PidFile::at(&loaded.settings.collect.pid_file.value);
    let Occupant::Managed(managed) = occupant(pid_file.read()?, &pid_file) else {
        return None;
    };
    if managed.maker != Maker::Ours {
        return None;
    }
    let mut words = managed.arguments.iter().skip_while(|word| *word != "--db");
    words.nth(1).map(PathBuf::from)
}

/// Whether a file was written lately: its journal is, with every tick.
fn is_fresh(path: &Path) -> bool {
    const LATELY: Duration = Duration::from_secs(600);
    let mut journal = path.as_os_str().to_owned();
    journal.push("-wal");
    let changed = std::fs::metadata(&journal).and_then(|facts| facts.modified());
    let now = std::time::SystemTime::from(gua_probe::clock::now());
    changed.is_ok_and(|changed| now.duration_since(changed).is_ok_and(|age| age < LATELY))
}
