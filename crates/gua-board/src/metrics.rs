//! Counters for `/metrics`, in the text format of OpenMetrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Content type of the OpenMetrics text format.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    /// By route and status.
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    observations: AtomicU64,
    observations_failed: AtomicU64,
    batches: AtomicU64,
    batch_micros: AtomicU64,
    pub(crate) streams: AtomicI64,
    pub(crate) frames: AtomicU64,
}

impl Metrics {
    pub(crate) fn answered(&self, route: &str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route.to_owned(), status)).or_default() += 1;
    }

    pub(crate) fn stored(&self, observations: usize, took: Duration, is_stored: bool) {
        let counter = match is_stored {
            true => &self.observations,
            false => &self.observations_failed,
        };
        counter.fetch_add(observations as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.batch_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Writes all counters and the given gauges.
    pub(crate) fn text(&self, gauges: &[(&str, &str, u64)]) -> String {
        let mut text = String::new();
        text.push_str(
            "# TYPE gua_board_requests counter\n# HELP gua_board_requests Answered requests.\n",
        );
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((route, status), count) in &*requests {
            let _ = writeln!(
                text,
                "gua_board_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (name, help, value) in [
            (
                "observations",
                "Observations that were stored.",
                load(&self.observations),
            ),
            (
                "observations_failed",
                "Observations that could not be stored.",
                load(&self.observations_failed),
            ),
            (
                "batches",
                "Transactions that stored observations.",
                load(&self.batches),
            ),
            (
                "batch_microseconds",
                "Time spent in these transactions.",
                load(&self.batch_micros),
            ),
            (
                "stream_frames",
                "Frames received over streams.",
                load(&self.frames),
            ),
        ] {
            let _ = writeln!(
                text,
                "# TYPE gua_board_{name} counter\n# HELP gua_board_{name} {help}\ngua_board_{name}_total {value}"
            );
        }
        let streams = self.streams.load(Ordering::Relaxed).max(0).unsigned_abs();
        let streams = [("streams", "Open streams.", streams)];
        for (name, help, value) in streams.iter().chain(gauges) {
            let _ = writeln!(
                text,
                "# TYPE gua_board_{name} gauge\n# HELP gua_board_{name} {help}\ngua_board_{name} {value}"
            );
        }
        text.push_str("# EOF\n");
        text
    }
}
