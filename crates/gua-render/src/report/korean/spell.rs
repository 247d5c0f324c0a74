//! Lengths of time and large numbers in Korean.

use std::time::Duration;

use gua_model::Micros;

use crate::chart::thousands;

const MINUTE: u64 = 60;
const HOUR: u64 = 3600;
const DAY: u64 = 86_400;
/// Interval that the replaced tool assumes if the history records none.
const NO_INTERVAL: Duration = Duration::from_secs(30);

/// Formats the length of a window: in whole days, hours or minutes if possible, otherwise to the second.
pub(super) fn since(window: Micros) -> String {
    let seconds = window.0 / Micros::PER_SECOND;
    let whole = |unit: u64| window.0.is_multiple_of(unit * Micros::PER_SECOND);
    if seconds >= DAY && whole(DAY) {
        format!("{}일", seconds / DAY)
    } else if seconds >= HOUR && whole(HOUR) {
        format!("{}시간", seconds / HOUR)
    } else if whole(MINUTE) {
        format!("{}분", seconds / MINUTE)
    } else {
        let days = match seconds / DAY {
            0 => String::new(),
            days => format!("{days}일 "),
        };
        let rest = seconds % DAY;
        format!(
            "{days}{}:{:02}:{:02}",
            rest / HOUR,
            rest % HOUR / MINUTE,
            rest % MINUTE
        )
    }
}

/// The time between ticks.
pub(super) fn interval(known: Option<Duration>) -> String {
    let interval = known.unwrap_or(NO_INTERVAL);
    let seconds = interval.as_secs();
    if interval.subsec_nanos() == 0 && seconds >= MINUTE && seconds.is_multiple_of(MINUTE) {
        return format!("{}분", seconds / MINUTE);
    }
    // Six significant digits, like C's %g, for every interval that a daemon accepts.
    let text = format!("{:.6}", interval.as_secs_f64());
    format!("{}초", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats how long ago something was.
pub(super) fn ago(seconds: i64) -> String {
    match seconds {
        ..90 => format!("{seconds}초 전"),
        90..5400 => format!("{}분 전", seconds / 60),
        _ => format!("{}시간 전", seconds / 3600),
    }
}

/// Formats a number with a comma before every third digit.
pub(super) fn grouped(number: u64) -> String {
    thousands(&number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_named_by_its_largest_whole_unit() {
        let check =
            |seconds: u64, words: &str| assert_eq!(since(Micros::from_secs(seconds)), words);
        check(7 * DAY, "7일");
        check(36 * HOUR, "36시간");
        check(90 * MINUTE, "90분");
        check(0, "0분");
        check(3 * HOUR + 61, "3:01:01");
        check(2 * DAY + 5, "2일 0:00:05");
    }

    #[test]
    fn an_interval_is_minutes_where_it_is_whole() {
        let check = |known: Option<u64>, words: &str| {
            assert_eq!(interval(known.map(Duration::from_millis)), words);
        };
        check(None, "30초");
        check(Some(20), "0.02초");
        check(Some(60_000), "1분");
        check(Some(90_000), "90초");
        check(Some(600_000), "10분");
        check(Some(1_500), "1.5초");
    }

    #[test]
    fn moments_ago_change_their_unit_where_the_old_tool_did() {
        let check = |seconds, words: &str| assert_eq!(ago(seconds), words);
        check(0, "0초 전");
        check(89, "89초 전");
        check(90, "1분 전");
        check(5399, "89분 전");
        check(5400, "1시간 전");
    }

    #[test]
    fn large_numbers_have_commas() {
        let check = |number, text: &str| assert_eq!(grouped(number), text);
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(8_294_400, "8,294,400");
    }
}
