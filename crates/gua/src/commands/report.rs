//! `gua report`: who held which GPU, since when, and whether it was used.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::price::{Costs, Price};
use gua_model::report::groups::{Group, GroupKind, grouped, groups_of};
use gua_model::report::{PersonRow, Report, unbalanced};
use gua_probe::process;
use gua_query::{Detail, QueryError, Question};
use gua_render::chart::Language;
use gua_render::report::{By, Page, Words, html, json, korean, page_table, screen, text};

use crate::commands::prelude::*;

/// Form of a report on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTerminal {
    /// The most important facts on one screen.
    Screen,
    /// The sections that are also written to a pipe, as gpu-usage-audit prints them.
    Sections,
}

pub fn run(
    args: &ReportArgs,
    on_terminal: OnTerminal,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let form = args.form()?;
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
        detail: match form {
            ReportFormat::Html => Detail::Charts,
            _ => Detail::Lists,
        },
    };
    let asked = words.ask(&context.zone(), context.now())?;
    let mut report = context.ask(|source| source.report(&asked.question))?;
    let mut previous = match args.compare {
        true => Some(context.source().report(&asked.previous())?),
        false => None,
    };
    if let Some(kind) = args.by.and_then(By::group) {
        for report in std::iter::once(&mut report).chain(&mut previous) {
            let members = members(&report.people, kind, context)?;
            report.groups = grouped(&report.people, |name| members.of(name));
        }
    }
    let costs = costs(context, &asked.question, &report)?;
    let language = context.language(args.lang);
    let page = Page {
        width: args.width.into(),
        top: args.top,
        language,
        previous: previous.as_ref(),
        costs: costs.as_ref(),
        is_demo: context.is_simulated(),
        ..asked.page(&report, VERSION)
    };
    let is_short = on_terminal == OnTerminal::Screen && !args.full && asked.by.is_none();
    let columns = output::width().filter(|_| is_short && args.file.path().is_none());
    let written = match form {
        ReportFormat::Text if language == Language::Korean => korean(&page),
        ReportFormat::Text => columns.map_or_else(|| text(&page), |columns| screen(&page, columns)),
        ReportFormat::Html => html(&page),
        ReportFormat::Json => json::json(&page),
        ReportFormat::Csv => csv(&page_table(&page, asked.by.unwrap_or(By::Gpu))),
    };
    page_file::write(&written, &args.file, form == ReportFormat::Html, context)?;
    let left_out = unbalanced(&report.notes);
    Ok(balance::exit_code("gua report", left_out, &args.strict))
}

/// Returns the costs of a report by the prices of the configuration; `None` without prices.
pub(super) fn costs(
    context: &Context,
    question: &Question,
    report: &Report,
) -> Result<Option<Costs>, QueryError> {
    let prices = context.settings().prices.iter();
    let prices: Vec<Price> = prices.map(|listed| listed.value.clone()).collect();
    gua_query::costs(context.source().as_ref(), question, report, &prices)
}

/// Groups and their members.
pub(super) enum Members {
    Configured(GroupKind, Vec<Group>),
    OfSystem(BTreeMap<String, BTreeSet<String>>),
}

impl Members {
    /// Names of a person's groups. Of the system's groups, those that have the name of their only member do not count.
    pub(super) fn of(&self, person: &str) -> Vec<String> {
        match self {
            Members::Configured(kind, groups) => groups_of(person, *kind, groups),
            Members::OfSystem(found) => {
                let groups = found.get(person).into_iter().flatten();
                groups.filter(|group| *group != person).cloned().collect()
            }
        }
    }
}

/// The groups of the configuration; without any, those of the system.
pub(super) fn members(
    people: &[PersonRow],
    kind: GroupKind,
    context: &Context,
) -> Result<Members, Failure> {
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
        _ => return Ok(Members::Configured(kind, groups)),
    }
    let names: Vec<String> = people.iter().map(|person| person.name.clone()).collect();
    let found = process::groups_of(&names).ok_or_else(|| {
        Failure::failed("the user directory of this host does not respond, so groups are unknown")
    })?;
    Ok(Members::OfSystem(found))
}
