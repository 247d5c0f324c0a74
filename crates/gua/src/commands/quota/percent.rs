//! `gua quota show --formula percent`: the percentages of gpu_stats' notes, of this day, this week and this month.
//!
//! They are computed from single ticks as the daily CSV shows them: one user for each GPU. If ticks are no longer kept, a
//! message says so.

use gua_collector::location;
use gua_compat::gpu_stats::{Minute, rows};
use gua_model::legacy::LegacyMoment;
use gua_model::period::micros_between;
use gua_model::quota::Term;
use gua_model::quota::percent::Percentages;
use gua_model::{Micros, Period, Tick};
use gua_probe::clock;
use gua_query::words::zone;
use gua_render::quota::{percentages, percentages_json};
use gua_render::table::csv;
use gua_store::{History, ReadError};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cli::{QuotaShowArgs, TableFormat};
use crate::context::Context;
use crate::output;

const TERMS: [Term; 3] = [Term::Day, Term::Week, Term::Month];

pub(super) fn run(args: &QuotaShowArgs, context: &Context) -> anyhow::Result<()> {
    let now = clock::now();
    let zone = zone(args.tz.as_deref(), TimeZone::system())?;
    let history = location::open_history(&context.history())?;
    let terms: Vec<(Term, Percentages)> = TERMS
        .into_iter()
        .map(|term| {
            let period = term.period(now, &zone);
            Ok((
                term,
                sums(&history, Period::new(period.from(), now), &zone)?,
            ))
        })
        .collect::<anyhow::Result<_>>()?;
    let table = percentages(&terms, args.user.as_deref());
    output::data(&match args.format.wanted() {
        TableFormat::Text if table.rows.is_empty() => "no GPU was held this month\n".to_owned(),
        TableFormat::Text => table.text(0),
        TableFormat::Csv => csv(&table),
        TableFormat::Json => percentages_json(table, now, &zone),
    })
}

/// Sums over every sample of a window: own ticks and imported rows.
fn sums(history: &History, window: Period, zone: &TimeZone) -> anyhow::Result<Percentages> {
    if let Some(kept) = history.raw_from()?.filter(|kept| *kept > window.from()) {
        output::eprint(&format!(
            "gua quota: single ticks are kept from {} on; percentages do not include older ticks\n",
            kept.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M")
        ));
    }
    let mut sums = Percentages::default();
    let mut before: Option<Tick> = None;
    history.ticks(window, |tick| -> Result<(), ReadError> {
        // A damaged tick counts as a missing sample.
        let Ok(stored) = tick else {
            return Ok(());
        };
        if let Some(last) = before.replace(stored.tick) {
            let until = before.as_ref().map_or(window.to(), |next| next.sample.at);
            add(&mut sums, &last, until, zone);
        }
        Ok(())
    })?;
    if let Some(last) = before {
        add(&mut sums, &last, window.to(), zone);
    }
    let own = history.own_coverage(window)?;
    history.old_moments(window, &mut |moment| {
        own.rest(moment, |rest| add_old(&mut sums, rest));
    })?;
    Ok(sums)
}

fn add_old(sums: &mut Percentages, moment: &LegacyMoment<'_>) {
    for tick in moment.ticks {
        let first = tick.processes.first().and_then(|row| row.counted_as());
        let usage = u32::try_from(tick.util).ok();
        if let (Some(user), Some(usage)) = (first, usage) {
            let interval = u64::try_from(tick.run.interval.as_micros()).unwrap_or(0);
            sums.add(user, usage, Micros(interval));
        }
    }
}

/// A tick covers its interval, or less if the next one or the end comes earlier.
fn add(sums: &mut Percentages, tick: &Tick, until: Timestamp, zone: &TimeZone) {
    let interval = u64::try_from(tick.interval.as_micros()).unwrap_or(u64::MAX);
    let covered = Micros(interval.min(micros_between(tick.sample.at, until).0));
    let minute = Minute::of(tick.sample.at, zone);
    for row in rows(&tick.sample, minute) {
        if let Some(holder) = row.holder
            && let Some(usage) = holder.usage
        {
            sums.add(&holder.user, usage, covered);
        }
    }
}
