//! Text layout: headings, rows, lists and the table of GPUs, within a given width.

use anstyle::{AnsiColor, Style};

use super::cards::{Card, Rank};
use gua_model::text::sanitize;

use super::check::Status;

/// Maximum line length. Longer lines are hard to read, even on a wide terminal.
const WIDEST: usize = 100;
/// Minimum width for columns.
const NARROW: usize = 60;
/// Width of the longest verdict.
const VERDICT: usize = 7;
/// Indentation of text below its name.
const BELOW: usize = 4;
/// Widths for the longest name of a check, and for the longest name of a command.
pub(super) const NAMES: usize = 18;
pub(super) const COMMAND_NAMES: usize = 25;

const HEADING: Style = Style::new().bold();

/// Layout of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `  NAME: STATUS, SUMMARY`, one line each: a stable form for scripts.
    Lines,
    /// Columns and wrapped lines, for a terminal of this width.
    Columns(usize),
}

/// The page under construction.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) text: String,
    pub(super) layout: Layout,
    /// Width of the names in this section, including the distance to the next column.
    pub(super) names: usize,
}

impl Page {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            text: String::new(),
            layout,
            names: NAMES,
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    pub(super) fn heading(&mut self, title: &str) {
        self.line("");
        self.line(&format!("{HEADING}{title}:{HEADING:#}"));
    }

    /// Adds a name and a text, with an optional verdict between them.
    pub(super) fn row(&mut self, name: &str, status: Option<Status>, text: &str) {
        let text = sanitize(text);
        let names = self.names;
        match (self.layout, status) {
            (Layout::Lines, None) => self.line(&format!("  {name}: {text}")),
            (Layout::Lines, Some(status)) => {
                self.line(&format!("  {name}: {}, {text}", verdict(status, 0)));
            }
            (Layout::Columns(..NARROW), status) => {
                let verdict = status.map(|status| verdict(status, 0));
                self.line(&format!("  {name}  {}", verdict.unwrap_or_default()));
                self.broken("    ", BELOW, &text);
            }
            (Layout::Columns(_), None) => {
                self.broken(&format!("  {name:<names$}"), 2 + names, &text);
            }
            (Layout::Columns(_), Some(status)) => {
                let beginning = format!("  {name:<names$}{}  ", verdict(status, VERDICT));
                self.broken(&beginning, 2 + names + VERDICT + 2, &text);
            }
        }
    }

    /// Adds a name and a path or a command. It is never wrapped, so that it can be copied with the mouse.
    pub(super) fn whole(&mut self, name: &str, text: &str) {
        let text = sanitize(text);
        let names = self.names;
        match self.layout {
            Layout::Lines => self.line(&format!("  {name}: {text}")),
            Layout::Columns(..NARROW) => {
                self.line(&format!("  {name}"));
                self.line(&format!("    {text}"));
            }
            Layout::Columns(_) => self.line(&format!("  {name:<names$}{text}")),
        }
    }

    pub(super) fn list(&mut self, title: &str, sentences: &[String]) {
        if sentences.is_empty() {
            return;
        }
        self.heading(title);
        for sentence in sentences {
            let sentence = sanitize(sentence);
            match self.layout {
                Layout::Lines => self.line(&format!("  - {sentence}")),
                Layout::Columns(_) => self.broken("  - ", BELOW, &sentence),
            }
        }
    }

    /// Wraps `text` between words; further lines are aligned with the first one's text. A word that is longer than the
    /// line is left to the terminal, so that it can be copied.
    fn broken(&mut self, beginning: &str, indent: usize, text: &str) {
        let room = self.width().saturating_sub(indent);
        let mut beginning = beginning.to_owned();
        let mut rest: Vec<&str> = text.split(' ').collect();
        while !rest.is_empty() {
            let fits = |words: &usize| letters(&rest[..*words].join(" ")) <= room;
            let words = (2..=rest.len()).take_while(fits).last().unwrap_or(1);
            self.line(&format!("{beginning}{}", rest[..words].join(" ")));
            rest.drain(..words);
            beginning = " ".repeat(indent);
        }
    }

    fn width(&self) -> usize {
        match self.layout {
            Layout::Lines => usize::MAX,
            Layout::Columns(width) => width.min(WIDEST),
        }
    }

    /// Adds the GPUs, one line each if that fits.
    pub(super) fn cards(&mut self, cards: &[Card]) {
        self.heading("Cards");
        if self.layout == Layout::Lines {
            for card in cards {
                self.card_line(card);
            }
            return;
        }
        let rows: Vec<Row> = cards.iter().map(Row::short).collect();
        let columns = Columns::of(&rows);
        let widest = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
        let beside = columns.holders() + widest(&|row| row.widest_holder());
        let above = widest(&|row| letters(&columns.beginning(row)));
        let width = self.width();
        for row in &rows {
            if beside <= width {
                self.in_one_line(row, &columns);
            } else if width >= NARROW && above <= width {
                self.in_lines(row, &columns);
            } else {
                self.stacked(row);
            }
        }
    }

