//! Compiled time lines: the value at a time, and the exact mean over a window.
//!
//! A line uses no clock. Time is in seconds since the scenario's origin and may be negative.

use crate::scenario::{Burst, Ramp, TimeLine, Value};

/// A reading over time.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    curve: Curve,
    every: Option<f64>,
    phase: f64,
}

#[derive(Clone, Debug)]
enum Curve {
    Constant(f64),
    Ramp(Ramp),
    Steps(Vec<Step>),
}

/// A step: from `at` on the value is `value`; `area` is the area under the curve between the first step and this one.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: f64,
    value: f64,
    area: f64,
}

impl Line {
    pub(crate) fn constant(value: f64) -> Line {
        Line {
            curve: Curve::Constant(value),
            every: None,
            phase: 0.0,
        }
    }

    /// Compiles a value; `None` for a keyword.
    pub(crate) fn new(value: &Value) -> Option<Line> {
        match value {
            Value::Number(number) => Some(Line::constant(*number)),
            Value::Line(line) => Line::compile(line).ok(),
            Value::Unsupported | Value::Unknown => None,
        }
    }

    /// Compiles a time line, or returns why it is invalid.
    pub(crate) fn compile(line: &TimeLine) -> Result<Line, &'static str> {
        let (mut every, mut phase) = (line.every, 0.0);
        if every.is_some_and(|every| every <= 0.0) {
            return Err("`every` must be above 0");
        }
        if line.otherwise.is_some() && line.bursts.is_none() {
            return Err("`else` goes with `bursts`");
        }
        let otherwise = line.otherwise.unwrap_or(0.0);
        let mut numbers: Vec<f64> = vec![every.unwrap_or(0.0), otherwise];
        let curve = match (line.ramp, line.square, &line.bursts, &line.steps) {
            (Some(ramp), None, None, None) => {
                numbers.extend([ramp.from, ramp.to, ramp.seconds]);
                Curve::Ramp(ramp)
            }
            (None, Some(square), None, None) => {
                if every.is_some() {
                    return Err("a square wave repeats by its `period`, not by `every`");
                }
                if square.period <= 0.0 {
                    return Err("a period must be above 0");
                }
                if !(0.0..=1.0).contains(&square.duty) {
                    return Err("a duty is a share from 0 to 1");
                }
                numbers.extend([square.low, square.high, square.period, square.phase]);
                (every, phase) = (Some(square.period), square.phase);
                let low_from = square.duty * square.period;
                steps(&[(0.0, square.high), (low_from, square.low)])
            }
            (None, None, Some(bursts), None) => {
                let of_burst = |burst: &Burst| [burst.at, burst.seconds, burst.value];
                numbers.extend(bursts.iter().flat_map(of_burst));
                steps_of_bursts(bursts, otherwise)
            }
            (None, None, None, Some(points)) => {
                if points.is_empty() || !points.is_sorted_by(|a, b| a.0 < b.0) {
                    return Err("steps are at least one, each later than the one before");
                }
                numbers.extend(points.iter().flat_map(|(at, value)| [*at, *value]));
                steps(points)
            }
            _ => return Err("a time line is one of `ramp`, `square`, `bursts`, `steps`"),
        };
        let is_sane = |number: &f64| number.is_finite() && number.abs() <= 1e18;
        match numbers.iter().all(is_sane) {
            true => Ok(Line {
                curve,
                every,
                phase,
            }),
            false => Err("a time line's numbers are finite and at most 1e18"),
        }
    }

    pub(crate) fn is_always_zero(&self) -> bool {
        matches!(self.curve, Curve::Constant(0.0))
    }

    pub(crate) fn at(&self, t: f64) -> f64 {
        let t = t + self.phase;
        self.curve
            .at(self.every.map_or(t, |every| t.rem_euclid(every)))
    }

    /// Returns the area under the line between second 0 and `t`.
    pub(crate) fn area(&self, t: f64) -> f64 {
        self.shifted_area(t + self.phase) - self.shifted_area(self.phase)
    }

    /// Returns the mean over the `window` seconds that end at `t`.
    pub(crate) fn mean(&self, t: f64, window: f64) -> f64 {
        match self.curve {
            Curve::Constant(value) => value,
            _ => (self.area(t) - self.area(t - window)) / window,
        }
    }

    fn shifted_area(&self, t: f64) -> f64 {
        match self.every {
            None => self.curve.area(t),
            Some(every) => {
                let rounds = (t / every).floor();
                rounds * self.curve.area(every) + self.curve.area(t.rem_euclid(every))
            }
        }
    }
}

impl Curve {
    fn at(&self, t: f64) -> f64 {
        match self {
            Curve::Constant(value) => *value,
            Curve::Ramp(Ramp { from, to, seconds }) => {
                if t <= 0.0 {
                    *from
                } else if t >= *seconds {
                    *to
                } else {
                    from + (to - from) * t / seconds
                }
            }
            Curve::Steps(steps) => step_at(steps, t).map_or(0.0, |step| step.value),
        }
    }

    fn area(&self, t: f64) -> f64 {
        match self {
            Curve::Constant(value) => value * t,
            Curve::Ramp(Ramp { from, to, seconds }) => {
                let rising = t.clamp(0.0, seconds.max(0.0));
                let before = t.min(0.0) * from;
                let after = (t - seconds.max(0.0)).max(0.0) * to;
                before + (from + self.at(rising)) / 2.0 * rising + after
            }
            Curve::Steps(steps) => {
                let from_first = |t: f64| {
                    step_at(steps, t).map_or(0.0, |step| step.area + (t - step.at) * step.value)
                };
                from_first(t) - from_first(0.0)
            }
        }
    }
}

