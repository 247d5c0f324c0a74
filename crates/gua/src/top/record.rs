//! The recorded history behind the live view: pages of the past, and since when a state goes on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use gua_model::period::Period;
use gua_model::{Thresholds, Tick};
use gua_store::{FileKind, History, ReadError, what_is_this};
use gua_tui::{Moment, Streaks, timeline::Source as Seen};
use jiff::Timestamp;

use crate::config::{Settings, Source};

/// Where the host's service keeps its history.
const SYSTEM: &str = "/var/lib/gua/gua.db";

/// How far back is looked, step by step, until something is found.
const REACH: [Duration; 4] = [
    Duration::from_hours(1),
    Duration::from_hours(24),
    Duration::from_hours(24 * 7),
    Duration::from_hours(24 * 90),
];

/// Ticks in one page.
const PAGE: usize = 240;

/// A history of ours that is there.
#[derive(Clone, Debug)]
pub(super) struct Record(PathBuf);

impl Record {
    /// The user's own history, else the host's where no other was asked for.
    pub(super) fn find(settings: &Settings) -> Option<Self> {
        let db = &settings.history.db;
        let system = (db.source == Source::Default).then(|| PathBuf::from(SYSTEM));
        let candidates = [Some(db.value.clone()), system].into_iter().flatten();
        let is_ours = |path: &PathBuf| matches!(what_is_this(path), FileKind::OurHistory { .. });
        candidates.filter(is_ours).map(Self).next()
    }

    /// The last moments before a time, in order; none where there are none.
    pub(super) fn page_before(&self, before: Timestamp) -> Vec<Moment> {
        for reach in REACH {
            let mut page = VecDeque::new();
            let read = self.ticks(before, reach, |tick| {
                if page.len() == PAGE {
                    page.pop_front();
                }
                page.push_back(Moment {
                    sample: tick.sample,
                    interval: tick.interval,
                    source: Seen::Recorded,
                });
            });
            if read.is_err() || !page.is_empty() {
                return page.into();
            }
        }
        Vec::new()
    }

    /// The states that went on at the last tick, if that was a moment ago, and the interval of those ticks.
    pub(super) fn streaks(
        &self,
        now: Timestamp,
        thresholds: Thresholds,
    ) -> Option<(Streaks, Duration)> {
        let mut best = None;
        for reach in &REACH[..3] {
            let mut streaks = Streaks::new(thresholds);
            let mut last = None;
            let read = self.ticks(now, *reach, |tick| {
                streaks.see(&tick.sample, tick.interval);
                let uuids = tick.sample.gpus.into_iter().map(|gpu| gpu.uuid);
                last = Some((tick.interval, uuids.collect::<Vec<_>>()));
            });
            let (Ok(()), Some((interval, cards))) = (read, last) else {
                break;
            };
            let is_exact = |since: gua_tui::Since| since.is_exact;
            let is_settled = cards
                .iter()
                .all(|uuid| streaks.since(uuid).is_some_and(is_exact));
            best = Some((streaks, interval));
            if is_settled {
                break;
            }
        }
        best
    }

    /// Every readable tick of the time before.
    fn ticks(
        &self,
        before: Timestamp,
        reach: Duration,
        mut each: impl FnMut(Tick),
    ) -> Result<(), ReadError> {
        let from = before.checked_sub(reach).unwrap_or(Timestamp::MIN);
        // It can be damaged or away by now; the view goes on without it.
        let Ok(history) = History::open(&self.0) else {
            return Ok(());
        };
        history.ticks(Period::new(from, before), |tick| {
            if let Ok(tick) = tick {
                each(tick.tick);
            }
            Ok(())
        })
    }
}
