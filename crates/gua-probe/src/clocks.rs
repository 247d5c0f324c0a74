//! Three clocks read together. When they disagree between two readings, the host was suspended or the wall clock was set.

use std::time::Duration;

use gua_model::{GapReason, Outage};
use jiff::{SignedDuration, Timestamp};

use crate::clock;

/// One point in time on three clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Wall-clock time; it can be set.
    pub wall: Timestamp,
    /// Cannot be set; continues during suspend.
    pub since_boot: Duration,
    /// Cannot be set; stops during suspend.
    pub monotonic: Duration,
}

/// Minimum length of a suspend, a stall or a clock step. The clocks are read one after the other, so they always differ a little.
pub const NOTICEABLE: Duration = Duration::from_secs(1);
/// Divisor of the elapsed time for the largest change that still counts as slewing. NTP slews by at most 500 parts in a
/// million (adjtimex(2)); four times that is a step.
const SLEW: u32 = 500;

/// Maximum time for reading all three clocks.
const TOGETHER: Duration = Duration::from_millis(100);
/// Maximum number of further readings on a machine that interrupts each.
const READINGS: usize = 10;

impl Clocks {
    pub fn read() -> Self {
        let read = || Self {
            monotonic: clock::monotonic(),
            wall: clock::now(),
            since_boot: clock::since_boot(),
        };
        read_together(read, clock::monotonic)
    }

    /// Time that the host was suspended since `before`.
    pub fn slept_since(&self, before: &Self) -> Option<Duration> {
        let passed = self.since_boot.saturating_sub(before.since_boot);
        let awake = self.monotonic.saturating_sub(before.monotonic);
        passed
            .checked_sub(awake)
            .filter(|slept| *slept >= NOTICEABLE)
    }

    /// Amount by which the wall clock was set since `before`.
    pub fn set_since(&self, before: &Self) -> Option<SignedDuration> {
        let passed = self.since_boot.saturating_sub(before.since_boot);
        let shown = self.wall.duration_since(before.wall);
        let step = shown - SignedDuration::try_from(passed).ok()?;
        let noise = NOTICEABLE + passed / SLEW;
        (step.unsigned_abs() > noise).then_some(step)
    }

    /// Unobserved time since `before` that only the clocks reveal. `interval` converts it to lost ticks.
    pub fn outages_since(&self, before: &Self, interval: Duration) -> Vec<Outage> {
        let mut outages = Vec::new();
        let step = self.set_since(before);
        if let Some(slept) = self.slept_since(before) {
            // The suspend began at an unknown time after `before`.
            let known = step.is_none().then_some(before.wall);
            let from = known.or_else(|| self.wall.checked_sub(slept).ok());
            outages.push(Outage {
                from: from.unwrap_or(self.wall).min(self.wall),
                to: self.wall,
                reason: GapReason::Suspended,
                detail: format!("the host was suspended for {} s", slept.as_secs()),
                ticks_lost: whole_intervals(slept, interval),
            });
        }
        if let Some(step) = step {
            let size = step.unsigned_abs();
            // Skipped time never existed to be observed; repeated time is not a gap.
            let before = self.wall.checked_sub(size).unwrap_or(self.wall);
            let (direction, from) = match step.is_negative() {
                true => ("back", self.wall),
                false => ("forward", before),
            };
            outages.push(Outage {
                from,
                to: self.wall,
                reason: GapReason::ClockSet,
                detail: format!(
                    "the clock was set {direction} by {:.1} s",
                    size.as_secs_f64()
                ),
                ticks_lost: 0,
            });
        }
        outages
    }
}

/// Reads again if the process was interrupted between the clocks: they would disagree although none was set.
fn read_together(read: impl Fn() -> Clocks, monotonic: impl Fn() -> Duration) -> Clocks {
    let mut clocks = read();
    for _ in 0..READINGS {
        if monotonic().saturating_sub(clocks.monotonic) < TOGETHER {
            break;
        }
        clocks = read();
    }
    clocks
}

/// Number of whole intervals in a time.
pub fn whole_intervals(time: Duration, interval: Duration) -> u32 {
    u32::try_from(time.as_nanos() / interval.as_nanos().max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Clocks of a machine that runs this process again `stalls[n]` ms after reading `n` has taken the monotonic clock.
    fn read_with(stalls: &[u64]) -> Clocks {
        let time = Cell::new(Duration::from_secs(4000));
        let readings = Cell::new(0);
        let read = || {
            let monotonic = time.get();
            let stall = stalls.get(readings.replace(readings.get() + 1));
            time.set(monotonic + Duration::from_millis(stall.copied().unwrap_or(0)));
            Clocks {
                monotonic,
                wall: Timestamp::UNIX_EPOCH + SignedDuration::try_from(time.get()).unwrap(),
                since_boot: time.get(),
            }
        };
        read_together(read, || time.get())
    }

    #[test]
    fn an_interrupted_reading_is_repeated() {
        let before = read_with(&[]);
        for stalls in [[0, 0], [3000, 0], [3000, 3000]] {
            let after = read_with(&stalls);
            assert_eq!(after.slept_since(&before), None, "{stalls:?}");
            assert_eq!(after.set_since(&before), None, "{stalls:?}");
        }
    }

    #[test]
    fn a_machine_that_interrupts_every_reading_is_not_waited_for() {
        let interrupted = read_with(&[3000; 100]);
        assert_eq!(interrupted.monotonic, Duration::from_secs(4030));
    }

    /// 100 s pass; in addition the host is suspended and the wall clock is set.
    fn check(slept: u64, set: i64, expected: &str) {
        let before = Clocks {
            wall: Timestamp::from_second(1_800_000_000).unwrap(),
            since_boot: Duration::from_secs(5000),
            monotonic: Duration::from_secs(4000),
        };
        let passed = 100 + i64::try_from(slept).unwrap() + set;
        let after = Clocks {
            wall: before.wall + SignedDuration::from_secs(passed),
            since_boot: before.since_boot + Duration::from_secs(100 + slept),
            monotonic: before.monotonic + Duration::from_secs(100),
        };
        let found: Vec<String> = after
            .outages_since(&before, Duration::from_secs(30))
            .into_iter()
            .map(|outage| {
                assert!(outage.from <= outage.to);
                let from = outage.from.duration_since(before.wall).as_secs();
                let to = outage.to.duration_since(before.wall).as_secs();
                format!("{} {from}..{to} lost {}", outage.reason, outage.ticks_lost)
            })
            .collect();
        assert_eq!(found.join(", "), expected, "slept {slept}, set {set}");
    }

    #[test]
    fn clocks_that_agree_give_no_outage() {
        check(0, 0, "");
        check(0, 1, "");
        check(0, -1, "");
    }

    #[test]
    fn a_suspend_is_distinguished_from_a_clock_step() {
        check(3600, 0, "suspended 0..3700 lost 120");
        check(0, 3600, "clock-set 100..3700 lost 0");
        check(0, -3600, "clock-set -3500..-3500 lost 0");
        check(
            60,
            3600,
            "suspended 3700..3760 lost 2, clock-set 160..3760 lost 0",
        );
    }

    #[test]
    fn slewing_is_not_a_clock_step() {
        let before = Clocks {
            wall: Timestamp::UNIX_EPOCH,
            since_boot: Duration::ZERO,
            monotonic: Duration::ZERO,
        };
        let day = Duration::from_secs(86_400);
        let after = Clocks {
            wall: before.wall + SignedDuration::from_secs(86_400 + 43),
            since_boot: day,
            monotonic: day,
        };
        assert_eq!(after.set_since(&before), None);
    }
}
