//! `gua runs`: the watched jobs of this host, from the history and from events that no collector has imported yet.

mod pending;

use std::process::ExitCode;

use anyhow::bail;
use gua_collector::access::Access;
use gua_collector::location;
use gua_model::Period;
use gua_probe::clock;
use gua_query::runs::Runs;
use gua_query::words::moment;
use gua_query::{RunsQuestion, Source, WatchedRun};
use gua_render::document::sorted;
use gua_render::runs::{self as page, RunDocument, RunsDocument, ShownRun};
use gua_render::table::{Table, csv};
use gua_run::watcher;
use gua_settings::Source as SetIn;
use gua_store::{FileKind, what_is_this};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cli::{RunsCommand, TableFormat};
use crate::context::Context;
use crate::output;

pub fn run(command: &RunsCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let source = source(context)?;
    let known = Runs {
        source: source.as_deref(),
        pending: pending::pending(context),
    };
    match command {
        RunsCommand::List {
            since,
            user,
            limit,
            format,
            ..
        } => {
            let now = clock::now();
            let from = match since {
                Some(since) => moment("--since", since, &TimeZone::system(), now)?.at,
                None => Timestamp::MIN,
            };
            let question = RunsQuestion {
                window: Period::new(from, Timestamp::MAX),
                user: user.clone(),
                limit: *limit,
            };
            let runs = known.list(&question)?;
            let runs: Vec<ShownRun<'_>> = runs.iter().map(shown).collect();
            print(&page::list(&runs), format.wanted(), &runs)?;
            if runs.is_empty() {
                output::eprint("gua runs list: no runs; `gua run -- CMD` records one\n");
            }
        }
        RunsCommand::Show { run, json, .. } => {
            let found = known.one(run)?;
            let run = shown(&found);
            output::data(&match json {
                true => sorted(&RunDocument::new(&run)),
                false => page::one(&run),
            })?;
        }
        RunsCommand::Compare { runs, format, .. } => {
            let found = runs.iter().map(|run| known.one(run));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let runs: Vec<ShownRun<'_>> = found.iter().map(shown).collect();
            print(&page::compare(&runs), format.wanted(), &runs)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(run: &WatchedRun) -> ShownRun<'_> {
    ShownRun::new(run, watcher::state)
}

fn print(table: &Table, format: TableFormat, runs: &[ShownRun<'_>]) -> anyhow::Result<()> {
    output::data(&match format {
        TableFormat::Text => table.text(0),
        TableFormat::Csv => csv(table),
        TableFormat::Json => sorted(&RunsDocument::new(runs)),
    })
}

/// Source of recorded runs; `None` if no history is expected yet, because runs can exist before the first history.
fn source(context: &Context) -> anyhow::Result<Option<Box<dyn Source>>> {
    let path = context.announced_history();
    if let Some(service) = location::service(&path, context.settings()) {
        return Ok(Some(Access::Service(service).source()));
    }
    let shown = path.display();
    match (&context.settings().history.db.source, what_is_this(&path)) {
        (_, FileKind::OurHistory { .. } | FileKind::NewerHistory { .. }) => {
            Ok(Some(location::file_at(path)))
        }
        (SetIn::Flag(_), FileKind::Missing) => bail!(location::no_history(&path).message),
        (SetIn::Default, _) | (_, FileKind::Missing) => Ok(None),
        (_, kind) => bail!("`{shown}` is {kind}, not a history of gua"),
    }
}
