//! The sections of the page that are words and tables.

use gua_model::report::{Hold, IntervalUse};
use gua_model::text::sanitize;
use gua_model::{Micros, RollUp, State};

use super::charts;
use super::summary::state_bar;
use super::table::{Look, paragraph, section, table as write_table};
use crate::chart::Shown;
use crate::language::{Label, sentence};
use crate::markup::Markup;
use crate::report::figures::hours;
use crate::report::lists::{self, Medium};
use crate::report::{By, HourColumns, Page, hour_columns, labels, occurring_states, table};
use crate::table::{Cell, Table};

/// Writes the holders that do not use their GPU, with commands to inspect and stop them.
pub(super) fn holders(html: &mut Markup, page: &Page<'_>) {
    let report = page.report;
    let Some(now) = &report.now else { return };
    let title = labels::held_without_use(report);
    let about = ("holders", title, Some(report.holders.len()));
    section(html, page, about, |html| {
        paragraph(
            html,
            &sentence(&labels::holders_are(page, now, page.language)),
        );
        if report.holders.is_empty() {
            return;
        }
        let rows = lists::holds(page, &report.holders, Medium::Html);
        write_table(html, &rows, Look::of(page, "holders-table"));
        html.element("ul", &[("class", "commands")], |html| {
            for hold in report.holders.iter().take(page.top) {
                html.element("li", &[], |html| commands(html, page, hold));
            }
        });
    });
}

fn commands(html: &mut Markup, page: &Page<'_>, hold: &Hold) {
    let process = sanitize(hold.process.as_deref().unwrap_or("?"));
    html.element("div", &[("class", "who")], |html| {
        html.text("strong", &[], &format!("{process} ({})", labels::pid(hold)));
        html.words(&format!(" — {}", labels::decide(hold, page.language)));
    });
    let commands = labels::commands(page, hold);
    let commands = commands.map(|(look, stop)| [(labels::LOOK, look), (labels::STOP, stop)]);
    for (label, command) in commands.into_iter().flatten() {
        html.element("div", &[("class", "command")], |html| {
            html.text("span", &[], label.of(page.language));
            html.text("code", &[], &command);
        });
    }
}

pub(super) fn past(html: &mut Markup, page: &Page<'_>) {
    let report = page.report;
    if report.past.is_empty() {
        return;
    }
    let about = ("past", labels::PAST, Some(report.past_count));
    section(html, page, about, |html| {
        paragraph(html, &sentence(labels::PAST_MEANS.of(page.language)));
        let shown = report.past.len().min(page.top);
        let rows = lists::holds(page, &report.past[..shown], Medium::Html);
        write_table(html, &rows, Look::of(page, "past-table"));
        if report.past_count > shown {
            paragraph(
                html,
                &labels::rest(report.past_count - shown, page.language),
            );
        }
    });
}

/// Writes every GPU at the last tick.
pub(super) fn now(html: &mut Markup, page: &Page<'_>) {
    let Some(now) = &page.report.now else { return };
    let about = ("now", labels::NOW, Some(now.cards.len()));
    section(html, page, about, |html| {
        let free = now.cards.iter();
        let free: Vec<_> = free.filter(|card| card.state == State::TrulyIdle).collect();
        html.element("p", &[("class", "say")], |html| {
            let label = labels::FREE.of(page.language);
            html.words(&format!("{} · {label}: ", page.long(now.at)));
            let count = Cell::Count(free.len().try_into().unwrap_or(u64::MAX));
            html.number("free_gpus", &count);
            for card in free {
                html.words(" ");
                html.text(
                    "span",
                    &[("class", "chip")],
                    &lists::gpu_now(card, Medium::Html),
                );
            }
        });
        let mark = |html: &mut Markup, row: usize, column: usize| {
            if column == 1 {
                let state = shown_state(now.cards[row].state).key();
                html.text("span", &[("class", &format!("dot {state}"))], "");
            }
        };
        let look = Look {
            before: &mark,
            ..Look::whole("now-table", page.language)
        };
        write_table(html, &lists::now(page, now, Medium::Html), look);
    });
}

