//! Sections 6 to 13, which gpu-usage-audit does not have: coverage, unused holders, charged hours, energy, costs and the
//! comparison with the previous period; and `--by hour`: all GPUs, each GPU, each person, and the quietest hours.

use gua_model::Micros;
use gua_model::report::Report;

use crate::language::Language::English;
use crate::report::lists::{self, Medium};
use crate::report::{
    By, Page, compare, cost, figures, hour_columns, labels, occurring_states, table as by_table,
};
use crate::table::{Cell, Table, table};

pub(super) fn coverage(out: &mut String, page: &Page<'_>) {
    let covered = &page.report.coverage;
    line!(out, "§6 {}", labels::COVERAGE.of(English));
    let Some(observed) = labels::observed(page.report, English, |_, cell| cell.shown()) else {
        return line!(out, "  ({})", labels::NO_GPU.of(English));
    };
    line!(out, "  {observed}");
    if let Some(began) = labels::began_late(page, English) {
        line!(out, "  {began}");
    }
    if let Some(basis) = labels::basis(page.report, English) {
        line!(out, "  {basis}");
    }
    if covered.gaps.is_empty() {
        return;
    }
    let (shown, rest) = covered.gaps.split_at(covered.gaps.len().min(page.top));
    out.push_str(&lists::gaps(page, shown, Medium::Text).text(2));
    if !rest.is_empty() {
        let hours: f64 = rest.iter().map(|gap| gap.micros.hours()).sum();
        line!(out, "  ({} more: {hours:.2} GPU-hours)", rest.len());
    }
}

pub(super) fn holders(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let Some(now) = &report.now else { return };
    let title = labels::held_without_use(report).of(English);
    let idle = report.idle_now();
    line!(out, "§7 {title} ({})", idle.len());
    let words = labels::holders_are(page, now, English);
    if idle.is_empty() {
        return line!(out, "  ({words})");
    }
    line!(out, "  {words}");
    let shown = &idle[..idle.len().min(page.top)];
    out.push_str(&lists::idle_now(page, shown, Medium::Text).text(2));
    for hold in shown {
        let Some(commands) = labels::advice(page, hold) else {
            if report.is_fresh() {
                continue;
            }
            line!(
                out,
                "    the last tick is old: check that they are still running before you act"
            );
            break;
        };
        let (pid, decide) = (labels::pid(hold), labels::decide(page, hold, English));
        line!(out, "    pid {pid}: look: {}", commands.look);
        match commands.stop {
            Some(stop) => line!(out, "      stop: {stop}   ({decide})"),
            None => line!(out, "      ({decide})"),
        }
    }
    more(out, idle.len(), page.top);
}

pub(super) fn past_waste(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    if report.past.is_empty() {
        return;
    }
    let title = labels::PAST.of(English);
    line!(out, "§8 {title} ({})", report.past_count);
    line!(out, "  {}", labels::PAST_MEANS.of(English));
    let shown = &report.past[..report.past.len().min(page.top)];
    out.push_str(&lists::holds(page, shown, Medium::Text).text(2));
    more(out, report.past_count, shown.len());
}

pub(super) fn more(out: &mut String, all: usize, shown: usize) {
    if all > shown {
        line!(out, "  ({} more)", all - shown);
    }
}

pub(super) fn gpus_now(out: &mut String, page: &Page<'_>) {
    let Some(now) = &page.report.now else { return };
    let title = labels::NOW.of(English);
    line!(out, "§9 {title} ({})", page.long(now.at));
    out.push_str(&lists::now(page, now, Medium::Text).text(2));
    let free = now.gpus.iter();
    let free = free.filter(|gpu| gpu.is_free);
    let free = free.map(|gpu| lists::gpu_now(gpu, Medium::Text));
    let free: Vec<String> = free.collect();
    if !free.is_empty() {
        line!(out, "  free: {}", free.join(", "));
    }
}

/// Writes the requests for GPUs that were not granted at once, and the holders whose unused GPUs blocked them.
pub(super) fn refused_requests(out: &mut String, page: &Page<'_>) {
    let Some(refused) = &page.report.refused else {
        return;
    };
    let title = labels::REFUSED.of(English);
    line!(out, "§11 {title} ({})", refused.requests);
    for line in labels::refused_lines(refused, page.top, English) {
        line!(out, "  {line}");
    }
    more(out, refused.in_the_way.len(), page.top);
}

