//! One log record as data and as a line of text.
//!
//! Records have a constant message and fields. In text, the field `error` follows the message after a colon and the other
//! fields follow in parentheses: `tick not stored: disk full (sink=history, tick=7)`. A field `line` replaces all of
//! that; it holds the text that gpu-usage-audit printed for the same event, or that a command prints on a terminal.

use std::fmt::{self, Write as _};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The message and fields of a record.
#[derive(Clone, Debug, Default)]
pub struct LogRecord {
    pub message: String,
    /// Text of the whole record.
    pub line: Option<String>,
    pub fields: Vec<(&'static str, Value)>,
}

impl LogRecord {
    pub fn of(event: &Event<'_>) -> Self {
        let mut record = Self::default();
        event.record(&mut record);
        record
    }

    /// The record as one line without time, level and line break. Control characters become blanks.
    pub fn text(&self) -> String {
        let text = self.line.clone().unwrap_or_else(|| self.composed());
        text.replace(char::is_control, " ")
    }

    fn composed(&self) -> String {
        let mut text = self.message.clone();
        let mut separator = " (";
        for (name, value) in self.fields.iter().filter(|(name, _)| *name != "error") {
            let _ = match value {
                Value::String(value) => write!(text, "{separator}{name}={value}"),
                other => write!(text, "{separator}{name}={other}"),
            };
            separator = ", ";
        }
        if separator == ", " {
            text.push(')');
        }
        let error = self.fields.iter().find(|(name, _)| *name == "error");
        if let Some((_, Value::String(error))) = error {
            text.insert_str(self.message.len(), &format!(": {error}"));
        }
        text
    }

    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("line", Value::String(text)) => self.line = Some(text),
            (name, value) => self.fields.push((name, value)),
        }
    }
}

/// A subscriber that hands each record to a function. There are no spans and no filters but the level, so this is smaller
/// than a general subscriber: the daemon has a memory limit.
#[derive(Debug)]
pub struct LogSubscriber<F>(pub F);

impl<F: Fn(Level, LogRecord) + 'static> Subscriber for LogSubscriber<F>
where
    F: Send + Sync,
{
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        (self.0)(*event.metadata().level(), LogRecord::of(event));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Visit for LogRecord {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use tracing::{info, warn};

    use crate::captured_log::CapturedLog;

    #[test]
    fn fields_follow_the_message_and_a_line_replaces_both() {
        let log = CapturedLog::start();
        info!("settings reloaded");
        info!(host = "h", tick = 7, "daemon started");
        warn!(sink = "board", error = %"no\nroom", "tick not stored");
        warn!(error = "no room", "tick not stored");
        warn!(tick = 3, line = "tick 3 failed", "driver read failed");
        assert_eq!(
            log.take(),
            [
                "INFO settings reloaded",
                "INFO daemon started (host=h, tick=7)",
                "WARN tick not stored: no room (sink=board)",
                "WARN tick not stored: no room",
                "WARN tick 3 failed",
            ]
        );
    }
}
