//! Round numbers for axes, and number formatting.

/// Returns a number of items as a factor of lengths.
pub(crate) fn count(items: usize) -> f64 {
    f64::from(u32::try_from(items).unwrap_or(u32::MAX))
}

/// Steps of a value axis, from zero to the first step at or above the largest value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Steps {
    pub(crate) values: Vec<f64>,
    pub(crate) decimals: usize,
}

impl Steps {
    /// Returns about `wanted` round steps up to `largest`.
    pub(crate) fn up_to(largest: f64, wanted: u32) -> Self {
        let largest = if largest.is_finite() && largest > 0.0 {
            largest
        } else {
            1.0
        };
        let rough = largest / f64::from(wanted.max(1));
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|step| *step >= rough * 0.999_999)
            .unwrap_or(10.0 * magnitude);
        let decimals = (0..6)
            .find(|decimals| {
                let scaled = step * 10f64.powi(*decimals);
                (scaled - scaled.round()).abs() < 1e-6
            })
            .and_then(|decimals| usize::try_from(decimals).ok())
            .unwrap_or(6);
        let below = |value: f64| value < largest * 0.999_999;
        let steps = (0..40_u32).map(|place| f64::from(place) * step);
        let count = steps.clone().take_while(|value| below(*value)).count();
        let values = steps.take(count + 1).collect();
        Self { values, decimals }
    }

    pub(crate) fn top(&self) -> f64 {
        self.values.last().copied().unwrap_or(1.0)
    }
}

/// Formats a number with separated thousands, or abbreviated if that is too long.
pub(crate) fn grouped(value: f64, decimals: usize) -> String {
    if value >= 1e7 {
        let (short, suffix) = match value {
            1e12.. => return format!("{value:.2e}"),
            1e9.. => (value / 1e9, "G"),
            _ => (value / 1e6, "M"),
        };
        let text = format!("{short:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        return format!("{text}{suffix}");
    }
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, rest)) => format!("{}.{rest}", thousands(whole)),
        None => thousands(&text),
    }
}

/// Puts a comma before every third digit.
pub(crate) fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats hours for labels: one decimal, none from a thousand on. A small positive value is not shown as zero.
pub(crate) fn hours(value: f64) -> String {
    if value > 0.0 && value < 0.05 {
        return "<0.1 h".to_owned();
    }
    let decimals = if value >= 999.95 { 0 } else { 1 };
    format!("{} h", grouped(value, decimals))
}

/// Formats a share as a whole percentage. A small positive share is not shown as 0 %, nor a share just below one as 100
/// %.
pub(crate) fn percent(share: f64) -> String {
    let share = share.clamp(0.0, 1.0);
    if share > 0.0 && share < 0.005 {
        "<1%".to_owned()
    } else if (0.995..1.0).contains(&share) {
        ">99%".to_owned()
    } else {
        format!("{:.0}%", share * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_steps_are_round_and_reach_the_largest_value() {
        let check = |largest: f64, expected: &[f64]| {
            let steps = Steps::up_to(largest, 5);
            assert_eq!(steps.values, expected, "up to {largest}");
        };
        check(24.0, &[0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        check(288.0, &[0.0, 100.0, 200.0, 300.0]);
        check(1.0, &[0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        check(0.0, &Steps::up_to(1.0, 5).values);
        check(f64::NAN, &Steps::up_to(1.0, 5).values);
        for largest in [1e-6, 0.37, 7.0, 99.9, 12_345.6, 3e9, 1e15] {
            let steps = Steps::up_to(largest, 5);
            assert!(steps.top() >= largest * 0.999 && steps.top() <= largest * 2.6);
            assert!((2..=8).contains(&steps.values.len()), "{steps:?}");
        }
    }

    #[test]
    fn numbers_are_shown_as_people_read_them() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(hours(0.0), "0.0 h");
        check(hours(0.01), "<0.1 h");
        check(hours(12.34), "12.3 h");
        check(hours(8760.0), "8,760 h");
        check(hours(12_345_678.0), "12.35M h");
        check(grouped(1_234_567.0, 0), "1,234,567");
        check(grouped(999.5, 1), "999.5");
        check(percent(0.0), "0%");
        check(percent(0.001), "<1%");
        check(percent(0.999), ">99%");
        check(percent(1.0), "100%");
        check(percent(0.346), "35%");
    }
}
