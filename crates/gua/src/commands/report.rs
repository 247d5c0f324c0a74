//! `gua report`: who held which GPU, since when, and whether it was used.

use std::process::ExitCode;

use gua_model::report::unbalanced;
use gua_render::report::{By, Page, Words, html, json, korean, table, text};
use gua_render::table::csv;

use crate::balance;
use crate::cli::{Language, ReportArgs, ReportFormat};
use crate::context::{Context, VERSION};
use crate::output;

pub fn run(args: &ReportArgs, context: &Context) -> anyhow::Result<ExitCode> {
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
    let report = context.ask(|source| source.report(&asked.question))?;
    let page = Page {
        width: args.width.into(),
        top: args.top,
        language: args.lang.into(),
        ..asked.page(&report, VERSION)
    };
    output::data(&match args.form() {
        ReportFormat::Text if args.lang == Language::Ko => korean(&page),
        ReportFormat::Text => text(&page),
        ReportFormat::Html => html(&page),
        ReportFormat::Json => json::json(&page),
        ReportFormat::Csv => csv(&table(&report, asked.by.unwrap_or(By::Gpu))),
    })?;
    let left_out = unbalanced(&report.notes);
    Ok(balance::exit_code("gua report", left_out, &args.strict))
}