/// Returns the step at `t`; the first one also applies before itself.
fn step_at(steps: &[Step], t: f64) -> Option<&Step> {
    let after = steps.partition_point(|step| step.at <= t);
    steps.get(after.saturating_sub(1))
}

/// Of two bursts at the same time, the first one counts.
fn steps_of_bursts(bursts: &[Burst], otherwise: f64) -> Curve {
    let value_at = |t: f64| {
        let mut bursts = bursts.iter();
        let burst = bursts.find(|burst| burst.at <= t && t < burst.at + burst.seconds);
        burst.map_or(otherwise, |burst| burst.value)
    };
    let edges = |burst: &Burst| [burst.at, burst.at + burst.seconds];
    let mut edges: Vec<f64> = bursts.iter().flat_map(edges).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    // The value of the first point also applies before it.
    let first = edges.first().map_or(0.0, |edge| edge - 1.0);
    let mut points = vec![(first, otherwise)];
    points.extend(edges.into_iter().map(|edge| (edge, value_at(edge))));
    steps(&points)
}

fn steps(points: &[(f64, f64)]) -> Curve {
    let mut steps: Vec<Step> = Vec::with_capacity(points.len());
    for (at, value) in points {
        let area = steps
            .last()
            .map_or(0.0, |last| last.area + (at - last.at) * last.value);
        steps.push(Step {
            at: *at,
            value: *value,
            area,
        });
    }
    Curve::Steps(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Square;

    fn check(value: &Value, every: Option<f64>, readings: &[(f64, f64)]) {
        let line = match value.clone() {
            Value::Line(line) => {
                Line::compile(&TimeLine { every, ..line }).expect("the line is valid")
            }
            other => Line::new(&other).expect("the value is not a word"),
        };
        for (t, expected) in readings {
            assert_eq!(line.at(*t), *expected, "at {t} of {value:?}");
        }
        // The exact area equals a fine sum everywhere.
        let (mut sum, pieces) = (0.0, 20_000);
        for piece in 0..pieces {
            sum += line.at((f64::from(piece) + 0.5) * 30.0 / f64::from(pieces)) * 30.0
                / f64::from(pieces);
        }
        assert!(
            (line.area(30.0) - sum).abs() < 1.0,
            "area {} and sum {sum} of {value:?}",
            line.area(30.0)
        );
    }

    #[test]
    fn a_constant_never_changes() {
        check(
            &Value::Number(30.0),
            None,
            &[(-5.0, 30.0), (0.0, 30.0), (1e9, 30.0)],
        );
    }

    #[test]
    fn a_ramp_rises_and_stays() {
        let ramp = Value::ramp(0.0, 100.0, 10.0);
        check(
            &ramp,
            None,
            &[(-1.0, 0.0), (5.0, 50.0), (10.0, 100.0), (99.0, 100.0)],
        );
        check(
            &ramp,
            Some(20.0),
            &[(5.0, 50.0), (19.0, 100.0), (25.0, 50.0)],
        );
    }

    #[test]
    fn a_square_wave_is_high_first() {
        let square = Value::square(10.0, 90.0, 10.0);
        check(
            &square,
            None,
            &[
                (0.0, 90.0),
                (4.9, 90.0),
                (5.0, 10.0),
                (10.0, 90.0),
                (-1.0, 10.0),
            ],
        );
        let ahead = TimeLine {
            square: Some(Square {
                low: 0.0,
                high: 8.0,
                period: 10.0,
                duty: 0.2,
                phase: 9.0,
            }),
            ..TimeLine::default()
        };
        check(
            &Value::Line(ahead),
            None,
            &[(0.0, 0.0), (1.0, 8.0), (2.9, 8.0), (3.0, 0.0)],
        );
    }

    #[test]
    fn bursts_interrupt_the_rest_and_the_first_of_two_wins() {
        let burst = |at, seconds, value| Burst { at, seconds, value };
        let bursts = Value::bursts([burst(3.0, 0.5, 90.0), burst(3.2, 1.0, 40.0)], 5.0);
        check(
            &bursts,
            None,
            &[
                (0.0, 5.0),
                (3.0, 90.0),
                (3.4, 90.0),
                (3.6, 40.0),
                (4.2, 5.0),
                (13.1, 5.0),
            ],
        );
        check(
            &bursts,
            Some(10.0),
            &[(13.1, 90.0), (14.0, 40.0), (20.0, 5.0)],
        );
    }

    #[test]
    fn steps_hold_until_the_next() {
        let steps = Value::steps([(0.0, 10.0), (5.0, 80.0)]);
        check(
            &steps,
            None,
            &[(-3.0, 10.0), (4.9, 10.0), (5.0, 80.0), (50.0, 80.0)],
        );
    }

    #[test]
    fn a_mean_sees_a_burst_between_two_instants() {
        let line = Line::new(&Value::bursts(
            [Burst {
                at: 1.0,
                seconds: 0.1,
                value: 100.0,
            }],
            0.0,
        ));
        let line = line.expect("bursts are a line");
        assert_eq!(line.at(1.2), 0.0);
        assert!((line.mean(1.2, 0.4) - 25.0).abs() < 1e-9);
    }
}
