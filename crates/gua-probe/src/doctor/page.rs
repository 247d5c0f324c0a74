//! The result of doctor as text, within a given width. No decision is made here.

use anstyle::Style;
use gua_model::Tone;
use gua_model::text::{sanitize, wrapped};

use super::check::{Check, Status};
use super::checks::{DATABASE, DEFAULT_DB, GPU, sections};
use super::facts::{Choice, Facts};
use super::plan::Plan;

/// Maximum line length. Longer lines are hard to read, even on a wide terminal.
const WIDEST: usize = 100;
/// Minimum width for columns.
const NARROW: usize = 60;
/// Width of the longest verdict.
const VERDICT: usize = 7;
/// Indentation of text below its name.
const BELOW: usize = 4;
/// Widths for the longest name of a check, and for the longest name of a command.
const NAMES: usize = 18;
const COMMAND_NAMES: usize = 25;

const HEADING: Style = Style::new().bold();

/// Layout of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `  NAME: STATUS, SUMMARY`, one line each: a stable form for scripts.
    Lines,
    /// Columns and wrapped lines, for a terminal of this width.
    Columns(usize),
}

impl Layout {
    /// Maximum width of a table on the page; `None` if it is not limited.
    pub fn table_width(self) -> Option<usize> {
        match self {
            Layout::Lines => None,
            Layout::Columns(width) => Some(width.min(WIDEST).saturating_sub(2)),
        }
    }
}

/// Content of the page besides the findings, and its style.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    pub layout: Layout,
    /// The table of the GPUs.
    pub gpus: &'a str,
    /// Style of text in a tone.
    pub style: fn(Tone) -> Style,
}

/// Renders the page with colours. The caller strips them if they are not wanted.
pub fn text(facts: &Facts, checks: &[Check], plan: &Plan, look: Contents<'_>) -> String {
    let mut page = Page {
        text: "gua doctor\n".to_owned(),
        layout: look.layout,
        style: look.style,
        names: NAMES,
    };
    page.heading("Scope");
    page.row("machine", None, "local");
    for section in sections() {
        page.heading(section);
        let checks = checks.iter().filter(|check| check.section == section);
        if section == DATABASE {
            page.history(facts, checks.clone().find(|check| check.id == DEFAULT_DB));
        }
        page.checks(checks.filter(|check| check.id != DEFAULT_DB));
        if section == GPU && !look.gpus.is_empty() {
            page.heading("GPUs");
            let lines = look.gpus.lines();
            lines.for_each(|line| page.line(&format!("  {line}")));
        }
    }
    if plan.fixes.is_empty() {
        page.commands(plan);
    }
    page.list("Fix", &plan.fixes);
    page.list("Notes", &plan.notes);
    page.text
}

/// The page under construction.
struct Page {
    text: String,
    layout: Layout,
    style: fn(Tone) -> Style,
    /// Width of the names in this section, including the distance to the next column.
    names: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, title: &str) {
        self.line("");
        self.line(&format!("{HEADING}{title}:{HEADING:#}"));
    }

    fn checks<'a>(&mut self, checks: impl Iterator<Item = &'a Check>) {
        let is_skipped = |check: &&Check| check.finding.status == Status::Skipped;
        let (skipped, judged): (Vec<&Check>, Vec<&Check>) = checks.partition(is_skipped);
        for check in judged {
            let finding = &check.finding;
            self.row(check.name, Some(finding.status), &finding.summary);
        }
        if let Some(first) = skipped.first() {
            let names: Vec<&str> = skipped.iter().map(|check| check.name).collect();
            let mut text = names.join(", ");
            let why = &first.finding.summary;
            if skipped.len() > 1 && skipped.iter().all(|check| check.finding.summary == *why) {
                text.push_str(&format!(" ({why})"));
            }
            self.row("not checked", Some(Status::Skipped), &text);
        }
    }

    /// Adds the history path, which has its own lines instead of a check's line.
    fn history(&mut self, facts: &Facts, check: Option<&Check>) {
        let label = match (self.layout, facts.known.choice) {
            (Layout::Columns(_), _) => "path",
            (Layout::Lines, Choice::Default) => "default",
            (Layout::Lines, Choice::Custom) => "target",
        };
        self.whole(label, &facts.known.db.to_string_lossy());
        if let Some(Check { finding, .. }) = check {
            let status = Some(finding.status).filter(|status| *status != Status::Ok);
            self.row("status", status, &finding.summary);
        }
    }

    fn commands(&mut self, plan: &Plan) {
        let Some(report) = &plan.commands.report else {
            return;
        };
        self.heading("Recommended commands");
        self.names = COMMAND_NAMES;
        match &plan.commands.collect {
            Some(collect) => {
                self.whole("collect", collect);
                self.whole("report after collecting", report);
            }
            None => self.whole("report existing data", report),
        }
    }

    /// Adds a name and a text, with an optional verdict between them.
    fn row(&mut self, name: &str, status: Option<Status>, text: &str) {
        let text = sanitize(text);
        let names = self.names;
        let verdict = |width, after: &str| {
            let verdict = status.map(|status| self.verdict(status, width) + after);
            verdict.unwrap_or_default()
        };
        match self.layout {
            Layout::Lines => self.line(&format!("  {name}: {}{text}", verdict(0, ", "))),
            Layout::Columns(..NARROW) => {
                self.line(&format!("  {name}  {}", verdict(0, "")));
                self.wrapped("    ", BELOW, &text);
            }
            Layout::Columns(_) => {
                let indent = 2 + names + status.map_or(0, |_| VERDICT + 2);
                let beginning = format!("  {name:<names$}{}", verdict(VERDICT, "  "));
                self.wrapped(&beginning, indent, &text);
            }
        }
    }

    /// Adds a name and a path or a command. It is never wrapped, so that it can be copied with the mouse.
    fn whole(&mut self, name: &str, text: &str) {
        let text = sanitize(text);
        let names = self.names;
        match self.layout {
            Layout::Lines => self.line(&format!("  {name}: {text}")),
            Layout::Columns(..NARROW) => self.line(&format!("  {name}\n    {text}")),
            Layout::Columns(_) => self.line(&format!("  {name:<names$}{text}")),
        }
    }

    fn list(&mut self, title: &str, sentences: &[String]) {
        if !sentences.is_empty() {
            self.heading(title);
        }
        for sentence in sentences {
            self.wrapped("  - ", BELOW, &sanitize(sentence));
        }
    }

    /// Wraps `text` between words; further lines are aligned with the first one's text.
    fn wrapped(&mut self, beginning: &str, indent: usize, text: &str) {
        let width = match self.layout {
            Layout::Lines => usize::MAX,
            Layout::Columns(width) => width.min(WIDEST),
        };
        let mut beginning = beginning.to_owned();
        for part in wrapped(text, width.saturating_sub(indent)) {
            self.line(&format!("{beginning}{part}"));
            beginning = " ".repeat(indent);
        }
    }

    fn verdict(&self, status: Status, width: usize) -> String {
        let style = (self.style)(match status {
            Status::Ok => Tone::Free,
            Status::Warning => Tone::IdleHeld,
            Status::Error => Tone::Unhealthy,
            Status::Skipped => Tone::Gap,
        });
        let word = status.as_str();
        let rest = width.saturating_sub(word.len());
        format!("{style}{word}{style:#}{:rest$}", "")
    }
}

#[cfg(test)]
mod tests;
