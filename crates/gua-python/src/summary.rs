//! Ten numbers from the metric files of a run. The fields of the summary are named in Python, by its dataclass.

use std::path::PathBuf;

use gua_run::ResourceSummary;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failure;

/// The numbers by name, what was never measured, and whether memory utilisation rests on a guess.
type Summarized<'py> = (Bound<'py, PyDict>, Vec<&'static str>, bool);

/// Sums up metric files, those of the original among them.
#[pyfunction]
#[pyo3(signature = (gpu, cpu, dmon))]
pub(crate) fn summarize(
    py: Python<'_>,
    gpu: Option<PathBuf>,
    cpu: Option<PathBuf>,
    dmon: Option<PathBuf>,
) -> PyResult<Summarized<'_>> {
    let found = py.detach(|| gua_run::summarize(gpu.as_deref(), cpu.as_deref(), dmon.as_deref()));
    let found = found.map_err(|error| failure::of_file(&error.source, &error.path))?;
    let numbers = PyDict::new(py);
    for (name, value) in named(&found.summary) {
        numbers.set_item(name, value)?;
    }
    Ok((numbers, found.missing, found.guessed_mem_util))
}

/// The dictionary form of a summary with these numbers.
#[pyfunction]
pub(crate) fn summary_entries<'py>(
    py: Python<'py>,
    numbers: Numbers,
) -> PyResult<Bound<'py, PyDict>> {
    let entries = PyDict::new(py);
    for (name, value) in ResourceSummary::from(numbers).entries() {
        entries.set_item(name, value)?;
    }
    Ok(entries)
}

/// A summary as Python has it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Numbers {
    peak_vram_mb: f64,
    jax_peak_bytes_mb: f64,
    gpu_util_mean_pct: f64,
    gpu_util_max_pct: f64,
    mem_util_mean_pct: f64,
    mem_util_max_pct: f64,
    power_watts_mean: f64,
    power_watts_max: f64,
    cpu_usr_mean_pct: f64,
    cpu_idle_mean_pct: f64,
}

impl From<Numbers> for ResourceSummary {
    fn from(numbers: Numbers) -> Self {
        Self {
            peak_vram_mb: numbers.peak_vram_mb,
            jax_peak_bytes_mb: numbers.jax_peak_bytes_mb,
            gpu_util_mean_pct: numbers.gpu_util_mean_pct,
            gpu_util_max_pct: numbers.gpu_util_max_pct,
            mem_util_mean_pct: numbers.mem_util_mean_pct,
            mem_util_max_pct: numbers.mem_util_max_pct,
            power_watts_mean: numbers.power_watts_mean,
            power_watts_max: numbers.power_watts_max,
            cpu_usr_mean_pct: numbers.cpu_usr_mean_pct,
            cpu_idle_mean_pct: numbers.cpu_idle_mean_pct,
        }
    }
}

fn named(summary: &ResourceSummary) -> [(&'static str, f64); 10] {
    [
        ("peak_vram_mb", summary.peak_vram_mb),
        ("jax_peak_bytes_mb", summary.jax_peak_bytes_mb),
        ("gpu_util_mean_pct", summary.gpu_util_mean_pct),
        ("gpu_util_max_pct", summary.gpu_util_max_pct),
        ("mem_util_mean_pct", summary.mem_util_mean_pct),
        ("mem_util_max_pct", summary.mem_util_max_pct),
        ("power_watts_mean", summary.power_watts_mean),
        ("power_watts_max", summary.power_watts_max),
        ("cpu_usr_mean_pct", summary.cpu_usr_mean_pct),
        ("cpu_idle_mean_pct", summary.cpu_idle_mean_pct),
    ]
}
