//! The sections of the page that are words and tables.

use gua_model::price::Costs;
use gua_model::report::{Hold, IntervalUse, Now, Refused, Report};
use gua_model::text::sanitize;
use gua_model::{Micros, RollUp, Tone};
use maud::{Markup, PreEscaped, html};

use super::summary::{self, state_bar};
use super::table::{TableOptions, folded, paragraph, section, table as html_table};
use crate::chart::Shown;
use crate::language::{Label, sentence};
use crate::markup::{Escaped, number_of};
use crate::report::figures::hours;
use crate::report::lists::{self, Medium};
use crate::report::{
    By, Page, compare, cost, hour_columns, labels, occurring_states, page_table, table as by_table,
};
use crate::table::{Cell, Table, table};

/// Returns the holders of GPUs that are idle now, with commands to inspect and stop them.
pub(super) fn holders(page: &Page<'_>, now: &Now) -> Markup {
    let report = page.report;
    let idle = report.idle_now();
    let about = (
        "holders",
        labels::held_without_use(report),
        Some(idle.len()),
    );
    let mut with_advice: Vec<_> = idle.iter().take(page.top).collect();
    with_advice.retain(|hold| labels::advice(page, hold).is_some());
    let inside = html! {
        (paragraph(sentence(&labels::holders_are(page, now, page.language))))
        @if !idle.is_empty() {
            (html_table(&lists::idle_now(page, &idle, Medium::Html), TableOptions::of(page, "holders-table")))
            @if !with_advice.is_empty() {
                ul.commands { @for hold in with_advice { li { (commands(page, hold)) } "\n" } }
            }
        }
    };
    section(page, about, &inside)
}

fn commands(page: &Page<'_>, hold: &Hold) -> Markup {
    let process = sanitize(hold.process.as_deref().unwrap_or("?"));
    let commands = labels::advice(page, hold);
    html! {
        div.who {
            strong { (Escaped(format!("{process} ({})", labels::pid(hold)))) }
            @if commands.is_some() { (Escaped(format!(" — {}", labels::decide(page, hold, page.language)))) }
        }
        @for (label, command) in commands.into_iter().flat_map(labels::Commands::labelled) {
            div.command { span { (Escaped(label.of(page.language))) } code { (Escaped(command)) } }
        }
    }
}

pub(super) fn past(page: &Page<'_>) -> Markup {
    let report = page.report;
    let shown = &report.past[..report.past.len().min(page.top)];
    let rest = report.past_count - shown.len();
    let inside = html! {
        (paragraph(sentence(labels::PAST_MEANS.of(page.language))))
        (html_table(&lists::holds(page, shown, Medium::Html), TableOptions::of(page, "past-table")))
        @if rest > 0 { (paragraph(labels::rest(rest, page.language))) }
    };
    let about = ("past", labels::PAST, Some(report.past_count));
    html! { @if !report.past.is_empty() { (folded(page, about, &inside)) } }
}

/// Returns every GPU at the last tick.
pub(super) fn now(page: &Page<'_>, now: &Now) -> Markup {
    let free = now.gpus.iter();
    let free: Vec<_> = free.filter(|gpu| gpu.is_free).collect();
    let head = format!(
        "{} · {}: ",
        page.long(now.at),
        labels::FREE.of(page.language)
    );
    let mark = |row: usize, column: usize| {
        let tone = Tone::of(now.gpus[row].state);
        let state = Shown::ALL.into_iter().find(|shown| shown.tone() == tone);
        html! { @if let (1, Some(state)) = (column, state) { span class={ "dot " (state.as_str()) } {} } }
    };
    let look = TableOptions {
        before: &mark,
        ..TableOptions::whole("now-table", page.language)
    };
    let inside = html! {
        p.say {
            (head) (number_of("free_gpus", &free.len().into()))
            @for gpu in free { " " span.chip { (Escaped(lists::gpu_now(gpu, Medium::Html))) } }
        } "\n"
        (html_table(&lists::now(page, now, Medium::Html), look))
    };
    section(page, ("now", labels::NOW, Some(now.gpus.len())), &inside)
}

/// Returns the requests for GPUs that were not granted at once, and the holders whose unused GPUs blocked them.
pub(super) fn refused_requests(page: &Page<'_>, refused: &Refused) -> Markup {
    let rows = table!(row in &refused.in_the_way =>
        "holder" as "idle-held by" => row.holder.clone(),
        "gpu" => labels::gpu_name(row.index, &row.gpu, "#"),
        "requester" as "blocked" => row.requester.clone(),
        "times" => row.times,
        "waited_hours" as "waited h" => Cell::Hours(row.waited.as_secs_f64() / 3600.0),
    );
    let inside = html! {
        @for line in labels::refused_lines(refused, 0, page.language) { (paragraph(sentence(&line))) }
        @if !rows.rows.is_empty() { (html_table(&rows, TableOptions::of(page, "in-vain-table"))) }
    };
    let about = ("in-vain", labels::REFUSED, Some(refused.requests));
    folded(page, about, &inside)
}

