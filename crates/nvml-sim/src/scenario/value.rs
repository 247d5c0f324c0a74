//! A reading in a scenario: a constant, a time line, or a keyword for a missing value.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `30`, `"unsupported"`, `"unknown"`, or a table such as `{ square = { low = 0, high = 100, period = 10 } }`.
#[derive(Clone, Debug, PartialEq)]
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
        let (duty, phase) = (half(), 0.0);
        Value::Line(TimeLine {
            square: Some(Square {
                low,
                high,
                period,
                duty,
                phase,
            }),
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

impl TimeLine {
    fn check(&self) -> Result<(), &'static str> {
        let mut numbers: Vec<f64> = self.every.into_iter().chain(self.otherwise).collect();
        let mut shapes = 0;
        if let Some(Ramp { from, to, seconds }) = self.ramp {
            shapes += 1;
            numbers.extend([from, to, seconds]);
        }
        if let Some(square) = self.square {
            shapes += 1;
            if self.every.is_some() {
                return Err("a square wave repeats by its `period`, not by `every`");
            }
            if square.period <= 0.0 {
                return Err("a period must be above 0");
            }
            if !(0.0..=1.0).contains(&square.duty) {
                return Err("a duty is a share from 0 to 1");
            }
            numbers.extend([square.low, square.high, square.period, square.phase]);
        }
        if let Some(bursts) = &self.bursts {
            shapes += 1;
            let of_burst = |burst: &Burst| [burst.at, burst.seconds, burst.value];
            numbers.extend(bursts.iter().flat_map(of_burst));
        } else if self.otherwise.is_some() {
            return Err("`else` goes with `bursts`");
        }
        if let Some(steps) = &self.steps {
            shapes += 1;
            if steps.is_empty() || !steps.is_sorted_by(|a, b| a.0 < b.0) {
                return Err("steps are at least one, each later than the one before");
            }
            numbers.extend(steps.iter().flat_map(|(at, value)| [*at, *value]));
        }
        if shapes != 1 {
            return Err("a time line is one of `ramp`, `square`, `bursts`, `steps`");
        }
        if self.every.is_some_and(|every| every <= 0.0) {
            return Err("`every` must be above 0");
        }
        let is_sane = |number: &f64| number.is_finite() && number.abs() <= 1e18;
        match numbers.iter().all(is_sane) {
            true => Ok(()),
            false => Err("a time line's numbers are finite and at most 1e18"),
        }
    }
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

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

/// Not an untagged enum: that would not say which key of a time line is wrong.
struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a time line, \"unsupported\" or \"unknown\"")
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "readings stay far below 2^53, and a bigger one only loses its last digits"
    )]
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        match number.is_finite() {
            true => Ok(Value::Number(number)),
            false => Err(E::custom("a reading must be a finite number")),
        }
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Value, E> {
        match word {
            "unsupported" => Ok(Value::Unsupported),
            "unknown" => Ok(Value::Unknown),
            _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        let line = TimeLine::deserialize(MapAccessDeserializer::new(map))?;
        line.check().map_err(de::Error::custom)?;
        Ok(Value::Line(line))
    }
}
