//! The sections of the page that are words and tables.

use gua_model::report::{CardNow, Hold, IntervalUse};
use gua_model::text::harmless;
use gua_model::{Micros, RollUp, State};

use super::charts::state_hours;
use super::markup::{Html, Look, plain, table as write_table};
use crate::chart::{Language, Shown, StateHours};
use crate::report::labels::{self, Label, pick};
use crate::report::{By, Page, table, words};
use crate::svg::number;
use crate::table::{Cell, Table};

/// A section with a heading.
fn section(
    html: &mut Html,
    page: &Page<'_>,
    id: &str,
    title: Label,
    inside: impl FnOnce(&mut Html),
) {
    counted(html, page, id, title, None, inside);
}

/// The same with a number behind its heading.
fn counted(
    html: &mut Html,
    page: &Page<'_>,
    id: &str,
    title: Label,
    count: Option<usize>,
    inside: impl FnOnce(&mut Html),
) {
    html.element("section", &[("id", id)], |html| {
        html.element("h2", &[], |html| {
            html.words(title.of(page.language));
            if let Some(count) = count {
                html.words(" ");
                html.text("span", &[("class", "count")], &count.to_string());
            }
        });
        inside(html);
    });
}

fn say(html: &mut Html, text: &str) {
    html.text("p", &[("class", "say")], text);
}

fn look<'a>(page: &Page<'_>, id: &'a str) -> Look<'a> {
    Look {
        id,
        language: page.language,
        top: page.top,
        decorate: &plain,
    }
}

/// Shares, idle capacity and coverage at a glance.
pub(super) fn summary(html: &mut Html, page: &Page<'_>) {
    section(html, page, "summary", labels::SUMMARY, |html| {
        if page.report.person.is_some() {
            person_summary(html, page);
        } else {
            shares(html, page);
        }
    });
}

fn shares(html: &mut Html, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let sums = &report.all;
    if sums.share(RollUp::Active).is_none() {
        return say(html, labels::NO_SAMPLES.of(language));
    }
    state_bar(html, &state_hours(sums), "tall");
    html.element("div", &[("class", "tiles")], |html| {
        let classes = [
            (State::Active, RollUp::Active, "active_share"),
            (State::IdleHeld, RollUp::IdleHeld, "idle_held_share"),
            (State::TrulyIdle, RollUp::TrulyIdle, "truly_idle_share"),
        ];
        for (state, class, key) in classes {
            let below = |html: &mut Html| {
                html.words("~");
                html.number(
                    &format!("{}_hours", class.word().replace('-', "_")),
                    &Cell::Hours(sums.hours(class)),
                );
                html.words(pick(language, " GPU-hours", " GPU 시간"));
            };
            tile(
                html,
                state.word(),
                labels::state(state, language),
                key,
                Cell::share(sums.share(class)),
                below,
            );
        }
        if let Some(unknown) = sums.unknown_share().filter(|share| *share > 0.0) {
            let state = State::HeldUnknown;
            let below = |html: &mut Html| {
                html.words("~");
                html.number("held_unknown_hours", &Cell::Hours(sums.unknown_hours()));
                html.words(pick(language, " GPU-hours", " GPU 시간"));
            };
            tile(
                html,
                state.word(),
                labels::state(state, language),
                "held_unknown_share",
                Cell::Share(unknown),
                below,
            );
        }
        if let Some(observed) = report.coverage.share() {
            let below = |html: &mut Html| {
                html.number("gap_hours", &Cell::Hours(report.coverage.gap.hours()));
                html.words(pick(language, " GPU-hours are gaps", " GPU 시간 공백"));
            };
            tile(
                html,
                "observed",
                labels::OBSERVED.of(language),
                "observed_share",
                Cell::Share(observed),
                below,
            );
        }
    });
    capacity(html, page);
}

/// How many GPUs were idle on average.
fn capacity(html: &mut Html, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let gpus = |class| Cell::Hours(report.equivalent(class));
    html.element("p", &[("class", "lead")], |html| {
        html.words(pick(language, "On average ", "평균적으로 GPU "));
        html.element("strong", &[], |html| {
            html.number("idle_held_gpus", &gpus(RollUp::IdleHeld))
        });
        html.words(pick(
            language,
            " GPUs were held without use and ",
            "장은 잡힌 채 쓰이지 않았고, ",
        ));
        html.element("strong", &[], |html| {
            html.number("truly_idle_gpus", &gpus(RollUp::TrulyIdle))
        });
        html.words(pick(
            language,
            " were free, of ",
            "장은 비어 있었습니다 (전체 ",
        ));
        html.number(
            "gpus",
            &Cell::Count(report.cards.len().try_into().unwrap_or(u64::MAX)),
        );
        html.words(pick(language, " seen in the window. ", "장). "));
        html.words(pick(language, "Samples: ", "샘플: "));
        html.number("samples", &Cell::Count(report.all.samples()));
        html.words(".");
    });
}

