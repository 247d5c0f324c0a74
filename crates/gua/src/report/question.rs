//! From the flags of `gua report` to a question, and to the words in which the report shows it.

use std::time::Duration;

use gua_model::CountGraphics;
use gua_model::period::Period;
use gua_model::report::Cross;
use gua_model::state::ThresholdOverrides;
use gua_query::{Question, WindowEnd};
use gua_render::report::By;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::cli::{ReportArgs, ReportBy};
use crate::config::Settings;
use crate::duration::{self, Clockwise};
use crate::failure::Failure;

/// A question, and how its report is shown.
#[derive(Clone, Debug)]
pub struct Asked {
    pub question: Question,
    /// The text of the line `Window:`.
    pub window: String,
    pub by: Option<By>,
}

impl Asked {
    pub fn new(
        args: &ReportArgs,
        settings: &Settings,
        local: &TimeZone,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let zone = match &args.tz {
            None => local.clone(),
            Some(name) => zone(name)?,
        };
        let since = moment("--since", &args.since, &zone, now)?;
        let until = match &args.until {
            None => now,
            Some(text) => moment("--until", text, &zone, now)?.at,
        };
        if until < since.at {
            return Err(Failure::usage(format!(
                "the window ends ({}) before it begins ({})",
                shown(until, &zone),
                shown(since.at, &zone)
            )));
        }
        let window = match (since.before, &args.until) {
            (Some(before), None) => Clockwise(before).to_string(),
            _ => format!("{} to {}", shown(since.at, &zone), shown(until, &zone)),
        };
        if args.user.is_some() && args.by == Some(ReportBy::State) {
            let problem =
                "--by state tells what the cards did, which is not one person's; leave --user out";
            return Err(Failure::usage(problem));
        }
        let thresholds = settings.thresholds();
        let by = args.by.map(by);
        let question = Question {
            // The future has no observations.
            window: Period::new(since.at, until.min(now)),
            end: match args.until {
                Some(_) => WindowEnd::Named,
                None => WindowEnd::Now,
            },
            zone,
            person: args.user.clone(),
            gpus: args.gpu.clone(),
            cross: (args.by == Some(ReportBy::Hour)).then_some(Cross::HourOfDay),
            unit: by.and_then(By::unit),
            interval: args.interval,
            thresholds: ThresholdOverrides {
                active_util: args.active_util.is_some().then_some(thresholds.active_util),
                held_mb: args.held_mb.is_some().then_some(thresholds.held_mb),
                count_graphics: args.count_graphics.then_some(CountGraphics::Yes),
            },
            now,
        };
        Ok(Self {
            question,
            window,
            by,
        })
    }
}

fn by(by: ReportBy) -> By {
    match by {
        ReportBy::User => By::User,
        ReportBy::Gpu => By::Gpu,
        ReportBy::Day => By::Day,
        ReportBy::Hour => By::Hour,
        ReportBy::Week => By::Week,
        ReportBy::Month => By::Month,
        ReportBy::State => By::State,
    }
}

fn shown(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone())
        .strftime("%Y-%m-%d %H:%M")
        .to_string()
}

/// A moment, and its distance from now where it was written as a duration.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) at: Timestamp,
    pub(crate) before: Option<Duration>,
}

/// Parses a moment: a duration before now, or a date with or without a time of day in `zone`.
pub(crate) fn moment(
    flag: &str,
    text: &str,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Moment, Failure> {
    let problem = match duration::parse(text) {
        Ok(before) => {
            let length = SignedDuration::try_from(before).unwrap_or(SignedDuration::MAX);
            // A duration beyond the calendar means the whole history.
            let at = now.checked_sub(length).unwrap_or(Timestamp::MIN);
            return Ok(Moment {
                at,
                before: Some(before),
            });
        }
        Err(problem) => problem,
    };
    let local = |time: DateTime| {
        time.to_zoned(zone.clone())
            .ok()
            .map(|zoned| zoned.timestamp())
    };
    let at = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| text.parse::<DateTime>().ok().and_then(local))
        .or_else(|| {
            text.parse::<Date>()
                .ok()
                .and_then(|date| local(date.at(0, 0, 0, 0)))
        });
    match at {
        Some(at) => Ok(Moment { at, before: None }),
        None => Err(Failure::usage(format!(
            "{flag}: {problem}, or a moment like 2026-11-01 or 2026-11-01T12:00"
        ))),
    }
}

/// A zone by its name.
pub fn zone(name: &str) -> Result<TimeZone, Failure> {
    if name.eq_ignore_ascii_case("utc") {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| {
        let name: String = name.chars().take(40).flat_map(char::escape_debug).collect();
        Failure::usage(format!(
            "--tz: no time zone is called `{name}`; write it like UTC or Asia/Seoul"
        ))
    })
}
