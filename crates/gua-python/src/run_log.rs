//! The run log. Python converts values to JSON; gua-run formats the lines.

use std::path::PathBuf;
use std::sync::Mutex;

use gua_probe::clock;
use gua_run::{Fields, RunLog, Seconds};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{driver, failure};

/// Duration in seconds, as an int or a float of Python.
#[derive(FromPyObject)]
enum Length {
    Whole(i64),
    Measured(f64),
}

impl From<Length> for Seconds {
    fn from(length: Length) -> Self {
        match length {
            Length::Whole(seconds) => Seconds::Whole(seconds),
            Length::Measured(seconds) => Seconds::Measured(seconds),
        }
    }
}

/// Phases and events, in memory and optionally in a file.
#[pyclass(module = "gua._gua", frozen)]
#[derive(Debug)]
pub(crate) struct Log {
    log: Mutex<RunLog>,
}

#[pymethods]
impl Log {
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(path: Option<PathBuf>) -> PyResult<Self> {
        let log = match path {
            None => RunLog::new(),
            Some(path) => {
                RunLog::in_file(&path).map_err(|error| failure::of_file(&error, &path))?
            }
        };
        Ok(Self {
            log: Mutex::new(log),
        })
    }

    /// Records a phase that has ended; `extra` contains names with JSON values.
    fn phase(
        &self,
        py: Python<'_>,
        name: &str,
        seconds: Length,
        extra: Vec<(String, String)>,
    ) -> PyResult<()> {
        let extra = fields(&extra)?;
        let seconds = Seconds::from(seconds);
        py.detach(|| self.locked(|log| log.phase(clock::now(), name, seconds, &extra)));
        Ok(())
    }

    /// Records an event; `data` contains names with JSON values.
    fn event(&self, py: Python<'_>, name: &str, data: Vec<(String, String)>) -> PyResult<()> {
        let data = fields(&data)?;
        py.detach(|| self.locked(|log| log.event(clock::now(), name, &data)));
        Ok(())
    }

    /// Records an event whose data is any JSON value.
    fn event_with(&self, py: Python<'_>, name: &str, data: &str) -> PyResult<()> {
        py.detach(|| self.locked(|log| log.event_with(clock::now(), name, data)))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns all lines so far.
    fn lines(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(py.detach(|| self.locked(|log| log.lines()))?)
    }

    /// Number of lines so far.
    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.locked(|log| log.len()))
    }

    /// Number of lines that could not be written to the file that the log appends to.
    #[getter]
    fn lost(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.locked(|log| log.file().map_or(0, |file| file.lost())))
    }

    /// Writes all lines to a file and replaces its contents.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.locked(|log| log.write(&path)))
            .map_err(|error| failure::of_file(&error, &path))
    }
}

impl Log {
    /// Must be called without the interpreter's lock: a thread that waits for this lock must not hold the other.
    fn locked<T>(&self, act: impl FnOnce(&mut RunLog) -> T) -> T {
        act(&mut driver::locked(&self.log))
    }
}

fn fields(pairs: &[(String, String)]) -> PyResult<Fields> {
    let mut fields = Fields::new();
    for (name, text) in pairs {
        fields
            .insert_json(name, text)
            .map_err(|error| PyValueError::new_err(format!("{name}: {error}")))?;
    }
    Ok(fields)
}
