//! Renders the findings as text and as JSON. No decision is made here.

use std::fmt::Write as _;

use jiff::Zoned;
use serde_json::{Value, json};

use super::cards::Card;
use super::check::{Check, Group, Status};
use super::facts::{Choice, History};
pub use super::page::Layout;
use super::page::{COMMAND_NAMES, Page};
use super::plan::Plan;

/// Version of the JSON. New keys do not change it; no key changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Data to render.
#[derive(Clone, Copy, Debug)]
pub struct Findings<'a> {
    pub at: &'a Zoned,
    pub checks: &'a [Check],
    /// `None` if there is no sample.
    pub cards: Option<&'a [Card]>,
    pub plan: &'a Plan,
    pub history: &'a History,
}

/// Renders the page with colours. The caller strips them if they are not wanted.
#[must_use]
pub fn text(findings: &Findings<'_>, layout: Layout) -> String {
    let mut page = Page::new(layout);
    page.line("gua doctor");
    page.heading("Scope");
    page.row("machine", None, "local");
    for group in [Group::Host, Group::Gpu, Group::Setup, Group::Database] {
        page.heading(group.title());
        if group == Group::Database {
            history(&mut page, findings);
        }
        let of_group = |check: &&Check| check.kind.group == group;
        checks(&mut page, findings.checks.iter().filter(of_group));
        if let (Group::Gpu, Some(cards @ [_, ..])) = (group, findings.cards) {
            page.cards(cards);
        }
    }
    if findings.plan.fixes.is_empty() {
        commands(&mut page, findings.plan);
    }
    page.list("Fix", &findings.plan.fixes);
    page.list("Notes", &findings.plan.notes);
    page.text
}

fn checks<'a>(page: &mut Page, checks: impl Iterator<Item = &'a Check>) {
    let mut skipped = Vec::new();
    for check in checks.filter(|check| check.kind.id != "default_db") {
        match check.status {
            Status::Skipped => skipped.push(check),
            status => page.row(check.kind.name, Some(status), &check.summary),
        }
    }
    if let Some(first) = skipped.first() {
        let names: Vec<&str> = skipped.iter().map(|check| check.kind.name).collect();
        let mut text = names.join(", ");
        if skipped.len() > 1 && skipped.iter().all(|check| check.summary == first.summary) {
            text.push_str(&format!(" ({})", first.summary));
        }
        page.row("not checked", Some(Status::Skipped), &text);
    }
}

/// Adds the history path, which has its own lines instead of a check's line.
fn history(page: &mut Page, findings: &Findings<'_>) {
    let label = match (page.layout, findings.history.choice) {
        (Layout::Columns(_), _) => "path",
        (Layout::Lines, Choice::Default) => "default",
        (Layout::Lines, Choice::Custom) => "target",
    };
    page.whole(label, &findings.history.path.to_string_lossy());
    let path = findings
        .checks
        .iter()
        .find(|check| check.kind.id == "default_db");
    if let Some(check) = path {
        let status = Some(check.status).filter(|status| *status != Status::Ok);
        page.row("status", status, &check.summary);
    }
}

fn commands(page: &mut Page, plan: &Plan) {
    let commands = &plan.commands;
    let report = match commands.collect {
        Some(_) => "report after collecting",
        None => "report existing data",
    };
    let rows = [
        ("collect", &commands.collect),
        (report, &commands.report),
        ("look", &commands.look),
    ];
    let rows: Vec<(&str, &String)> = rows
        .into_iter()
        .filter_map(|(name, command)| Some((name, command.as_ref()?)))
        .collect();
    if rows.is_empty() {
        return;
    }
    page.heading("Recommended commands");
    page.names = COMMAND_NAMES;
    for (name, command) in rows {
        page.whole(name, command);
    }
}

/// Renders the findings as JSON, with sorted keys and an indentation of two spaces.
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
        "cards": findings.cards,
        "plan": {
            "mode": plan.mode.as_str(),
            "reasons": plan.reasons,
            "blockers": plan.blockers,
            "warnings": plan.warnings,
        },
        "recommended_commands": plan.commands,
    }))
}

fn check_json(check: &Check) -> Value {
    json!({
        "id": check.kind.id,
        "name": check.kind.name,
        "status": check.status.as_str(),
        "summary": check.summary,
        "details": check.details,
    })
}

/// Formats JSON that is safe on a terminal: control characters that the format allows in a text are escaped too.
#[must_use]
pub fn pretty(value: &Value) -> String {
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

#[cfg(test)]
mod tests;
