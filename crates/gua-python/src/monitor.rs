//! The samplers of one run, on threads that never hold the interpreter's lock.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use gua_model::VisibleDevices;
use gua_run::{Cards, GpuSource, HwMonitor, MonitorFiles, MonitorOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{driver, failure};

/// Cards and processors, written down until `stop`.
#[pyclass(module = "gua._gua", frozen)]
#[derive(Debug)]
pub(crate) struct Monitor {
    /// The process that the samplers live in.
    pid: u32,
    /// Only locked for a moment. `None` once it was stopped.
    running: Mutex<Option<HwMonitor>>,
}

/// The files of cards, processors and dmon, what was wrong with the driver, and what could not be written.
type Stopped = (
    Option<PathBuf>,
    Option<PathBuf>,
    Option<PathBuf>,
    Option<String>,
    Option<String>,
);

#[pymethods]
impl Monitor {
    /// Begins. `visible` is a list of cards as `CUDA_VISIBLE_DEVICES` has it; `None` means all.
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
        let loaded = driver::settings()?;
        let options = MonitorOptions {
            interval,
            source: GpuSource::Kept(driver::keeper(py, &loaded.settings)?),
            cards: match visible {
                None => Cards::All,
                Some(list) => Cards::Visible(VisibleDevices::parse(list)),
            },
            ..MonitorOptions::default()
        };
        let running = py
            .detach(|| HwMonitor::start(&directory, options))
            .map_err(|error| failure::of_file(&error, &directory))?;
        Ok(Self {
            pid: std::process::id(),
            running: Mutex::new(Some(running)),
        })
    }

    /// Ends the samplers, within five seconds. The second time there is nothing to end.
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
    /// What is running in this process. A forked child has the object and not the threads.
    fn take(&self) -> Option<HwMonitor> {
        let mut running = self
            .running
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let monitor = running.take()?;
        if self.pid != std::process::id() {
            // Its end would wait for threads that are not here.
            std::mem::forget(monitor);
            return None;
        }
        Some(monitor)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if let Some(monitor) = self.take() {
            // The end may take seconds, and the interpreter waits for us here. Without the thread it waits.
            let _ = std::thread::Builder::new().spawn(move || drop(monitor));
        }
    }
}

/// Whether a list as `CUDA_VISIBLE_DEVICES` has it is nothing but numbers and UUIDs.
#[pyfunction]
pub(crate) fn names_cards(list: &str) -> bool {
    VisibleDevices::parse_whole(list).is_some()
}