fn person_summary(html: &mut Html, page: &Page<'_>) {
    let language = page.language;
    let held = &page.report.all.held;
    let Some(idle) = held.idle_share() else {
        return say(html, labels::NOTHING.of(language));
    };
    let hours = StateHours {
        active: held.hours() - held.idle_hours(),
        idle_held: held.idle_hours(),
        ..StateHours::default()
    };
    state_bar(html, &hours, "tall");
    html.element("div", &[("class", "tiles")], |html| {
        let amount = |html: &mut Html, key: &str, hours: f64| {
            html.number(key, &Cell::Hours(hours));
            html.words(pick(language, " GPU-hours", " GPU 시간"));
        };
        let used = held.hours() - held.idle_hours();
        tile(
            html,
            "active",
            labels::NOT_IDLE_HELD.of(language),
            "used_share",
            Cell::Share(1.0 - idle),
            |html| {
                amount(html, "used_hours", used);
            },
        );
        let idle_word = labels::state(State::IdleHeld, language);
        tile(
            html,
            "idle-held",
            idle_word,
            "idle_held_share",
            Cell::Share(idle),
            |html| {
                amount(html, "idle_held_hours", held.idle_hours());
            },
        );
        tile(
            html,
            "observed",
            labels::HELD_HOURS.of(language),
            "held_hours",
            Cell::Hours(held.hours()),
            |html| {
                html.number("samples", &Cell::Count(held.samples()));
                html.words(pick(language, " samples", " 샘플"));
            },
        );
    });
}

/// One number, large.
fn tile(
    html: &mut Html,
    class: &str,
    name: &str,
    key: &str,
    value: Cell,
    below: impl FnOnce(&mut Html),
) {
    html.element("div", &[("class", &format!("tile {class}"))], |html| {
        html.text("div", &[("class", "name")], name);
        html.element("div", &[("class", "value")], |html| {
            html.number(key, &value)
        });
        html.element("div", &[("class", "below")], below);
    });
}

/// How time is divided among states, without numbers: those stand beside it.
fn state_bar(html: &mut Html, hours: &StateHours, class: &str) {
    let total = hours.total();
    let class = format!("gua-chart bar {class}");
    let attributes = [
        ("class", class.as_str()),
        ("viewBox", "0 0 1000 10"),
        ("preserveAspectRatio", "none"),
        ("aria-hidden", "true"),
    ];
    html.element("svg", &attributes, |html| {
        let mut x = 0.0;
        for state in Shown::ALL {
            let width = if total > 0.0 {
                hours.of(state) / total * 1000.0
            } else {
                0.0
            };
            if width > 0.0 {
                let place = [
                    ("x", &*number(x)),
                    ("width", &*number(width)),
                    ("height", "10"),
                    ("class", &*format!("f-{}", state.key())),
                ];
                html.void("rect", &place);
            }
            x += width;
        }
    });
}

/// Who holds without using, and what can be done about it.
pub(super) fn holders(html: &mut Html, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let Some(now) = &report.now else { return };
    counted(
        html,
        page,
        "holders",
        labels::HOLDERS,
        Some(report.holders.len()),
        |html| {
            let at = page.short(now.at);
            if report.holders.is_empty() {
                return say(
                    html,
                    &pick(
                        language,
                        format!("Nobody held a GPU without using it at {at}."),
                        format!("{at}에는 GPU를 잡고 쓰지 않는 사람이 없었습니다."),
                    ),
                );
            }
            let (util, memory) = (
                report.thresholds.active_util.get(),
                report.thresholds.held_mb,
            );
            say(
                html,
                &pick(
                    language,
                    format!(
                        "Mean utilisation under {util} %, over {memory} MB held, there at the last tick ({at})."
                    ),
                    format!(
                        "평균 사용률 {util}% 미만, {memory} MB 초과 점유, 마지막 틱({at})에도 있던 프로세스입니다."
                    ),
                ),
            );
            write_table(
                html,
                &hold_table(page, &report.holders),
                look(page, "holders-table"),
            );
            html.element("ul", &[("class", "commands")], |html| {
                for hold in report.holders.iter().take(page.top) {
                    html.element("li", &[], |html| commands(html, hold, language));
                }
            });
        },
    );
}

