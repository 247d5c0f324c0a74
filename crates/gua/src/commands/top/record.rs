//! History behind the live view: pages of past ticks, and the start times of current states.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use gua_collector::location;
use gua_model::period::Period;
use gua_model::since::Since;
use gua_model::{GpuUuid, Sample, Thresholds, Tick, classify};
use gua_query::{SinceQuestion, Source as _};
use gua_store::{FileKind, History, ReadError, what_is_this};
use gua_tui::Moment;
use gua_tui::timeline::Source as Seen;
use jiff::Timestamp;

use crate::context::Context;

/// Time ranges that are searched one after another until ticks are found.
const REACH: [Duration; 4] = [
    Duration::from_hours(1),
    Duration::from_hours(24),
    Duration::from_hours(24 * 7),
    Duration::from_hours(24 * 90),
];

/// Ticks in one page.
const PAGE: usize = 240;

/// An existing history of gua.
#[derive(Clone, Debug)]
pub(super) struct Record {
    path: PathBuf,
    thresholds: Thresholds,
}

impl Record {
    /// Finds the configured history, else that of the running daemon, else the host's.
    pub(super) fn find(context: &Context) -> Option<Self> {
        let path = context.history();
        let is_ours = matches!(what_is_this(&path), FileKind::OurHistory { .. });
        is_ours.then(|| Self {
            path,
            thresholds: context.settings().thresholds(),
        })
    }

    /// Last moments before a time, in chronological order; may be empty.
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

    /// Start times of the states of the GPUs in a sample; empty if unknown.
    pub(super) fn since(&self, sample: &Sample) -> BTreeMap<GpuUuid, Since> {
        let roll_ups = sample.gpus.iter().filter_map(|gpu| {
            let state = classify(gpu, &self.thresholds, None).state;
            Some((gpu.uuid.clone(), state.roll_up()?))
        });
        let question = SinceQuestion {
            gpus: roll_ups.collect(),
            thresholds: self.thresholds,
            now: sample.at,
        };
        let source = location::source_at(self.path.clone());
        source.since(&question).unwrap_or_default()
    }

    /// All readable ticks of a time range before a time.
    fn ticks(
        &self,
        before: Timestamp,
        reach: Duration,
        mut each: impl FnMut(Tick),
    ) -> Result<(), ReadError> {
        let from = before.checked_sub(reach).unwrap_or(Timestamp::MIN);
        // The file may be damaged or deleted by now; the view continues without it.
        let Ok(history) = History::open(&self.path) else {
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
