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
        Shape::Ramp { from, to, seconds }.into()
    }

    /// High for the first half of every period, low for the second.
    pub fn square(low: f64, high: f64, period: f64) -> Value {
        Shape::Square {
            low,
            high,
            period,
            duty: 0.5,
            phase: 0.0,
        }
        .into()
    }

    /// `(second, value from then on)`, in order.
    pub fn steps(steps: impl Into<Vec<(f64, f64)>>) -> Value {
        Shape::Steps(steps.into()).into()
    }

    /// `otherwise`, except during bursts.
    pub fn bursts(bursts: impl Into<Vec<Burst>>, otherwise: f64) -> Value {
        Shape::Bursts {
            bursts: bursts.into(),
            otherwise,
        }
        .into()
    }

    pub(super) fn is_word(&self) -> bool {
        matches!(self, Value::Unsupported | Value::Unknown)
    }
}

impl From<Shape> for Value {
    fn from(shape: Shape) -> Value {
        Value::Line(TimeLine { shape, every: None })
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

/// A value that changes with the seconds since the scenario's origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Table", into = "Table")]
pub struct TimeLine {
    pub shape: Shape,
    /// Period in seconds after which the line repeats; a square wave has its own period instead.
    pub every: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Ramp {
        from: f64,
        to: f64,
        seconds: f64,
    },
    Square {
        low: f64,
        high: f64,
        period: f64,
        /// Share of each period in which the wave is high.
        duty: f64,
        /// Number of seconds by which the wave is ahead.
        phase: f64,
    },
    Bursts {
        bursts: Vec<Burst>,
        otherwise: f64,
    },
    Steps(Vec<(f64, f64)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    pub at: f64,
    #[serde(rename = "for")]
    pub seconds: f64,
    pub value: f64,
}

/// The time line in the file: one of four keys, and its parameters.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<(f64, f64)>>,
    #[serde(rename = "else", skip_serializing_if = "Option::is_none")]
    otherwise: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ramp: Option<Ramp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    square: Option<Square>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bursts: Option<Vec<Burst>>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ramp {
    from: f64,
    to: f64,
    seconds: f64,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Square {
    low: f64,
    high: f64,
    period: f64,
    #[serde(default = "half")]
    duty: f64,
    #[serde(default)]
    phase: f64,
}

fn half() -> f64 {
    0.5
}

impl TryFrom<Table> for TimeLine {
    type Error = &'static str;

    fn try_from(table: Table) -> Result<TimeLine, &'static str> {
        let Table {
            steps,
            otherwise,
            every,
            ramp,
            square,
            bursts,
        } = table;
        if otherwise.is_some() && bursts.is_none() {
            return Err("`else` goes with `bursts`");
        }
        if every.is_some() && square.is_some() {
            return Err("a square wave repeats by its `period`, not by `every`");
        }
        let shape = match (ramp, square, bursts, steps) {
            (Some(Ramp { from, to, seconds }), None, None, None) => {
                Shape::Ramp { from, to, seconds }
            }
            (None, Some(square), None, None) => Shape::Square {
                low: square.low,
                high: square.high,
                period: square.period,
                duty: square.duty,
                phase: square.phase,
            },
            (None, None, Some(bursts), None) => Shape::Bursts {
                bursts,
                otherwise: otherwise.unwrap_or(0.0),
            },
            (None, None, None, Some(steps)) => Shape::Steps(steps),
            _ => return Err("a time line is one of `ramp`, `square`, `bursts`, `steps`"),
        };
        let line = TimeLine { shape, every };
        line.check()?;
        Ok(line)
    }
}

impl TimeLine {
    fn check(&self) -> Result<(), &'static str> {
        let numbers = match &self.shape {
            Shape::Ramp { from, to, seconds } => vec![*from, *to, *seconds],
            Shape::Square {
                low,
                high,
                period,
                duty,
                phase,
            } => {
                if *period <= 0.0 {
                    return Err("a period must be above 0");
                }
                if !(0.0..=1.0).contains(duty) {
                    return Err("a duty is a share from 0 to 1");
                }
                vec![*low, *high, *period, *phase]
            }
            Shape::Bursts { bursts, otherwise } => bursts
                .iter()
                .flat_map(|burst| [burst.at, burst.seconds, burst.value])
                .chain([*otherwise])
                .collect(),
            Shape::Steps(steps) => {
                if steps.is_empty() || !steps.is_sorted_by(|a, b| a.0 < b.0) {
                    return Err("steps are at least one, each later than the one before");
                }
                steps.iter().flat_map(|(at, value)| [*at, *value]).collect()
            }
        };
        if self.every.is_some_and(|every| every <= 0.0) {
            return Err("`every` must be above 0");
        }
        if numbers
            .into_iter()
            .chain(self.every)
            .all(|number| number.is_finite() && number.abs() <= 1e18)
        {
            Ok(())
        } else {
            Err("a time line's numbers are finite and at most 1e18")
        }
    }
}

impl From<TimeLine> for Table {
    fn from(line: TimeLine) -> Table {
        let mut table = Table {
            every: line.every,
            ..Table::default()
        };
        match line.shape {
            Shape::Ramp { from, to, seconds } => table.ramp = Some(Ramp { from, to, seconds }),
            Shape::Square {
                low,
                high,
                period,
                duty,
                phase,
            } => {
                table.square = Some(Square {
                    low,
                    high,
                    period,
                    duty,
                    phase,
                });
            }
            Shape::Bursts { bursts, otherwise } => {
                table.bursts = Some(bursts);
                table.otherwise = Some(otherwise);
            }
            Shape::Steps(steps) => table.steps = Some(steps),
        }
        table
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

    #[expect(clippy::cast_precision_loss, reason = "as for i64")]
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        if number.is_finite() {
            Ok(Value::Number(number))
        } else {
            Err(E::custom("a reading must be a finite number"))
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
        TimeLine::deserialize(MapAccessDeserializer::new(map)).map(Value::Line)
    }
}