fn commands(html: &mut Html, hold: &Hold, language: Language) {
    let (look, stop) = words::commands(hold);
    let owner = hold.owner.as_deref().map(harmless);
    let decide = match (&owner, hold.by_login) {
        (Some(owner), true) => pick(
            language,
            format!("ask {owner} first"),
            format!("먼저 {owner} 님께 확인하세요"),
        ),
        (Some(owner), false) => pick(
            language,
            format!("{owner} is known from the process, not from a login: decide first"),
            format!("{owner}: 로그인이 아니라 프로세스에서 알아낸 이름입니다. 먼저 판단하세요"),
        ),
        (None, _) => pick(
            language,
            "owner unknown: decide first".to_owned(),
            "소유자를 알 수 없습니다. 먼저 판단하세요".to_owned(),
        ),
    };
    let process = harmless(hold.process.as_deref().unwrap_or("?"));
    html.element("div", &[("class", "who")], |html| {
        html.text("strong", &[], &format!("{process} ({})", hold.pid));
        html.words(&format!(" — {decide}"));
    });
    for (label, command) in [(labels::LOOK, look), (labels::STOP, stop)] {
        html.element("div", &[("class", "command")], |html| {
            html.text("span", &[], label.of(language));
            html.text("code", &[], &command);
        });
    }
}

pub(super) fn past(html: &mut Html, page: &Page<'_>) {
    let report = page.report;
    if report.past.is_empty() {
        return;
    }
    counted(
        html,
        page,
        "past",
        labels::PAST,
        Some(report.past_count),
        |html| {
            say(html, labels::PAST_MEANS.of(page.language));
            let shown = report.past.len().min(page.top);
            let rows = hold_table(page, &report.past[..shown]);
            write_table(html, &rows, look(page, "past-table"));
            if report.past_count > shown {
                say(
                    html,
                    &labels::rest(report.past_count - shown, page.language),
                );
            }
        },
    );
}

fn hold_table(page: &Page<'_>, holds: &[Hold]) -> Table {
    let language = page.language;
    let mut rows = Table::new([
        ("gpu", "gpu"),
        ("owner", "owner"),
        ("process", "process"),
        ("held_hours", "held h"),
        ("idle_held_hours", "idle-held h"),
        ("util_mean_percent", "mean util"),
        ("peak_memory_mb", "peak MB"),
        ("when", "when"),
    ]);
    for hold in holds {
        let process = hold.process.as_deref().unwrap_or("?");
        let shared = match hold.shared {
            true => format!(", {}", labels::SHARED.of(language)),
            false => String::new(),
        };
        let workload = hold
            .workload
            .as_deref()
            .map_or_else(String::new, |work| format!(" {work}"));
        let unknown = || labels::UNKNOWN.of(language).to_owned();
        rows.rows.push(vec![
            Cell::Text(words::card(hold)),
            Cell::Text(hold.owner.clone().unwrap_or_else(unknown)),
            Cell::Text(format!("{process} ({}{shared}){workload}", hold.pid)),
            Cell::Hours(hold.period.micros().hours()),
            hold.idle_held
                .map_or(Cell::Missing, |idle| Cell::Hours(idle.hours())),
            hold.util
                .map_or(Cell::Missing, |(util, _)| Cell::Percent(util)),
            hold.peak_memory
                .map_or(Cell::Missing, |memory| Cell::Count(memory.whole_mb())),
            Cell::Text(format!(
                "{} – {}",
                page.short(hold.period.from()),
                page.short(hold.period.to())
            )),
        ]);
    }
    rows
}

