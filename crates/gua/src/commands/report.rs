//! `gua report`: who held which GPU, since when, and whether it was used.

use std::process::ExitCode;

use gua_model::report::groups::{Group, GroupKind, grouped, groups_of};
use gua_model::report::{PersonRow, unbalanced};
use gua_probe::process;
use gua_render::report::{By, Page, Words, html, json, korean, screen, table, text};
use gua_render::table::csv;

use crate::balance;
use crate::cli::{Language, ReportArgs, ReportFormat};
use crate::context::{Context, VERSION};
use crate::failure::Failure;
use crate::{output, page_file};

/// What a report prints on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTerminal {
    /// What a reader needs first.
    Screen,
    /// The sections, as into a pipe: what gpu-usage-audit prints.
    Sections,
}

pub fn run(
    args: &ReportArgs,
    on_terminal: OnTerminal,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let form = args.form();
    page_file::check(&args.file, form == ReportFormat::Html)?;
    let words = Words {
        since: args.since.clone(),
        until: args.until.clone(),
        by: args.by,
        user: args.user.clone(),
        gpus: args.gpu.clone(),
        tz: args.tz.clone(),
        interval: args.interval,
        thresholds: context.settings().threshold_flags(),
    };
    let asked = words.ask(&context.zone(), context.now())?;
    let mut report = context.ask(|source| source.report(&asked.question))?;
    if let Some(kind) = args.by.and_then(By::group) {
        report.groups = by_group(&report.people, kind, context)?;
    }
    let language = context.language(args.lang);
    let page = Page {
        width: args.width.into(),
        top: args.top,
        language: language.into(),
        ..asked.page(&report, VERSION)
    };
    let is_short = on_terminal == OnTerminal::Screen && !args.full && asked.by.is_none();
    let columns = output::width().filter(|_| is_short && args.file.path().is_none());
    let written = match form {
        ReportFormat::Text if language == Language::Ko => korean(&page),
        ReportFormat::Text => columns.map_or_else(|| text(&page), |columns| screen(&page, columns)),
        ReportFormat::Html => html(&page),
        ReportFormat::Json => json::json(&page),
        ReportFormat::Csv => csv(&table(&report, asked.by.unwrap_or(By::Gpu))),
    };
    page_file::write(&written, &args.file, form == ReportFormat::Html, context)?;
    let left_out = unbalanced(&report.notes);
    Ok(balance::exit_code("gua report", left_out, &args.strict))
}

/// Sums of people by the groups of the configuration. Without any, the groups of the system count, except those that have
/// the name of their only member.
fn by_group(
    people: &[PersonRow],
    kind: GroupKind,
    context: &Context,
) -> Result<Vec<PersonRow>, Failure> {
    let groups = context.settings().groups.iter();
    let groups: Vec<Group> = groups.map(|listed| listed.value.clone()).collect();
    let is_configured = groups.iter().any(|group| group.kind == kind);
    match kind {
        GroupKind::Project if !is_configured => {
            let problem = "--by project: the configuration has no project";
            let hint = "write [[group]] tables with kind = \"project\"; see docs/configuration.md";
            return Err(Failure::usage(problem).hint(hint));
        }
        GroupKind::Group if !is_configured => {}
        _ => return Ok(grouped(people, |name| groups_of(name, kind, &groups))),
    }
    let names: Vec<String> = people.iter().map(|person| person.name.clone()).collect();
    let found = process::groups_of(&names).ok_or_else(|| {
        Failure::failed("the user directory of this host does not respond, so groups are unknown")
    })?;
    Ok(grouped(people, |name| {
        let groups = found.get(name).into_iter().flatten();
        groups.filter(|group| *group != name).cloned().collect()
    }))
}
