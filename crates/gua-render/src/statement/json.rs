//! The statement as JSON; `docs/schema/gua.statement.v1.json` is its schema.

use gua_model::report::{Hold, HoldSums};
use gua_model::statement::{Account, Balance, Day, session_time};
use jiff::Timestamp;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Sheet, remarks};
use crate::document::{Hours, Kilowatthours, Percent, pretty};
use crate::quota::{QuotaRow, quota_rows};

/// The version of the document. Keys may be added under the same number; none changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// The whole statement as JSON.
#[must_use]
pub fn json(sheet: &Sheet<'_>) -> String {
    pretty(&StatementDocument::new(sheet))
}

/// What `gua statement --json` prints. Hours are GPU-hours; null means "not measured", never zero.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StatementDocument {
    schema_version: u32,
    gua_version: String,
    /// `2026-10`
    month: String,
    from: Timestamp,
    to: Timestamp,
    /// Whether the month is over.
    is_over: bool,
    made: Timestamp,
    time_zone: String,
    host: Option<String>,
    /// Number of GPUs.
    gpus: usize,
    energy_kwh: Option<Kilowatthours>,
    balance: BalanceDocument,
    people: Vec<Person>,
    remarks: Vec<String>,
}

/// The parts of the time of all GPUs. They add up to the capacity.
#[derive(Debug, Serialize, JsonSchema)]
struct BalanceDocument {
    people_charged_hours: Hours,
    unowned_hours: Hours,
    free_hours: Hours,
    gap_hours: Hours,
    old_rows_hours: Hours,
    capacity_hours: Hours,
    /// Zero if the books balance.
    capacity_less_parts_microseconds: Option<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Person {
    user: String,
    held_hours: Hours,
    used_hours: Hours,
    idle_held_hours: Hours,
    charged_hours: Option<Hours>,
    energy_kwh: Option<Kilowatthours>,
    /// False if only a part of the charged hours is known.
    pub(super) charged_is_all: bool,
    /// False if only a part of the energy is known.
    energy_is_all: bool,
    days: Vec<DayDocument>,
    biggest_sessions: Vec<SessionDocument>,
    /// Number of sessions.
    sessions: usize,
    quotas: Vec<QuotaRow>,
}

/// One day; null where nothing was observed.
#[derive(Debug, Serialize, JsonSchema)]
struct DayDocument {
    day: Date,
    held_hours: Option<Hours>,
    idle_held_hours: Option<Hours>,
    charged_hours: Option<Hours>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SessionDocument {
    from: Timestamp,
    to: Timestamp,
    gpu_uuid: String,
    gpu_index: Option<u32>,
    program: Option<String>,
    /// Observed hours.
    hours: Hours,
    util_mean_percent: Option<Percent>,
}

impl StatementDocument {
    fn new(sheet: &Sheet<'_>) -> Self {
        let statement = sheet.statement;
        Self {
            schema_version: SCHEMA_VERSION,
            gua_version: sheet.version.to_owned(),
            month: statement.month.strftime("%Y-%m").to_string(),
            from: statement.period.from(),
            to: statement.period.to(),
            is_over: statement.is_over,
            made: statement.made,
            time_zone: sheet.zone_name(),
            host: statement.host.as_ref().map(|host| host.name.clone()),
            gpus: statement.cards,
            energy_kwh: statement.energy.map(Kilowatthours::from),
            balance: (&statement.balance).into(),
            people: statement.people.iter().map(Person::from).collect(),
            remarks: remarks(sheet),
        }
    }
}

impl From<&Balance> for BalanceDocument {
    fn from(balance: &Balance) -> Self {
        Self {
            people_charged_hours: balance.people.into(),
            unowned_hours: balance.unowned.into(),
            free_hours: balance.free.into(),
            gap_hours: balance.gap.into(),
            old_rows_hours: balance.old.into(),
            capacity_hours: balance.capacity.into(),
            capacity_less_parts_microseconds: i64::try_from(balance.difference()).ok(),
        }
    }
}

impl From<&Account> for Person {
    fn from(account: &Account) -> Self {
        let sums = &account.sums;
        Self {
            user: account.name.clone(),
            held_hours: Hours(sums.hours()),
            used_hours: Hours(account.used_hours()),
            idle_held_hours: Hours(sums.idle_hours()),
            charged_hours: sums.charged_time().map(Hours::from),
            energy_kwh: sums.counted_energy().map(Kilowatthours::from),
            charged_is_all: sums.charged_is_all(),
            energy_is_all: sums.energy_is_all(),
            days: account.days.iter().map(DayDocument::from).collect(),
            biggest_sessions: account.sessions.iter().map(SessionDocument::from).collect(),
            sessions: account.session_count,
            quotas: quota_rows(&account.standings),
        }
    }
}

impl From<&Day> for DayDocument {
    fn from(day: &Day) -> Self {
        let sums = day.sums.as_ref();
        Self {
            day: day.date,
            held_hours: sums.map(|sums| Hours(sums.hours())),
            idle_held_hours: sums.map(|sums| Hours(sums.idle_hours())),
            charged_hours: sums.and_then(HoldSums::charged_time).map(Hours::from),
        }
    }
}

impl From<&Hold> for SessionDocument {
    fn from(hold: &Hold) -> Self {
        Self {
            from: hold.period.from(),
            to: hold.period.to(),
            gpu_uuid: hold.gpu.to_string(),
            gpu_index: hold.index,
            program: hold.process.clone(),
            hours: session_time(hold).into(),
            util_mean_percent: hold.util.map(|(util, _)| Percent(util)),
        }
    }
}
