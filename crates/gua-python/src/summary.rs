//! Ten numbers from the metric files of a run. The fields of the summary are named in Python, by its dataclass.

use std::path::PathBuf;

use gua_run::{LineRule, ResourceSummary};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failure;

/// Numbers by name, names of values that were never measured, and whether memory utilisation was read by column
/// position.
type Summarized<'py> = (Bound<'py, PyDict>, Vec<&'static str>, bool);

/// Summarizes metric files as the original program does, including those that it wrote.
#[pyfunction]
#[pyo3(signature = (gpu, cpu, dmon))]
pub(crate) fn summarize(
    py: Python<'_>,
    gpu: Option<PathBuf>,
    cpu: Option<PathBuf>,
    dmon: Option<PathBuf>,
) -> PyResult<Summarized<'_>> {
    let rule = LineRule::WholeLine;
    let found =
        py.detach(|| gua_run::summarize(gpu.as_deref(), cpu.as_deref(), dmon.as_deref(), rule));
    let mut found = found.map_err(|error| failure::of_file(&error.source, &error.path))?;
    let numbers = PyDict::new(py);
    for (name, value) in fields(&mut found.summary) {
        numbers.set_item(name, *value)?;
    }
    Ok((numbers, found.missing, found.guessed_mem_util))
}

/// Returns the dictionary form of a summary with these numbers.
#[pyfunction]
pub(crate) fn summary_entries<'py>(
    py: Python<'py>,
    numbers: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut summary = ResourceSummary::default();
    for (name, value) in fields(&mut summary) {
        *value = numbers.get_item(name)?.extract()?;
    }
    let entries = PyDict::new(py);
    for (name, value) in summary.entries() {
        entries.set_item(name, value)?;
    }
    Ok(entries)
}

fn fields(summary: &mut ResourceSummary) -> [(&'static str, &mut f64); 10] {
    [
        ("peak_vram_mb", &mut summary.peak_vram_mb),
        ("jax_peak_bytes_mb", &mut summary.jax_peak_bytes_mb),
        ("gpu_util_mean_pct", &mut summary.gpu_util_mean_pct),
        ("gpu_util_max_pct", &mut summary.gpu_util_max_pct),
        ("mem_util_mean_pct", &mut summary.mem_util_mean_pct),
        ("mem_util_max_pct", &mut summary.mem_util_max_pct),
        ("power_watts_mean", &mut summary.power_watts_mean),
        ("power_watts_max", &mut summary.power_watts_max),
        ("cpu_usr_mean_pct", &mut summary.cpu_usr_mean_pct),
        ("cpu_idle_mean_pct", &mut summary.cpu_idle_mean_pct),
    ]
}
