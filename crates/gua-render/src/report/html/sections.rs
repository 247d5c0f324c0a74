//! The sections of the page that are words and tables.

use gua_model::report::IntervalUse;
use gua_model::{Micros, RollUp};

use super::charts;
use super::markup::{Look, nothing, table as write_table};
use super::summary::state_bar;
use crate::chart::{Language, StateHours};
use crate::markup::Markup;
use crate::report::figures::state_hours;
use crate::report::labels;
use crate::report::{By, HourColumns, Page, hour_columns, table};
use crate::table::{Cell, Table};

/// A section with a heading, and a number behind it where there is one.
pub(super) fn section(
    html: &mut Markup,
    id: &str,
    (title, count): (&str, Option<usize>),
    inside: impl FnOnce(&mut Markup),
) {
    html.element("section", &[("id", id)], |html| {
        html.element("h2", &[], |html| {
            html.words(title);
            if let Some(count) = count {
                html.words(" ");
                html.text("span", &[("class", "count")], &count.to_string());
            }
        });
        inside(html);
    });
}

pub(super) fn say(html: &mut Markup, text: &str) {
    html.text("p", &[("class", "say")], text);
}

pub(super) fn look<'a>(page: &Page<'_>, id: &'a str) -> Look<'a> {
    Look {
        id,
        language: page.language,
        top: page.top,
        before: &nothing,
        below: &nothing,
    }
}

/// Held and charged hours, and energy.
pub(super) fn people(html: &mut Markup, page: &Page<'_>) {
    let report = page.report;
    section(
        html,
        "people",
        (labels::PEOPLE.of(page.language), None),
        |html| {
            if report.people.is_empty() {
                return say(html, labels::NOTHING.of(page.language));
            }
            write_table(html, &table(report, By::User), look(page, "people-table"));
            say(html, labels::SOLID_PART.of(page.language));
            say(html, labels::CHARGED.of(page.language));
        },
    );
}

/// Writes the shares of each GPU.
pub(super) fn gpus(html: &mut Markup, page: &Page<'_>) {
    let report = page.report;
    section(
        html,
        "gpus",
        (labels::GPUS.of(page.language), Some(report.cards.len())),
        |html| {
            if report.cards.is_empty() {
                return say(html, labels::NO_GPU.of(page.language));
            }
            write_gpus(html, page, "gpus-table");
        },
    );
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
            let hours = StateHours {
                gap: card.covered.gap.hours(),
                ..state_hours(&card.sums)
            };
            state_bar(html, &hours, "");
        }
    };
    let look = Look {
        below: &below,
        ..look(page, id)
    };
    let rows = table(report, By::Gpu);
    let says = |key: &str, cells: &[&Cell]| {
        !matches!(key, "gpu_index" | "gpu_name") && says_something(key, cells)
    };
    write_table(html, &with_columns(&rows, says), look);
}

/// Whether a column contains information. Empty columns are omitted to save space.
fn says_something(key: &str, cells: &[&Cell]) -> bool {
    let nothing = |cell: &&Cell| match cell {
        Cell::Missing => true,
        Cell::Hours(hours) => *hours == 0.0 && key == "held_unknown_hours",
        _ => false,
    };
    !cells.iter().all(nothing)
}

/// The columns that are wanted, by their key and cells.
fn with_columns(table: &Table, wanted: impl Fn(&str, &[&Cell]) -> bool) -> Table {
    let is_wanted = |place: &usize| {
        let cells: Vec<&Cell> = table
            .rows
            .iter()
            .filter_map(|row| row.get(*place))
            .collect();
        wanted(&table.columns[*place].key, &cells)
    };
    let kept: Vec<usize> = (0..table.columns.len()).filter(is_wanted).collect();
    let of_row = |row: &Vec<Cell>| {
        kept.iter()
            .filter_map(|place| row.get(*place).cloned())
            .collect()
    };
    Table {
        columns: kept
            .iter()
            .map(|place| table.columns[*place].clone())
            .collect(),
        rows: table.rows.iter().map(of_row).collect(),
    }
}

/// How much was observed, and why the rest was not.
pub(super) fn coverage(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let covered = &report.coverage;
    section(
        html,
        "coverage",
        (labels::COVERAGE.of(page.language), None),
        |html| {
            let Some(share) = covered.share() else {
                return say(html, labels::NO_GPU.of(language));
            };
            html.element("p", &[("class", "say")], |html| {
                html.words(language.pick("Observed ", "전체 "));
                let share = Cell::Share(share);
                let capacity = Cell::Hours(covered.capacity.hours());
                if language == Language::English {
                    html.number("observed_share", &share);
                    html.words(" of ");
                    html.number("capacity_hours", &capacity);
                } else {
                    html.number("capacity_hours", &capacity);
                    html.words(" GPU 시간 중 ");
                    html.number("observed_share", &share);
                }
                html.words(language.pick(" GPU-hours; ", "를 관측했습니다. "));
                html.number("gap_hours", &Cell::Hours(covered.gap.hours()));
                html.words(language.pick(
                    " GPU-hours are gaps, which no share counts.",
                    " GPU 시간은 공백이며 어떤 비율에도 들어가지 않습니다.",
                ));
            });
            if report.all.observed() > Micros(0) {
                let buffered = covered.buffered.hours() / covered.observed.hours() * 100.0;
                let rest = 100.0 - buffered;
                say(
                    html,
                    &language.pick(
                        format!(
                            "{buffered:.1}% of the observed time rests on the driver's own samples, {rest:.1}% on one \
                         reading a tick."
                        ),
                        format!(
                            "관측 시간의 {buffered:.1}%는 드라이버 자체 샘플에, {rest:.1}%는 틱마다 한 번 읽은 값에 근거합니다."
                        ),
                    ),
                );
            }
            if !covered.gaps.is_empty() {
                write_table(html, &gap_table(page), look(page, "gaps-table"));
            }
        },
    );
}

