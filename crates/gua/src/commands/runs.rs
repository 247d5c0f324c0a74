//! `gua runs`: the watched jobs of this host, from the history and from events that no collector has imported yet.

mod pending;

use std::process::ExitCode;

use anyhow::bail;
use gua_collector::location;
use gua_model::Period;
use gua_probe::clock;
use gua_query::runs::Runs;
use gua_query::{RecordsSource, RunsQuestion, Source, WatchedRun};
use gua_render::runs::{self as page, ShownRun};
use gua_render::table::{Table, csv};
use gua_run::watcher;
use gua_settings::Source as SetIn;
use gua_store::{FileKind, what_is_this};
use jiff::{SignedDuration, Timestamp};

use crate::cli::{RunsCommand, TableFormat};
use crate::context::Context;
use crate::{failure, output};

pub fn run(command: &RunsCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let source = source(context)?;
    let known = Runs {
        source: source.as_ref().map(|source| source as &dyn Source),
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
            let from = since.map_or(Timestamp::MIN, |since| {
                let since = SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX);
                now.checked_sub(since).unwrap_or(Timestamp::MIN)
            });
            let question = RunsQuestion {
                window: Period::new(from, Timestamp::MAX),
                user: user.clone(),
                limit: *limit,
            };
            let runs = known.list(&question).map_err(failure::of_query)?;
            let runs: Vec<ShownRun<'_>> = runs.iter().map(shown).collect();
            print(&page::list(&runs), format.wanted(), || {
                page::list_json(&runs)
            })?;
            if runs.is_empty() {
                output::eprint("gua runs list: no runs; `gua run -- CMD` records one\n");
            }
        }
        RunsCommand::Show { run, json, .. } => {
            let found = known.one(run).map_err(failure::of_query)?;
            let run = shown(&found);
            output::data(&match json {
                true => format!("{}\n", serde_json::to_string_pretty(&run.json())?),
                false => page::one(&run),
            })?;
        }
        RunsCommand::Compare { runs, format, .. } => {
            let found = runs
                .iter()
                .map(|run| known.one(run).map_err(failure::of_query));
            let found = found.collect::<anyhow::Result<Vec<_>>>()?;
            let runs: Vec<ShownRun<'_>> = found.iter().map(shown).collect();
            let table = page::compare(&runs);
            print(&table, format.wanted(), || page::list_json(&runs))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(run: &WatchedRun) -> ShownRun<'_> {
    ShownRun::new(run, watcher::state)
}

fn print(
    table: &Table,
    format: TableFormat,
    json: impl FnOnce() -> serde_json::Value,
) -> anyhow::Result<()> {
    match format {
        TableFormat::Text => output::data(&table.text(0)),
        TableFormat::Csv => output::data(&csv(table)),
        TableFormat::Json => output::data(&format!("{}\n", serde_json::to_string_pretty(&json())?)),
    }
}

/// Source of recorded runs; `None` if no history is expected yet, because runs can exist before the first history.
fn source(context: &Context) -> anyhow::Result<Option<RecordsSource<'static>>> {
    let path = context.history();
    let shown = path.display();
    match (&context.settings().history.db.source, what_is_this(&path)) {
        (_, FileKind::OurHistory { .. } | FileKind::NewerHistory { .. }) => {
            Ok(Some(location::source_at(path)))
        }
        (SetIn::Flag(_), FileKind::Missing) => bail!(location::no_history(&path).message),
        (SetIn::Default, _) | (_, FileKind::Missing) => Ok(None),
        (_, kind) => bail!("`{shown}` is {kind}, not a history of gua"),
    }
}