/// Every GPU at the last tick: this list is never cut, because a free GPU must not be missed.
pub(super) fn now(html: &mut Html, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let Some(now) = &report.now else { return };
    counted(
        html,
        page,
        "now",
        labels::NOW,
        Some(now.cards.len()),
        |html| {
            let free: Vec<&CardNow> = now
                .cards
                .iter()
                .filter(|card| card.state == State::TrulyIdle)
                .collect();
            html.element("p", &[("class", "say")], |html| {
                html.words(&page.long(now.at));
                html.words(" · ");
                html.words(labels::FREE.of(language));
                html.words(": ");
                html.number(
                    "free_gpus",
                    &Cell::Count(free.len().try_into().unwrap_or(u64::MAX)),
                );
                for card in free {
                    html.words(" ");
                    html.text("span", &[("class", "chip")], &card_name(card));
                }
            });
            let mut rows = Table::new([
                ("gpu", "gpu"),
                ("state", "state"),
                ("util_percent", "util"),
                ("memory_mb", "memory MB"),
                ("owner", "owner"),
                ("process", "process"),
                ("since", "held since"),
            ]);
            for card in &now.cards {
                rows.rows.push(now_row(page, card));
            }
            let mark = |html: &mut Html, row: usize, column: usize| {
                if column == 1 {
                    let state = now
                        .cards
                        .get(row)
                        .map_or("", |card| shown_state(card.state).key());
                    html.text("span", &[("class", &format!("dot {state}"))], "");
                }
            };
            let look = Look {
                top: usize::MAX,
                decorate: &mark,
                ..look(page, "now-table")
            };
            write_table(html, &rows, look);
        },
    );
}

fn card_name(card: &CardNow) -> String {
    card.index
        .map_or_else(|| card.gpu.to_string(), |index| format!("#{index}"))
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

fn now_row(page: &Page<'_>, card: &CardNow) -> Vec<Cell> {
    let memory = match (card.memory_used, card.memory_total) {
        (Some(used), Some(total)) => format!("{} / {}", used.whole_mb(), total.whole_mb()),
        (Some(used), None) => used.whole_mb().to_string(),
        (None, _) => "-".to_owned(),
    };
    let text = |text: Option<String>| Cell::Text(text.unwrap_or_else(|| "-".to_owned()));
    let util = card.util.and_then(|util| u64::try_from(util).ok());
    vec![
        Cell::Text(card_name(card)),
        Cell::Text(labels::state(card.state, page.language).to_owned()),
        text(util.map(|util| format!("{util}%"))),
        Cell::Text(memory),
        text((!card.owners.is_empty()).then(|| card.owners.join(", "))),
        text(card.process.clone()),
        text(card.held_since.map(|at| page.short(at))),
    ]
}

/// Held and charged hours, and energy.
pub(super) fn people(html: &mut Html, page: &Page<'_>) {
    let report = page.report;
    section(html, page, "people", labels::PEOPLE, |html| {
        if report.people.is_empty() {
            return say(html, labels::NOTHING.of(page.language));
        }
        write_table(html, &table(report, By::User), look(page, "people-table"));
        say(html, labels::CHARGED.of(page.language));
    });
}

/// The same shares for each card.
pub(super) fn gpus(html: &mut Html, page: &Page<'_>) {
    let report = page.report;
    counted(
        html,
        page,
        "gpus",
        labels::GPUS,
        Some(report.cards.len()),
        |html| {
            if report.cards.is_empty() {
                return say(html, labels::NO_GPU.of(page.language));
            }
            write_gpus(html, page, "gpus-table");
        },
    );
}

fn write_gpus(html: &mut Html, page: &Page<'_>, id: &str) {
    let report = page.report;
    let bars = |html: &mut Html, row: usize, column: usize| {
        if let (0, Some(card), None) = (column, report.cards.get(row), &report.person) {
            let hours = StateHours {
                gap: card.covered.gap.hours(),
                ..state_hours(&card.sums)
            };
            state_bar(html, &hours, "");
        }
    };
    let look = Look {
        decorate: &bars,
        ..look(page, id)
    };
    write_table(html, &without_empty_columns(table(report, By::Gpu)), look);
}

/// Columns that say nothing take room from those that do.
fn without_empty_columns(table: Table) -> Table {
    let says = |place: usize| {
        let nothing = |cell: &Cell| match cell {
            Cell::Missing => true,
            Cell::Hours(hours) => *hours == 0.0 && table.columns[place].key == "held_unknown_hours",
            _ => false,
        };
        !table
            .rows
            .iter()
            .filter_map(|row| row.get(place))
            .all(nothing)
    };
    let kept: Vec<usize> = (0..table.columns.len())
        .filter(|place| says(*place))
        .collect();
    Table {
        columns: kept
            .iter()
            .map(|place| table.columns[*place].clone())
            .collect(),
        rows: table
            .rows
            .iter()
            .map(|row| {
                kept.iter()
                    .filter_map(|place| row.get(*place).cloned())
                    .collect()
            })
            .collect(),
    }
}

/// How much was observed, and why the rest was not.
pub(super) fn coverage(html: &mut Html, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let covered = &report.coverage;
    section(html, page, "coverage", labels::COVERAGE, |html| {
        let Some(share) = covered.share() else {
            return say(html, labels::NO_GPU.of(language));
        };
        html.element("p", &[("class", "say")], |html| {
            html.words(pick(language, "Observed ", "전체 "));
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
            html.words(pick(language, " GPU-hours; ", "를 관측했습니다. "));
            html.number("gap_hours", &Cell::Hours(covered.gap.hours()));
            html.words(pick(
                language,
                " GPU-hours are gaps, which no share counts.",
                " GPU 시간은 공백이며 어떤 비율에도 들어가지 않습니다.",
            ));
        });
        if report.all.observed() > Micros(0) {
            let buffered = covered.buffered.hours() / covered.observed.hours() * 100.0;
            let rest = 100.0 - buffered;
            say(
                html,
                &pick(
                    language,
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
    });
}

fn gap_table(page: &Page<'_>) -> Table {
    let mut rows = Table::new([
        ("when", "when"),
        ("gpus", "GPUs"),
        ("gap_hours", "GPU-hours"),
        ("reason", "reason"),
    ]);
    for gap in &page.report.coverage.gaps {
        let reason = labels::reason(gap.reason, page.language);
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
            // A card can be in many gaps, so these are not to be added up.
            Cell::Text(gap.cards.to_string()),
            Cell::Hours(gap.micros.hours()),
            Cell::Text(format!("{reason}{detail}")),
        ]);
    }
    rows
}

/// Hours and energy of each state that occurred.
pub(super) fn energy(html: &mut Html, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    if report.person.is_some() || report.all.share(RollUp::Active).is_none() {
        return;
    }
    section(html, page, "energy", labels::ENERGY, |html| {
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
                &pick(
                    language,
                    format!("Energy is known for {share:.1}% of the observed time."),
                    format!("에너지는 관측 시간의 {share:.1}%에 대해 알려져 있습니다."),
                ),
            );
        }
        say(
            html,
            pick(language, "kWh: NVML-reported.", "kWh: NVML 보고값."),
        );
    });
}

