//! Holders at the last tick with commands to inspect and stop them, and earlier waste.

use gua_model::report::{CardNow, Hold};
use gua_model::text::sanitize;
use gua_model::{RollUp, State};

use super::markup::{Look, table as write_table};
use super::sections::{look, say, section};
use crate::chart::Shown;
use crate::markup::Markup;
use crate::report::labels;
use crate::report::{Page, words};
use crate::table::{Cell, Table};

/// Writes the holders that do not use their GPU, with commands to inspect and stop them.
pub(super) fn holders(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let Some(now) = &report.now else { return };
    section(
        html,
        "holders",
        (
            labels::HOLDERS.of(page.language),
            Some(report.holders.len()),
        ),
        |html| {
            let at = page.short(now.at);
            if report.holders.is_empty() {
                return say(
                    html,
                    &language.pick(
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
                &language.pick(
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
                    html.element("li", &[], |html| commands(html, page, hold));
                }
            });
        },
    );
}

fn commands(html: &mut Markup, page: &Page<'_>, hold: &Hold) {
    let language = page.language;
    let commands = words::commands(page, hold);
    let owner = hold.owner.as_deref().map(sanitize);
    let decide = match (&owner, hold.by_login) {
        (Some(owner), true) => language.pick(
            format!("ask {owner} first"),
            format!("먼저 {owner} 님께 확인하세요"),
        ),
        (Some(owner), false) => language.pick(
            format!("{owner} is known from the process, not from a login: decide first"),
            format!("{owner}: 로그인이 아니라 프로세스에서 알아낸 이름입니다. 먼저 판단하세요"),
        ),
        (None, _) => language.pick(
            "owner unknown: decide first".to_owned(),
            "소유자를 알 수 없습니다. 먼저 판단하세요".to_owned(),
        ),
    };
    let process = sanitize(hold.process.as_deref().unwrap_or("?"));
    html.element("div", &[("class", "who")], |html| {
        html.text("strong", &[], &format!("{process} ({})", words::pid(hold)));
        html.words(&format!(" — {decide}"));
    });
    let commands = commands.map(|(look, stop)| [(labels::LOOK, look), (labels::STOP, stop)]);
    for (label, command) in commands.into_iter().flatten() {
        html.element("div", &[("class", "command")], |html| {
            html.text("span", &[], label.of(language));
            html.text("code", &[], &command);
        });
    }
}

pub(super) fn past(html: &mut Markup, page: &Page<'_>) {
    let report = page.report;
    if report.past.is_empty() {
        return;
    }
    section(
        html,
        "past",
        (labels::PAST.of(page.language), Some(report.past_count)),
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
            Cell::Text(
                hold.index
                    .map_or_else(|| hold.gpu.to_string(), |index| format!("#{index}")),
            ),
            Cell::Text(hold.owner.clone().unwrap_or_else(unknown)),
            Cell::Text(format!(
                "{process} ({}{shared}){workload}",
                words::pid(hold)
            )),
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

/// Writes every GPU at the last tick. The list is never truncated, so that no free GPU is missed.
pub(super) fn now(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let Some(now) = &report.now else { return };
    section(
        html,
        "now",
        (labels::NOW.of(page.language), Some(now.cards.len())),
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
            let mark = |html: &mut Markup, row: usize, column: usize| {
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
                before: &mark,
                ..look(page, "now-table")
            };
            write_table(html, &rows, look);
        },
    );
}

/// Writes the requests for GPUs that were not granted at once, and the holders whose unused GPUs blocked them.
pub(super) fn asked_in_vain(html: &mut Markup, page: &Page<'_>) {
    let language = page.language;
    let Some(refused) = &page.report.refused else {
        return;
    };
    let title = labels::IN_VAIN.of(language);
    section(html, "in-vain", (title, Some(refused.requests)), |html| {
        say(html, &sentence(labels::IN_VAIN_MEANS.of(language)));
        if refused.in_the_way.is_empty() {
            return say(html, &sentence(labels::NONE_IN_THE_WAY.of(language)));
        }
        let mut rows = Table::new([
            ("holder", "held idle by"),
            ("gpu", "gpu"),
            ("asker", "in the way of"),
            ("times", "times"),
            ("waited_hours", "waited h"),
        ]);
        for row in &refused.in_the_way {
            let name = |index: u32| format!("#{index}");
            rows.rows.push(vec![
                Cell::Text(row.holder.clone()),
                Cell::Text(row.index.map_or_else(|| row.gpu.to_string(), name)),
                Cell::Text(row.asker.clone()),
                Cell::Count(row.times),
                Cell::Hours(row.waited.as_secs_f64() / 3600.0),
            ]);
        }
        write_table(html, &rows, look(page, "in-vain-table"));
    });
}

/// Adds an initial capital and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.by_ref()).chain(['.']).collect()
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
