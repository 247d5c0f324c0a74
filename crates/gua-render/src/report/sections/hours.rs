//! `--by hour` as text: all GPUs, each GPU, each person, and the quietest hours.

use gua_model::report::Report;

use super::more;
use crate::report::{By, Page, figures, hour_columns, table};
use crate::table::Table;

/// Splits the table that files contain as a whole into parts that fit on a screen.
pub(super) fn hours(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let all = table(report, By::Hour);
    let parts = hour_columns(&all);
    let (of_all, of_gpus, of_people) = (parts.all, parts.gpus, parts.people);
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
