//! Current state of the GPUs: nvgpu's two functions, and the listing of `gua list`.

use gua_collector::listing;
use gua_model::{Sample, nvgpu};
use gua_render::document::pretty;
use gua_settings::Loaded;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::driver;

/// Returns the indexes of the GPUs whose memory is used by at most this share.
#[pyfunction]
pub(crate) fn available_gpus(py: Python<'_>, max_used_percent: f64) -> PyResult<Vec<String>> {
    let (_, sample) = sample(py)?;
    Ok(nvgpu::available_gpus(&sample, max_used_percent))
}

/// Returns all GPUs in nvgpu's form.
#[pyfunction]
pub(crate) fn gpu_info(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let (_, sample) = sample(py)?;
    let list = PyList::empty(py);
    for info in nvgpu::gpu_info(&sample) {
        let gpu = PyDict::new(py);
        gpu.set_item("index", info.index)?;
        gpu.set_item("type", info.kind.ok())?;
        gpu.set_item("uuid", info.uuid)?;
        gpu.set_item("mem_used", info.mem_used.ok())?;
        gpu.set_item("mem_total", info.mem_total.ok())?;
        gpu.set_item("mem_used_percent", info.mem_used_percent.ok())?;
        list.append(gpu)?;
    }
    Ok(list)
}

/// Returns the document of `gua list --json`.
#[pyfunction]
pub(crate) fn snapshot(py: Python<'_>) -> PyResult<String> {
    let (loaded, sample) = sample(py)?;
    Ok(py.detach(|| pretty(&listing::document(&loaded, &sample))))
}

fn sample(py: Python<'_>) -> PyResult<(Loaded, Sample)> {
    let loaded = driver::settings(&[])?;
    let sample = driver::sample(py, &loaded.settings)?;
    Ok((loaded, sample))
}
