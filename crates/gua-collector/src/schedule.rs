//! When the next tick is due. Pure: it is told the time, on a clock that never jumps.
//!
//! Targets stand one interval apart whatever a tick takes, so nothing drifts. A tick that overruns the next target moves
//! the schedule to now: what was missed is told and never made up for in a burst.

use std::time::Duration;

/// A row of targets on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    interval: Duration,
    /// The target of the tick that began last; before the first one, none has.
    last: Option<Duration>,
    next: Duration,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Tick,
    /// A tick, and whole ones fell out before it: nobody came to ask in time.
    Late(Overrun),
    /// Nothing before this time.
    Wait(Duration),
}

/// A tick that was still going on when the next one was due, or that began after the next one was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    pub late: Duration,
    /// Whole ticks that fell out; the one that is late is not among them.
    pub skipped: u32,
}

impl Schedule {
    /// The first tick is due at once.
    #[must_use]
    pub fn new(interval: Duration, now: Duration) -> Self {
        Self {
            interval,
            last: None,
            next: now,
        }
    }

    /// Whether a tick is due. If so it has begun, and [`Schedule::end`] is to be told when it is done.
    pub fn begin(&mut self, now: Duration) -> Turn {
        if now < self.next {
            return Turn::Wait(self.next);
        }
        let late = now.saturating_sub(self.next);
        if late >= self.interval && self.last.is_some() {
            self.last = Some(now);
            self.next = now.saturating_add(self.interval);
            return Turn::Late(Overrun {
                late,
                skipped: self.whole(late),
            });
        }
        self.last = Some(self.next);
        self.next = self.next.saturating_add(self.interval);
        Turn::Tick
    }

    /// A tick is done.
    pub fn end(&mut self, now: Duration) -> Option<Overrun> {
        let late = now.checked_sub(self.next).filter(|late| !late.is_zero())?;
        self.next = now;
        Some(Overrun {
            late,
            skipped: self.whole(late),
        })
    }

    fn whole(&self, late: Duration) -> u32 {
        let ticks = late.as_nanos() / self.interval.as_nanos().max(1);
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    /// Another interval from the last tick on. One that has passed already is due now.
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

    /// Runs a schedule from 1000 ms on; each number is how long a tick takes. Says when ticks began and what was late.
    fn play(interval: u64, takes: &[u64]) -> String {
        let mut now = ms(1000);
        let mut schedule = Schedule::new(ms(interval), now);
        let mut told = Vec::new();
        for took in takes {
            while let Turn::Wait(until) = schedule.begin(now) {
                assert!(until > now, "a wait goes forward");
                now = until;
            }
            told.push((now - ms(1000)).as_millis().to_string());
            now += ms(*took);
            if let Some(overrun) = schedule.end(now) {
                let late = overrun.late.as_millis();
                told.push(format!("late {late} skipped {}", overrun.skipped));
            }
        }
        told.join(", ")
    }

    #[test]
    fn ticks_stand_one_interval_apart_whatever_they_take() {
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
    fn waking_after_whole_intervals_restarts_from_now_and_tells_what_fell_out() {
        let mut schedule = Schedule::new(ms(100), ms(0));
        assert_eq!(schedule.begin(ms(0)), Turn::Tick);
        assert_eq!(schedule.end(ms(10)), None);
        // Due at 100, 200, 300 and 400; the one at 450 stands for the last of them.
        let missed = Overrun {
            late: ms(350),
            skipped: 3,
        };
        assert_eq!(schedule.begin(ms(450)), Turn::Late(missed));
        assert_eq!(schedule.end(ms(460)), None);
        assert_eq!(schedule.begin(ms(460)), Turn::Wait(ms(550)));
    }

    #[test]
    fn a_huge_interval_waits_for_ever_and_does_not_overflow() {
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
