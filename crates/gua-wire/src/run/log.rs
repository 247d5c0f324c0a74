//! The lines of `run.jsonl`: phases with their durations, and events.

use jiff::Timestamp;
use serde_json::Value;

use super::json::Fields;

/// Formats the time at the start of every line: UTC with milliseconds, truncated instead of rounded.
pub fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3f+00:00").to_string()
}

/// Duration of a phase. An integer stays an integer, as in the original.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seconds {
    Whole(i64),
    Measured(f64),
}

impl From<f64> for Seconds {
    fn from(seconds: f64) -> Self {
        Seconds::Measured(seconds)
    }
}

impl From<i64> for Seconds {
    fn from(seconds: i64) -> Self {
        Seconds::Whole(seconds)
    }
}

impl Seconds {
    fn to_value(self) -> Value {
        match self {
            Seconds::Whole(seconds) => seconds.into(),
            Seconds::Measured(seconds) => thousandths(seconds),
        }
    }
}

/// Formats a finished phase, without the line end. An extra field cannot replace the time or the type: it is written as
/// `extra_ts` or `extra_type`.
///
/// ```
/// use gua_wire::run::json::Fields;
/// use gua_wire::run::log::phase;
///
/// let at = "2026-05-11T00:00:00.1239Z".parse().unwrap();
/// assert_eq!(
///     phase(at, "fit", 12.34567, &Fields::new().with("epochs", 3)),
///     r#"{"ts": "2026-05-11T00:00:00.123+00:00", "type": "phase", "name": "fit", "seconds": 12.346, "epochs": 3}"#,
/// );
/// ```
pub fn phase(at: Timestamp, name: &str, seconds: impl Into<Seconds>, extra: &Fields) -> String {
    let mut line = line_start(at, "phase")
        .with("name", name)
        .with("seconds", seconds.into().to_value());
    for (name, text) in extra.iter() {
        let taken = line.has(name);
        match taken {
            true => line.put(&format!("extra_{name}"), text.to_owned()),
            false => line.put(name, text.to_owned()),
        }
    }
    line.to_json()
}

/// Formats an event, without the line end. Empty data is omitted.
pub fn event(at: Timestamp, name: &str, data: &Fields) -> String {
    let mut line = line_start(at, "event").with("event", name);
    if !data.is_empty() {
        line.put("data", data.to_json());
    }
    line.to_json()
}

/// Formats a line of a type that the original does not have.
pub fn other(at: Timestamp, kind: &str, fields: &Fields) -> String {
    let mut line = line_start(at, kind);
    for (name, text) in fields.iter() {
        line.put(name, text.to_owned());
    }
    line.to_json()
}

fn line_start(at: Timestamp, kind: &str) -> Fields {
    Fields::new().with("ts", stamp(at)).with("type", kind)
}

/// Rounds to three decimals like Python: to the nearest of the exact value, an exact half to the even digit.
fn thousandths(seconds: f64) -> Value {
    format!("{seconds:.3}")
        .parse::<f64>()
        .ok()
        .filter(|seconds| seconds.is_finite())
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2026-11-16T04:12:26.3219Z".parse().unwrap()
    }

    #[test]
    fn an_event_without_data_has_no_data() {
        assert_eq!(
            event(at(), "e", &Fields::new()),
            r#"{"ts": "2026-11-16T04:12:26.321+00:00", "type": "event", "event": "e"}"#
        );
    }

    #[test]
    fn an_extra_value_cannot_change_when_it_was_or_what_it_is() {
        let extra = Fields::new()
            .with("ts", "boo")
            .with("type", "x")
            .with("k", 2);
        assert_eq!(
            phase(at(), "a", 1.0, &extra),
            "{\"ts\": \"2026-11-16T04:12:26.321+00:00\", \"type\": \"phase\", \"name\": \"a\", \"seconds\": 1.0, \
             \"extra_ts\": \"boo\", \"extra_type\": \"x\", \"k\": 2}"
        );
    }

    #[test]
    fn a_whole_number_of_seconds_stays_one() {
        let check = |seconds: Seconds, expected: &str| {
            let line = phase(at(), "a", seconds, &Fields::new());
            assert!(
                line.ends_with(&format!("\"seconds\": {expected}}}")),
                "{line}"
            );
        };
        check(5_i64.into(), "5");
        check(5.0.into(), "5.0");
    }

    #[test]
    fn a_length_that_nobody_knows_is_null() {
        let line = phase(at(), "a", f64::NAN, &Fields::new());
        assert!(line.contains("\"seconds\": null"), "{line}");
    }
}