    fn card_line(&mut self, card: &Card) {
        let row = Row::of(card);
        let held = row.held_by.join("; ");
        let mut parts = vec![row.name, row.standing, row.memory, held];
        parts.retain(|part| !part.is_empty());
        let parts = parts.join(", ");
        match row.label.as_str() {
            "" => self.line(&format!("    {parts}")),
            label => self.line(&format!("  {label}: {parts}")),
        }
    }

    fn in_one_line(&mut self, row: &Row, columns: &Columns) {
        let indent = columns.holders();
        let beginning = columns.beginning(row);
        let mut held = row.held_by.iter();
        let first = held.next().map_or("", String::as_str);
        self.line(&format!("{beginning:<indent$}{first}"));
        for holder in held {
            self.line(&format!("{:indent$}{holder}", ""));
        }
    }

    /// Lists the holders below their GPU. If there are none, this is noted next to the GPU, if there is room.
    fn in_lines(&mut self, row: &Row, columns: &Columns) {
        let beginning = columns.beginning(row);
        let beside = format!("{beginning}  {}", row.held_by.join(", "));
        if !row.is_held && letters(&beside) <= self.width() {
            self.line(&beside);
            return;
        }
        self.line(&beginning);
        let below_instance = if row.label.is_empty() { 2 } else { 0 };
        let indent = 2 + columns.label + 2 + 2 + below_instance;
        for holder in &row.held_by {
            self.broken(&" ".repeat(indent), indent, holder);
        }
    }

    fn stacked(&mut self, row: &Row) {
        let indent = match row.label.as_str() {
            "" => {
                self.line(&format!("    {}", row.name));
                BELOW + 2
            }
            label => {
                self.line(&format!("  {label}  {}", row.name));
                BELOW
            }
        };
        let text = format!("{}, {}", row.memory, row.standing);
        for line in [&text].into_iter().chain(&row.held_by) {
            self.broken(&" ".repeat(indent), indent, line);
        }
    }
}

/// A GPU as text. An instance has no label.
struct Row {
    label: String,
    name: String,
    memory: String,
    standing: String,
    held_by: Vec<String>,
    is_held: bool,
}

impl Row {
    fn of(card: &Card) -> Self {
        Self {
            label: match card.rank {
                Rank::Instance => String::new(),
                Rank::Whole | Rank::Parent => card.index.to_string(),
            },
            name: card.name.clone().unwrap_or_else(|| "?".to_owned()),
            memory: card.memory(),
            standing: card.standing.clone(),
            held_by: card.held_by(),
            is_held: card
                .holders
                .as_ref()
                .is_some_and(|holders| !holders.is_empty()),
        }
    }

    /// Omits the word that nearly every name begins with.
    fn short(card: &Card) -> Self {
        let row = Self::of(card);
        let name = row.name.strip_prefix("NVIDIA ").unwrap_or(&row.name);
        Self {
            name: name.to_owned(),
            ..row
        }
    }

    fn widest_holder(&self) -> usize {
        let widths = self.held_by.iter().map(|holder| letters(holder));
        widths.max().unwrap_or(0)
    }
}

/// Widths of the columns.
struct Columns {
    label: usize,
    name: usize,
    memory: usize,
    standing: usize,
}

impl Columns {
    fn of(rows: &[Row]) -> Self {
        let widest =
            |of: fn(&Row) -> &str| rows.iter().map(|row| letters(of(row))).max().unwrap_or(0);
        Self {
            label: widest(|row| &row.label),
            // An instance is indented.
            name: rows.iter().map(Self::name_width).max().unwrap_or(0),
            memory: widest(|row| &row.memory),
            standing: widest(|row| &row.standing),
        }
    }

    fn name_width(row: &Row) -> usize {
        letters(&row.name) + if row.label.is_empty() { 2 } else { 0 }
    }

    fn beginning(&self, row: &Row) -> String {
        let (label, name, memory) = (self.label, self.name, self.memory);
        let indented = match row.label.as_str() {
            "" => format!("  {}", row.name),
            _ => row.name.clone(),
        };
        format!(
            "  {:<label$}  {indented:<name$}  {:>memory$}  {}",
            row.label, row.memory, row.standing
        )
    }

    /// Returns the column at which the holders begin, next to their GPU.
    fn holders(&self) -> usize {
        2 + self.label + 2 + self.name + 2 + self.memory + 2 + self.standing + 2
    }
}

fn letters(text: &str) -> usize {
    text.chars().count()
}

fn verdict(status: Status, width: usize) -> String {
    let style = match status {
        Status::Ok => AnsiColor::Green.on_default(),
        Status::Warning => AnsiColor::Yellow.on_default(),
        Status::Error => AnsiColor::Red.on_default().bold(),
        Status::Skipped => Style::new().dimmed(),
    };
    format!("{style}{:<width$}{style:#}", status.as_str())
}
