//! What `gua report --json` prints.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum as _;
use gua::cli::{ReportArgs, ReportBy, ReportFormat};
use gua::dispatch::load;
use gua::failure::{Failure, of_query};
use gua::report::{print, question::Asked};
use gua::{duration, which};
use gua_probe::clock;
use gua_query::Source as _;
use jiff::tz::TimeZone;
use pyo3::prelude::*;

use crate::failure;

/// What may be asked, in the words of the command.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Words {
    since: String,
    until: Option<String>,
    by: Option<String>,
    user: Option<String>,
    gpu: Vec<String>,
    db: Option<PathBuf>,
    tz: Option<String>,
    interval: Option<String>,
    active_util: Option<String>,
    held_mb: Option<String>,
    count_graphics: bool,
}

/// The report as JSON.
#[pyfunction]
pub(crate) fn report(py: Python<'_>, words: Words) -> PyResult<String> {
    py.detach(|| make(words))
        .map_err(|error| failure::of_command(&error))
}

fn make(words: Words) -> anyhow::Result<String> {
    let args = arguments(words)?;
    let loaded = load(&args.settings())?;
    let asked = Asked::new(&args, &loaded.settings, &TimeZone::system(), clock::now())?;
    let report = which::source(&loaded).report(&asked.question);
    Ok(print(&args, &asked, &report.map_err(of_query)?))
}

fn arguments(words: Words) -> Result<ReportArgs, Failure> {
    let by = match &words.by {
        None => None,
        Some(by) => Some(ReportBy::from_str(by, false).map_err(|_| {
            let known = ReportBy::value_variants().iter();
            let known = known.filter_map(|by| Some(by.to_possible_value()?.get_name().to_owned()));
            let known = known.collect::<Vec<_>>().join(", ");
            Failure::usage(format!("by must be one of {known}"))
        })?),
    };
    let interval = words.interval.as_deref().map(duration::parse).transpose();
    Ok(ReportArgs {
        db: words.db,
        since: words.since,
        until: words.until,
        by,
        user: words.user,
        gpu: words.gpu,
        tz: words.tz,
        interval: interval.map_err(|problem| Failure::usage(format!("interval: {problem}")))?,
        count_graphics: words.count_graphics,
        active_util: words.active_util.map(OsString::from),
        held_mb: words.held_mb.map(OsString::from),
        format: ReportFormat::Json,
        ..ReportArgs::default()
    })
}
