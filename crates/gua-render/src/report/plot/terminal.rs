//! Charts as text. Each state has its own character, so that the charts are readable without colour.

use std::fmt::Write as _;

use anstyle::Style;
use gua_model::Period;
use gua_model::text::sanitize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::Figure;
use crate::chart::{
    DayHours, Frame, HeatMap, HeatUnit, HoursBars, Language, SessionBar, SessionChart, Shown,
    StateHours, StatesOverTime, words,
};
use crate::document::local;
use crate::language::Label;
use crate::paint::bar;

/// Width below which a chart is not drawn.
pub(super) const MIN_COLUMNS: usize = 40;
/// Maximum width of a row's name.
const NAME: usize = 24;
/// Form of a time.
const MOMENT: &str = "%Y-%m-%d %H:%M";
/// Characters for levels from zero to the maximum.
const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

macro_rules! figures {
    ($($Chart:ty: $draw:ident;)*) => { $(
        impl Figure for $Chart {
            fn picture(&self, frame: &Frame) -> String {
                self.draw(frame)
            }

            fn draw_text(&self, out: &mut String, columns: usize, language: Language) {
                $draw(out, self, columns, language);
            }
        }
    )* };
}

figures! {
    StatesOverTime: over_time;
    HeatMap: heat;
    HoursBars: bars;
    SessionChart: sessions;
    DayHours: day;
}

/// Returns the character and the colour of a state.
fn letter(state: Shown) -> (char, Style) {
    (state.tone().colours().glyph, bar(state.tone()))
}

/// Writes the message of an empty chart.
fn empty(out: &mut String, words: Label, language: Language) {
    let _ = writeln!(out, "  {}", words.of(language));
}

/// Writes the meaning of the characters, wrapped into lines.
fn legend(
    out: &mut String,
    total: &StateHours,
    states: &[Shown],
    (columns, language): (usize, Language),
) {
    let mut used = 0;
    for state in total.in_legend(states) {
        let (letter, colour) = letter(state);
        let word = state.label().of(language);
        let width = word.width() + 2;
        if used > 0 && used + 3 + width > columns {
            out.push('\n');
            used = 0;
        }
        let space = if used == 0 { "  " } else { "   " };
        let _ = write!(out, "{space}{colour}{letter}{colour:#} {word}");
        used += space.len() + width;
    }
    out.push_str("\n\n");
}

/// Draws the parts of a whole: `whole` takes `width` columns, and each part ends at the cumulative sum.
pub(in crate::report) fn stack(
    hours: &StateHours,
    whole: f64,
    width: usize,
    states: &[Shown],
) -> String {
    let mut text = String::new();
    let mut sum = 0.0;
    let mut used = 0;
    for state in states {
        sum += hours.of(*state);
        let end = columns_of(sum / whole, width);
        if end > used {
            let (letter, colour) = letter(*state);
            let _ = write!(text, "{colour}");
            text.extend(std::iter::repeat_n(letter, end - used));
            let _ = write!(text, "{colour:#}");
            used = end;
        }
    }
    text.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    text
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a terminal's width is small and not negative"
)]
fn columns_of(share: f64, width: usize) -> usize {
    if !share.is_finite() {
        return 0;
    }
    ((share * width as f64).round().max(0.0) as usize).min(width)
}

/// Truncates or pads a name to this width.
pub(in crate::report) fn padded(name: &str, width: usize) -> String {
    let name = sanitize(name);
    let mut text = String::new();
    let mut used = 0;
    for letter in name.chars() {
        let wide = letter.width().unwrap_or(0);
        if used + wide > width {
            break;
        }
        text.push(letter);
        used += wide;
    }
    text.extend(std::iter::repeat_n(' ', width - used));
    text
}

fn widest<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    let widths = names.map(|name| sanitize(name).width());
    widths.max().unwrap_or(0).min(NAME)
}

fn over_time(out: &mut String, chart: &StatesOverTime, columns: usize, language: Language) {
    let total: StateHours = chart.slots.iter().map(|slot| slot.hours).sum();
    if total.total() <= 0.0 {
        return empty(out, words::NOTHING, language);
    }
    legend(out, &total, &Shown::ALL, (columns, language));
    let totals = chart.slots.iter().map(|slot| slot.hours.total());
    let largest = totals.fold(0.0, f64::max);
    let width = columns.saturating_sub(2 + 16 + 2 + 12);
    for slot in &chart.slots {
        let label = local(slot.period.from(), &chart.zone, MOMENT);
        let bar = stack(&slot.hours, largest, width, &Shown::ALL);
        let _ = writeln!(out, "  {label}  {bar}{:>10.2} h", slot.hours.total());
    }
}

