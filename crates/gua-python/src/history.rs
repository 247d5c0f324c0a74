//! Contents of a history: a summary as JSON, and its tables row by row, as JSON lines or as an Arrow stream.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use gua_collector::access::Access;
use gua_collector::history_document::{HistoryDocument, OutageEntry};
use gua_collector::location;
use gua_export::{Ask, Edges, ExportError, Format, What, Words, json_lines};
use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_probe::clock;
use gua_render::document::pretty;
use gua_settings::{FlagValue, Loaded};
use jiff::tz::TimeZone;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::driver;
use crate::failure::{self, GuaError, HistoryError};

/// Maximum number of lines in a chunk.
const LINES_AT_ONCE: usize = 1000;

/// Selection of table and rows, in the words of `gua export`.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted {
    db: PathBuf,
    what: String,
    since: Option<String>,
    until: Option<String>,
    tz: Option<String>,
}

/// Returns the path of the history that a command would read.
#[pyfunction]
#[pyo3(signature = (db))]
pub(crate) fn history_path(db: Option<PathBuf>) -> PyResult<PathBuf> {
    Ok(location::history(&loaded(db)?))
}

/// Returns a summary of a history: facts, GPUs and collector runs.
#[pyfunction]
pub(crate) fn history_facts(py: Python<'_>, db: PathBuf) -> PyResult<String> {
    py.detach(|| facts(&open(&db)?))
}

/// Returns the periods in which the GPUs were not observed, with the reasons.
#[pyfunction]
pub(crate) fn history_outages(py: Python<'_>, wanted: Wanted) -> PyResult<String> {
    py.detach(|| {
        let (db, ask) = question(wanted)?;
        outages(&open(&db)?, &ask)
    })
}

/// Returns the columns of a table: name, type and description.
#[pyfunction]
pub(crate) fn table_columns(
    wanted: Wanted,
) -> PyResult<Vec<(&'static str, &'static str, &'static str)>> {
    let (_, ask) = question(wanted)?;
    let columns = ask.what.columns().iter();
    Ok(columns
        .map(|column| (column.name, column.kind.as_str(), column.about))
        .collect())
}

/// Returns the rows as an Arrow stream (`arrow_array_stream` of Arrow's C stream interface).
#[pyfunction]
pub(crate) fn arrow_stream(py: Python<'_>, wanted: Wanted) -> PyResult<Bound<'_, PyCapsule>> {
    let stream = py.detach(|| -> PyResult<_> {
        let (db, ask) = question(wanted)?;
        let rows = gua_export::arrow::record_batches(open(&db)?.rows(), ask);
        let rows = rows.map_err(|error| GuaError::new_err(chain(&error)))?;
        Ok(FFI_ArrowArrayStream::new(Box::new(rows)))
    })?;
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// Returns the rows as lines of JSON, in chunks.
#[pyclass(module = "gua._gua", frozen)]
#[derive(Debug)]
pub(crate) struct Lines {
    rows: Mutex<Receiver<Result<Vec<String>, String>>>,
}

#[pymethods]
impl Lines {
    #[new]
    fn new(py: Python<'_>, wanted: Wanted) -> PyResult<Self> {
        py.detach(|| begin(wanted))
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Vec<String>>> {
        let next = driver::wait(py, |patience| {
            match driver::locked(&self.rows).recv_timeout(patience) {
                Ok(lines) => Some(Some(lines)),
                Err(RecvTimeoutError::Disconnected) => Some(None),
                Err(RecvTimeoutError::Timeout) => None,
            }
        })?;
        next.transpose().map_err(HistoryError::new_err)
    }
}

fn question(wanted: Wanted) -> PyResult<(PathBuf, Ask)> {
    let what = What::from_word(&wanted.what);
    let what = what.ok_or_else(|| Failure::usage(format!("no table {}", wanted.what)));
    let words = Words {
        since: wanted.since,
        until: wanted.until,
        tz: wanted.tz,
    };
    let now = clock::now().to_zoned(TimeZone::system());
    let ask = what
        .and_then(|what| Ask::new(what, Format::JsonLines, &words, Edges::Cut, &now))
        .map_err(|error| failure::of_command(&error))?;
    Ok((wanted.db, ask))
}

fn loaded(db: Option<PathBuf>) -> PyResult<Loaded> {
    let flag = FlagValue::of("db", "history", "db", db);
    driver::settings(flag.as_slice())
}

fn open(db: &Path) -> PyResult<Access> {
    let access = location::access(db, &loaded(None)?.settings);
    access.map_err(|error| failure::of_open(&error))
}

fn facts(history: &Access) -> PyResult<String> {
    let facts = history.facts(());
    let facts = facts.map_err(|error| failure::of_query(&error))?;
    Ok(pretty(&HistoryDocument::from(facts)))
}

fn outages(history: &Access, ask: &Ask) -> PyResult<String> {
    let outages = history.outages(ask.window);
    let outages = outages.map_err(|error| failure::of_query(&error))?;
    let outages: Vec<OutageEntry> = outages.into_iter().map(OutageEntry::from).collect();
    Ok(pretty(&outages))
}

/// Starts a thread that reads a little ahead of the consumer.
fn begin(wanted: Wanted) -> PyResult<Lines> {
    let (db, ask) = question(wanted)?;
    let history = open(&db)?.rows();
    let (sender, rows) = sync_channel(1);
    std::thread::Builder::new()
        .name("gua-rows".to_owned())
        .spawn(move || {
            let done = history.batches(&ask, &mut |_| {}, &mut |_, batch| {
                json_lines(ask.what, &batch, LINES_AT_ONCE, |lines| {
                    // Fails if the consumer has stopped reading.
                    sender.send(Ok(lines)).map_err(|_| ExportError::Stopped)
                })
            });
            if let Err(error) = done {
                let _ = sender.send(Err(chain(&error)));
            }
        })?;
    Ok(Lines {
        rows: Mutex::new(rows),
    })
}