/// Held and charged hours, and energy.
pub(super) fn people(page: &Page<'_>) -> Markup {
    let rows = by_table(page.report, By::User);
    let inside = match rows.rows.is_empty() {
        true => paragraph(labels::NOTHING.of(page.language)),
        false => html! {
            (html_table(&rows, TableOptions::of(page, "people-table")))
            (paragraph(labels::SOLID_PART.of(page.language)))
            (paragraph(labels::CHARGED.of(page.language)))
        },
    };
    section(page, ("people", labels::PEOPLE, None), &inside)
}

/// Returns the shares of each GPU.
pub(super) fn gpus(page: &Page<'_>) -> Markup {
    let about = ("gpus", labels::GPUS, Some(page.report.gpus.len()));
    section(page, about, &gpu_table(page, "gpus-table"))
}

fn gpu_table(page: &Page<'_>, id: &str) -> Markup {
    let report = page.report;
    // The index, the model and a bar are below the name of the GPU, where they need no columns.
    let below = |row: usize, column: usize| {
        let (0, Some(gpu)) = (column, report.gpus.get(row)) else {
            return html! {};
        };
        let number = gpu.index.map(|index| format!("#{index}"));
        let known: Vec<String> = number.into_iter().chain(gpu.name.clone()).collect();
        html! {
            div.sub { (Escaped(known.join(" · "))) }
            @if report.person.is_none() { (state_bar(&hours(&gpu.sums, gpu.covered.gap), "")) }
        }
    };
    let look = TableOptions {
        below: &below,
        ..TableOptions::of(page, id)
    };
    let rows = nonempty_columns(&by_table(report, By::Gpu));
    let kept = rows.only_keys(|key| !matches!(key, "gpu_index" | "gpu_name"));
    html_table(&kept, look)
}

/// Returns the columns that contain information. Empty columns are omitted to save space.
fn nonempty_columns(table: &Table) -> Table {
    let has_content = |place: &usize| {
        let is_unknown = table.columns[*place].key == "held_unknown_hours";
        let mut cells = table.rows.iter().filter_map(|row| row.get(*place));
        cells.any(|cell| match cell {
            Cell::Missing => false,
            Cell::Hours(hours) => *hours != 0.0 || !is_unknown,
            _ => true,
        })
    };
    let places: Vec<usize> = (0..table.columns.len()).filter(has_content).collect();
    table.only(&places)
}

/// Coverage of the window, and the reasons of its gaps.
pub(super) fn coverage(page: &Page<'_>) -> Markup {
    let (report, language) = (page.report, page.language);
    let gaps = lists::gaps(page, &report.coverage.gaps, Medium::Html);
    let number = |key: &str, cell: &Cell| number_of(key, cell).into_string();
    let inside = match labels::observed(report, language, number) {
        None => paragraph(labels::NO_GPU.of(language)),
        Some(observed) => html! {
            p.say { (PreEscaped(sentence(&observed))) } "\n"
            @if let Some(basis) = labels::basis(report, language) { (paragraph(sentence(&basis))) }
            @if !gaps.rows.is_empty() { (html_table(&gaps, TableOptions::of(page, "gaps-table"))) }
        },
    };
    folded(page, ("coverage", labels::COVERAGE, None), &inside)
}

/// Costs by the prices of the configuration.
pub(super) fn costs(page: &Page<'_>, costs: &Costs) -> Markup {
    let people = cost::people(page, costs);
    let inside = html! {
        @for words in cost::sentences(costs, page.language) { (paragraph(sentence(&words))) }
        @if page.report.person.is_none() && !people.rows.is_empty() {
            (html_table(&people, TableOptions::of(page, "costs-table")))
        }
        (paragraph(labels::COSTS_MEAN.of(page.language)))
    };
    section(page, ("costs", labels::COSTS, None), &inside)
}

/// The numbers of the previous period beside those of this one.
pub(super) fn comparison(page: &Page<'_>, previous: &Report) -> Markup {
    let title = labels::compared_with(&page.ends(previous.window), page.language);
    let rows = compare::table(page, previous);
    html! {
        section id="compare" {
            h2 { (Escaped(title)) }
            (html_table(&rows, TableOptions::whole("compare-table", page.language)))
            @if let Some(caveat) = compare::caveat(page.report, previous, page.language) { (paragraph(caveat)) }
        } "\n"
    }
}

