//! The log of a daemon, of a server, or of a command that a timer may run: one `tracing` subscriber.
//!
//! Libraries emit records with a constant message and fields; only this file decides how they look.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;

use gua_probe::clock;
use gua_settings::kind::LogFormat;
use gua_settings::{Inputs, Loaded};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::Level;

use crate::log_record::{LogRecord, LogSubscriber};

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `2026/11/15 19:03:43 text` in local time, as gpu-usage-audit printed it.
    Text,
    /// `<4>text`: the journal adds the time and reads the priority (sd-daemon(3)).
    Journal,
    /// One JSON object.
    Json,
    /// Only the field `line`, for a command on a terminal. Records without it are not shown.
    Plain,
}

impl Form {
    /// Form of the log of a server.
    pub fn of_server(loaded: &Loaded) -> Self {
        let format = loaded.settings.collect.log_format.value;
        Self::choose(format, loaded.inputs.variable("JOURNAL_STREAM"))
    }

    /// Form of the messages of a command.
    pub fn of_command(inputs: &Inputs) -> Self {
        match Self::choose(LogFormat::Auto, inputs.variable("JOURNAL_STREAM")) {
            Self::Journal => Self::Journal,
            _ => Self::Plain,
        }
    }

    /// Value of `collect.log_format` that gives a child process the same form.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Text => "text",
            Self::Journal | Self::Plain => "auto",
        }
    }

    /// Formats the error with which a command such as `gua daemon` ends, with a hint for the user.
    pub fn error(self, command: &str, error: &str, hint: Option<&str>) -> String {
        let hint_line = hint.map_or_else(String::new, |hint| format!("\nhint: {hint}"));
        let text = format!("{command}: {error}{hint_line}");
        if matches!(self, Self::Text | Self::Plain) {
            return text + "\n";
        }
        let mut fields = vec![("command", command.into()), ("error", error.into())];
        fields.extend(hint.map(|hint| ("hint", hint.into())));
        let record = LogRecord {
            message: "command failed".to_owned(),
            line: Some(text),
            fields,
        };
        line(self, Level::ERROR, clock::now(), &record)
    }

    /// Chooses the form. `journal_stream` is the value of `JOURNAL_STREAM`, by which systemd says which file is the
    /// journal (systemd.exec(5)).
    fn choose(format: LogFormat, journal_stream: Option<&OsStr>) -> Self {
        match format {
            LogFormat::Json => Self::Json,
            LogFormat::Text => Self::Text,
            LogFormat::Auto if is_stderr(journal_stream) => Self::Journal,
            LogFormat::Auto => Self::Text,
        }
    }
}

/// Whether `DEVICE:INODE` is this process's standard error.
fn is_stderr(stream: Option<&OsStr>) -> bool {
    let stat = rustix::fs::fstat(io::stderr());
    let (Some(stream), Ok(stat)) = (stream.and_then(OsStr::to_str), stat) else {
        return false;
    };
    stream == format!("{}:{}", stat.st_dev, stat.st_ino)
}

/// Sends all log records of this process to `write`, which writes to standard error.
pub fn start(form: Form, write: fn(&str)) {
    let log = LogSubscriber(move |level, record: LogRecord| {
        write(&line(form, level, clock::now(), &record));
    });
    // Fails if the log was already started.
    let _ = tracing::subscriber::set_global_default(log);
}

fn line(form: Form, level: Level, at: Timestamp, record: &LogRecord) -> String {
    match form {
        Form::Text => text_line(at, &TimeZone::system(), &record.text()),
        Form::Journal => journal_line(level, &record.text()),
        Form::Plain => record
            .line
            .as_deref()
            .map(|line| format!("{line}\n"))
            .unwrap_or_default(),
        Form::Json => {
            let record = JsonRecord {
                time: at,
                level: level.as_str(),
                message: &record.message,
                fields: record
                    .fields
                    .iter()
                    .map(|(name, value)| (*name, value))
                    .collect(),
            };
            // The conversion sorts the keys.
            let object = serde_json::to_value(record);
            let object = object.expect("a record has string keys and finite numbers");
            format!("{object}\n")
        }
    }
}

