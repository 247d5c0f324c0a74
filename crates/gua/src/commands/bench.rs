//! `gua bench`: measures the cost of a tick, a day of history and a report on this host. All files are written to a
//! temporary directory, which is removed afterwards.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::demo::{self, Script};
use gua_model::{Bytes, Milliwatts, Percent, Sample, Tick};
use gua_probe::process::cost;
use gua_render::report::{Words, text};
use gua_store::{OpenMode, Store, WriterOptions};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::prelude::*;
use crate::context;
use crate::simulated::new_run;

/// Number of samples; the first one, which opens the driver, is not counted.
const SAMPLES: u32 = 20;
/// Maximum total time of the driver reads, for a slow driver.
const MAX_TIME: Duration = Duration::from_secs(5);
const DAY: Duration = Duration::from_secs(86_400);
const INTERVAL: Duration = Duration::from_secs(30);
/// Number of reports of the same day. The fastest one counts, because the others were disturbed by other work.
const REPORTS: u32 = 5;

/// Format name of [`BenchDocument`].
pub const SCHEMA: &str = "gua.bench.v1";

/// Output of `gua bench --json`. Keys may be added under the same version; none changes its meaning.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BenchDocument {
    pub schema_version: u32,
    pub gua_version: &'static str,
    #[serde(flatten)]
    pub telemetry: Telemetry,
    /// Null without a driver: reading simulated telemetry costs nothing.
    pub sample: Option<SampleCost>,
    pub history: Written,
    pub report: Reported,
}

/// Source of the telemetry.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Telemetry {
    /// `driver` or `simulated`.
    pub telemetry: &'static str,
    pub driver_version: Option<String>,
    pub gpus: usize,
    pub processes: usize,
}

/// Cost of one sample of all GPUs, including the reader child process.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SampleCost {
    pub samples: u32,
    pub processor_microseconds: Option<f64>,
    pub elapsed_microseconds: f64,
    pub reader_memory_bytes: Option<u64>,
}

/// Cost of a day of ticks in a history file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Written {
    pub ticks: u32,
    pub tick_processor_microseconds: f64,
    /// Size of the file after the day.
    pub day_bytes: u64,
}

/// Cost of the report of that day.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Reported {
    pub processor_microseconds: f64,
    pub peak_memory_bytes: Option<u64>,
}

pub fn run(args: &BenchArgs, context: &Context) -> anyhow::Result<()> {
    let directory = context.passing_directory("gua-bench-")?;
    let (telemetry, cost, sample) = measure(args, context);
    let db = directory.path().join("day.db");
    let end = clock::now();
    let history = write(&db, end, sample.as_ref())?;
    let report = report(&db, end, &context.zone())?;
    let costs = BenchDocument {
        schema_version: 1,
        gua_version: VERSION,
        telemetry,
        sample: cost,
        history,
        report,
    };
    output::data(&match args.json {
        true => pretty(&costs),
        false => page(&costs),
    })
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Measures driver reads. Without a driver, or with `--fake`, the telemetry is simulated.
fn measure(args: &BenchArgs, context: &Context) -> (Telemetry, Option<SampleCost>, Option<Sample>) {
    let simulated = || Telemetry {
        telemetry: "simulated",
        driver_version: None,
        gpus: 3,
        processes: 4,
    };
    if args.fake {
        return (simulated(), None, None);
    }
    let mut reader = context.reader();
    let first = match context::sample(&mut reader) {
        Ok(sample) => sample,
        Err(fault) => {
            output::eprint(&format!(
                "gua bench: {}; measuring with simulated telemetry\n",
                chain(&fault)
            ));
            return (simulated(), None, None);
        }
    };
    let telemetry = Telemetry {
        telemetry: "driver",
        driver_version: Some(first.driver.version.clone().unwrap_or_default()),
        gpus: first.gpus.len(),
        processes: first.gpus.iter().map(|gpu| gpu.processes.len()).sum(),
    };
    let child = reader.child_pid();
    let spent = || {
        let own = clock::processor_time();
        Some(own + child.and_then(cost::processor_time)?)
    };
    let (began, before) = (clock::monotonic(), spent());
    let mut bar = Bar::new("reading the driver");
    let mut number = 0u32;
    while number < SAMPLES && clock::monotonic().saturating_sub(began) < MAX_TIME {
        if reader.sample().is_err() {
            break;
        }
        number += 1;
        bar.share(f64::from(number) / f64::from(SAMPLES));
    }
    drop(bar);
    let elapsed = clock::monotonic().saturating_sub(began);
    let cost = (number > 0).then(|| SampleCost {
        samples: number,
        processor_microseconds: spent()
            .zip(before)
            .map(|(after, before)| micros(after.saturating_sub(before) / number)),
        elapsed_microseconds: micros(elapsed / number),
        reader_memory_bytes: child.and_then(cost::memory).map(|bytes| bytes.0),
    });
    (telemetry, cost, Some(first))
}

/// Writes a day of ticks that ends now, in the same way as a daemon.
fn write(db: &Path, end: Timestamp, sample: Option<&Sample>) -> anyhow::Result<Written> {
    let options = WriterOptions::default();
    let mut store = Store::open(db, OpenMode::Create, &options)?;
    let start = end.checked_sub(SignedDuration::try_from(DAY)?)?;
    let run = store.begin_run(&new_run(start, INTERVAL))?;
    let ticks = u32::try_from(DAY.as_secs() / INTERVAL.as_secs())?;
    let mut bar = Bar::new("writing a day");
    let before = clock::processor_time();
    let mut random = Random(1);
    for number in 0..ticks {
        let passed = INTERVAL * number;
        let at = start.checked_add(SignedDuration::try_from(passed)?)?;
        let tick = Tick {
            sample: day(sample, number, at, passed, &mut random),
            interval: INTERVAL,
        };
        store.record(run, &tick)?;
        while store.maintain(at)?.more {}
        bar.share(f64::from(number) / f64::from(ticks));
    }
    store.end_run(run, end)?;
    store.close()?;
    bar.clear();
    let processor = clock::processor_time().saturating_sub(before) / ticks;
    let size = |suffix: &str| {
        let mut name = db.as_os_str().to_owned();
        name.push(suffix);
        std::fs::metadata(PathBuf::from(name)).map_or(0, |facts| facts.len())
    };
    Ok(Written {
        ticks,
        tick_processor_microseconds: micros(processor),
        day_bytes: size("") + size("-wal"),
    })
}

/// Creates a tick of the day. Readings vary from tick to tick like those of real sensors: equal readings would take
/// almost no space.
fn day(
    sample: Option<&Sample>,
    number: u32,
    at: Timestamp,
    since_boot: Duration,
    random: &mut Random,
) -> Sample {
    let mut sample = match sample {
        Some(sample) => Sample {
            at,
            since_boot: sample.since_boot.saturating_add(since_boot),
            ..sample.clone()
        },
        None => demo::sample(Script::V1_8, number.into(), at, since_boot),
    };
    for gpu in &mut sample.gpus {
        gpu.util = gpu.util.and_then(|util| {
            Percent::new((u32::from(util.get()) + random.below(5)).min(100))
                .ok_or(gua_model::Missing::Failed)
        });
        gpu.power = gpu
            .power
            .map(|power| Milliwatts(power.0 + u64::from(random.below(9000))));
        gpu.temperature = gpu
            .temperature
            .map(|heat| gua_model::Celsius(heat.0 + i32::try_from(random.below(3)).unwrap_or(0)));
    }
    sample
}

/// Deterministic pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        // Linear congruential generator with Knuth's MMIX constants; the upper bits are random enough here.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap_or(0) % limit
    }
}