fn shown_state(state: State) -> Shown {
    match (state, state.roll_up()) {
        (State::HeldUnknown, _) => Shown::HeldUnknown,
        (_, Some(RollUp::Active)) => Shown::Active,
        (_, Some(RollUp::IdleHeld)) => Shown::IdleHeld,
        (_, Some(RollUp::TrulyIdle)) => Shown::TrulyIdle,
        (_, None) => Shown::Gap,
    }
}

/// Writes the requests for GPUs that were not granted at once, and the holders whose unused GPUs blocked them.
pub(super) fn refused_requests(html: &mut Markup, page: &Page<'_>) {
    let Some(refused) = &page.report.refused else {
        return;
    };
    let about = ("in-vain", labels::REFUSED, Some(refused.requests));
    section(html, page, about, |html| {
        for line in labels::refused_lines(refused, 0, page.language) {
            paragraph(html, &sentence(&line));
        }
        if refused.in_the_way.is_empty() {
            return;
        }
        let mut rows = Table::new([
            ("holder", "idle-held by"),
            ("gpu", "gpu"),
            ("asker", "blocked"),
            ("times", "times"),
            ("waited_hours", "waited h"),
        ]);
        for row in &refused.in_the_way {
            rows.rows.push(vec![
                row.holder.clone().into(),
                labels::gpu_name(row.index, &row.gpu, "#").into(),
                row.asker.clone().into(),
                Cell::Count(row.times),
                Cell::Hours(row.waited.as_secs_f64() / 3600.0),
            ]);
        }
        write_table(html, &rows, Look::of(page, "in-vain-table"));
    });
}

/// Held and charged hours, and energy.
pub(super) fn people(html: &mut Markup, page: &Page<'_>) {
    section(html, page, ("people", labels::PEOPLE, None), |html| {
        if page.report.people.is_empty() {
            return paragraph(html, labels::NOTHING.of(page.language));
        }
        let rows = table(page.report, By::User);
        write_table(html, &rows, Look::of(page, "people-table"));
        paragraph(html, labels::SOLID_PART.of(page.language));
        paragraph(html, labels::CHARGED.of(page.language));
    });
}

/// Writes the shares of each GPU.
pub(super) fn gpus(html: &mut Markup, page: &Page<'_>) {
    let about = ("gpus", labels::GPUS, Some(page.report.cards.len()));
    section(html, page, about, |html| {
        write_gpus(html, page, "gpus-table");
    });
}

