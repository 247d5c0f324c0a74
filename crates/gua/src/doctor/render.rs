//! The findings as a page for people and as JSON for programs. Nothing is decided here.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use jiff::Zoned;
use serde_json::{Value, json};

use super::check::{Check, Group, Status, harmless};
use super::facts::{Choice, History};
use super::plan::Plan;

/// The version of the JSON. Keys are added under the same number; none changes its meaning.
const SCHEMA_VERSION: u32 = 1;
/// Where lines are broken on a terminal.
const WIDTH: usize = 100;
/// The width of the longest verdict.
const VERDICT: usize = 7;

const HEADING: Style = Style::new().bold();

/// How the page is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `  NAME: STATUS, SUMMARY`, a line each: the form that scripts and habits know.
    Lines,
    /// Columns and broken lines, for eyes.
    Columns,
}

/// Everything that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Findings<'a> {
    pub at: &'a Zoned,
    pub checks: &'a [Check],
    pub plan: &'a Plan,
    pub history: &'a History,
}

/// The page, with colours in it; whoever prints it drops them where they are not wanted.
#[must_use]
pub fn text(findings: &Findings<'_>, layout: Layout) -> String {
    let mut page = Page {
        text: String::new(),
        layout,
        names: NAMES,
    };
    page.line("gua doctor");
    page.heading("Scope");
    page.row("machine", None, "local");
    for group in [Group::Host, Group::Gpu, Group::Setup, Group::Database] {
        page.heading(group.title());
        if group == Group::Database {
            page.history(findings);
        }
        page.checks(
            findings
                .checks
                .iter()
                .filter(|check| check.kind.group == group),
        );
    }
    let commands = &findings.plan.commands;
    if commands.collect.is_some() || commands.report.is_some() {
        page.heading("Recommended commands");
        page.names = COMMAND_NAMES;
    }
    if let Some(collect) = &commands.collect {
        page.row("collect", None, collect);
    }
    if let Some(report) = &commands.report {
        let label = match commands.collect {
            Some(_) => "report after collecting",
            None => "report existing data",
        };
        page.row(label, None, report);
    }
    page.list("Fix", &findings.plan.blockers);
    page.list("Notes", &findings.plan.warnings);
    page.text
}

/// The same for programs: keys sorted, two blanks of indentation.
#[must_use]
pub fn json(findings: &Findings<'_>) -> String {
    let checks: Vec<Value> = findings.checks.iter().map(check_json).collect();
    let plan = findings.plan;
    pretty(&json!({
        "schema_version": SCHEMA_VERSION,
        "generated_at": findings.at.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string(),
        "scope": { "machine": "local" },
        "read_only": true,
        "no_system_changes": true,
        "checks": checks,
        "plan": {
            "mode": plan.mode.word(),
            "reasons": plan.reasons,
            "blockers": plan.blockers,
            "warnings": plan.warnings,
        },
        "recommended_commands": plan.commands.by_key(),
    }))
}

fn check_json(check: &Check) -> Value {
    json!({
        "id": check.kind.id,
        "name": check.kind.name,
        "status": check.status.word(),
        "summary": check.summary,
        "details": check.details,
    })
}

/// JSON that is harmless on a terminal: the control characters that the format allows in a text are escaped too.
#[must_use]
pub(super) fn pretty(value: &Value) -> String {
    let mut text = String::new();
    for letter in format!("{value:#}\n").chars() {
        match letter {
            '\u{7f}'..='\u{9f}' => {
                // Writing into a string cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(letter));
            }
            _ => text.push(letter),
        }
    }
    text
}

struct Page {
    text: String,
    layout: Layout,
    /// The widest name in this section and its distance to the next column.
    names: usize,
}

/// Room for the longest name of a check, and for the longest name of a command.
const NAMES: usize = 18;
const COMMAND_NAMES: usize = 25;

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
        let mut skipped = Vec::new();
        for check in checks.filter(|check| check.kind.id != "default_db") {
            match check.status {
                Status::Skipped => skipped.push(check.kind.name),
                status => self.row(check.kind.name, Some(status), &check.summary),
            }
        }
        if !skipped.is_empty() {
            self.row("not checked", Some(Status::Skipped), &skipped.join(", "));
        }
    }

    /// The path has lines of its own instead of a check's line.
    fn history(&mut self, findings: &Findings<'_>) {
        let label = match findings.history.choice {
            Choice::Default => "default",
            Choice::Custom => "target",
        };
        self.row(label, None, &findings.history.path.to_string_lossy());
        let Some(check) = findings
            .checks
            .iter()
            .find(|check| check.kind.id == "default_db")
        else {
            return;
        };
        let status = Some(check.status)
            .filter(|status| self.layout == Layout::Columns || *status != Status::Ok);
        self.row("status", status, &check.summary);
    }

    fn row(&mut self, name: &str, status: Option<Status>, summary: &str) {
        let summary = harmless(summary);
        let names = self.names;
        match (self.layout, status) {
            (Layout::Lines, None) => self.line(&format!("  {name}: {summary}")),
            (Layout::Lines, Some(status)) => {
                self.line(&format!("  {name}: {}, {summary}", verdict(status, 0)));
            }
            // A path or a command is taken up with the mouse: it is never broken.
            (Layout::Columns, None) => self.line(&format!("  {name:<names$}{summary}")),
            (Layout::Columns, Some(status)) => {
                let beginning = format!("  {name:<names$}{}  ", verdict(status, VERDICT));
                self.broken(&beginning, 2 + names + VERDICT + 2, &summary);
            }
        }
    }

    fn list(&mut self, title: &str, sentences: &[String]) {
        if sentences.is_empty() {
            return;
        }
        self.heading(title);
        for sentence in sentences {
            let sentence = harmless(sentence);
            match self.layout {
                Layout::Lines => self.line(&format!("  - {sentence}")),
                Layout::Columns => self.broken("  - ", 4, &sentence),
            }
        }
    }

    /// Breaks `text` between words; further lines begin below the first one's text.
    fn broken(&mut self, beginning: &str, indent: usize, text: &str) {
        let mut line = beginning.to_owned();
        let mut used = indent;
        let mut is_first = true;
        for word in text.split(' ') {
            let length = word.chars().count();
            if !is_first && used + 1 + length > WIDTH {
                self.line(&line);
                line = " ".repeat(indent);
                used = indent;
                is_first = true;
            }
            if !is_first {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += length;
            is_first = false;
        }
        self.line(&line);
    }
}

fn verdict(status: Status, width: usize) -> String {
    let style = match status {
        Status::Ok => AnsiColor::Green.on_default(),
        Status::Warning => AnsiColor::Yellow.on_default(),
        Status::Error => AnsiColor::Red.on_default().bold(),
        Status::Skipped => Style::new().dimmed(),
    };
    format!("{style}{:<width$}{style:#}", status.word())
}

#[cfg(test)]
mod tests;
