//! Compiled time lines: the value at a time, and the exact mean over a window.
//!
//! A line uses no clock. Time is in seconds since the scenario's origin and may be negative.

use crate::scenario::{Burst, Ramp, TimeLine, Value};

/// A reading over time, in straight pieces.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// At least one, in order of time. The first one is constant, and applies before itself too.
    pieces: Vec<Piece>,
    every: Option<f64>,
    phase: f64,
}

/// A piece: the value is `value` at `at`, and changes by `slope` each second. `area` is the area under the line between the
/// first piece and this one.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: f64,
    value: f64,
    slope: f64,
    area: f64,
}

impl Piece {
    /// Returns the area between the first piece and a time in this one.
    fn area_to(&self, t: f64) -> f64 {
        let time = t - self.at;
        self.area + time * (self.value + time * self.slope / 2.0)
    }
}

impl Line {
    pub(crate) fn constant(value: f64) -> Line {
        Line {
            pieces: steps(&[(0.0, value)]),
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
        let pieces = match (line.ramp, line.square, &line.bursts, &line.steps) {
            (Some(ramp), None, None, None) => ramp_pieces(ramp),
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
                (every, phase) = (Some(square.period), square.phase);
                let low_from = square.duty * square.period;
                steps(&[(0.0, square.high), (low_from, square.low)])
            }
            (None, None, Some(bursts), None) => steps_of_bursts(bursts, otherwise),
            (None, None, None, Some(points)) => {
                if points.is_empty() || !points.is_sorted_by(|a, b| a.0 < b.0) {
                    return Err("steps are at least one, each later than the one before");
                }
                steps(points)
            }
            _ => return Err("a time line is one of `ramp`, `square`, `bursts`, `steps`"),
        };
        let is_sane = |number: f64| number.is_finite() && number.abs() <= 1e18;
        let numbers = pieces.iter().flat_map(|piece| [piece.at, piece.value]);
        match numbers.chain([phase]).chain(every).all(is_sane) {
            true => Ok(Line {
                pieces,
                every,
                phase,
            }),
            false => Err("a time line's numbers are finite and at most 1e18"),
        }
    }

    pub(crate) fn is_always_zero(&self) -> bool {
        matches!(self.pieces[..], [Piece { value: 0.0, .. }])
    }

    pub(crate) fn at(&self, t: f64) -> f64 {
        let t = t + self.phase;
        let t = self.every.map_or(t, |every| t.rem_euclid(every));
        let piece = self.piece(t);
        piece.value + (t - piece.at) * piece.slope
    }

    /// Returns the area under the line between second 0 and `t`.
    pub(crate) fn area(&self, t: f64) -> f64 {
        self.shifted_area(t + self.phase) - self.shifted_area(self.phase)
    }

    /// Returns the mean over the `window` seconds that end at `t`.
    pub(crate) fn mean(&self, t: f64, window: f64) -> f64 {
        match self.pieces[..] {
            [Piece { value, .. }] => value,
            _ => (self.area(t) - self.area(t - window)) / window,
        }
    }

    fn shifted_area(&self, t: f64) -> f64 {
        match self.every {
            None => self.area_in_period(t),
            Some(every) => {
                let rounds = (t / every).floor();
                rounds * self.area_in_period(every) + self.area_in_period(t.rem_euclid(every))
            }
        }
    }

    /// Returns the area between second 0 and `t` of a line that does not repeat.
    fn area_in_period(&self, t: f64) -> f64 {
        self.piece(t).area_to(t) - self.piece(0.0).area_to(0.0)
    }

    fn piece(&self, t: f64) -> &Piece {
        let after = self.pieces.partition_point(|piece| piece.at <= t);
        &self.pieces[after.saturating_sub(1)]
    }
}

fn ramp_pieces(Ramp { from, to, seconds }: Ramp) -> Vec<Piece> {
    if seconds <= 0.0 {
        return steps(&[(-1.0, from), (0.0, to)]);
    }
    let slope = (to - from) / seconds;
    pieces(&[(-1.0, from, 0.0), (0.0, from, slope), (seconds, to, 0.0)])
}

/// Of two bursts at the same time, the first one counts.
fn steps_of_bursts(bursts: &[Burst], otherwise: f64) -> Vec<Piece> {
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

fn steps(points: &[(f64, f64)]) -> Vec<Piece> {
    let points: Vec<_> = points
        .iter()
        .map(|(at, value)| (*at, *value, 0.0))
        .collect();
    pieces(&points)
}

/// Computes the areas of pieces that are given by their start, value and slope.
fn pieces(points: &[(f64, f64, f64)]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(points.len());
    for &(at, value, slope) in points {
        let area = pieces.last().map_or(0.0, |last| last.area_to(at));
        pieces.push(Piece {
            at,
            value,
            slope,
            area,
        });
    }
    pieces
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
