//! From words to a question: which window, zone, cards and person a report is about.

use std::collections::BTreeSet;
use std::time::Duration;

use gua_model::period::Period;
use gua_model::report::fold::Question;
use gua_model::report::{Cross, UNKNOWN};
use gua_model::text::sanitize;
use gua_model::{CalendarUnit, GpuUuid, Thresholds};
use gua_render::report::By;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::card::{self, Card};
use crate::cli::{ReportArgs, ReportBy};
use crate::config::Settings;
use crate::duration::{self, Clockwise};
use crate::failure::Failure;

/// What a report was asked for, before any file is opened.
#[derive(Clone, Debug)]
pub struct Ask {
    pub window: Period,
    /// Whether the window ends with a moment that was named, and not just now.
    pub ends: bool,
    /// As `Window:` says it.
    pub window_words: String,
    pub zone: TimeZone,
    pub user: Option<String>,
    pub gpus: Vec<String>,
    pub by: Option<By>,
    /// What cards and people are crossed with.
    pub cross: Option<Cross>,
    /// How finely the window is cut; as its length says where nobody does.
    pub unit: Option<CalendarUnit>,
    pub interval: Option<Duration>,
    pub thresholds: Override,
    pub now: Timestamp,
    pub top: usize,
}

/// The thresholds that flags set; the file's own count otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Override {
    pub active_util: Option<gua_model::Percent>,
    pub held_mb: Option<u64>,
    pub count_graphics: bool,
}

impl Override {
    /// The thresholds of a file with what flags say instead.
    #[must_use]
    pub fn over(self, own: Thresholds) -> Thresholds {
        Thresholds {
            active_util: self.active_util.unwrap_or(own.active_util),
            held_mb: self.held_mb.unwrap_or(own.held_mb),
            count_graphics: match self.count_graphics {
                true => gua_model::CountGraphics::Yes,
                false => own.count_graphics,
            },
        }
    }
}

impl Ask {
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
        let window_words = match (since.before, &args.until) {
            (Some(before), None) => Clockwise(before).to_string(),
            _ => format!("{} to {}", shown(since.at, &zone), shown(until, &zone)),
        };
        if args.user.is_some() && args.by == Some(ReportBy::State) {
            let problem =
                "--by state tells what the cards did, which is not one person's; leave --user out";
            return Err(Failure::usage(problem));
        }
        let thresholds = settings.thresholds();
        Ok(Self {
            // Nobody has looked at the future.
            window: Period::new(since.at, until.min(now)),
            ends: args.until.is_some(),
            window_words,
            zone,
            user: args.user.clone(),
            gpus: args.gpu.clone(),
            by: args.by.map(by),
            cross: (args.by == Some(ReportBy::Hour)).then_some(Cross::HourOfDay),
            unit: args.by.map(by).and_then(By::unit),
            interval: args.interval,
            thresholds: Override {
                active_util: args.active_util.is_some().then_some(thresholds.active_util),
                held_mb: args.held_mb.is_some().then_some(thresholds.held_mb),
                count_graphics: args.count_graphics,
            },
            now,
            top: args.top,
        })
    }

    /// All cards and all people of a window, as far as it is over by now.
    #[must_use]
    pub fn of_window(window: Period, zone: TimeZone, now: Timestamp) -> Self {
        let window = Period::new(window.from(), window.to().min(now));
        Self {
            window,
            ends: true,
            window_words: format!(
                "{} to {}",
                shown(window.from(), &zone),
                shown(window.to(), &zone)
            ),
            zone,
            user: None,
            gpus: Vec::new(),
            by: None,
            cross: None,
            unit: None,
            interval: None,
            thresholds: Override::default(),
            now,
            top: 10,
        }
    }

    /// The same for the fold, once it is known which cards there are and since when.
    #[must_use]
    pub fn question(&self, gpus: Option<BTreeSet<GpuUuid>>, seen: Period) -> Question {
        Question {
            zone: self.zone.clone(),
            gpus,
            person: self.user.clone(),
            unit: self.unit(seen),
            interval: self.interval,
            cross: self.cross,
        }
    }

    /// How finely a window is cut where nobody said: into some dozens of parts.
    #[must_use]
    pub fn unit(&self, known: Period) -> CalendarUnit {
        const HOUR: u64 = 3_600_000_000;
        match (self.unit, known.micros().0 / HOUR) {
            (Some(unit), _) => unit,
            (None, 0..=96) => CalendarUnit::Hour,
            (None, 97..=4400) => CalendarUnit::Day,
            _ => CalendarUnit::Month,
        }
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

/// A moment, and how long before now that is where it was written so.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) at: Timestamp,
    pub(crate) before: Option<Duration>,
}

/// A moment as people write it: so long ago, or a date with or without a time of day in `zone`.
pub(crate) fn moment(
    flag: &str,
    text: &str,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Moment, Failure> {
    let problem = match duration::parse(text) {
        Ok(before) => {
            let length = SignedDuration::try_from(before).unwrap_or(SignedDuration::MAX);
            // Longer ago than the calendar reaches is everything that there is.
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

/// The cards that were asked for, each with its MIG instances; `None` where all are.
pub(super) fn choose(
    asked: &[String],
    known: &dyn Fn() -> Vec<Card>,
) -> Result<Option<BTreeSet<GpuUuid>>, Failure> {
    if asked.is_empty() {
        return Ok(None);
    }
    let known = known();
    let mut chosen = BTreeSet::new();
    for text in asked {
        let card = card::choose(text, &known)?;
        let instances = known
            .iter()
            .filter(|other| other.parent.is_some() && other.parent == card.uuid);
        chosen.extend(instances.filter_map(|instance| instance.uuid.clone()));
        chosen.extend(card.uuid);
    }
    Ok(Some(chosen))
}

/// What is said where the person who was asked for never held anything. `known` are those who did.
pub(super) fn no_such_person(user: &str, known: impl IntoIterator<Item = String>) -> Failure {
    const SHOWN: usize = 20;
    let user: String = user.chars().take(60).flat_map(char::escape_debug).collect();
    let mut names: BTreeSet<String> = known.into_iter().map(|name| sanitize(&name)).collect();
    names.remove(UNKNOWN);
    let more = names.len().saturating_sub(SHOWN);
    let mut have = names.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if have.is_empty() {
        have = "nobody by name".to_owned();
    }
    if more > 0 {
        have.push_str(&format!(" and {more} more"));
    }
    Failure::usage(format!(
        "--user: this history knows no user `{user}`; it has {have}"
    ))
}
