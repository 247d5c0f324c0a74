//! The lines of the three metric files, formatted from our readings.
//!
//! A missing reading is `[N/A]` in `hw_metrics.csv` and `-` in `hw_dmon.csv`, as in nvidia-smi's output.

use gua_model::{Gpu, Milliwatts, Reading};
use jiff::{Timestamp, Zoned};

use super::log::stamp;

/// Number of fields in a line of `hw_metrics.csv`.
pub const GPU_FIELDS: usize = 9;

/// Header of `cpu_metrics.csv`.
pub const CPU_HEADER: &str = "timestamp,usr_pct,idle_pct";

/// Header of `hw_dmon.csv` with the column names. Memory utilisation is the third column, so that readers that use the
/// position instead of the name find the right number too.
pub const DMON_HEADER: &str = "# gpu     sm    mem     fb\n# Idx      %      %     MB";

/// Formats one GPU for `hw_metrics.csv`, without the line end. The time is local, as in nvidia-smi's output.
pub fn gpu_line(at: &Zoned, gpu: &Gpu) -> String {
    [
        at.strftime("%Y/%m/%d %H:%M:%S%.3f").to_string(),
        shown(gpu.util.map(|util| util.get())),
        shown(gpu.memory_util.map(|util| util.get())),
        shown(gpu.memory_used.map(|used| used.whole_mb())),
        shown(gpu.memory_total.map(|total| total.whole_mb())),
        shown(gpu.power.map(watts)),
        shown(gpu.temperature.map(|temperature| temperature.0)),
        shown(gpu.sm_clock.map(|clock| clock.0)),
        shown(gpu.memory_clock.map(|clock| clock.0)),
    ]
    .join(", ")
}

/// Formats one GPU for `hw_dmon.csv`, without the line end.
pub fn dmon_line(gpu: &Gpu) -> String {
    let cell = |text: Reading<String>| text.unwrap_or_else(|_| "-".to_owned());
    let sm = cell(gpu.util.map(|util| util.get().to_string()));
    let mem = cell(gpu.memory_util.map(|util| util.get().to_string()));
    let fb = cell(gpu.memory_used.map(|used| used.whole_mb().to_string()));
    format!("{:>5} {sm:>6} {mem:>6} {fb:>6}", gpu.index)
}

/// Formats the CPU time between two samples for `cpu_metrics.csv`, without the line end.
pub fn cpu_line(at: Timestamp, usr_pct: f64, idle_pct: f64) -> String {
    format!("{},{usr_pct:.1},{idle_pct:.1}", stamp(at))
}

fn shown<T: ToString>(reading: Reading<T>) -> String {
    reading.map_or_else(|_| "[N/A]".to_owned(), |value| value.to_string())
}

/// Watts with two decimals.
fn watts(power: Milliwatts) -> String {
    let rounded = hundredths(power);
    format!("{}.{:02}", rounded / 100, rounded % 100)
}

/// Hundredths of a watt, rounded to the nearest.
pub(super) fn hundredths(power: Milliwatts) -> u64 {
    power.0.saturating_add(5) / 10
}

#[cfg(test)]
mod tests {
    use gua_model::{Bytes, Celsius, Megahertz, Missing, Percent};
    use jiff::tz::TimeZone;

    use super::*;

    fn gpu() -> Gpu {
        let uuid = "GPU-1".parse().unwrap();
        Gpu {
            util: Ok(Percent::new(45).unwrap()),
            memory_util: Ok(Percent::new(12).unwrap()),
            memory_used: Ok(Bytes::from_mb(1024)),
            memory_total: Ok(Bytes::from_mb(40960)),
            power: Ok(Milliwatts(54_236)),
            temperature: Ok(Celsius(41)),
            sm_clock: Ok(Megahertz(1410)),
            memory_clock: Err(Missing::Unsupported),
            ..Gpu::without_readings(uuid, 3, Missing::Unsupported)
        }
    }

    #[test]
    fn lines_have_the_layout_of_nvidia_smi() {
        let at = "2026-05-11T01:02:03.0456Z".parse::<Timestamp>().unwrap();
        let line = gpu_line(&at.to_zoned(TimeZone::UTC), &gpu());
        assert_eq!(
            line,
            "2026/05/11 01:02:03.045, 45, 12, 1024, 40960, 54.24, 41, 1410, [N/A]"
        );
        assert_eq!(line.split(", ").count(), GPU_FIELDS);
        assert_eq!(dmon_line(&gpu()), "    3     45     12   1024");
        assert_eq!(
            cpu_line(at, 12.345, 80.0),
            "2026-05-11T01:02:03.045+00:00,12.3,80.0"
        );
    }

    #[test]
    fn the_columns_of_dmon_are_below_their_names() {
        let ends = |line: &str| -> Vec<usize> {
            let letters: Vec<char> = line.chars().collect();
            (1..=letters.len())
                .filter(|end| {
                    letters[end - 1] != ' ' && letters.get(*end).is_none_or(|next| *next == ' ')
                })
                .filter(|end| letters[end - 1] != '#')
                .collect()
        };
        let mut head = DMON_HEADER.lines();
        let expected = ends(head.next().unwrap());
        assert_eq!(ends(head.next().unwrap()), expected);
        assert_eq!(ends(&dmon_line(&gpu())), expected);
    }
}
