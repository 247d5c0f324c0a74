//! Marks for the `gua run` around this process. Without one, or with one that does not listen, they are nothing: a job does
//! not fail for them.

use std::io::Write as _;

use gua::config::Inputs;
use gua_run::{LONGEST_MARK, Mark};
use pyo3::prelude::*;
use serde_json::{Map, Value};

/// A phase begins, and the one before it ends.
#[pyfunction]
pub(crate) fn mark_phase(py: Python<'_>, name: String) {
    py.detach(|| send(&Mark::Phase(name)));
}

/// Something happened; `data` are names with values in JSON.
#[pyfunction]
pub(crate) fn mark_event(py: Python<'_>, name: String, data: Vec<(String, String)>) {
    py.detach(|| {
        send(&Mark::Event {
            name,
            data: values(data),
        });
    });
}

/// Values for the summary, as names with values in JSON.
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
    if line.len() <= LONGEST_MARK
        && let Some(mut pipe) = gua::commands::phase::pipe(&Inputs::of_this_process())
    {
        // A pipe that is full or that nobody reads any more costs the mark.
        let _ = pipe.write_all(line.as_bytes());
    }
}
