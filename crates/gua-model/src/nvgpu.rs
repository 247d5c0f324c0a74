//! The GPUs in the form of nvgpu's library: `gpu_info` and `available_gpus`, with its names, units and rule.

use crate::pick::{Criteria, FreeRule, LastUse, obstacle};
use crate::reading::Reading;
use crate::sample::{Gpu, Place, Sample};
use crate::unit::Percent;
use crate::unit::float;

/// A GPU as nvgpu's `gpu_info` reports it. MIG instances are excluded because they have no index.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuInfo {
    /// Index of the GPU, as text.
    pub index: String,
    /// nvgpu's `type`: the name of the model.
    pub kind: Reading<String>,
    pub uuid: String,
    /// In whole megabytes.
    pub mem_used: Reading<u64>,
    /// In whole megabytes.
    pub mem_total: Reading<u64>,
    pub mem_used_percent: Reading<f64>,
}

/// Returns all GPUs, in the driver's order.
pub fn gpu_info(sample: &Sample) -> Vec<GpuInfo> {
    numbered(sample).map(info).collect()
}

/// Returns the indices of the GPUs with at most this share of their memory used, regardless of their processes. A GPU
/// without dedicated memory is free if it has no holders.
///
/// ```
/// use gua_model::nvgpu::available_gpus;
/// # use gua_model::{Bytes, Driver, Gpu, Missing, Sample};
/// # let gpu = |index: u32, used: u64| Gpu {
/// #     memory_total: Ok(Bytes::from_mb(1000)),
/// #     memory_used: Ok(Bytes::from_mb(used)),
/// #     ..Gpu::without_readings(format!("GPU-{index}").parse().unwrap(), index, Missing::Failed)
/// # };
/// # let sample = Sample {
/// #     at: "2026-05-11T00:00:00Z".parse().unwrap(),
/// #     since_boot: std::time::Duration::ZERO,
/// #     boot: Err(Missing::Failed),
/// #     driver: Driver { version: Err(Missing::Failed), cuda: Err(Missing::Failed) },
/// #     gpus: vec![gpu(0, 900), gpu(1, 200)],
/// #     problems: Vec::new(),
/// # };
/// assert_eq!(available_gpus(&sample, 20.0), ["1"]);
/// ```
pub fn available_gpus(sample: &Sample, max_used_percent: f64) -> Vec<String> {
    let criteria = Criteria {
        rule: FreeRule::MemoryAlone,
        max_used: Percent::HUNDRED,
        ..Criteria::default()
    };
    numbered(sample)
        .filter(|gpu| obstacle(gpu, &criteria, &LastUse::new()).is_none())
        .map(info)
        .filter(|info| {
            info.mem_used_percent
                .map_or(info.mem_total.is_err(), |used| used <= max_used_percent)
        })
        .map(|info| info.index)
        .collect()
}

fn numbered(sample: &Sample) -> impl Iterator<Item = &Gpu> {
    let has_number = |gpu: &&Gpu| !matches!(gpu.place, Place::Instance { .. });
    sample.gpus.iter().filter(has_number)
}

fn info(gpu: &Gpu) -> GpuInfo {
    let mem_used = gpu.memory_used.map(|used| used.whole_mb());
    let mem_total = gpu.memory_total.map(|total| total.whole_mb());
    let percent = |used: u64, total: u64| 100.0 * float(used) / float(total);
    GpuInfo {
        index: gpu.index.to_string(),
        kind: gpu.name.clone(),
        uuid: gpu.uuid.to_string(),
        mem_used,
        mem_total,
        mem_used_percent: mem_used.and_then(|used| Ok(percent(used, mem_total?))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::id::GpuUuid;
    use crate::reading::Missing;
    use crate::sample::Driver;
    use crate::unit::Bytes;

    /// Parses GPUs from `used/total` in megabytes, `?` for an unreadable one, `i` for an instance.
    fn sample(texts: &[&str]) -> Sample {
        let gpu = |(index, text): (usize, &&str)| {
            let uuid: GpuUuid = format!("GPU-{index}").parse().unwrap();
            let mut gpu =
                Gpu::without_readings(uuid, u32::try_from(index).unwrap(), Missing::Failed);
            if let Some((used, total)) = text.trim_start_matches('i').split_once('/') {
                gpu.memory_used = Ok(Bytes::from_mb(used.parse().unwrap()));
                gpu.memory_total = Ok(Bytes::from_mb(total.parse().unwrap()));
            }
            if text.starts_with('i') {
                gpu.place = Place::Instance {
                    parent: "GPU-9".parse().unwrap(),
                    gpu_instance: Ok(1),
                    compute_instance: Ok(1),
                    slice: Err(Missing::Failed),
                };
            }
            gpu
        };
        Sample {
            at: Timestamp::UNIX_EPOCH,
            since_boot: Duration::ZERO,
            boot: Err(Missing::Failed),
            driver: Driver {
                version: Err(Missing::Failed),
                cuda: Err(Missing::Failed),
            },
            gpus: texts.iter().enumerate().map(gpu).collect(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn a_gpu_is_free_up_to_the_limit_and_an_unreadable_one_is_not() {
        let gpus = sample(&["200/1000", "201/1000", "?", "0/1000", "i0/1000"]);
        assert_eq!(available_gpus(&gpus, 20.0), ["0", "3"]);
        assert_eq!(available_gpus(&gpus, 20.1), ["0", "1", "3"]);
        assert_eq!(available_gpus(&gpus, 0.0), ["3"]);
    }

    #[test]
    fn every_gpu_with_an_index_is_shown_and_a_missing_reading_is_not_zero() {
        let info = gpu_info(&sample(&["250/1000", "?", "i0/1000"]));
        assert_eq!(info.len(), 2);
        assert_eq!(info[0].mem_used_percent, Ok(25.0));
        assert_eq!(
            (info[0].index.as_str(), info[0].uuid.as_str()),
            ("0", "GPU-0")
        );
        assert_eq!(info[1].mem_used, Err(Missing::Failed));
        assert_eq!(info[1].mem_used_percent, Err(Missing::Failed));
    }
}
