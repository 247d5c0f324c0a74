//! Questions as plain, serialisable types: what is asked, and nothing about how the answer is shown.

use std::collections::BTreeSet;
use std::time::Duration;

use gua_model::calendar::CalendarUnit;
use gua_model::idle::is_idle_now;
use gua_model::report::Cross;
use gua_model::report::fold::Scope;
use gua_model::report::groups::WorkloadKind;
use gua_model::state::ThresholdOverrides;
use gua_model::statement::month_period;
use gua_model::{Gpu, GpuUuid, Period, RollUp, Sample, Thresholds, classify};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Parameters of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub window: Period,
    pub end: WindowEnd,
    #[serde(with = "jiff::fmt::serde::tz::required")]
    pub zone: TimeZone,
    /// Only this person's part; everyone's where `None`.
    pub person: Option<String>,
    /// Only these GPUs, each by index, UUID or the beginning of a UUID; all where empty.
    pub gpus: Vec<String>,
    /// Columns of time that GPUs and people are crossed with.
    pub cross: Option<Cross>,
    /// Sums by job, pod or container.
    #[serde(default)]
    pub workloads: Option<WorkloadKind>,
    #[serde(default)]
    pub detail: Detail,
    /// Length of the rows of time; chosen by the length of the window where `None`.
    pub unit: Option<CalendarUnit>,
    /// Time that an imported tick counts for, instead of the recorded interval.
    pub interval: Option<Duration>,
    pub thresholds: ThresholdOverrides,
    /// Time at which the question is asked.
    pub now: Timestamp,
}

/// Level of detail of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Detail {
    /// Sums, and lists of the longest sessions.
    #[default]
    Lists,
    /// Also the sessions that charts draw.
    Charts,
    /// Also the longest sessions of each person.
    Accounts,
    /// Only the sums, without sessions and without the time for which GPUs have been idle. Searching for these takes most of the
    /// time of a short answer.
    Sums,
}

/// End of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WindowEnd {
    /// At a moment that was named.
    Named,
    /// At the time of asking: imported rows that are dated ahead count too.
    Now,
}

impl Question {
    /// Asks for all GPUs and all people of a window, up to now.
    pub fn of_window(window: Period, zone: TimeZone, now: Timestamp) -> Self {
        Self {
            window: Period::new(window.from(), window.to().min(now)),
            end: WindowEnd::Named,
            zone,
            person: None,
            gpus: Vec::new(),
            cross: None,
            workloads: None,
            detail: Detail::default(),
            unit: None,
            interval: None,
            thresholds: ThresholdOverrides::default(),
            now,
        }
    }

    /// The scope of the fold, once the chosen GPUs and the known part of the window are found.
    pub(crate) fn scope(&self, gpus: Option<BTreeSet<GpuUuid>>, known: Period) -> Scope {
        let unit = self.unit;
        Scope {
            zone: self.zone.clone(),
            gpus,
            left_out: BTreeSet::new(),
            person: self.person.clone(),
            unit: unit.unwrap_or_else(|| CalendarUnit::for_length(known.micros())),
            cross: self.cross,
        }
    }

    /// Whether a person's rows are asked for.
    pub(crate) fn wants_person(&self, name: &str) -> bool {
        self.person.as_deref().is_none_or(|person| person == name)
    }
}

/// Asks for the accounts of all recorded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountsQuestion {
    pub until: Timestamp,
}

/// Asks for the statement of a month.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatementQuestion {
    /// First day of the month.
    pub month: Date,
    #[serde(with = "jiff::fmt::serde::tz::required")]
    pub zone: TimeZone,
    pub now: Timestamp,
    /// Only this person's account; those of all people where `None`.
    pub person: Option<String>,
}

impl StatementQuestion {
    /// Question for the report that the statement is made from.
    pub fn report(&self) -> Question {
        let period = month_period(self.month, &self.zone);
        Question {
            unit: Some(CalendarUnit::Day),
            cross: Some(Cross::Slot),
            detail: Detail::Accounts,
            ..Question::of_window(period, self.zone.clone(), self.now)
        }
    }
}

/// Asks what people used in the term of a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageQuestion {
    /// The term; it may end after now.
    pub period: Period,
    #[serde(with = "jiff::fmt::serde::tz::required")]
    pub zone: TimeZone,
    pub now: Timestamp,
}

/// Asks for the state of one GPU at a moment of the past, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainQuestion {
    /// Index, UUID or the beginning of a UUID.
    pub gpu: String,
    pub at: Timestamp,
    pub now: Timestamp,
}

/// Asks for the state of one GPU in a live sample, with what is recorded of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleQuestion {
    /// Index, UUID or the beginning of a UUID.
    pub gpu: String,
    pub sample: Sample,
    pub thresholds: Thresholds,
}

/// Asks whether any record names a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonQuestion {
    pub person: String,
}

/// Asks for the last ticks of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicksQuestion {
    pub window: Period,
    /// Maximum number of ticks; the last ones count.
    pub limit: u32,
}

/// Asks for recorded runs, the latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordedRunsQuestion {
    /// Runs that began in a window, at most `limit` of them.
    Window { window: Period, limit: u32 },
    /// Runs whose id begins with this text.
    Prefix(String),
}

/// Asks since when GPUs have been in a roll-up without a break.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinceQuestion {
    pub gpus: Vec<(GpuUuid, RollUp)>,
    pub thresholds: Thresholds,
    pub now: Timestamp,
}

/// Asks for how long GPUs that are idle at a moment, and their holders, have been idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleQuestion {
    /// The GPUs that are idle ([`gua_model::idle::is_idle_now`]) at the moment.
    pub gpus: Vec<GpuUuid>,
    pub thresholds: Thresholds,
    pub at: Timestamp,
}

impl IdleQuestion {
    /// Asks about the GPUs that are idle in a sample.
    pub fn of_sample(sample: &Sample, thresholds: Thresholds) -> Self {
        let is_idle =
            |gpu: &&Gpu| gpu.place.counts() && is_idle_now(classify(gpu, &thresholds, None).state);
        let idle = sample.gpus.iter().filter(is_idle);
        Self {
            gpus: idle.map(|gpu| gpu.uuid.clone()).collect(),
            thresholds,
            at: sample.at,
        }
    }
}

/// Asks when GPUs were last in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastUseQuestion {
    pub from: Timestamp,
    pub now: Timestamp,
    pub thresholds: Thresholds,
    /// Users whose processes do not count as use, by name or uid.
    pub as_free: Vec<String>,
}

/// Asks for the watched runs that began in a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsQuestion {
    pub window: Period,
    /// User name or uid.
    pub user: Option<String>,
    pub limit: u32,
}