fn bars(out: &mut String, chart: &HoursBars, columns: usize, language: Language) {
    let mut rows = chart.sorted();
    if rows.is_empty() {
        return empty(out, words::no_hours(chart.observed), language);
    }
    let total: StateHours = rows.iter().map(|row| row.hours).sum();
    legend(out, &total, &Shown::HELD, (columns, language));
    let largest = rows[0].hours.held();
    let rest = rows.split_off(rows.len().min(chart.top));
    let names = widest(rows.iter().map(|row| row.name.as_str())).max(12);
    let width = columns.saturating_sub(2 + names + 1 + 12 + 16);
    let mut line = |name: &str, hours: &StateHours| {
        // A long bar for the rest would make the others too short to compare, so only its numbers are shown.
        let bar = match hours.held() <= largest {
            true => stack(hours, largest, width, &Shown::HELD),
            false => " ".repeat(width),
        };
        let idle = format!("{:.1}%", hours.of(Shown::IdleHeld) / hours.held() * 100.0);
        let name = padded(name, names);
        let idle = words::idle_share(&idle, language);
        let _ = writeln!(out, "  {name} {bar}{:>9.2} h  {idle}", hours.held());
    };
    for row in rows {
        line(&row.name, &row.hours);
    }
    if !rest.is_empty() {
        let sum = rest.iter().map(|row| row.hours).sum();
        line(&words::others(rest.len(), language), &sum);
    }
}

/// Draws a heat map with one character per cell; columns that do not fit continue below.
fn heat(out: &mut String, chart: &HeatMap, columns: usize, language: Language) {
    let values = || chart.cells.iter().flatten().flatten();
    if values().next().is_none() {
        return empty(out, words::NOTHING, language);
    }
    let largest = chart.largest();
    let top = match chart.unit {
        HeatUnit::Share => "100 %".to_owned(),
        HeatUnit::GpuHours => format!("{}{largest:.2} h", chart.at_least()),
    };
    let ramp: String = LEVELS.iter().collect();
    let _ = writeln!(
        out,
        "  {}: 0 {ramp} {top}   {}: blank\n",
        chart.value_title,
        words::NO_DATA.of(language)
    );
    let names = widest(chart.rows.iter().map(String::as_str));
    // Use two characters per cell if there is space, which makes a week of hours easier to read.
    let each = if chart.columns.len() <= 31 { 2 } else { 1 };
    let room = (columns.saturating_sub(names + 4) / each).max(8);
    // Keep whole days on one line.
    let room = if room > 24 { room / 24 * 24 } else { room };
    let mut from = 0;
    while from < chart.columns.len() {
        let to = (from + room).min(chart.columns.len());
        head(out, &chart.columns[from..to], names, each);
        for (row, name) in chart.rows.iter().enumerate() {
            let cells = chart.cells.get(row).map_or(&[][..], Vec::as_slice);
            let mut line = String::new();
            for place in from..to {
                let value = cells.get(place).copied().flatten();
                let level = value.map_or(' ', |value| level(value, largest));
                line.extend(std::iter::repeat_n(level, each));
            }
            let _ = writeln!(out, "  {}  {}", padded(name, names), line.trim_end());
        }
        from = to;
        if from < chart.columns.len() {
            out.push('\n');
        }
    }
}

fn level(value: f64, largest: f64) -> char {
    if value <= 0.0 || largest <= 0.0 {
        return LEVELS[0];
    }
    LEVELS[columns_of(value / largest, LEVELS.len() - 1).max(1)]
}

/// Writes the names of columns, as many as fit without touching.
fn head(out: &mut String, names: &[String], indent: usize, each: usize) {
    let mut line = String::new();
    let mut used = 0;
    for (place, name) in names.iter().enumerate() {
        let at = place * each;
        let is_apart = place == 0 || at > used;
        if is_apart && at + name.width() <= names.len() * each {
            line.extend(std::iter::repeat_n(' ', at - used));
            line.push_str(name);
            used = at + name.width();
        }
    }
    let _ = writeln!(out, "  {}  {}", " ".repeat(indent), line.trim_end());
}

