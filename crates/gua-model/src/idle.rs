//! Idle now: GPUs that are held and not used at the last tick, and for how long.
//!
//! This is the list that people act on, so every surface (`gua report`, its page, `gua list`, `gua top`, JSON) applies the
//! same two rules. A GPU is idle now if its roll-up at the last tick is idle-held ([`is_idle_now`]), whatever it did before.
//! A holder has been idle since its GPU was last used, but not since before it came ([`idle_since`]). A gap in the
//! observation does not end the time: the process is the same one before and after it. The unobserved part is stated
//! beside the length.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::id::ProcessKey;
use crate::period::Period;
use crate::since::{Since, Start};
use crate::state::{RollUp, State};
use crate::text::short_age;
use crate::unit::Micros;

/// Minimum idle time before ending a process is suggested. A shorter pause may lie between two steps of a job.
pub const LONG: SignedDuration = SignedDuration::from_mins(10);

/// Whether a GPU in this state is idle now: something holds it, and nothing uses it.
pub fn is_idle_now(state: State) -> bool {
    state.roll_up() == Some(RollUp::IdleHeld)
}

/// Since when a holder has been idle: the end of the last use of its GPU, or the beginning of the hold if that is later.
/// `None` if neither is known.
pub fn idle_since(held: Option<Since>, last_use: Option<Since>) -> Option<Since> {
    match (held, last_use) {
        (Some(held), Some(last_use)) if last_use.at > held.at => Some(last_use),
        (held, last_use) => held.or(last_use),
    }
}

/// Idle time of a GPU or of one of its holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// Time of the last activity, or else the beginning of the hold. A bound means that it may have been idle for
    /// longer.
    pub since: Since,
    /// Part of the time since then in which the GPU was not observed.
    pub unobserved: Micros,
}

impl Idle {
    pub fn length(&self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.since.at).max(SignedDuration::ZERO)
    }

    /// Whether it has been idle for long enough to advise ending it.
    pub fn is_long(&self, now: Timestamp) -> bool {
        self.length(now) >= LONG
    }

    /// The length as every surface shows it: `1d2h`, with `>` in front of a bound, and with the unobserved part behind it
    /// where that is a tenth or more: `1d2h (5h10m gap)`.
    pub fn shown(&self, now: Timestamp) -> String {
        let length = Duration::try_from(self.length(now)).unwrap_or_default();
        let gap = Duration::from_micros(self.unobserved.0).min(length);
        let bound = if self.is_bound() { ">" } else { "" };
        let length_text = short_age(length);
        match gap.as_secs() > 0 && gap >= length / 10 {
            true => format!("{bound}{length_text} ({} gap)", short_age(gap)),
            false => format!("{bound}{length_text}"),
        }
    }

    /// The part of the idle time after a moment.
    fn not_before(self, moment: Timestamp, now: Timestamp) -> Self {
        if moment <= self.since.at {
            return self;
        }
        let rest = Period::new(moment, now.max(moment)).micros();
        Self {
            since: Since {
                at: moment,
                start: Start::Seen,
            },
            unobserved: self.unobserved.min(rest),
        }
    }

    /// Whether it may have been idle for longer than [`Idle::length`].
    pub fn is_bound(&self) -> bool {
        self.since.start == Start::AtLatest
    }
}

/// An idle GPU and its holders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleGpu {
    /// Idle time of the holder that has been idle longest.
    pub longest: Idle,
    /// Holders with a recorded session, the longest idle first.
    pub holders: Vec<(ProcessKey, Idle)>,
}

impl IdleGpu {
    /// Returns the idle time of one of its holders; for a holder without a recorded session, the idle time of the GPU.
    pub fn of(&self, process: Option<ProcessKey>) -> Idle {
        let holders = self.holders.iter();
        let mut its = holders.filter(|(key, _)| Some(*key) == process);
        its.next().map_or(self.longest, |(_, idle)| *idle)
    }

