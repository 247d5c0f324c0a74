//! `gua runs`: the watched jobs of this host, from the history and from events that no collector has imported yet.

use std::collections::HashSet;

use gua_claim::{ClaimDir, Event, EventId};
use gua_collector::access::Access;
use gua_collector::claims;
use gua_model::Period;
use gua_probe::process::ProcessTable;
use gua_query::runs::Runs;
use gua_query::words::moment;
use gua_query::{RunsQuestion, Source, WatchedRun};
use gua_render::document::sorted;
use gua_render::runs::{self as page, RunDocument, RunsDocument, ShownRun};
use gua_render::table::Table;
use gua_run::watcher;
use gua_settings::Source as SetIn;
use gua_store::{FileKind, what_is_this};
use jiff::Timestamp;

use crate::commands::prelude::*;

pub fn run(command: &RunsCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let source = source(context)?;
    let known = Runs {
        source: source.as_deref(),
        pending: pending(context),
    };
    match command {
        RunsCommand::List {
            since,
            user,
            limit,
            listing,
        } => {
            let now = clock::now();
            let from = match since {
                Some(since) => moment("since", since, &context.zone(), now)?.at,
                None => Timestamp::MIN,
            };
            let question = RunsQuestion {
                window: Period::new(from, Timestamp::MAX),
                user: user.clone(),
                limit: *limit,
            };
            let runs = known.list(&question)?;
            let runs: Vec<ShownRun<'_>> = runs.iter().map(shown).collect();
            print(
                &page::list(&runs, &context.zone()),
                listing.format.wanted(),
                &runs,
            )?;
            if runs.is_empty() {
                output::eprint("gua runs list: no runs; `gua run -- CMD` records one\n");
            }
        }
        RunsCommand::Show { run, json, .. } => {
            let found = known.one(run)?;
            let run = shown(&found);
            output::data(&match json {
                true => sorted(&RunDocument::new(&run)),
                false => page::one(&run, &context.zone()),
            })?;
        }
        RunsCommand::Compare { runs, listing } => {
            let found = runs.iter().map(|run| known.one(run));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let runs: Vec<ShownRun<'_>> = found.iter().map(shown).collect();
            print(
                &page::compare(&runs, &context.zone()),
                listing.format.wanted(),
                &runs,
            )?;
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

/// Maximum number of reads of the directory, so that a user who keeps filling it cannot block this command.
const READS: usize = 32;

/// Returns the runs in the directory, the latest first; none without a directory.
fn pending(context: &Context) -> Vec<WatchedRun> {
    let Ok(dir) = claims::directory(context.settings()) else {
        return Vec::new();
    };
    let mut names = ProcessTable::default();
    let mut runs: Vec<WatchedRun> = Vec::new();
    for (id, event) in events(&dir) {
        let Event::Run(run) = event else { continue };
        let same = |known: &WatchedRun| known.run == run.id && known.owner.uid == id.owner;
        runs.retain(|known| !(same(known) && known.ended.is_none()));
        if runs.iter().any(same) {
            continue;
        }
        runs.push(WatchedRun {
            run: sanitize(&run.id),
            owner: names.user(id.owner),
            name: sanitize(&run.name),
            started: stored(run.started),
            ended: run.ended.map(stored),
            exit_code: run.exit_code,
            gpus: run.gpus,
            summary: serde_json::Value::Object(run.summary).to_string(),
        });
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.started));
    runs
}

/// All events of all users, the oldest of each user first. A read returns a bounded number of events of each user, from the
/// oldest on, and the latest are wanted here.
fn events(dir: &ClaimDir) -> Vec<(EventId, Event)> {
    let mut known = HashSet::new();
    let mut events = Vec::new();
    for _ in 0..READS {
        let Ok(taken) = dir.events(&known) else {
            break;
        };
        let before = known.len();
        known.extend(taken.passed_over);
        known.extend(taken.new.iter().map(|(id, _)| id.clone()));
        events.extend(taken.new);
        if known.len() == before {
            break;
        }
    }
    events
}

/// A moment in whole microseconds, as the history stores it.
fn stored(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