fn gap_table(page: &Page<'_>) -> Table {
    let mut rows = Table::new([
        ("when", "when"),
        ("gpus", "GPUs"),
        ("gap_hours", "GPU-hours"),
        ("reason", "reason"),
    ]);
    for gap in &page.report.coverage.gaps {
        let reason = match gap.late {
            true => labels::LATE_TICKS.of(page.language),
            false => labels::reason(gap.reason, page.language),
        };
        let detail = gap
            .detail
            .as_deref()
            .map_or_else(String::new, |detail| format!(": {detail}"));
        rows.rows.push(vec![
            Cell::Text(format!(
                "{} – {}",
                page.short(gap.period.from()),
                page.short(gap.period.to())
            )),
            // Text instead of a count, because a GPU can be in many gaps and the counts must not be summed.
            Cell::Text(gap.cards.to_string()),
            Cell::Hours(gap.micros.hours()),
            Cell::Text(format!("{reason}{detail}")),
        ]);
    }
    rows
}

/// Hours and energy of each state that occurred.
pub(super) fn energy(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    if report.person.is_some() || report.all.share(RollUp::Active).is_none() {
        return;
    }
    section(
        html,
        "energy",
        (labels::ENERGY.of(page.language), None),
        |html| {
            let mut states = table(report, By::State);
            states
                .rows
                .retain(|row| !matches!(row.get(1), Some(Cell::Hours(hours)) if *hours == 0.0));
            write_states(html, page, states, "energy-table");
            let (known, observed) = (report.all.energy_known, report.all.observed());
            if known == Micros(0) {
                say(html, labels::NO_ENERGY.of(language));
            } else if known < observed {
                let share = (known.hours() / observed.hours() * 100.0).min(100.0);
                say(
                    html,
                    &language.pick(
                        format!("Energy is known for {share:.1}% of the observed time."),
                        format!("에너지는 관측 시간의 {share:.1}%에 대해 알려져 있습니다."),
                    ),
                );
            }
            say(
                html,
                language.pick("kWh: NVML-reported.", "kWh: NVML 보고값."),
            );
        },
    );
}

fn write_states(html: &mut Markup, page: &Page<'_>, mut states: Table, id: &str) {
    for row in &mut states.rows {
        if let Some(Cell::Text(word)) = row.first_mut() {
            *word = labels::state_word(word, page.language).to_owned();
        }
    }
    let look = Look {
        top: usize::MAX,
        ..look(page, id)
    };
    write_table(html, &states, look);
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
    let title = labels::by(by, page.language);
    section(html, "by", (title, None), |html| {
        if rows.rows.is_empty() {
            return say(html, labels::NOTHING.of(page.language));
        }
        // A time series is not truncated: that would hide the newest rows.
        let whole = Look {
            top: usize::MAX,
            ..look(page, "by-table")
        };
        match by {
            By::Gpu => write_gpus(html, page, "by-table"),
            By::State => write_states(html, page, rows, "by-table"),
            By::User => write_table(html, &rows, look(page, "by-table")),
            By::Day | By::Week | By::Month => {
                write_table(html, &with_columns(&rows, says_something), whole);
            }
            By::Hour => {
                let (rows, left_out) = first_columns(&rows, page.top);
                write_table(html, &with_columns(&rows, says_something), whole);
                if left_out > 0 {
                    say(html, &labels::columns_left_out(left_out, page.language));
                }
            }
        }
    });
}

/// Returns the columns of the first GPUs and people, and the number of omitted columns.
fn first_columns(rows: &Table, top: usize) -> (Table, usize) {
    let HourColumns { all, cards, people } = hour_columns(rows);
    let first = [&cards, &people].map(|each| each.iter().take(top));
    let kept: Vec<usize> = all
        .iter()
        .chain(first.into_iter().flatten())
        .copied()
        .collect();
    (rows.only(&kept), rows.columns.len() - kept.len())
}

pub(super) fn notes(html: &mut Markup, page: &Page<'_>) {
    if page.report.notes.is_empty() {
        return;
    }
    section(
        html,
        "notes",
        (labels::NOTES.of(page.language), None),
        |html| {
            html.element("ul", &[], |html| {
                for note in &page.report.notes {
                    html.text("li", &[], &labels::note(page, note, page.language));
                }
            });
        },
    );
}

/// Explains the states with the thresholds of this report.
pub(super) fn method(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    section(
        html,
        "method",
        (labels::METHOD.of(page.language), None),
        |html| {
            say(html, &labels::rule(report, language));
            let own = report.all.observed() > Micros(0);
            say(
                html,
                match own {
                    true => language.pick(
                        "Shares are of the observed time; each tick counts for the time that it observed. Gaps are counted \
                     nowhere else.",
                        "비율은 관측된 시간에 대한 것이며, 각 틱은 관측한 시간만큼 셉니다. 공백은 다른 곳에 세지 않습니다.",
                    ),
                    false => language.pick(
                        "A sample is one GPU at one tick; shares are of samples.",
                        "샘플은 한 틱의 GPU 한 장이며, 비율은 샘플에 대한 것입니다.",
                    ),
                },
            );
            if let IntervalUse::Given(interval) = report.interval {
                let seconds = interval.as_secs_f64();
                say(
                    html,
                    &language.pick(
                        format!("Each old row stands for {seconds} s, as --interval says."),
                        format!("옛 파일의 각 행은 --interval에 따라 {seconds}초로 셉니다."),
                    ),
                );
            }
        },
    );
}
