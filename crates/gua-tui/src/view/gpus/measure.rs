//! The quantities in a GPU's graphs, as shares, now and over time.

use gua_model::Gpu;
use ratatui::style::Style;

use super::GpuView;
use crate::spark::spark;

/// A quantity that is drawn over time.
#[derive(Clone, Copy)]
pub(super) enum Measure {
    Util,
    Memory,
    Power,
    Temperature,
}

/// Range of the temperature graph, in degrees.
const COOLEST: f64 = 20.0;
const HOTTEST: f64 = 100.0;

impl GpuView<'_> {
    pub(super) fn measure_style(&self, measure: Measure) -> Style {
        let share = value_of(self.gpu, measure, None);
        share.map_or(self.styles.dim(), |share| self.styles.load(share))
    }

    pub(super) fn line_of(&self, measure: Measure, room: usize) -> String {
        spark(&self.history(measure, room), 1)
            .pop()
            .unwrap_or_default()
    }

    /// Returns the values over time as shares, with gaps where the GPU was not read.
    pub(super) fn history(&self, measure: Measure, room: usize) -> Vec<Option<f64>> {
        let columns = self.app.timeline.columns(self.index, room);
        let seen = columns.iter().map(|column| {
            let sample = &self.app.timeline.get((*column)?)?.sample;
            sample.gpus.iter().find(|gpu| gpu.uuid == self.gpu.uuid)
        });
        let seen: Vec<Option<&Gpu>> = seen.collect();
        // Without a limit the scale is the highest power so far.
        let most = seen
            .iter()
            .flatten()
            .filter_map(|gpu| gpu.power.ok())
            .map(|power| power.0)
            .max();
        seen.into_iter()
            .map(|gpu| gpu.and_then(|gpu| value_of(gpu, measure, most)))
            .collect()
    }
}

pub(super) fn value_of(gpu: &Gpu, measure: Measure, most_power: Option<u64>) -> Option<f64> {
    match measure {
        Measure::Util => gpu.util.ok().map(|util| f64::from(util.get()) / 100.0),
        Measure::Memory => share(gpu.memory_used.ok()?.0, gpu.memory_total.ok()?.0),
        Measure::Power => {
            let limit = gpu.power_limit.ok().map(|limit| limit.0).or(most_power)?;
            share(gpu.power.ok()?.0, limit)
        }
        Measure::Temperature => gpu
            .temperature
            .ok()
            .map(|heat| (f64::from(heat.0) - COOLEST) / (HOTTEST - COOLEST)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a picture of a few columns")]
fn share(part: u64, whole: u64) -> Option<f64> {
    // There is no share of zero.
    (whole > 0).then(|| part as f64 / whole as f64)
}
