//! What changes seldom: the settings of a card, which an administrator makes, and the versions of the driver. They are
//! asked for again after [`ASK_AGAIN`] and not at every tick; at slower ticks than that it is every tick.
//!
//! Nothing is remembered across trouble: when a call for a card fails, when its handle is another one, or when the library
//! is opened anew, everything is asked for at once.

use std::time::Duration;

use gua_model::sample::{ComputeMode, Switch};
use gua_model::{Driver, Milliwatts, Missing, Reading};

use super::card::Asker;
use crate::nvml::{Code, Device, Library};

/// A change of a setting shows within this time.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Something, and when it was asked for on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<T> {
    pub(super) at: Duration,
    pub(super) answer: T,
}

impl<T> Asked<T> {
    pub(super) fn is_recent(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) < ASK_AGAIN
    }
}

/// How a card is set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) power_limit: Reading<Milliwatts>,
    pub(super) ecc_mode: Reading<Switch>,
    pub(super) compute_mode: Reading<ComputeMode>,
    pub(super) persistence: Reading<Switch>,
}

impl Settings {
    /// As they were asked for not long ago, or asked for now. `known` is left empty when the card is in trouble.
    pub(super) fn read(
        known: &mut Option<Asked<Self>>,
        asker: &mut Asker<'_>,
        device: Device,
        now: Duration,
    ) -> Self {
        if let Some(known) = known
            && known.is_recent(now)
            && !asker.is_in_trouble()
        {
            return known.answer;
        }
        let answer = Self::ask(asker, device);
        *known = (!asker.is_in_trouble()).then_some(Asked { at: now, answer });
        answer
    }

    fn ask(asker: &mut Asker<'_>, device: Device) -> Self {
        Self {
            power_limit: asker.power("nvmlDeviceGetEnforcedPowerLimit", |library| {
                library.power_limit(device)
            }),
            ecc_mode: asker.ask("nvmlDeviceGetEccMode", |library| library.ecc_mode(device)),
            compute_mode: asker.ask("nvmlDeviceGetComputeMode", |library| {
                library.compute_mode(device)
            }),
            persistence: asker.ask("nvmlDeviceGetPersistenceMode", |library| {
                library.persistence(device)
            }),
        }
    }
}

/// The driver's versions, as they were asked for not long ago or asked for now.
pub(super) fn driver(
    known: &mut Option<Asked<Driver>>,
    library: &Library,
    now: Duration,
) -> Driver {
    fn can_be_kept<T>(reading: &Reading<T>) -> bool {
        matches!(reading, Ok(_) | Err(Missing::Unsupported))
    }
    if let Some(known) = known
        && known.is_recent(now)
    {
        return known.answer.clone();
    }
    let answer = Driver {
        version: library.driver_version().map_err(Code::missing),
        cuda: library.cuda_version().map_err(Code::missing),
    };
    *known = (can_be_kept(&answer.version) && can_be_kept(&answer.cuda)).then(|| Asked {
        at: now,
        answer: answer.clone(),
    });
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_ten_seconds_ago_is_asked_for_again() {
        let at = Duration::from_secs(100);
        let known = Asked { at, answer: () };
        assert!(known.is_recent(at));
        assert!(known.is_recent(at + ASK_AGAIN - Duration::from_nanos(1)));
        assert!(!known.is_recent(at + ASK_AGAIN));
    }
}
