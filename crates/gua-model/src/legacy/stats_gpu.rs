//! Names of the GPUs of gpu_stats. Its daily files have the index of a GPU but no UUID.

use std::cmp::Ordering;

use crate::id::GpuUuid;

const BEGINNING: &str = "gpu_stats-";

/// Returns the name of the GPU with an index.
pub fn stats_gpu(number: u32) -> String {
    format!("{BEGINNING}{number}")
}

/// Returns the index of a GPU of gpu_stats; `None` for all others.
pub fn stats_gpu_number(gpu: &GpuUuid) -> Option<u32> {
    gpu.as_str().strip_prefix(BEGINNING)?.parse().ok()
}

/// Compares GPUs for a report: by name, and GPUs of gpu_stats by index, so that the tenth comes after the second.
pub fn in_order(one: &GpuUuid, other: &GpuUuid) -> Ordering {
    match (stats_gpu_number(one), stats_gpu_number(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => one.cmp(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenth_gpu_of_gpu_stats_comes_after_its_second() {
        let gpu = |text: &str| text.parse::<GpuUuid>().unwrap();
        let mut gpus = [
            "gpu_stats-10",
            "GPU-b",
            "gpu_stats-2",
            "GPU-a",
            "gpu_stats-0",
        ]
        .map(gpu);
        gpus.sort_by(in_order);
        let expected = [
            "GPU-a",
            "GPU-b",
            "gpu_stats-0",
            "gpu_stats-2",
            "gpu_stats-10",
        ];
        assert_eq!(gpus, expected.map(gpu));
        assert_eq!(stats_gpu_number(&gpu(&stats_gpu(12))), Some(12));
        assert_eq!(stats_gpu_number(&gpu("GPU-12")), None);
    }
}
