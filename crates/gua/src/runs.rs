//! `gua runs`: the watched jobs of this host, from the history and from what a collector has not taken in yet.

mod page;
mod pending;

use std::process::ExitCode;

use anyhow::bail;
use gua_model::Period;
use gua_probe::clock;
use gua_query::runs::Runs;
use gua_query::{RecordsSource, RunsQuestion, Source};
use gua_render::table::Table;
use gua_store::{FileKind, what_is_this};
use jiff::{SignedDuration, Timestamp};

use crate::cli::{RunsCommand, TableFormat};
use crate::config::{Loaded, Source as SetIn};
use crate::failure;
use crate::{output, which};
use page::Told;

pub fn run(command: &RunsCommand, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let source = source(loaded)?;
    let known = Runs {
        source: source.as_ref().map(|source| source as &dyn Source),
        pending: pending::pending(loaded),
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
            let told: Vec<Told> = runs.iter().map(Told::new).collect();
            print(&page::list(&told), format.wanted(), || {
                page::list_json(&told)
            })?;
            if told.is_empty() {
                output::talk("gua runs list: no runs; `gua run -- CMD` records one\n");
            }
        }
        RunsCommand::Show { run, json, .. } => {
            let found = known.one(run).map_err(failure::of_query)?;
            let told = Told::new(&found);
            output::data(&match json {
                true => format!("{}\n", serde_json::to_string_pretty(&told.json())?),
                false => page::one(&told),
            })?;
        }
        RunsCommand::Compare { runs, format, .. } => {
            let found = runs
                .iter()
                .map(|run| known.one(run).map_err(failure::of_query));
            let found = found.collect::<anyhow::Result<Vec<_>>>()?;
            let told: Vec<Told> = found.iter().map(Told::new).collect();
            let table = page::compare(&told);
            print(&table, format.wanted(), || page::list_json(&told))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(
    table: &Table,
    format: TableFormat,
    json: impl FnOnce() -> serde_json::Value,
) -> anyhow::Result<()> {
    match format {
        TableFormat::Text => output::data(&table.text(0)),
        TableFormat::Csv => output::data(&gua_render::table::csv(table)),
        TableFormat::Json => output::data(&format!("{}\n", serde_json::to_string_pretty(&json())?)),
    }
}

/// The source of recorded runs; `None` where no history is expected yet, since runs exist before the first one does.
fn source(loaded: &Loaded) -> anyhow::Result<Option<RecordsSource<'static>>> {
    let path = which::history(loaded);
    let shown = path.display();
    match (&loaded.settings.history.db.source, what_is_this(&path)) {
        (_, FileKind::OurHistory { .. } | FileKind::NewerHistory { .. }) => {
            Ok(Some(which::source_at(path)))
        }
        (SetIn::Flag(_), FileKind::Missing) => bail!(which::no_history(&path).message),
        (SetIn::Default, _) | (_, FileKind::Missing) => Ok(None),
        (_, kind) => bail!("`{shown}` is {kind}, and no history of gua"),
    }
}
