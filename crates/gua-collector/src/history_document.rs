//! JSON documents about a history for the Python package: its facts, and its outages.

use gua_model::Outage;
use gua_store::Facts;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// Format name of [`HistoryDocument`].
pub const SCHEMA: &str = "gua.history.v1";

/// Facts about a history, for the Python class `gua.History`. Keys may be added under the same version; none changes its meaning.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HistoryDocument {
    info: InfoEntry,
    /// Every GPU that was ever seen, as last seen.
    gpus: Vec<GpuEntry>,
    /// All collector runs.
    collectors: Vec<RunEntry>,
}

/// Summary of a history.
#[derive(Debug, Serialize, JsonSchema)]
struct InfoEntry {
    /// Schema version of the file.
    schema: u32,
    /// Host name of the last collector run.
    host: Option<String>,
    ticks: u64,
    first_tick: Option<Timestamp>,
    last_tick: Option<Timestamp>,
    /// Size of the file and its journal.
    bytes: u64,
}

/// A GPU.
#[derive(Debug, Serialize, JsonSchema)]
struct GpuEntry {
    uuid: String,
    index: Option<u32>,
    name: Option<String>,
    memory_total_bytes: Option<u64>,
    /// UUID of the GPU that this one is a MIG instance of.
    parent_uuid: Option<String>,
    first_seen: Timestamp,
}

/// A collector run.
#[derive(Debug, Serialize, JsonSchema)]
struct RunEntry {
    started: Timestamp,
    /// Null while the collector runs, or if it did not exit cleanly.
    ended: Option<Timestamp>,
    interval_seconds: f64,
    host: String,
    gua_version: String,
}

/// A period in which the GPUs were not observed.
#[derive(Debug, Serialize)]
pub struct OutageEntry {
    from: Timestamp,
    to: Timestamp,
    reason: &'static str,
    detail: String,
    ticks_lost: u32,
}

impl From<Facts> for HistoryDocument {
    fn from(Facts { info, gpus, runs }: Facts) -> Self {
        let gpus = gpus.into_iter().map(|gpu| GpuEntry {
            uuid: gpu.uuid.to_string(),
            index: gpu.index,
            name: gpu.name,
            memory_total_bytes: gpu.memory_total.map(|total| total.0),
            parent_uuid: gpu.parent.map(|parent| parent.to_string()),
            first_seen: gpu.first_seen,
        });
        let collectors = runs.into_iter().map(|run| RunEntry {
            started: run.started,
            ended: run.ended,
            interval_seconds: run.interval.as_secs_f64(),
            host: run.host,
            gua_version: run.version,
        });
        Self {
            info: InfoEntry {
                schema: info.version,
                host: info.host,
                ticks: info.ticks,
                first_tick: info.first_tick,
                last_tick: info.last_tick,
                bytes: info.bytes,
            },
            gpus: gpus.collect(),
            collectors: collectors.collect(),
        }
    }
}

impl From<Outage> for OutageEntry {
    fn from(outage: Outage) -> Self {
        Self {
            from: outage.from,
            to: outage.to,
            reason: outage.reason.as_str(),
            detail: outage.detail,
            ticks_lost: outage.ticks_lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gua_model::Tick;
    use gua_render::document::pretty;
    use gua_settings::Settings;
    use gua_settings::kind::Home;
    use gua_store::{NewRun, OpenMode, Store, WriterOptions};
    use gua_test::{samples, schema};

    use super::*;
    use crate::location;

    #[test]
    fn the_published_schema_is_that_of_the_type() {
        let (name, published) = gua_render::schemas::named::<HistoryDocument>(SCHEMA);
        schema::assert_published(name, &pretty(&published));
    }

    #[test]
    fn the_document_of_a_history_follows_its_schema() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let run = NewRun {
            started: Timestamp::from_second(1_800_000_000).unwrap(),
            interval: Duration::from_secs(30),
            host: "node".to_owned(),
            version: "1.2.3".to_owned(),
            boot: None,
        };
        let id = store.begin_run(&run).unwrap();
        let sample = samples::sample(run.started, vec![samples::gpu(0, "GPU-a", 0, Vec::new())]);
        let interval = run.interval;
        store.record(id, &Tick { sample, interval }).unwrap();
        store.close().unwrap();
        let access = location::access(&path, &Settings::defaults(&Home(None))).unwrap();
        let text = pretty(&HistoryDocument::from(access.facts(()).unwrap()));
        schema::check(SCHEMA, &text);
        for part in [
            "\"ticks\": 1",
            "\"uuid\": \"GPU-a\"",
            "\"interval_seconds\": 30.0",
            "\"gua_version\": \"1.2.3\"",
            "\"first_tick\": \"2027-01-15T08:00:00Z\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
