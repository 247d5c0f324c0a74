//! Captures the log records of a test.

use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;

use crate::log_record::{LogRecord, LogSubscriber};

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
        tracing::subscriber::set_default(LogSubscriber(move |level, record: LogRecord| {
            handle(format!("{level} {}", record.text()));
        }))
    }

    /// Returns the lines so far and empties the log.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}
