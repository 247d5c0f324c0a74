//! History behind the live view: pages of past ticks, and the start times of current states.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_collector::{listing, location};
use gua_model::period::Period;
use gua_model::since::Since;
use gua_model::{GpuUuid, Sample, Tick};
use gua_query::{Source, TicksQuestion};
use gua_render::listing::row::Terms;
use gua_settings::Settings;
use gua_store::{FileKind, what_is_this};
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
const PAGE: u32 = 240;

/// An existing history of gua.
#[derive(Clone, Debug)]
pub(super) struct Record {
    path: PathBuf,
    settings: Settings,
}

impl Record {
    /// Finds the configured history, else that of the running daemon, else the host's.
    pub(super) fn find(context: &Context) -> Option<Self> {
        let path = context.history();
        let settings = context.settings().clone();
        let is_there = location::service(&path, &settings).is_some()
            || matches!(what_is_this(&path), FileKind::OurHistory { .. });
        is_there.then_some(Self { path, settings })
    }

    /// The history at a path.
    pub(super) fn at(path: &Path, context: &Context) -> Self {
        Self {
            path: path.to_owned(),
            settings: context.settings().clone(),
        }
    }

    fn source(&self) -> Box<dyn Source> {
        location::source_at(&self.path, &self.settings)
    }

    /// Last moments before a time, in chronological order; may be empty.
    pub(super) fn page_before(&self, before: Timestamp) -> Vec<Moment> {
        for reach in REACH {
            let from = before.checked_sub(reach).unwrap_or(Timestamp::MIN);
            let question = TicksQuestion {
                window: Period::new(from, before),
                limit: PAGE,
            };
            // The file may be damaged or deleted by now; the view continues without it.
            let Ok(page) = self.source().ticks(&question) else {
                return Vec::new();
            };
            if page.is_empty() {
                continue;
            }
            let moment = |tick: Tick| Moment {
                sample: tick.sample,
                interval: tick.interval,
                source: Seen::Recorded,
            };
            return page.into_iter().map(moment).collect();
        }
        Vec::new()
    }

    /// Start times of the states of the GPUs in a sample; empty if unknown.
    pub(super) fn since(&self, sample: &Sample, ticks_per_second: u64) -> BTreeMap<GpuUuid, Since> {
        let terms = Terms {
            thresholds: self.settings.thresholds(),
            ticks_per_second,
        };
        listing::start_times(self.source().as_ref(), sample, &terms)
    }
}