fn write_states(html: &mut Html, page: &Page<'_>, mut states: Table, id: &str) {
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

/// The one table that was asked for.
pub(super) fn by(html: &mut Html, page: &Page<'_>, by: By) {
    html.element("section", &[("id", "by")], |html| {
        html.text("h2", &[], labels::by(by, page.language));
        let rows = table(page.report, by);
        if rows.rows.is_empty() {
            return say(html, labels::NOTHING.of(page.language));
        }
        match by {
            By::Gpu => write_gpus(html, page, "by-table"),
            By::State => write_states(html, page, rows, "by-table"),
            By::User => write_table(html, &rows, look(page, "by-table")),
            // Time is a series: cutting it off would hide the newest.
            By::Day | By::Hour | By::Month => {
                let look = Look {
                    top: usize::MAX,
                    ..look(page, "by-table")
                };
                write_table(html, &without_empty_columns(rows), look);
            }
        }
    });
}

pub(super) fn notes(html: &mut Html, page: &Page<'_>) {
    if page.report.notes.is_empty() {
        return;
    }
    section(html, page, "notes", labels::NOTES, |html| {
        html.element("ul", &[], |html| {
            for note in &page.report.notes {
                html.text("li", &[], &labels::note(page, note, page.language));
            }
        });
    });
}

/// What the words mean, in the thresholds of this report.
pub(super) fn method(html: &mut Html, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    section(html, page, "method", labels::METHOD, |html| {
        say(html, &labels::rule(report, language));
        let own = report.all.observed() > Micros(0);
        say(
            html,
            match own {
                true => pick(
                    language,
                    "Shares are of the observed time; each tick counts for the time that it observed. Gaps are counted \
                     nowhere else.",
                    "비율은 관측된 시간에 대한 것이며, 각 틱은 관측한 시간만큼 셉니다. 공백은 다른 곳에 세지 않습니다.",
                ),
                false => pick(
                    language,
                    "A sample is one GPU at one tick; shares are of samples.",
                    "샘플은 한 틱의 GPU 한 장이며, 비율은 샘플에 대한 것입니다.",
                ),
            },
        );
        if let IntervalUse::Given(interval) = report.interval {
            let seconds = interval.as_secs_f64();
            say(
                html,
                &pick(
                    language,
                    format!("Each old row stands for {seconds} s, as --interval says."),
                    format!("옛 파일의 각 행은 --interval에 따라 {seconds}초로 셉니다."),
                ),
            );
        }
    });
}
