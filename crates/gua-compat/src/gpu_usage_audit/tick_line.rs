//! The line of one tick on standard output, in the format of gpu-usage-audit.

use std::fmt::Write as _;

use gua_model::{Gpu, Thresholds, Tick, classify};
use jiff::tz::TimeZone;

/// Start of every tick line.
pub const PREFIX: &str = "Tick ";
/// Minimum width of a class.
const CLASS_WIDTH: usize = 10;

/// Formats `Tick N  ts=HH:MM:SS.mmm  UUID=class ...`, in UTC.
pub fn tick_line(number: u64, tick: &Tick, thresholds: &Thresholds) -> String {
    // Formatted by its parts, because this runs at every tick.
    let at = TimeZone::UTC.to_datetime(tick.sample.at).time();
    let mut line = String::with_capacity(64 * (1 + tick.sample.gpus.len()));
    let _ = write!(
        line,
        "{PREFIX}{number}  ts={:02}:{:02}:{:02}.{:03}",
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    );
    let counted = |gpu: &&Gpu| gpu.place.counts();
    for gpu in tick.sample.gpus.iter().filter(counted) {
        let state = classify(gpu, thresholds, None).state;
        // A state outside the roll-up is shown by its own name.
        let class = state
            .roll_up()
            .map_or(state.as_str(), |share| share.as_str());
        let _ = write!(line, "  {}={class:<CLASS_WIDTH$}", gpu.uuid.as_str());
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gua_model::{Driver, Missing, Percent, Sample};

    use super::*;

    #[test]
    fn a_tick_line_has_every_gpu_with_its_class_in_ten_columns() {
        let gpu = |uuid: &str, util: Result<u32, Missing>| {
            let mut gpu = Gpu::without_readings(uuid.parse().unwrap(), 0, Missing::Gone);
            gpu.util = util.map(|util| Percent::new(util).unwrap());
            gpu.compute_list = Ok(());
            gpu.graphics_list = Ok(());
            gpu
        };
        let tick = Tick {
            sample: Sample {
                at: "2026-11-15T19:03:43.7409Z".parse().unwrap(),
                since_boot: Duration::ZERO,
                boot: Err(Missing::Unsupported),
                driver: Driver {
                    version: Err(Missing::Unsupported),
                    cuda: Err(Missing::Unsupported),
                },
                gpus: vec![
                    gpu("GPU-a", Ok(10)),
                    gpu("GPU-b", Ok(9)),
                    gpu("GPU-c", Err(Missing::Gone)),
                ],
                problems: Vec::new(),
            },
            interval: Duration::from_secs(30),
        };
        assert_eq!(
            tick_line(7, &tick, &Thresholds::default()),
            "Tick 7  ts=19:03:43.740  GPU-a=active      GPU-b=truly-idle  GPU-c=unobserved\n"
        );
    }
}
