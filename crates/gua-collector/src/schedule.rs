//! Schedule of ticks. The caller passes the time, on the monotonic clock.
//!
//! Targets are one interval apart however long a tick takes, so the schedule does not drift. A tick that overruns the
//! next target restarts the schedule from now: missed ticks are reported, not made up for in a burst.

use std::time::Duration;

use gua_probe::clocks::whole_intervals;

/// Tick targets on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    interval: Duration,
    /// Target of the tick that started last; `None` before the first.
    last: Option<Duration>,
    next: Duration,
}

/// Whether a tick is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Tick,
    /// A tick is due, and whole ticks before it were missed because nobody asked in time.
    Late(Overrun),
    /// No tick is due before this time.
    Wait(Duration),
}

/// A tick that was still running, or had not started, when the next one was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    pub late: Duration,
    /// Number of whole ticks that were skipped, without the late one.
    pub skipped: u32,
}

impl Schedule {
    /// Creates a schedule whose first tick is due immediately.
    pub fn new(interval: Duration, now: Duration) -> Self {
        Self {
            interval,
            last: None,
            next: now,
        }
    }

    /// Starts the tick that is due, if any; the caller must then call [`Schedule::end`].
    pub fn begin(&mut self, now: Duration) -> Turn {
        if now < self.next {
            return Turn::Wait(self.next);
        }
        let late = now.saturating_sub(self.next);
        if late >= self.interval && self.last.is_some() {
            self.last = Some(now);
            self.next = now.saturating_add(self.interval);
            return Turn::Late(self.overrun(late));
        }
        self.last = Some(self.next);
        self.next = self.next.saturating_add(self.interval);
        Turn::Tick
    }

    /// Ends a tick; returns by how much it overran.
    pub fn end(&mut self, now: Duration) -> Option<Overrun> {
        let late = now.checked_sub(self.next).filter(|late| !late.is_zero())?;
        self.next = now;
        Some(self.overrun(late))
    }

    fn overrun(&self, late: Duration) -> Overrun {
        let skipped = whole_intervals(late, self.interval);
        Overrun { late, skipped }
    }

    /// Changes the interval, counted from the last tick. A target that has already passed is due now.
    pub fn change(&mut self, interval: Duration, now: Duration) {
        self.interval = interval;
        if let Some(last) = self.last {
            self.next = last.saturating_add(interval).max(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    /// Runs a schedule from 1000 ms on; each number is the duration of a tick. Returns tick starts and overruns.
    fn play(interval: u64, takes: &[u64]) -> String {
        let mut now = ms(1000);
        let mut schedule = Schedule::new(ms(interval), now);
        let mut log = Vec::new();
        for took in takes {
            while let Turn::Wait(until) = schedule.begin(now) {
                assert!(until > now, "a wait goes forward");
                now = until;
            }
            log.push((now - ms(1000)).as_millis().to_string());
            now += ms(*took);
            if let Some(overrun) = schedule.end(now) {
                let late = overrun.late.as_millis();
                log.push(format!("late {late} skipped {}", overrun.skipped));
            }
        }
        log.join(", ")
    }

    #[test]
    fn ticks_are_one_interval_apart_however_long_they_take() {
        assert_eq!(play(100, &[0, 99, 1, 100, 50]), "0, 100, 200, 300, 400");
    }

    #[test]
    fn an_overrun_restarts_from_now_without_a_burst() {
        assert_eq!(
            play(100, &[10, 350, 10, 10]),
            "0, 100, late 250 skipped 2, 450, 550"
        );
        assert_eq!(play(100, &[101, 0, 0]), "0, late 1 skipped 0, 101, 201");
    }

    #[test]
    fn waking_late_does_not_move_the_targets() {
        let mut schedule = Schedule::new(ms(100), ms(0));
        assert_eq!(schedule.begin(ms(7)), Turn::Tick);
        assert_eq!(schedule.end(ms(20)), None);
        assert_eq!(schedule.begin(ms(20)), Turn::Wait(ms(100)));
        assert_eq!(schedule.begin(ms(103)), Turn::Tick);
        assert_eq!(schedule.begin(ms(104)), Turn::Wait(ms(200)));
    }

    #[test]
    fn waking_after_whole_intervals_restarts_from_now_and_reports_what_was_skipped() {
        let mut schedule = Schedule::new(ms(100), ms(0));
        assert_eq!(schedule.begin(ms(0)), Turn::Tick);
        assert_eq!(schedule.end(ms(10)), None);
        // Due at 100, 200, 300 and 400; the one at 450 replaces the last of them.
        let missed = Overrun {
            late: ms(350),
            skipped: 3,
        };
        assert_eq!(schedule.begin(ms(450)), Turn::Late(missed));
        assert_eq!(schedule.end(ms(460)), None);
        assert_eq!(schedule.begin(ms(460)), Turn::Wait(ms(550)));
    }

    #[test]
    fn a_huge_interval_does_not_overflow() {
        let mut schedule = Schedule::new(Duration::MAX, ms(5));
        assert_eq!(schedule.begin(ms(5)), Turn::Tick);
        assert_eq!(schedule.end(ms(6)), None);
        assert_eq!(schedule.begin(ms(7)), Turn::Wait(Duration::MAX));
    }

    #[test]
    fn a_changed_interval_counts_from_the_last_tick() {
        let mut schedule = Schedule::new(ms(1000), ms(0));
        assert_eq!(schedule.begin(ms(0)), Turn::Tick);
        schedule.change(ms(100), ms(30));
        assert_eq!(schedule.begin(ms(30)), Turn::Wait(ms(100)));
        schedule.change(ms(10), ms(50));
        assert_eq!(schedule.begin(ms(50)), Turn::Tick, "passed, so due now");
        assert_eq!(schedule.begin(ms(50)), Turn::Wait(ms(60)), "and once");
    }

    proptest! {
        #[test]
        fn there_are_never_more_ticks_than_intervals(interval in 1u64..500, takes in prop::collection::vec(0u64..2000, 1..60)) {
            let mut now = ms(0);
            let mut schedule = Schedule::new(ms(interval), now);
            let (mut ticks, mut skipped) = (0u64, 0u64);
            for took in &takes {
                while let Turn::Wait(until) = schedule.begin(now) {
                    now = until;
                }
                ticks += 1;
                now += ms(*took);
                skipped += schedule.end(now).map_or(0, |overrun| u64::from(overrun.skipped));
            }
            let elapsed = u64::try_from(now.as_millis()).unwrap();
            prop_assert!(ticks <= elapsed / interval + 1);
            prop_assert!(ticks + skipped <= elapsed / interval + 1);
        }
    }
}