/// Writes the costs, if the configuration has prices.
pub(super) fn costs(out: &mut String, page: &Page<'_>) {
    let Some(costs) = page.costs else { return };
    line!(out, "§12 {}", labels::COSTS.of(English));
    for sentence in cost::sentences(costs, English) {
        line!(out, "  {sentence}");
    }
    if page.report.person.is_none() {
        let mut people = cost::people(page, costs);
        let all = people.rows.len();
        people.rows.truncate(page.top);
        if all > 0 {
            out.push_str(&people.text(2));
            more(out, all, page.top);
        }
    }
}

/// Writes the numbers of the previous period beside those of this one.
pub(super) fn comparison(out: &mut String, page: &Page<'_>) {
    let Some(previous) = page.previous else {
        return;
    };
    let title = labels::compared_with(&page.ends(previous.window), English);
    line!(out, "§13 {title}");
    out.push_str(&compare::table(page, previous).text(2));
    if let Some(caveat) = compare::caveat(page.report, previous, English) {
        line!(out, "  {caveat}");
    }
}

pub(super) fn charged_and_energy(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    if report.all.observed() == Micros(0) && report.all.held.own_held() == Micros(0) {
        return;
    }
    line!(out, "§10 Charged hours and energy (kWh, NVML-reported)");
    if report.person.is_none() {
        out.push_str(&occurring_states(report).text(2));
        if let Some(known) = labels::energy_known(report, English) {
            line!(out, "  {known}");
        }
    }
    if report.people.is_empty() {
        return;
    }
    let charged = report.people.iter();
    let mut charged: Vec<_> = charged
        .filter(|person| person.sums.own_held() > Micros(0))
        .collect();
    charged.sort_by_key(|person| std::cmp::Reverse(person.sums.charged));
    let people = table!(person in charged.iter().take(page.top) =>
        "user" as "charged to" => person.name.clone(),
        "hours" => Cell::Hours(person.sums.charged.hours()),
        "energy" as "kWh" => Cell::energy(person.sums.counted_energy()),
    );
    out.push_str(&people.text(2));
    more(out, charged.len(), page.top);
    line!(
        out,
        "  charged: the time of a GPU shared equally among the people on it, so that people add up to the GPU"
    );
    if charged.iter().any(|person| !person.sums.charged_is_all()) {
        line!(
            out,
            "  imported rows do not record sharing or energy: they are charged to nobody"
        );
    }
}

/// Splits the table that files contain as a whole into parts that fit on a screen.
pub(super) fn hours(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let all = by_table(report, By::Hour);
    let [of_all, of_gpus, of_people] = hour_columns(&all);
    out.push_str(&all.only(&of_all).text(2));
    // Column for all GPUs with the same value as the columns per GPU.
    let mut columns = all.columns.iter();
    let whole = columns.position(|column| column.key == "active_share");
    let first: Vec<usize> = std::iter::once(0).chain(whole).collect();
    let title = "active share of all GPUs and of each";
    side_by_side(out, &all, (&first, &of_gpus), title, page.top);
    let title = "hours that each person held GPUs";
    side_by_side(out, &all, (&[0], &of_people), title, page.top);
    quietest(out, report);
}

/// Writes one column for each GPU or person, after `first`.
fn side_by_side(
    out: &mut String,
    all: &Table,
    (first, each): (&[usize], &[usize]),
    title: &str,
    top: usize,
) {
    if each.is_empty() {
        return;
    }
    let shown: Vec<usize> = first.iter().chain(each.iter().take(top)).copied().collect();
    line!(out, "\n  {title}");
    out.push_str(&all.only(&shown).text(2));
    more(out, each.len(), top);
}

/// The hours of the day with the least use.
fn quietest(out: &mut String, report: &Report) {
    let shown: Vec<String> = figures::quietest(report)
        .iter()
        .map(|(hour, used)| match report.person {
            Some(_) => format!("{hour:02} ({used:.2} h)"),
            None => format!("{hour:02} ({:.1}%)", used * 100.0),
        })
        .collect();
    let what = match report.person {
        Some(_) => "hours held",
        None => "active share",
    };
    if !shown.is_empty() {
        line!(out, "\n  quietest hours ({what}): {}", shown.join(", "));
    }
}
