//! The document of `gua report --json`.

use std::path::PathBuf;

use gua_collector::{VERSION, location};
use gua_model::duration;
use gua_model::failure::Failure;
use gua_probe::clock;
use gua_query::Detail;
use gua_render::report::{By, Words, json};
use gua_settings::{FlagValue, Loaded};
use jiff::tz::TimeZone;
use pyo3::prelude::*;

use crate::failure;

/// A report as Python requests it, in the words of the command.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Request {
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

/// Returns the report as JSON.
#[pyfunction]
pub(crate) fn report(py: Python<'_>, words: Request) -> PyResult<String> {
    py.detach(|| {
        let (words, loaded) = words.read().map_err(|error| failure::of_command(&error))?;
        let asked = words.ask(&TimeZone::system(), clock::now());
        let asked = asked.map_err(|error| failure::of_command(&error))?;
        let report = location::source(&loaded).report(&asked.question);
        let report = report.map_err(|error| failure::of_query(&error))?;
        Ok(json::json(&asked.page(&report, VERSION)))
    })
}

impl Request {
    fn read(self) -> Result<(Words, Loaded), Failure> {
        let by = self.by.as_deref().map(|name| {
            let known = || By::ALL.map(By::as_str).join(", ");
            let by = By::from_word(name);
            by.ok_or_else(|| Failure::usage(format!("by must be one of {}", known())))
        });
        let by = by.transpose()?;
        let interval = self.interval.as_deref().map(duration::parse).transpose();
        let graphics = self.count_graphics.then_some("true");
        let flags = [
            FlagValue::of("db", "history", "db", self.db),
            FlagValue::of("active_util", "states", "active_util", self.active_util),
            FlagValue::of("held_mb", "states", "held_mb", self.held_mb),
            FlagValue::of("count_graphics", "states", "count_graphics", graphics),
        ];
        let flags: Vec<FlagValue> = flags.into_iter().flatten().collect();
        let loaded = Loaded::of_this_process(&flags);
        let words = Words {
            since: self.since,
            until: self.until,
            by,
            user: self.user,
            gpus: self.gpu,
            tz: self.tz,
            interval: interval
                .map_err(|problem| Failure::of_flag("interval", problem.to_string()))?,
            thresholds: loaded.checked()?.threshold_flags(),
            detail: Detail::default(),
        };
        Ok((words, loaded))
    }
}
