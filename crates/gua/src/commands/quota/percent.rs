//! `gua quota show --formula percent`: the percentages of gpu_stats' notes, of the last hour, this day, this week and this
//! month, or of earlier ones.
//!
//! They are computed from single ticks as the daily CSV shows them: one user for each GPU. If ticks are no longer kept, a
//! message says so.

use std::time::Duration;

use gua_collector::location;
use gua_compat::gpu_stats::PercentQuestion;
use gua_model::Period;
use gua_model::quota::Term;
use gua_model::quota::percent::Percentages;
use gua_probe::clock;
use gua_query::words::zone;
use gua_render::quota::{percentages, percentages_json};
use gua_render::table::csv;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::cli::{QuotaShowArgs, TableFormat};
use crate::context::Context;
use crate::output;

const TERMS: [Term; 4] = [
    Term::Rolling(Duration::from_secs(3600)),
    Term::Day,
    Term::Week,
    Term::Month,
];

pub(super) fn run(args: &QuotaShowArgs, context: &Context) -> anyhow::Result<()> {
    let now = clock::now();
    let zone = zone(args.tz.as_deref(), TimeZone::system())?;
    let history = location::access(&context.announced_history(), context.settings())?;
    let periods = TERMS.map(|term| window(term, args.ago, now, &zone));
    let answer = history.percentages(PercentQuestion {
        periods: periods.to_vec(),
        zone: zone.clone(),
    })?;
    let is_cut = |kept: &Timestamp| periods.iter().any(|period| *kept > period.from());
    if let Some(kept) = answer.kept_from.filter(is_cut) {
        output::eprint(&format!(
            "gua quota: single ticks are kept from {} on; percentages do not include older ticks\n",
            kept.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M")
        ));
    }
    let terms: Vec<(Term, Percentages)> = TERMS.into_iter().zip(answer.periods).collect();
    let table = percentages(&terms, args.user.as_deref());
    output::data(&match args.format.wanted() {
        TableFormat::Text if table.rows.is_empty() => match args.ago {
            0 => "no GPU was held this month\n".to_owned(),
            _ => "no GPU was held in these periods\n".to_owned(),
        },
        TableFormat::Text => table.text(0),
        TableFormat::Csv => csv(&table),
        TableFormat::Json => percentages_json(table, now, &zone),
    })
}

/// The current period of a term, up to now, or the one that many periods before it.
fn window(term: Term, ago: u32, now: Timestamp, zone: &TimeZone) -> Period {
    let mut period = term.period(now, zone);
    if ago == 0 {
        return Period::new(period.from(), now);
    }
    for _ in 0..ago {
        // A calendar period contains its own start, but not its end.
        let before = match term {
            Term::Rolling(_) => period.from(),
            _ => period.from() - SignedDuration::from_micros(1),
        };
        period = term.period(before, zone);
    }
    period
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_periods_are_whole_ones() {
        let now: Timestamp = "2026-03-04T10:30:00Z".parse().unwrap();
        let check = |term: Term, ago: u32, from: &str, to: &str| {
            let found = window(term, ago, now, &TimeZone::UTC);
            let expected = [from, to].map(|text| format!("2026-{text}Z").parse().unwrap());
            assert_eq!([found.from(), found.to()], expected, "{term:?} {ago}");
        };
        let hour = TERMS[0];
        check(hour, 0, "03-04T09:30:00", "03-04T10:30:00");
        check(hour, 1, "03-04T08:30:00", "03-04T09:30:00");
        check(Term::Day, 0, "03-04T00:00:00", "03-04T10:30:00");
        check(Term::Day, 1, "03-03T00:00:00", "03-04T00:00:00");
        check(Term::Week, 1, "02-23T00:00:00", "03-02T00:00:00");
        check(Term::Month, 1, "02-01T00:00:00", "03-01T00:00:00");
        check(Term::Month, 2, "01-01T00:00:00", "02-01T00:00:00");
    }
}