    /// Idle time of the holders that a live sample has, with the start of their processes. The records end before the
    /// sample, so some holders may be missing in them. A holder is not idle for longer than its process has run.
    pub fn among(&self, live: &[(ProcessKey, Option<Timestamp>)], now: Timestamp) -> Self {
        let idle = |(process, started): &(ProcessKey, Option<Timestamp>)| {
            let idle = self.of(Some(*process));
            let idle = started.map_or(idle, |started| idle.not_before(started, now));
            (*process, idle)
        };
        let mut holders: Vec<(ProcessKey, Idle)> = live.iter().map(idle).collect();
        holders.sort_by_key(|(process, idle)| (idle.since.at, *process));
        Self {
            longest: holders.first().map_or(self.longest, |(_, idle)| *idle),
            holders,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{BootId, Pid, StartTicks};

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(hour * 3600).unwrap()
    }

    fn seen(hour: i64) -> Option<Since> {
        Some(Since {
            at: at(hour),
            start: Start::Seen,
        })
    }

    fn at_latest(hour: i64) -> Option<Since> {
        Some(Since {
            at: at(hour),
            start: Start::AtLatest,
        })
    }

    #[test]
    fn idle_now_is_what_rolls_up_to_idle_held() {
        let idle = State::ALL.into_iter().filter(|state| is_idle_now(*state));
        let idle: Vec<_> = idle.collect();
        assert_eq!(idle, [State::IdleHeld, State::OrphanHeld]);
    }

    #[test]
    fn a_holder_is_idle_since_the_last_use_but_not_since_before_it_came() {
        assert_eq!(idle_since(seen(2), seen(5)), seen(5));
        assert_eq!(idle_since(seen(5), seen(2)), seen(5));
        assert_eq!(idle_since(at_latest(2), seen(5)), seen(5));
        assert_eq!(idle_since(at_latest(2), None), at_latest(2));
        assert_eq!(idle_since(None, at_latest(3)), at_latest(3));
        assert_eq!(idle_since(None, None), None);
    }

    #[test]
    fn a_length_is_never_negative() {
        let idle = Idle {
            since: seen(3).unwrap(),
            unobserved: Micros(0),
        };
        assert_eq!(idle.length(at(29)), SignedDuration::from_hours(26));
        assert_eq!(idle.length(at(2)), SignedDuration::ZERO);
        assert!(!idle.is_bound());
        let minutes = |minutes| at(3) + SignedDuration::from_mins(minutes);
        assert!(!idle.is_long(minutes(9)));
        assert!(idle.is_long(minutes(10)));
    }

    #[test]
    fn a_live_holder_is_not_idle_for_longer_than_its_process_has_run() {
        let key = |pid: u32| ProcessKey {
            boot: BootId(7),
            pid: Pid(pid),
            start: StartTicks(1),
        };
        let idle = |since: Option<Since>, gap_hours: u64| Idle {
            since: since.unwrap(),
            unobserved: Micros::from_secs(gap_hours * 3600),
        };
        // Records until hour 20: one holder, which has left since.
        let recorded = IdleGpu {
            longest: idle(at_latest(3), 9),
            holders: vec![(key(1), idle(at_latest(3), 9))],
        };
        let newcomer = recorded.among(&[(key(2), Some(at(27)))], at(29));
        assert_eq!(newcomer.longest, idle(seen(27), 2));
        assert_eq!(newcomer.holders, [(key(2), idle(seen(27), 2))]);
        let both = [(key(2), Some(at(27))), (key(1), Some(at(1)))];
        let both = recorded.among(&both, at(29));
        assert_eq!(both.longest, idle(at_latest(3), 9));
        assert_eq!(both.of(Some(key(2))), idle(seen(27), 2));
        // A holder whose process is gone has no key.
        assert_eq!(recorded.among(&[], at(29)).longest, recorded.longest);
    }

    #[test]
    fn a_bound_and_a_long_gap_are_shown() {
        let check = |since: Option<Since>, gap_hours: u64, expected: &str| {
            let idle = Idle {
                since: since.unwrap(),
                unobserved: Micros::from_secs(gap_hours * 3600),
            };
            assert_eq!(idle.shown(at(29)), expected);
        };
        check(seen(3), 0, "1d2h");
        check(seen(3), 2, "1d2h");
        check(seen(3), 5, "1d2h (5h00m gap)");
        check(at_latest(3), 0, ">1d2h");
    }
}