/// A record of a JSON log.
#[derive(Serialize)]
struct JsonRecord<'a> {
    time: Timestamp,
    level: &'static str,
    message: &'a str,
    #[serde(flatten)]
    fields: BTreeMap<&'static str, &'a Value>,
}

/// A record of a JSON log, as far as [`as_text`] reads it.
#[derive(Deserialize)]
struct ReadRecord {
    time: String,
    level: String,
    message: String,
    error: Option<String>,
    hint: Option<String>,
}

/// Returns a line of a log as text for people, also if it is a record of a JSON log.
pub fn as_text(line: &str) -> String {
    let Ok(record) = serde_json::from_str::<ReadRecord>(line) else {
        return line.to_owned();
    };
    let at = record.time.split('.').next().unwrap_or_default();
    let mut text = format!(
        "{} {} {}",
        at.replace('T', " "),
        record.level,
        record.message
    );
    for (before, value) in [(": ", record.error), ("\nhint: ", record.hint)] {
        if let Some(value) = value {
            text.push_str(before);
            text.push_str(&value);
        }
    }
    text
}

fn journal_line(level: Level, text: &str) -> String {
    let priority = match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        _ => 6,
    };
    format!("<{priority}>{}\n", text.replace(char::is_control, " "))
}

fn text_line(at: Timestamp, zone: &TimeZone, text: &str) -> String {
    let at = at.to_zoned(zone.clone());
    format!("{} {text}\n", at.strftime("%Y/%m/%d %H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2026-11-15T19:03:43.9Z".parse().unwrap()
    }

    fn record() -> LogRecord {
        LogRecord {
            message: "driver read failed".to_owned(),
            line: Some("tick 3 failed:\nno \u{1b}[31mdriver".to_owned()),
            fields: vec![("tick", 3.into()), ("error", "no \"driver\"".into())],
        }
    }

    #[test]
    fn a_text_line_has_local_time_and_no_control_characters() {
        let zone = TimeZone::get("Asia/Kolkata").unwrap();
        assert_eq!(
            text_line(at(), &zone, &record().text()),
            "2026/11/16 00:33:43 tick 3 failed: no  [31mdriver\n"
        );
    }

    #[test]
    fn the_journal_gets_a_priority_and_json_gets_the_fields() {
        assert_eq!(
            line(Form::Journal, Level::ERROR, at(), &record()),
            "<3>tick 3 failed: no  [31mdriver\n"
        );
        let error = |form: Form| form.error("gua csv", "no", Some("yes"));
        assert_eq!(error(Form::Journal), "<3>gua csv: no hint: yes\n");
        assert_eq!(error(Form::Plain), "gua csv: no\nhint: yes\n");
        let object: Value = serde_json::from_str(&error(Form::Json)).unwrap();
        assert!(object["time"].is_string());
        for (key, text) in [
            ("level", "ERROR"),
            ("message", "command failed"),
            ("command", "gua csv"),
            ("error", "no"),
            ("hint", "yes"),
        ] {
            assert_eq!(object[key], text, "{key}");
        }
        let json = line(Form::Json, Level::ERROR, at(), &record());
        let expected = serde_json::json!({
            "time": "2026-11-15T19:03:43.9Z",
            "level": "ERROR",
            "message": "driver read failed",
            "tick": 3,
            "error": "no \"driver\"",
        });
        assert_eq!(json, format!("{expected}\n"));
    }

    #[test]
    fn the_journal_is_recognised_by_device_and_inode() {
        let stat = rustix::fs::fstat(io::stderr()).unwrap();
        let own = format!("{}:{}", stat.st_dev, stat.st_ino);
        let form = |format, stream: Option<&str>| Form::choose(format, stream.map(OsStr::new));
        assert_eq!(form(LogFormat::Auto, Some(&own)), Form::Journal);
        assert_eq!(form(LogFormat::Auto, Some("1:1")), Form::Text);
        assert_eq!(form(LogFormat::Auto, None), Form::Text);
        assert_eq!(form(LogFormat::Text, Some(&own)), Form::Text);
        assert_eq!(form(LogFormat::Json, Some(&own)), Form::Json);
    }
}