/// Reports on the day as text.
fn report(db: &Path, end: Timestamp, zone: &TimeZone) -> anyhow::Result<Reported> {
    let words = Words {
        since: "24h".to_owned(),
        ..Words::default()
    };
    let peak_is_ours = cost::forget_peak_memory().is_ok();
    let mut processor = Duration::MAX;
    for _ in 0..REPORTS {
        let before = clock::processor_time();
        let asked = words.ask(zone, end)?;
        let report = location::file_at(db.to_owned()).report(&asked.question)?;
        let text = text(&asked.page(&report, VERSION));
        anyhow::ensure!(!text.is_empty(), "the report is empty");
        processor = processor.min(clock::processor_time().saturating_sub(before));
    }
    let peak = cost::peak_memory().filter(|_| peak_is_ours);
    Ok(Reported {
        processor_microseconds: micros(processor),
        peak_memory_bytes: peak.map(|bytes| bytes.0),
    })
}

/// Formats the results as text.
fn page(costs: &BenchDocument) -> String {
    let (telemetry, history, report) = (&costs.telemetry, &costs.history, &costs.report);
    let source = match &telemetry.driver_version {
        Some(version) => format!("driver {}", sanitize(version)),
        None => "simulated telemetry".to_owned(),
    };
    let unknown = || "not known".to_owned();
    let sample = match &costs.sample {
        Some(cost) => format!(
            "{} of CPU time, {} of wall-clock time\n  the reader process of a daemon uses {} of memory",
            cost.processor_microseconds.map_or_else(unknown, millis),
            millis(cost.elapsed_microseconds),
            cost.reader_memory_bytes.map_or_else(unknown, megabytes)
        ),
        None => "not measured: telemetry is simulated".to_owned(),
    };
    let tick = history.tick_processor_microseconds;
    let per_sample = costs.sample.as_ref();
    let per_sample = per_sample.and_then(|cost| cost.processor_microseconds);
    let day = (tick + per_sample.unwrap_or_default()) * f64::from(history.ticks) / 1e6;
    let peak = report.peak_memory_bytes;
    let peak = peak.map(|peak| format!(", at most {} of memory", megabytes(peak)));
    format!(
        "gua {} on this host, with {source}: {} GPUs, {} processes on them\n\n  \
         one sample of all GPUs      {sample}\n  \
         one tick in the history     {} of processor time\n  \
         one day of history          {} ticks in {}; {} a year while all ticks are kept\n  \
         one day of collecting       {day:.1} s of processor time\n  \
         one report of that day      {} of processor time{}\n",
        costs.gua_version,
        telemetry.gpus,
        telemetry.processes,
        millis(tick),
        history.ticks,
        megabytes(history.day_bytes),
        megabytes(history.day_bytes.saturating_mul(365)),
        millis(report.processor_microseconds),
        peak.unwrap_or_default()
    )
}

fn millis(micros: f64) -> String {
    format!("{:.2} ms", micros / 1e3)
}

fn megabytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) / Bytes::PER_MB;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_type() {
        let schema = gua_render::schemas::named::<BenchDocument>(SCHEMA).1;
        gua_test::schema::assert_published(SCHEMA, &pretty(&schema));
    }
}
