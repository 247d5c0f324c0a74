//! Captures the log records of a test.

use std::sync::{Arc, Mutex};

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use crate::log_record::LogRecord;

/// The records that this thread logs while the value exists.
pub(crate) struct CapturedLog {
    lines: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl CapturedLog {
    pub(crate) fn start() -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let into = Arc::clone(&lines);
        let guard = Self::with(move |line| into.lock().unwrap().push(line));
        Self {
            lines,
            _guard: guard,
        }
    }

    /// Calls `handle` with each line, as `LEVEL text`, until the guard is dropped.
    pub(crate) fn with(handle: impl Fn(String) + Send + Sync + 'static) -> DefaultGuard {
        tracing::subscriber::set_default(Capture(handle))
    }

    /// Returns the lines so far and empties the log.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

struct Capture<F>(F);

impl<F: Fn(String) + Send + Sync + 'static> Subscriber for Capture<F> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let level = event.metadata().level();
        (self.0)(format!("{level} {}", LogRecord::of(event).text()));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
