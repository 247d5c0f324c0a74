//! `gua report`: who held which GPU, since when, and whether it was used.

pub mod question;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use gua_model::report::Report;
use gua_probe::clock;
use gua_query::Source as _;
use gua_render::chart;
use gua_render::report::{By, Page, html, json, korean, table, text};
use jiff::tz::TimeZone;

use self::question::Asked;
use crate::cli::{AuditReportArgs, Language, ReportArgs, ReportFormat};
use crate::config::Loaded;
use crate::dispatch::{VERSION, load};
use crate::failure;
use crate::{daemon, output, which};

pub fn run(args: &ReportArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let asked = Asked::new(args, &loaded.settings, &TimeZone::system(), clock::now())?;
    let report = which::source(loaded).report(&asked.question);
    let report = report.map_err(failure::of_query)?;
    output::data(&print(args, &asked, &report))?;
    Ok(ExitCode::SUCCESS)
}

/// `gpu-usage-audit report`. `arguments` are those after the word.
#[must_use]
pub fn audit(arguments: &[OsString]) -> ExitCode {
    const NAME: &str = "gpu-usage-audit report";
    let words = std::iter::once(OsString::from(NAME)).chain(arguments.iter().cloned());
    match AuditReportArgs::try_parse_from(words) {
        Ok(args) => load(&args.report.settings())
            .map_err(anyhow::Error::from)
            .and_then(|loaded| run(&args.report, &loaded))
            .unwrap_or_else(|error| failure::report(NAME, &error)),
        Err(error) => daemon::answer(NAME, &error),
    }
}

/// Formats a report as the flags ask.
pub fn print(args: &ReportArgs, asked: &Asked, report: &Report) -> String {
    let page = Page {
        report,
        zone: asked.question.zone.clone(),
        window: asked.window.clone(),
        width: args.width.into(),
        top: args.top,
        by: asked.by,
        language: match args.lang {
            Language::En => chart::Language::English,
            Language::Ko => chart::Language::Korean,
        },
        version: VERSION,
    };
    match args.form() {
        ReportFormat::Text if args.lang == Language::Ko => korean(&page),
        ReportFormat::Text => text(&page),
        ReportFormat::Html => html(&page),
        ReportFormat::Json => json::json(&page),
        ReportFormat::Csv => gua_render::table::csv(&table(report, asked.by.unwrap_or(By::Gpu))),
    }
}
