//! The statement as JSON; `docs/schema/gua.statement.v1.json` is its schema.

use gua_model::price::Money;
use gua_model::report::Hold;
use gua_model::statement::{Account, Balance, Day, session_time};
use jiff::Timestamp;
use jiff::civil::Date;

use super::{Sheet, remarks};
use crate::document::{Hours, Kilowatthours, Number, Percent, documents, pretty};
use crate::quota::{QuotaRow, quota_rows};
use crate::report::costs_of_person;

/// The version of the document. Keys may be added under the same number; none changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// The whole statement as JSON.
pub fn json(sheet: &Sheet<'_>) -> String {
    pretty(&StatementDocument::new(sheet))
}

documents! {
    /// Output of `gua statement --json`. Hours are GPU-hours; null means "not measured", never zero.
    pub struct StatementDocument from (sheet: &Sheet<'_>) {
        schema_version: u32 = SCHEMA_VERSION,
        gua_version: String = sheet.version.to_owned(),
        /// `2026-10`
        month: String = sheet.statement.month.strftime("%Y-%m").to_string(),
        from: Timestamp = sheet.statement.period.from(),
        to: Timestamp = sheet.statement.period.to(),
        /// Whether the month is over.
        is_over: bool = sheet.statement.is_over,
        made: Timestamp = sheet.statement.made,
        time_zone: String = sheet.zone_name(),
        host: Option<String> = sheet.statement.host.as_ref().map(|host| host.name.clone()),
        /// Number of GPUs.
        gpus: usize = sheet.statement.gpus,
        energy_kwh: Option<Kilowatthours> = sheet.statement.energy.map(Kilowatthours::from),
        balance: BalanceDocument = BalanceDocument::new(&sheet.statement.balance),
        people: Vec<Person> = {
            let people = sheet.statement.people.iter();
            people.map(|account| Person::new(sheet, account)).collect()
        },
        remarks: Vec<String> = remarks(sheet),
    }

    /// The parts of the time of all GPUs. They add up to the capacity.
    struct BalanceDocument from (balance: &Balance) {
        people_charged_hours: Hours = balance.people.into(),
        unowned_hours: Hours = balance.unowned.into(),
        free_hours: Hours = balance.free.into(),
        gap_hours: Hours = balance.gap.into(),
        old_rows_hours: Hours = balance.old.into(),
        capacity_hours: Hours = balance.capacity.into(),
        /// Zero if the books balance.
        capacity_less_parts_microseconds: Option<i64> = i64::try_from(balance.difference()).ok(),
    }

    pub(super) struct Person from (sheet: &Sheet<'_>, account: &Account) {
        user: String = account.name.clone(),
        held_hours: Hours = Hours(account.sums.hours()),
        /// Held hours that are neither idle-held nor free.
        used_hours: Hours = account.sums.used().into(),
        idle_held_hours: Hours = Hours(account.sums.idle_hours()),
        /// Held hours in which the GPU was free, because the processes on it had little memory; they are not charged.
        held_free_hours: Hours = Hours(account.sums.free_hours()),
        charged_hours: Option<Hours> = account.sums.charged_time().map(Hours::from),
        energy_kwh: Option<Kilowatthours> = account.sums.counted_energy().map(Kilowatthours::from),
        /// False if only a part of the charged hours is known.
        pub(super) charged_is_all: bool = account.sums.charged_is_all(),
        /// False if only a part of the energy is known.
        energy_is_all: bool = account.sums.energy_is_all(),
        days: Vec<DayDocument> = account.days.iter().map(DayDocument::new).collect(),
        biggest_sessions: Vec<SessionDocument> = account.sessions.iter().map(SessionDocument::new).collect(),
        /// Number of sessions.
        sessions: usize = account.session_count,
        quotas: Vec<QuotaRow> = quota_rows(&account.standings),
        /// Costs of the charged hours, by currency; empty without prices.
        costs: Vec<CostDocument> = {
            let costs = costs_of_person(sheet.costs, &account.name).into_iter();
            costs.map(|(currency, money)| CostDocument::new(currency, money)).collect()
        },
    }

    /// Costs in one currency.
    struct CostDocument from (currency: &str, amount: Money) {
        currency: String = currency.to_owned(),
        charged: Number = Number(amount.units()),
    }

    /// One day; null where nothing was observed.
    struct DayDocument from (day: &Day) {
        day: Date = day.date,
        held_hours: Option<Hours> = day.sums.map(|sums| Hours(sums.hours())),
        idle_held_hours: Option<Hours> = day.sums.map(|sums| Hours(sums.idle_hours())),
        charged_hours: Option<Hours> =
            day.sums.and_then(|sums| sums.charged_time()).map(Hours::from),
    }

    struct SessionDocument from (hold: &Hold) {
        from: Timestamp = hold.period.from(),
        to: Timestamp = hold.period.to(),
        gpu_uuid: String = hold.gpu.to_string(),
        gpu_index: Option<u32> = hold.index,
        program: Option<String> = hold.process.clone(),
        /// Observed hours.
        hours: Hours = session_time(hold).into(),
        util_mean_percent: Option<Percent> = hold.util.map(|(util, _)| Percent(util)),
    }
}
