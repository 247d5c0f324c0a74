//! Marks for the `gua run` around this process. Without one, or if it does not read, they are dropped: a job must not
//! fail because of them.

use gua_run::{DESCRIPTOR_VARIABLE, MAX_MARK_LENGTH, Mark, MarkPipe, PIPE_VARIABLE};
use gua_settings::Inputs;
use pyo3::prelude::*;
use serde_json::{Map, Value};

/// Begins a phase, and ends the one before it.
#[pyfunction]
pub(crate) fn mark_phase(py: Python<'_>, name: String) {
    py.detach(|| send(&Mark::Phase(name)));
}

/// Records an event; `data` contains names with JSON values.
#[pyfunction]
pub(crate) fn mark_event(py: Python<'_>, name: String, data: Vec<(String, String)>) {
    py.detach(|| {
        send(&Mark::Event {
            name,
            data: values(data),
        });
    });
}

/// Sets values for the summary, as names with JSON values.
#[pyfunction]
pub(crate) fn mark_values(py: Python<'_>, data: Vec<(String, String)>) {
    py.detach(|| send(&Mark::Set(values(data))));
}

fn values(pairs: Vec<(String, String)>) -> Map<String, Value> {
    let value = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
    let pairs = pairs.into_iter();
    pairs.map(|(name, text)| (name, value(text))).collect()
}

fn send(mark: &Mark) {
    let line = mark.line() + "\n";
    let inputs = Inputs::of_this_process();
    let variable = |name| inputs.variable(name);
    if line.len() <= MAX_MARK_LENGTH
        && let Some(mut pipe) =
            MarkPipe::open(variable(PIPE_VARIABLE), variable(DESCRIPTOR_VARIABLE))
    {
        // If the pipe is full or has no reader, the mark is lost.
        let _ = pipe.send(&line);
    }
}
