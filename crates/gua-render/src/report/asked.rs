//! Converts a report's flags to a query, and to the text in which the report shows it.

use std::time::Duration;

use gua_model::calendar::previous;
use gua_model::duration::Clockwise;
use gua_model::failure::Failure;
use gua_model::period::Period;
use gua_model::report::{Cross, Report};
use gua_model::state::ThresholdOverrides;
use gua_query::words::{moment, zone};
use gua_query::{Detail, Question, WindowEnd};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{By, Page};
use crate::chart::Language;

/// A report as it is requested.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// Start of the window: a duration before now, or a date and time.
    pub since: String,
    /// End of the window; `None` is now.
    pub until: Option<String>,
    pub by: Option<By>,
    pub user: Option<String>,
    pub gpus: Vec<String>,
    /// Name of the time zone; `None` is the local one.
    pub tz: Option<String>,
    /// Duration of each imported row, instead of the recorded interval.
    pub interval: Option<Duration>,
    pub thresholds: ThresholdOverrides,
    pub detail: Detail,
}

/// A query, and how its report is shown.
#[derive(Clone, Debug)]
pub struct Asked {
    pub question: Question,
    /// Text of the line `Window:`.
    pub window: String,
    pub by: Option<By>,
}

impl Words {
    /// Returns the query. Times are in the local zone unless another one is named.
    pub fn ask(&self, local: &TimeZone, now: Timestamp) -> Result<Asked, Failure> {
        let zone = zone(self.tz.as_deref(), local.clone())?;
        let since = moment("since", &self.since, &zone, now)?;
        let until = match &self.until {
            None => now,
            Some(text) => moment("until", text, &zone, now)?.at,
        };
        let shown = |at| crate::document::local(at, &zone, "%Y-%m-%d %H:%M");
        if until < since.at {
            return Err(Failure::usage(format!(
                "the window ends ({}) before it begins ({})",
                shown(until),
                shown(since.at)
            )));
        }
        let window = match (since.before, &self.until) {
            (Some(before), None) => Clockwise(before).to_string(),
            _ => format!("{} to {}", shown(since.at), shown(until)),
        };
        if self.user.is_some() && self.by == Some(By::State) {
            return Err(Failure::of_flag(
                "by",
                "`state` covers GPUs, not one person; leave the user out",
            ));
        }
        let question = Question {
            // The future has no observations.
            window: Period::new(since.at, until.min(now)),
            end: match self.until {
                Some(_) => WindowEnd::Named,
                None => WindowEnd::Now,
            },
            zone,
            person: self.user.clone(),
            gpus: self.gpus.clone(),
            cross: (self.by == Some(By::Hour)).then_some(Cross::HourOfDay),
            workloads: self.by.and_then(By::workload),
            detail: self.detail,
            unit: self.by.and_then(By::unit),
            interval: self.interval,
            thresholds: self.thresholds,
            now,
        };
        let by = self.by;
        Ok(Asked {
            question,
            window,
            by,
        })
    }
}

impl Asked {
    /// The query for the previous period, with `--compare`.
    pub fn previous(&self) -> Question {
        Question {
            window: previous(self.question.window, &self.question.zone),
            end: WindowEnd::Named,
            ..self.question.clone()
        }
    }

    /// The page of a report, with the default width and number of rows.
    pub fn page<'a>(&self, report: &'a Report, version: &'a str) -> Page<'a> {
        Page {
            report,
            zone: self.question.zone.clone(),
            window: self.window.clone(),
            width: 60,
            top: 10,
            by: self.by,
            language: Language::English,
            version,
            previous: None,
            costs: None,
            is_demo: false,
        }
    }
}
