//! Values that change rarely: the settings of a GPU, its memory repairs, and the versions of the driver. They
//! are read again after [`MAX_AGE`] instead of at every tick; with slower ticks than that, at every tick.
//!
//! Nothing is reused after a failure: if a call for a GPU fails, if its handle changes, or if the library is opened
//! again, everything is read at once.

use std::time::Duration;

use gua_model::sample::{ComputeMode, MemoryRepairs, Switch};
use gua_model::{Driver, Milliwatts, Missing, Reading};

use super::calls::Calls;
use super::code::Code;
use super::library::{self, Device, Library, switch};
use super::sensors;

/// Maximum delay until a changed setting is seen.
pub(super) const MAX_AGE: Duration = Duration::from_secs(10);

/// A value with the time on the monotonic clock at which it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached<T> {
    pub(super) at: Duration,
    pub(super) value: T,
}

impl<T> Cached<T> {
    pub(super) fn is_recent(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) < MAX_AGE
    }
}

/// Settings of a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) power_limit: Reading<Milliwatts>,
    pub(super) ecc_mode: Reading<Switch>,
    pub(super) compute_mode: Reading<ComputeMode>,
    pub(super) persistence: Reading<Switch>,
    pub(super) memory_repairs: Reading<MemoryRepairs>,
}

impl Settings {
    /// Returns the cached settings, or reads them if they are not recent or a call for the GPU has failed. After a
    /// failure the cache is left empty.
    pub(super) fn read(
        cache: &mut Option<Cached<Self>>,
        calls: &mut Calls<'_>,
        device: Device,
        now: Duration,
    ) -> Self {
        if let Some(cached) = cache
            && cached.is_recent(now)
            && !calls.has_failed
        {
            return cached.value;
        }
        let value = Self {
            power_limit: sensors::power_limit(calls, device),
            ecc_mode: calls.read(device, &library::ECC_MODE, switch),
            compute_mode: calls.read(device, &library::COMPUTE_MODE, |mode| {
                Ok(match mode {
                    0 => ComputeMode::Default,
                    1 => ComputeMode::ExclusiveThread,
                    2 => ComputeMode::Prohibited,
                    3 => ComputeMode::ExclusiveProcess,
                    other => ComputeMode::Other(other),
                })
            }),
            persistence: calls.read(device, &library::PERSISTENCE, switch),
            memory_repairs: sensors::memory_repairs(calls, device),
        };
        *cache = (!calls.has_failed).then_some(Cached { at: now, value });
        value
    }
}

/// Returns the driver's versions, from the cache if they are recent.
pub(super) fn driver(
    cache: &mut Option<Cached<Driver>>,
    library: &Library,
    now: Duration,
) -> Driver {
    fn can_be_kept<T>(reading: &Reading<T>) -> bool {
        matches!(reading, Ok(_) | Err(Missing::Unsupported))
    }
    if let Some(cached) = cache
        && cached.is_recent(now)
    {
        return cached.value.clone();
    }
    let driver = Driver {
        version: library.driver_version().map_err(Code::missing),
        cuda: library.cuda_version().map_err(Code::missing),
    };
    *cache = (can_be_kept(&driver.version) && can_be_kept(&driver.cuda)).then(|| Cached {
        at: now,
        value: driver.clone(),
    });
    driver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_value_is_read_again_after_ten_seconds() {
        let at = Duration::from_secs(100);
        let cached = Cached { at, value: () };
        assert!(cached.is_recent(at));
        assert!(cached.is_recent(at + MAX_AGE - Duration::from_nanos(1)));
        assert!(!cached.is_recent(at + MAX_AGE));
    }
}
