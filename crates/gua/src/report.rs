//! `gua report`: who held which GPU, since when, and whether it was used.

pub mod ask;
mod columns;
mod gather;
mod layout;
mod longest;
mod old;
mod ragged;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use gua_compat::gpu_usage_audit::OldFile;
use gua_model::report::Report;
use gua_probe::clock;
use gua_render::chart;
use gua_render::report::{By, Page, html, json, korean, table, text};
use gua_store::{FileKind, History, ReadError, what_is_this};
use jiff::tz::TimeZone;

use self::ask::Ask;
use crate::cli::{AuditReportArgs, Language, ReportArgs, ReportFormat};
use crate::config::Loaded;
use crate::dispatch::{VERSION, load};
use crate::failure::{self, Failure};
use crate::{daemon, output, which};

pub fn run(args: &ReportArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let ask = Ask::new(args, &loaded.settings, &TimeZone::system(), clock::now())?;
    let report = read(&which::history(loaded), &ask)?;
    output::data(&print(args, &ask, &report))?;
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

/// The report of the history at a path, whoever wrote it.
pub fn read(db: &std::path::Path, ask: &Ask) -> anyhow::Result<Report> {
    match what_is_this(db) {
        FileKind::Missing => Err(which::no_history(db).into()),
        FileKind::GpuUsageAudit => old::of_file(&OldFile::open(db)?, ask),
        // The name of what is there instead, in one line.
        kind @ (FileKind::Empty
        | FileKind::OtherSqlite
        | FileKind::NotSqlite
        | FileKind::Directory) => {
            let problem = format!("{} is {kind}, and no history", db.display());
            Err(Failure::usage(problem)
                .hint("--db PATH names another")
                .into())
        }
        _ => match gather::of_history(&History::open(db)?, ask) {
            // A collector began to write to a file that nobody wrote to: now it is read beside the writer.
            Err(error) if matches!(error.downcast_ref(), Some(ReadError::Changed)) => {
                gather::of_history(&History::open(db)?, ask)
            }
            other => other,
        },
    }
}

/// The report in the form that was asked for.
pub fn print(args: &ReportArgs, ask: &Ask, report: &Report) -> String {
    let page = Page {
        report,
        zone: ask.zone.clone(),
        window: ask.window_words.clone(),
        width: args.width.into(),
        top: args.top,
        by: ask.by,
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
        ReportFormat::Csv => gua_render::table::csv(&table(report, ask.by.unwrap_or(By::Gpu))),
    }
}
