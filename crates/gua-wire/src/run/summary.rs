//! Resource usage of a job in the ten numbers of the original program. It is computed from the lines of the metric
//! files, one at a time, in constant memory.

use gua_model::unit::float;
use gua_model::{Gpu, Milliwatts};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::json::one_line;
use super::metrics::{GPU_FIELDS, hundredths};

/// Resource usage of a job. A value that was never measured is also zero, as in the original; [`Tally::missing`] lists
/// such values.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema)]
pub struct ResourceSummary {
    /// Maximum memory in use on any of the GPUs.
    pub peak_vram_mb: f64,
    /// Peak memory reported by JAX; only if the job reported it.
    #[schemars(skip_serializing_if = "is_zero")]
    pub jax_peak_bytes_mb: f64,
    pub gpu_util_mean_pct: f64,
    pub gpu_util_max_pct: f64,
    /// Only if it is not zero.
    #[schemars(skip_serializing_if = "is_zero")]
    pub mem_util_mean_pct: f64,
    /// Only if the mean is not zero.
    #[schemars(skip_serializing_if = "is_zero")]
    pub mem_util_max_pct: f64,
    pub power_watts_mean: f64,
    pub power_watts_max: f64,
    /// Of the whole host, as `cpu_idle_mean_pct`.
    pub cpu_usr_mean_pct: f64,
    pub cpu_idle_mean_pct: f64,
}

impl ResourceSummary {
    /// Returns the dictionary form: one decimal each, in the original's order, and only the values that it shows.
    ///
    /// ```
    /// use gua_wire::run::summary::ResourceSummary;
    ///
    /// let summary = ResourceSummary { peak_vram_mb: 191.25, ..ResourceSummary::default() };
    /// assert_eq!(summary.entries()[0], ("peak_vram_mb", 191.2));
    /// assert_eq!(summary.entries().len(), 7);
    /// ```
    pub fn entries(&self) -> Vec<(&'static str, f64)> {
        let mut entries = vec![
            ("peak_vram_mb", self.peak_vram_mb),
            ("gpu_util_mean_pct", self.gpu_util_mean_pct),
            ("gpu_util_max_pct", self.gpu_util_max_pct),
            ("power_watts_mean", self.power_watts_mean),
            ("power_watts_max", self.power_watts_max),
            ("cpu_usr_mean_pct", self.cpu_usr_mean_pct),
            ("cpu_idle_mean_pct", self.cpu_idle_mean_pct),
        ];
        if self.jax_peak_bytes_mb > 0.0 {
            entries.push(("jax_peak_bytes_mb", self.jax_peak_bytes_mb));
        }
        if self.mem_util_mean_pct > 0.0 {
            entries.push(("mem_util_mean_pct", self.mem_util_mean_pct));
            entries.push(("mem_util_max_pct", self.mem_util_max_pct));
        }
        entries
            .into_iter()
            .map(|(name, value)| (name, one_decimal(value)))
            .collect()
    }

    /// Returns the JSON object on one line, in the style of the original.
    pub fn to_json(&self) -> String {
        let line = one_line(self);
        line.expect("plain fields with text keys fit JSON") + "\n"
    }
}

impl Serialize for ResourceSummary {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.entries())
    }
}

/// Rounds the exact value of `value` to one decimal; an exact half goes to the even digit.
pub fn one_decimal(value: f64) -> f64 {
    format!("{value:.1}").parse().unwrap_or(value)
}

/// Rule for lines with a missing value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineRule {
    /// Its other values count. The live summary of a run uses this rule.
    #[default]
    PerField,
    /// As in the original: a GPU line counts if utilisation, memory and power are numbers, and the idle share of a CPU line
    /// only after a valid user share.
    WholeLine,
}

/// Sums of the lines read so far.
///
/// ```
/// use gua_wire::run::summary::Tally;
///
/// let mut tally = Tally::default();
/// tally.gpu_line("2026/05/11 00:00:00.000, 40, 5, 1024, 40960, [N/A], 41, 1410, 1215");
/// tally.gpu_line("2026/05/11 00:00:02.000, 60, 5, 2048, 40960, 50.25, 41, 1410, 1215");
/// let summary = tally.summary();
/// assert_eq!(summary.gpu_util_mean_pct, 50.0);
/// assert_eq!(summary.peak_vram_mb, 2048.0);
/// assert_eq!(summary.power_watts_mean, 50.25);
/// assert_eq!(tally.missing(), ["mem_util", "cpu_usr", "cpu_idle"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tally {
    gpu_util: Sum,
    vram: Sum,
    power: Sum,
    mem_util: Sum,
    cpu_usr: Sum,
    cpu_idle: Sum,
    dmon: Columns,
    rule: LineRule,
    pub left_out: u64,
}

