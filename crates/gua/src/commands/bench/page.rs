//! Results of the benchmark as text and as JSON.

use std::time::Duration;

use gua_model::Bytes;
use gua_model::text::sanitize;
use serde_json::{Value, json};

use super::Costs;

/// Version of the JSON document. New keys do not change the version; existing keys keep their meaning.
const SCHEMA_VERSION: u32 = 1;

pub(super) fn text(costs: &Costs) -> String {
    let telemetry = &costs.telemetry;
    let source = match &telemetry.driver {
        Some(version) => format!("driver {}", sanitize(version)),
        None => "simulated telemetry".to_owned(),
    };
    let mut text = format!(
        "gua {} on this host, with {source}: {} GPUs, {} processes on them\n\n",
        crate::context::VERSION,
        telemetry.gpus,
        telemetry.processes
    );
    let mut line = |what: &str, cost: &str| text.push_str(&format!("  {what:<28}{cost}\n"));
    match &costs.look {
        Some(look) => {
            let processor = look.processor.map_or("not known".to_owned(), millis);
            line(
                "one sample of all GPUs",
                &format!(
                    "{processor} of processor time, {} by the clock",
                    millis(look.elapsed)
                ),
            );
            let memory = look.reader_memory.map_or("not known".to_owned(), megabytes);
            line(
                "the reader child of a daemon",
                &format!("{memory} of memory"),
            );
        }
        None => line(
            "one sample of all GPUs",
            "not measured: telemetry is simulated",
        ),
    }
    let history = &costs.history;
    line(
        "one tick in the history",
        &format!("{} of processor time", millis(history.processor)),
    );
    line(
        "one day of history",
        &format!(
            "{} ticks in {}; {} a year while all ticks are kept",
            history.ticks,
            megabytes(history.bytes),
            megabytes(Bytes(history.bytes.0.saturating_mul(365)))
        ),
    );
    let look = costs.look.as_ref().and_then(|look| look.processor);
    let day = (history.processor + look.unwrap_or_default()).saturating_mul(history.ticks);
    line(
        "one day of collecting",
        &format!("{:.1} s of processor time", day.as_secs_f64()),
    );
    let peak = costs.report.peak_memory;
    let peak = peak.map_or(String::new(), |peak| {
        format!(", at most {} of memory", megabytes(peak))
    });
    line(
        "one report of that day",
        &format!("{} of processor time{peak}", millis(costs.report.processor)),
    );
    text
}

pub(super) fn json(costs: &Costs) -> Value {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    json!({
        "schema_version": SCHEMA_VERSION,
        "gua_version": crate::context::VERSION,
        "telemetry": if costs.telemetry.driver.is_some() { "driver" } else { "made-up" },
        "driver_version": costs.telemetry.driver,
        "gpus": costs.telemetry.gpus,
        "processes": costs.telemetry.processes,
        "look": costs.look.as_ref().map(|look| json!({
            "looks": look.number,
            "processor_microseconds": look.processor.map(micros),
            "elapsed_microseconds": micros(look.elapsed),
            "reader_memory_bytes": look.reader_memory.map(|bytes| bytes.0),
        })),
        "history": {
            "ticks": costs.history.ticks,
            "tick_processor_microseconds": micros(costs.history.processor),
            "day_bytes": costs.history.bytes.0,
        },
        "report": {
            "processor_microseconds": micros(costs.report.processor),
            "peak_memory_bytes": costs.report.peak_memory.map(|bytes| bytes.0),
        },
    })
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn megabytes(bytes: Bytes) -> String {
    let tenths = bytes.0.saturating_mul(10) / Bytes::PER_MB;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}
