//! The samplers of one run, on threads that never hold the interpreter's lock.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use gua_model::VisibleDevices;
use gua_run::{HwMonitor, MonitorFiles};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{driver, failure};

/// Samples GPUs and processors until `stop`.
#[pyclass(module = "gua._gua", frozen)]
#[derive(Debug)]
pub(crate) struct Monitor {
    /// PID of the process that the samplers belong to.
    pid: u32,
    /// Only locked for a moment. `None` after a stop.
    running: Mutex<Option<HwMonitor>>,
}

/// Files of GPUs, processors and dmon, the fault of the driver, and the write error.
type Stopped = (
    Option<PathBuf>,
    Option<PathBuf>,
    Option<PathBuf>,
    Option<String>,
    Option<String>,
);

#[pymethods]
impl Monitor {
    /// Starts sampling. `visible` is a list of GPUs in the form of `CUDA_VISIBLE_DEVICES`; `None` means all.
    #[new]
    fn new(
        py: Python<'_>,
        directory: PathBuf,
        interval_sec: f64,
        visible: Option<&str>,
    ) -> PyResult<Self> {
        let interval = Duration::try_from_secs_f64(interval_sec)
            .ok()
            .filter(|interval| !interval.is_zero())
            .ok_or_else(|| PyValueError::new_err("interval_sec must be a number over 0"))?;
        let loaded = driver::settings(&[])?;
        let driver = driver::keeper(py, &loaded.settings)?;
        let visible = visible.map(VisibleDevices::parse);
        let running = py
            .detach(|| HwMonitor::start(&directory, interval, driver, visible))
            .map_err(|error| failure::of_file(&error, &directory))?;
        Ok(Self {
            pid: std::process::id(),
            running: Mutex::new(Some(running)),
        })
    }

    /// Stops the samplers, within five seconds. A second call does nothing.
    fn stop(&self, py: Python<'_>) -> Stopped {
        let Some(monitor) = self.take() else {
            return Stopped::default();
        };
        let MonitorFiles {
            gpu,
            cpu,
            dmon,
            fault,
            write_error,
        } = py.detach(|| monitor.stop());
        (
            gpu,
            cpu,
            dmon,
            fault.map(|fault| fault.to_string()),
            write_error.map(|error| error.to_string()),
        )
    }
}

impl Monitor {
    /// Takes the monitor that is running in this process. A forked child has the object but not the threads.
    fn take(&self) -> Option<HwMonitor> {
        let monitor = driver::locked(&self.running).take()?;
        if self.pid != std::process::id() {
            // Dropping it would wait for threads that do not exist in this process.
            std::mem::forget(monitor);
            return None;
        }
        Some(monitor)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if let Some(monitor) = self.take() {
            // Stopping may take seconds, and the interpreter would wait here. If the thread cannot be started, it does
            // wait.
            let _ = std::thread::Builder::new().spawn(move || drop(monitor));
        }
    }
}

/// Whether a list in the form of `CUDA_VISIBLE_DEVICES` consists of numbers and UUIDs only.
#[pyfunction]
pub(crate) fn names_gpus(list: &str) -> bool {
    VisibleDevices::parse_whole(list).is_some()
}