/// Positions of the columns in `hw_dmon.csv`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Columns {
    /// No header has been read. The original then uses a fixed position.
    #[default]
    Unnamed,
    /// Position of memory utilisation, if there is such a column.
    Named(Option<usize>),
}

/// Position at which the original expects memory utilisation.
const MEM_UNNAMED: usize = 2;
/// Minimum number of fields in a line. The original skips shorter lines.
pub(super) const DMON_FIELDS: usize = 4;

impl Tally {
    /// A tally that reads lines by a rule.
    pub fn by(rule: LineRule) -> Self {
        Self {
            rule,
            ..Self::default()
        }
    }

    /// Adds the readings of a GPU, as [`super::metrics::gpu_line`] and [`super::metrics::dmon_line`] write them.
    pub fn gpu(&mut self, gpu: &Gpu) {
        self.gpu_util
            .add(gpu.util.ok().map(|util| f64::from(util.get())));
        self.vram
            .add(gpu.memory_used.ok().map(|used| float(used.whole_mb())));
        let watts = |power: Milliwatts| float(hundredths(power)) / 100.0;
        self.power.add(gpu.power.ok().map(watts));
        self.mem_util
            .add(gpu.memory_util.ok().map(|util| f64::from(util.get())));
    }

    /// Adds processor shares, as [`super::metrics::cpu_line`] writes them.
    pub fn cpu(&mut self, usr_pct: f64, idle_pct: f64) {
        self.cpu_usr.add(Some(one_decimal(usr_pct)));
        self.cpu_idle.add(Some(one_decimal(idle_pct)));
    }

    /// Adds a line of `hw_metrics.csv`. Returns whether it is valid.
    pub fn gpu_line(&mut self, line: &str) -> bool {
        let fields: Vec<&str> = line.split(',').collect();
        if fields.len() < GPU_FIELDS {
            return false;
        }
        let [util, used, power] = [1, 3, 5].map(|place| number(fields[place]));
        let is_whole = util.is_some() && used.is_some() && power.is_some();
        if self.rule == LineRule::WholeLine && !is_whole {
            self.left_out += u64::from(util.or(used).or(power).is_some());
            return false;
        }
        self.gpu_util.add(util);
        self.vram.add(used);
        self.power.add(power);
        true
    }

    /// Adds a line of `hw_dmon.csv`, which may be a header. Returns whether it contains readings.
    pub fn dmon_line(&mut self, line: &str) -> bool {
        let line = line.trim();
        if let Some(head) = line.strip_prefix('#') {
            self.dmon_head(head);
            return false;
        }
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if fields.len() < DMON_FIELDS {
            return false;
        }
        let place = match self.dmon {
            Columns::Unnamed => Some(MEM_UNNAMED),
            Columns::Named(place) => place,
        };
        self.mem_util
            .add(place.and_then(|place| number(fields.get(place)?)));
        true
    }

    /// Reads a header line. The first line of a header has the names, the second the units; a long file repeats the
    /// header.
    fn dmon_head(&mut self, head: &str) {
        if is_dmon_head(head) {
            let mut names = head.split_ascii_whitespace();
            self.dmon = Columns::Named(names.position(|name| name.eq_ignore_ascii_case("mem")));
        }
    }

    /// Adds a line of `cpu_metrics.csv`. Returns whether it contains readings.
    pub fn cpu_line(&mut self, line: &str) -> bool {
        let mut fields = line.split(',').skip(1);
        let (Some(usr), Some(idle)) = (fields.next(), fields.next()) else {
            return false;
        };
        let (usr, idle) = (number(usr), number(idle));
        if self.rule == LineRule::WholeLine && usr.is_none() {
            self.left_out += u64::from(idle.is_some());
            return false;
        }
        self.cpu_usr.add(usr);
        self.cpu_idle.add(idle);
        usr.is_some() || idle.is_some()
    }

