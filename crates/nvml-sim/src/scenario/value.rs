//! A reading in a scenario: a constant, a time line, or a keyword for a missing value.

use serde::{Deserialize, Serialize, Serializer};

use crate::line::Line;

/// `30`, `"unsupported"`, `"unknown"`, or a table such as `{ square = { low = 0, high = 100, period = 10 } }`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub enum Value {
    Number(f64),
    Line(TimeLine),
    /// The driver returns NOT_SUPPORTED.
    Unsupported,
    /// Memory of a process that the driver does not know: all ones.
    Unknown,
}

impl Value {
    /// Rises or falls from one value to another, and then stays constant.
    pub fn ramp(from: f64, to: f64, seconds: f64) -> Value {
        Value::Line(TimeLine {
            ramp: Some(Ramp { from, to, seconds }),
            ..TimeLine::default()
        })
    }

    /// High for the first half of every period, low for the second.
    pub fn square(low: f64, high: f64, period: f64) -> Value {
        let square = Square {
            low,
            high,
            period,
            duty: half(),
            phase: 0.0,
        };
        Value::Line(TimeLine {
            square: Some(square),
            ..TimeLine::default()
        })
    }

    /// `(second, value from then on)`, in order.
    pub fn steps(steps: impl Into<Vec<(f64, f64)>>) -> Value {
        Value::Line(TimeLine {
            steps: Some(steps.into()),
            ..TimeLine::default()
        })
    }

    /// `otherwise`, except during bursts.
    pub fn bursts(bursts: impl Into<Vec<Burst>>, otherwise: f64) -> Value {
        Value::Line(TimeLine {
            bursts: Some(bursts.into()),
            otherwise: Some(otherwise),
            ..TimeLine::default()
        })
    }

    pub(super) fn is_word(&self) -> bool {
        matches!(self, Value::Unsupported | Value::Unknown)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(number.into())
    }
}

/// A value that changes with the seconds since the scenario's origin: one of four shapes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeLine {
    /// `(second, value from then on)`, in order.
    pub steps: Option<Vec<(f64, f64)>>,
    /// Value outside of the bursts; 0 by default.
    #[serde(rename = "else")]
    pub otherwise: Option<f64>,
    /// Period in seconds after which the line repeats; a square wave has its own period instead.
    pub every: Option<f64>,
    pub ramp: Option<Ramp>,
    pub square: Option<Square>,
    pub bursts: Option<Vec<Burst>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    pub from: f64,
    pub to: f64,
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Square {
    pub low: f64,
    pub high: f64,
    pub period: f64,
    /// Share of each period in which the wave is high.
    #[serde(default = "half")]
    pub duty: f64,
    /// Number of seconds by which the wave is ahead.
    #[serde(default)]
    pub phase: f64,
}

fn half() -> f64 {
    0.5
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    pub at: f64,
    #[serde(rename = "for")]
    pub seconds: f64,
    pub value: f64,
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Number(number) => serializer.serialize_f64(*number),
            Value::Line(line) => line.serialize(serializer),
            Value::Unsupported => serializer.serialize_str("unsupported"),
            Value::Unknown => serializer.serialize_str("unknown"),
        }
    }
}

/// Not an untagged enum: that would not say which key of a time line is wrong.
impl TryFrom<toml::Value> for Value {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Value, String> {
        match value {
            // Readings stay far below 2^53; a larger one only loses its last digits.
            toml::Value::Integer(number) => Ok(Value::Number(number as f64)),
            toml::Value::Float(number) if number.is_finite() => Ok(Value::Number(number)),
            toml::Value::Float(_) => Err("a reading must be a finite number".to_owned()),
            toml::Value::String(word) if word == "unsupported" => Ok(Value::Unsupported),
            toml::Value::String(word) if word == "unknown" => Ok(Value::Unknown),
            toml::Value::Table(table) => {
                let line: TimeLine = table
                    .try_into()
                    .map_err(|error: toml::de::Error| error.message().to_owned())?;
                Line::compile(&line)?;
                Ok(Value::Line(line))
            }
            other => Err(format!(
                "invalid value: {} {other}, expected a number, a time line, \"unsupported\" or \"unknown\"",
                other.type_str()
            )),
        }
    }
}
