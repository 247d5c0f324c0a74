//! Rows of `gua export --by`: for each day, the sums by group, project, job, pod or container that a report has.

use std::collections::BTreeSet;

use gua_export::{Ask, Format, GroupDay, days};
use gua_files::Over;
use gua_model::report::groups::grouped;
use gua_model::{CalendarUnit, Period};
use gua_query::Question;
use gua_render::report::By;
use jiff::civil::Date;

use super::{Target, ask, ending, failed, print_rows, refuse_existing};
use crate::cli::ExportArgs;
use crate::commands::report::members;
use crate::context::Context;
use crate::failure::Failure;

/// Exports the sums of each day. They come from reports, which the service answers too.
pub(super) fn run(
    by: By,
    args: &ExportArgs,
    (format, target): (Option<Format>, Target<'_>),
    context: &Context,
) -> anyhow::Result<()> {
    let Some(format) = format else {
        let problem = "--by: the format gpu-usage-audit has no groups";
        return Err(Failure::usage(problem).into());
    };
    let ask = ask(args, format, &target)?;
    let over = Over::of(args.overwrite);
    if let Target::File(path) = target {
        refuse_existing(path, over)?;
    }
    let rows = rows(by, &ask, context)?;
    let mut outlet = target.outlet((by.as_str(), ending(format)), over);
    let written = gua_export::write_groups(&rows, (format, ask.edges), outlet.as_mut());
    let exported = written.map_err(|error| failed(&context.history(), error))?;
    print_rows(by.as_str(), &target, &exported);
    Ok(())
}

fn rows(by: By, ask: &Ask, context: &Context) -> anyhow::Result<Vec<GroupDay>> {
    let now = context.now();
    let of_window = |window: Period| Question {
        workloads: by.workload(),
        ..Question::of_window(window, ask.zone.clone(), now)
    };
    let by_day = Question {
        unit: Some(CalendarUnit::Day),
        ..of_window(ask.window)
    };
    let all = context.ask(|source| source.report(&by_day))?;
    let members = match by.group() {
        Some(kind) => Some(members(&all.people, kind, context)?),
        None => None,
    };
    let Some(known) = all.known.overlap(ask.window) else {
        return Ok(Vec::new());
    };
    // One damaged row can extend the window by a century of days without ticks.
    let seen = all.slots.iter().filter(|slot| slot.sums.was_seen());
    let seen: BTreeSet<Date> = seen.map(|slot| slot.label.date()).collect();
    let days = days(known, &ask.zone).into_iter();
    let mut rows = Vec::new();
    for day in days.filter(|day| seen.contains(&day.date)) {
        let report = context.source().report(&of_window(day.period))?;
        let sums = match &members {
            Some(members) => grouped(&report.people, |name| members.of(name)),
            None => report.groups,
        };
        let host = report.host.map(|host| host.name);
        rows.extend(sums.into_iter().map(|row| GroupDay {
            date: day.date,
            period: day.period,
            host: host.clone(),
            kind: by.as_str(),
            name: row.name,
            sums: row.sums,
            is_charged: members.is_some(),
        }));
    }
    Ok(rows)
}