fn sessions(out: &mut String, chart: &SessionChart, columns: usize, language: Language) {
    if chart.is_blank() {
        return empty(out, words::no_hours(chart.observed), language);
    }
    let bars = chart.rows.iter().flat_map(|row| &row.bars);
    let total = chart.with_gaps(bars.map(|bar| bar.hours).sum());
    legend(out, &total, &SessionChart::STATES, (columns, language));
    let names = widest(chart.rows.iter().map(|row| row.name.as_str()));
    let width = columns.saturating_sub(names + 4).max(8);
    for row in &chart.rows {
        let mut line = String::new();
        for cell in cells(chart.window, width) {
            let state = of_cell(&row.bars, cell).or_else(|| {
                let hit = |gap: &Period| gap.overlap(cell).is_some();
                row.gaps.iter().any(hit).then_some(Shown::Gap)
            });
            match state {
                Some(state) => {
                    let (letter, colour) = letter(state);
                    let _ = write!(line, "{colour}{letter}{colour:#}");
                }
                None => line.push(' '),
            }
        }
        let _ = writeln!(out, "  {}  {}", padded(&row.name, names), line);
    }
    let ends = [chart.window.from(), chart.window.to()];
    let [from, to] = ends.map(|at| local(at, &chart.zone, MOMENT));
    let space = " ".repeat(width.saturating_sub(from.len() + to.len()));
    let _ = writeln!(out, "  {}  {from}{space}{to}", " ".repeat(names));
    if chart.overlapping() > 0 {
        let _ = writeln!(out, "\n  {}", words::USE_FIRST.of(language));
    }
}

/// Divides the window into `width` parts.
fn cells(window: Period, width: usize) -> impl Iterator<Item = Period> {
    let (start, length) = (window.from(), window.micros().0);
    let parts = width as u64;
    let at = move |place: u64| {
        let into = u128::from(length) * u128::from(place) / u128::from(parts);
        let into = i64::try_from(into).unwrap_or(i64::MAX);
        start
            .checked_add(jiff::SignedDuration::from_micros(into))
            .unwrap_or(start)
    };
    (0..parts).map(move |place| Period::new(at(place), at(place + 1)))
}

/// Returns the state to show for a part of the window: the longest state of a session in it.
fn of_cell(bars: &[SessionBar], cell: Period) -> Option<Shown> {
    let here = bars.iter().filter(|bar| bar.period.overlap(cell).is_some());
    let mut found = None;
    for bar in here {
        let held = Shown::HELD.into_iter();
        let most = held.max_by(|one, other| bar.hours.of(*one).total_cmp(&bar.hours.of(*other)));
        let most = most.filter(|state| bar.hours.of(*state) > 0.0);
        let state = most.unwrap_or(Shown::Gap);
        // If sessions overlap, an active one takes precedence.
        if found.is_none() || state == Shown::Active {
            found = Some(state);
        }
    }
    found
}

fn day(out: &mut String, chart: &DayHours, columns: usize, language: Language) {
    let total: StateHours = chart.hours.iter().copied().sum();
    if total.total() <= total.of(Shown::Gap) {
        return empty(out, words::NOTHING, language);
    }
    legend(out, &total, &Shown::ALL, (columns, language));
    let width = columns.saturating_sub(2 + 2 + 2 + 10 + 12);
    for (hour, hours) in chart.hours.iter().enumerate() {
        let seen = hours.total() - hours.of(Shown::Gap);
        let share = match seen > 0.0 {
            true => format!("{:.1}%", hours.of(Shown::Active) / seen * 100.0),
            false => "-".to_owned(),
        };
        let bar = match hours.total() > 0.0 {
            true => stack(hours, hours.total(), width, &Shown::ALL),
            false => " ".repeat(width),
        };
        let mark = chart.quietest.iter().position(|quiet| *quiet == hour);
        let mark = mark.map_or_else(String::new, |place| format!("  ← {}", place + 1));
        let _ = writeln!(out, "  {hour:02}  {bar} {share:>7}{mark}");
    }
    let _ = writeln!(out, "\n  ← {}", words::QUIETEST.of(language));
}
