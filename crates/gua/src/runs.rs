//! `gua runs`: the watched jobs of this host, from the history and from what a collector has not taken in yet.

mod gather;
mod page;

use std::process::ExitCode;

use gua_model::Period;
use gua_model::text::sanitize;
use gua_probe::clock;
use gua_render::table::Table;
use jiff::{SignedDuration, Timestamp};

use crate::cli::{RunsCommand, TableFormat};
use crate::config::Loaded;
use crate::failure::Failure;
use crate::output;
use gather::Known;
use page::Told;

pub fn run(command: &RunsCommand, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let known = Known::open(loaded)?;
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
            let window = Period::new(from, Timestamp::MAX);
            let runs = known.runs(window, user.as_deref(), *limit)?;
            let told: Vec<Told> = runs.iter().map(Told::new).collect();
            print(&page::list(&told), format.wanted(), || {
                page::list_json(&told)
            })?;
            if told.is_empty() {
                output::talk("gua runs list: no runs; `gua run -- CMD` records one\n");
            }
        }
        RunsCommand::Show { run, json, .. } => {
            let found = known.one(run)?;
            let told = Told::new(&found);
            output::data(&match json {
                true => format!("{}\n", serde_json::to_string_pretty(&told.json())?),
                false => page::one(&told),
            })?;
        }
        RunsCommand::Compare { runs, format, .. } => {
            let found = runs.iter().map(|run| known.one(run));
            let found = found.collect::<Result<Vec<_>, _>>()?;
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

/// There is no such run, or there are several.
fn no_such_run(asked: &str, found: &[String]) -> Failure {
    let asked = sanitize(asked);
    match found {
        [] => {
            Failure::usage(format!("there is no run `{asked}`")).hint("`gua runs list` lists them")
        }
        several => Failure::usage(format!(
            "several runs begin with `{asked}`: {}",
            several.join(", ")
        )),
    }
}
