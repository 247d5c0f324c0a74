//! Values that change rarely: the settings of a GPU, its memory repairs, and the versions of the driver. They
//! are read again after [`MAX_AGE`] instead of at every tick; with slower ticks than that, at every tick.
//!
//! Nothing is reused after a failure: if a call for a GPU fails, if its handle changes, or if the library is opened
//! again, everything is read at once.

use std::time::Duration;

use gua_model::{Driver, Gpu, Missing, Reading};

use super::calls::Calls;
use super::code::Code;
use super::library::{Device, Library};
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

/// Sets the settings of a GPU: from the cache, or read now if they are not recent or a call for the GPU has failed. After
/// a failure the cache is left empty.
pub(super) fn read(
    gpu: &mut Gpu,
    cache: &mut Option<Cached<Gpu>>,
    calls: &mut Calls<'_>,
    device: Device,
    now: Duration,
) {
    if let Some(cached) = cache
        && cached.is_recent(now)
        && !calls.has_failed
    {
        sensors::copy_settings(&cached.value, gpu);
        return;
    }
    sensors::read_settings(gpu, calls, device);
    *cache = (!calls.has_failed).then(|| Cached {
        at: now,
        value: gpu.clone(),
    });
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