fn write_gpus(html: &mut Markup, page: &Page<'_>, id: &str) {
    let report = page.report;
    // The index, the model and a bar are below the name of the GPU, where they need no columns.
    let below = |html: &mut Markup, row: usize, column: usize| {
        let (0, Some(card)) = (column, report.cards.get(row)) else {
            return;
        };
        let number = card.index.map(|index| format!("#{index}"));
        let known: Vec<String> = number.into_iter().chain(card.name.clone()).collect();
        html.text("div", &[("class", "sub")], &known.join(" · "));
        if report.person.is_none() {
            state_bar(html, &hours(&card.sums, card.covered.gap), "");
        }
    };
    let look = Look {
        below: &below,
        ..Look::of(page, id)
    };
    let mut rows = nonempty_columns(&table(report, By::Gpu));
    let kept = (0..rows.columns.len())
        .filter(|place| !matches!(&*rows.columns[*place].key, "gpu_index" | "gpu_name"));
    rows = rows.only(&kept.collect::<Vec<_>>());
    write_table(html, &rows, look);
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

/// How much was observed, and why the rest was not.
pub(super) fn coverage(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    section(html, page, ("coverage", labels::COVERAGE, None), |html| {
        let Some(observed) = labels::observed(report) else {
            return paragraph(html, labels::NO_GPU.of(language));
        };
        html.element("p", &[("class", "say")], |html| {
            observed.write(html, language);
        });
        if let Some(basis) = labels::basis(report, language) {
            paragraph(html, &sentence(&basis));
        }
        if !report.coverage.gaps.is_empty() {
            let rows = lists::gaps(page, &report.coverage.gaps, Medium::Html);
            write_table(html, &rows, Look::of(page, "gaps-table"));
        }
    });
}

/// Hours and energy of each state that occurred.
pub(super) fn energy(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    if report.person.is_some() || report.all.share(RollUp::Active).is_none() {
        return;
    }
    section(html, page, ("energy", labels::ENERGY, None), |html| {
        write_states(html, page, occurring_states(report), "energy-table");
        if let Some(known) = labels::energy_known(report, language) {
            paragraph(html, &sentence(&known));
        }
        paragraph(
            html,
            language.pick("kWh: NVML-reported.", "kWh: NVML 보고값."),
        );
    });
}

fn write_states(html: &mut Markup, page: &Page<'_>, mut states: Table, id: &str) {
    labels::name_states(&mut states, page.language);
    write_table(html, &states, Look::whole(id, page.language));
}

/// Writes the table of `--by` below its chart.
pub(super) fn by(html: &mut Markup, page: &Page<'_>, by: By) {
    let rows = table(page.report, by);
    match by {
        By::User => charts::people(html, page),
        By::Day | By::Week | By::Month => charts::over_time(html, page),
        By::Hour => charts::heat(html, page),
        By::Gpu | By::State => {}
    }
    section(html, page, ("by", labels::by(by), None), |html| {
        if rows.rows.is_empty() {
            return paragraph(html, labels::NOTHING.of(page.language));
        }
        // A time series is not truncated: that would hide the newest rows.
        let whole = Look::whole("by-table", page.language);
        match by {
            By::Gpu => write_gpus(html, page, "by-table"),
            By::State => write_states(html, page, rows, "by-table"),
            By::User => write_table(html, &rows, Look::of(page, "by-table")),
            By::Day | By::Week | By::Month => write_table(html, &nonempty_columns(&rows), whole),
            By::Hour => {
                let (rows, left_out) = first_columns(&rows, page.top);
                write_table(html, &nonempty_columns(&rows), whole);
                if left_out > 0 {
                    paragraph(html, &labels::columns_left_out(left_out, page.language));
                }
            }
        }
    });
}

/// Returns the columns of the first GPUs and people, and the number of omitted columns.
fn first_columns(rows: &Table, top: usize) -> (Table, usize) {
    let HourColumns { all, gpus, people } = hour_columns(rows);
    let first = [&gpus, &people].map(|each| each.iter().take(top));
    let kept = all.iter().chain(first.into_iter().flatten());
    let kept: Vec<usize> = kept.copied().collect();
    (rows.only(&kept), rows.columns.len() - kept.len())
}

pub(super) fn notes(html: &mut Markup, page: &Page<'_>) {
    if page.report.notes.is_empty() {
        return;
    }
    section(html, page, ("notes", labels::NOTES, None), |html| {
        html.element("ul", &[], |html| {
            for note in &page.report.notes {
                html.text("li", &[], &labels::note(page, note, page.language));
            }
        });
    });
}

/// Explains the states with the thresholds of this report.
pub(super) fn method(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    section(html, page, ("method", labels::METHOD, None), |html| {
        paragraph(html, &format!("{}.", labels::rule(report, language)));
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
        paragraph(html, shares.of(language));
        if let IntervalUse::Given(interval) = report.interval {
            let seconds = interval.as_secs_f64();
            let words = language.pick(
                format!("Each imported row covers {seconds} s, as set by --interval."),
                format!("옛 파일의 각 행은 --interval에 따라 {seconds}초로 셉니다."),
            );
            paragraph(html, &words);
        }
    });
}