/// Hours and energy of each state that occurred.
pub(super) fn energy(page: &Page<'_>) -> Markup {
    let (report, language) = (page.report, page.language);
    if report.person.is_some() || report.all.share(RollUp::Active).is_none() {
        return html! {};
    }
    let inside = html! {
        (state_table(page, occurring_states(report), "energy-table"))
        @if let Some(known) = labels::energy_known(report, language) { (paragraph(sentence(&known))) }
        (paragraph(language.pick("kWh: NVML-reported.", "kWh: NVML 보고값.")))
    };
    folded(page, ("energy", labels::ENERGY, None), &inside)
}

fn state_table(page: &Page<'_>, mut states: Table, id: &str) -> Markup {
    labels::name_states(&mut states, page.language);
    html_table(&states, TableOptions::whole(id, page.language))
}

/// Returns the table of `--by` below its chart.
pub(super) fn by(page: &Page<'_>, by: By) -> Markup {
    let rows = match by {
        By::Idle => lists::idle_now(page, &page.report.idle_now(), Medium::Html),
        _ => page_table(page, by),
    };
    let chart = match by {
        By::User => summary::people_chart(page),
        By::Day | By::Week | By::Month => summary::over_time_chart(page),
        By::Hour => summary::heat_chart(page),
        _ => html! {},
    };
    // A time series is not truncated: that would hide the newest rows.
    let whole = TableOptions::whole("by-table", page.language);
    let inside = match by {
        _ if rows.rows.is_empty() => paragraph(labels::NOTHING.of(page.language)),
        By::Gpu => gpu_table(page, "by-table"),
        By::State => state_table(page, rows, "by-table"),
        By::Day | By::Week | By::Month => html_table(&nonempty_columns(&rows), whole),
        By::Hour => {
            let (rows, left_out) = first_columns(&rows, page.top);
            html! {
                (html_table(&nonempty_columns(&rows), whole))
                @if left_out > 0 { (paragraph(labels::columns_left_out(left_out, page.language))) }
            }
        }
        _ => html_table(&rows, TableOptions::of(page, "by-table")),
    };
    html! { (chart) (section(page, ("by", labels::by(by), None), &inside)) }
}

/// Returns the columns of the first GPUs and people, and the number of omitted columns.
fn first_columns(rows: &Table, top: usize) -> (Table, usize) {
    let [all, gpus, people] = hour_columns(rows);
    let first = [&gpus, &people].map(|each| each.iter().take(top));
    let kept = all.iter().chain(first.into_iter().flatten());
    let mut kept: Vec<usize> = kept.copied().collect();
    kept.sort_unstable();
    (rows.only(&kept), rows.columns.len() - kept.len())
}

pub(super) fn notes(page: &Page<'_>) -> Markup {
    let notes = &page.report.notes;
    let inside = html! {
        ul { @for note in notes { li { (Escaped(labels::note(page, note, page.language))) } "\n" } }
    };
    html! { @if !notes.is_empty() { (section(page, ("notes", labels::NOTES, None), &inside)) } }
}

/// Explains the states with the thresholds of this report.
pub(super) fn method(page: &Page<'_>) -> Markup {
    let (report, language) = (page.report, page.language);
    let shares = match report.all.observed() > Micros(0) {
        true => Label(
            "Shares are of the observed time; each tick counts for the time that it observed. Gaps are counted \
             nowhere else.",
            "비율은 관측된 시간에 대한 것이며, 각 틱은 관측한 시간만큼 셉니다. 공백은 다른 곳에 세지 않습니다.",
        ),
        false => Label(
            "A sample is one GPU at one tick; shares are of samples.",
            "샘플은 한 틱의 GPU 한 장이며, 비율은 샘플에 대한 것입니다.",
        ),
    };
    let interval = match report.interval {
        IntervalUse::Given(interval) => Some(interval.as_secs_f64()),
        IntervalUse::Recorded => None,
    };
    let given = interval.map(|seconds| {
        language.pick(
            format!("Each imported row covers {seconds} s, as set by --interval."),
            format!("옛 파일의 각 행은 --interval에 따라 {seconds}초로 셉니다."),
        )
    });
    let inside = html! {
        (paragraph(format!("{}.", labels::rule(report, language))))
        (paragraph(shares.of(language)))
        @if let Some(given) = given { (paragraph(given)) }
    };
    folded(page, ("method", labels::METHOD, None), &inside)
}
