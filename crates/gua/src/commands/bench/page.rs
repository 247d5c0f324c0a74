//! Results of the benchmark as text.

use gua_model::Bytes;
use gua_model::text::sanitize;

use super::BenchDocument;

pub(super) fn text(costs: &BenchDocument) -> String {
    let telemetry = &costs.telemetry;
    let source = match &telemetry.driver_version {
        Some(version) => format!("driver {}", sanitize(version)),
        None => "simulated telemetry".to_owned(),
    };
    let mut text = format!(
        "gua {} on this host, with {source}: {} GPUs, {} processes on them\n\n",
        costs.gua_version, telemetry.gpus, telemetry.processes
    );
    let mut line = |what: &str, cost: String| text.push_str(&format!("  {what:<28}{cost}\n"));
    let unknown = || "not known".to_owned();
    let sample = "one sample of all GPUs";
    match &costs.look {
        Some(look) => {
            let processor = look.processor_microseconds.map_or_else(unknown, millis);
            let elapsed = millis(look.elapsed_microseconds);
            line(
                sample,
                format!("{processor} of processor time, {elapsed} by the clock"),
            );
            let memory = look.reader_memory_bytes.map_or_else(unknown, megabytes);
            line(
                "the reader child of a daemon",
                format!("{memory} of memory"),
            );
        }
        None => line(sample, "not measured: telemetry is simulated".to_owned()),
    }
    let history = &costs.history;
    let tick = history.tick_processor_microseconds;
    line(
        "one tick in the history",
        format!("{} of processor time", millis(tick)),
    );
    line(
        "one day of history",
        format!(
            "{} ticks in {}; {} a year while all ticks are kept",
            history.ticks,
            megabytes(history.day_bytes),
            megabytes(history.day_bytes.saturating_mul(365))
        ),
    );
    let look = costs.look.as_ref();
    let look = look.and_then(|look| look.processor_microseconds);
    let day = (tick + look.unwrap_or_default()) * f64::from(history.ticks) / 1e6;
    line(
        "one day of collecting",
        format!("{day:.1} s of processor time"),
    );
    let peak = costs.report.peak_memory_bytes;
    let peak = peak.map_or_else(String::new, |peak| {
        format!(", at most {} of memory", megabytes(peak))
    });
    let processor = millis(costs.report.processor_microseconds);
    line(
        "one report of that day",
        format!("{processor} of processor time{peak}"),
    );
    text
}

fn millis(micros: f64) -> String {
    format!("{:.2} ms", micros / 1e3)
}

fn megabytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) / Bytes::PER_MB;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}