    pub fn summary(&self) -> ResourceSummary {
        ResourceSummary {
            peak_vram_mb: self.vram.max(),
            jax_peak_bytes_mb: 0.0,
            gpu_util_mean_pct: self.gpu_util.mean(),
            gpu_util_max_pct: self.gpu_util.max(),
            mem_util_mean_pct: self.mem_util.mean(),
            mem_util_max_pct: self.mem_util.max(),
            power_watts_mean: self.power.mean(),
            power_watts_max: self.power.max(),
            cpu_usr_mean_pct: self.cpu_usr.mean(),
            cpu_idle_mean_pct: self.cpu_idle.mean(),
        }
    }

    /// Returns the names of the values that were never measured and are zero in the summary.
    pub fn missing(&self) -> Vec<&'static str> {
        [
            ("gpu_util", self.gpu_util),
            ("vram", self.vram),
            ("power", self.power),
            ("mem_util", self.mem_util),
            ("cpu_usr", self.cpu_usr),
            ("cpu_idle", self.cpu_idle),
        ]
        .into_iter()
        .filter(|(_, sum)| sum.count == 0)
        .map(|(name, _)| name)
        .collect()
    }

    /// Whether readings of `hw_dmon.csv` were counted without a header, at the position that the original assumes.
    pub fn guessed_mem_util(&self) -> bool {
        self.dmon == Columns::Unnamed && self.mem_util.count > 0
    }
}

/// Whether a line, without its `#`, names the columns of `hw_dmon.csv`.
pub(super) fn is_dmon_head(head: &str) -> bool {
    let mut names = head.split_ascii_whitespace();
    names.any(|name| name.eq_ignore_ascii_case("gpu"))
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    total: f64,
    most: Option<f64>,
    count: u32,
}

impl Sum {
    fn add(&mut self, value: Option<f64>) {
        let Some(value) = value else { return };
        self.total += value;
        self.most = Some(self.most.map_or(value, |most| most.max(value)));
        self.count = self.count.saturating_add(1);
    }

    fn mean(self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.total / f64::from(count),
        }
    }

    fn max(self) -> f64 {
        self.most.unwrap_or(0.0)
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim()
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use gua_model::{Bytes, Missing, Percent};
    use jiff::Timestamp;
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::super::metrics;
    use super::*;

    #[test]
    fn one_decimal_is_rounded_as_python_rounds() {
        for (value, expected) in [
            (191.25, 191.2),
            (191.35, 191.3),
            (0.05, 0.1),
            (0.25, 0.2),
            (0.75, 0.8),
            (-0.04, -0.0),
            (2.675, 2.7),
            (1e300, 1e300),
        ] {
            assert_eq!(one_decimal(value), expected, "{value}");
        }
    }

    fn dmon(text: &str) -> (f64, f64, bool) {
        let mut tally = Tally::default();
        for line in text.lines() {
            tally.dmon_line(line);
        }
        let summary = tally.summary();
        (
            summary.mem_util_mean_pct,
            summary.mem_util_max_pct,
            tally.guessed_mem_util(),
        )
    }

    #[test]
    fn memory_utilisation_is_found_by_its_name() {
        let cases = [
            // As printed by `dmon -s mu`: the third column is BAR1 and not utilisation.
            (
                "# gpu     fb   bar1   ccpm     sm    mem    enc\n# Idx     MB     MB     MB      %      %      %\n    0   1024     10      0     45     12      0\n    0   1024     10      0     45      -      0\n    0   1024     10      0     45     20      0\n",
                (16.0, 20.0, false),
            ),
            (
                "# gpu     sm    mem    enc\n# Idx      %      %      %\n    0     50     12      0\n",
                (12.0, 12.0, false),
            ),
            (
                "#Date       Time        gpu     sm    mem\n 20260511  00:00:00     0   1   7\n",
                (7.0, 7.0, false),
            ),
            // A column that is not in the header is not guessed.
            ("# gpu   fb  bar1 ccpm\n 0 1024 10 0\n", (0.0, 0.0, false)),
            ("0 50 12 0\n0 50 12\n\n", (12.0, 12.0, true)),
        ];
        for (text, expected) in cases {
            assert_eq!(dmon(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_that_is_missing_costs_itself_and_not_its_line() {
        let mut tally = Tally::default();
        assert!(tally.gpu_line("t, 10, 5, 100, 200, 50.5, 40, 1, 1"));
        assert!(tally.gpu_line("t, 30, 5, 300, 200, [N/A], 40, 1, 1, more"));
        assert!(tally.gpu_line("t, nan, 5, inf, 200, [Not Supported], 40, 1, 1"));
        assert!(!tally.gpu_line("t, 99, 5, 900, 200, 50.5, 40, 1"));
        assert!(!tally.gpu_line(""));
        let summary = tally.summary();
        assert_eq!(summary.gpu_util_mean_pct, 20.0);
        assert_eq!(summary.peak_vram_mb, 300.0);
        assert_eq!(summary.power_watts_mean, 50.5);
    }

    #[test]
    fn by_the_rule_of_the_original_a_missing_value_costs_the_line() {
        let mut tally = Tally::by(LineRule::WholeLine);
        assert!(tally.gpu_line("t, 40, 5, 40536, 81920, 50.5, 40, 1, 1"));
        assert!(tally.gpu_line("t, 60, 5, 1000, 81920, 60.5, 40, 1, 1"));
        assert!(!tally.gpu_line("t, 100, 5, 99999, 81920, [N/A], 40, 1, 1"));
        assert!(!tally.gpu_line("t, [N/A], 5, [N/A], 81920, [N/A], 40, 1, 1"));
        for line in [
            "t,usr_pct,idle_pct",
            "t,30.0,60.0",
            "t,10.0,65.0",
            "t,-,1.0",
            "t,20.0,x",
        ] {
            tally.cpu_line(line);
        }
        let summary = tally.summary();
        assert_eq!(summary.peak_vram_mb, 40536.0);
        assert_eq!(summary.gpu_util_mean_pct, 50.0);
        assert_eq!(summary.cpu_usr_mean_pct, 20.0);
        assert_eq!(summary.cpu_idle_mean_pct, 62.5);
        assert_eq!(tally.left_out, 2);
    }

    #[test]
    fn processor_shares_count_each_for_itself() {
        let mut tally = Tally::default();
        for line in [
            "timestamp,usr_pct,idle_pct",
            "2026,1.0,2.0",
            "2026,3.0,x",
            "2026,5",
            "2026,y,7",
        ] {
            tally.cpu_line(line);
        }
        let summary = tally.summary();
        assert_eq!(summary.cpu_usr_mean_pct, 2.0);
        assert_eq!(summary.cpu_idle_mean_pct, 4.5);
    }

    proptest! {
        #[test]
        fn readings_count_as_their_lines_do(
            util in prop::option::of(0u32..=100),
            memory in prop::option::of(0u64..200_000_000_000),
            power in prop::option::of(0u64..2_000_000),
            usr in 0f64..100.0,
        ) {
            let gpu = Gpu {
                util: util.and_then(Percent::new).ok_or(Missing::Failed),
                memory_util: util.and_then(Percent::new).ok_or(Missing::Failed),
                memory_used: memory.map(Bytes).ok_or(Missing::Denied),
                power: power.map(Milliwatts).ok_or(Missing::Unsupported),
                ..Gpu::without_readings("GPU-1".parse().unwrap(), 0, Missing::Unsupported)
            };
            let at = Timestamp::UNIX_EPOCH;
            let (mut direct, mut parsed) = (Tally::default(), Tally::default());
            direct.gpu(&gpu);
            direct.cpu(usr, 100.0 - usr);
            parsed.gpu_line(&metrics::gpu_line(&at.to_zoned(TimeZone::UTC), &gpu));
            parsed.dmon_line(metrics::DMON_HEADER.lines().next().unwrap());
            parsed.dmon_line(&metrics::dmon_line(&gpu));
            parsed.cpu_line(&metrics::cpu_line(at, usr, 100.0 - usr));
            prop_assert_eq!(direct.summary(), parsed.summary());
            prop_assert_eq!(direct.missing(), parsed.missing());
        }

        #[test]
        fn no_line_is_too_strange(lines: Vec<String>, near in "[#0-9a-z, .\\-\\[\\]]{0,80}") {
            let mut tally = Tally::default();
            for line in lines.iter().chain([&near]) {
                tally.gpu_line(line);
                tally.dmon_line(line);
                tally.cpu_line(line);
            }
            prop_assert!(tally.summary().entries().iter().all(|(_, value)| !value.is_nan()));
        }
    }
}
