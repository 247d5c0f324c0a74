//! `gua db`: checks, copies and maintains the history file.

mod set_aside;

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::location;
use gua_compat::gpu_usage_audit::Progress;
use gua_model::chain::chain;
use gua_model::text::{counted, sanitize};
use gua_render::document::pretty;
use gua_render::table::{Table, csv};
use gua_store::{
    BackupError, CheckReport, History, LateSight, OldRows, OpenError, OpenMode, ReadError, Stats,
    Store, WriterOptions, tells_of_damage,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::cli::{DbCommand, TableFormat};
use crate::context::Context;
use crate::failure::{Exit, Failure, set_aside_hint};
use crate::output;
use crate::progress::Bar;

/// Runs one of the commands on the configured history.
pub fn run(command: &DbCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let db = context.settings().history.db.value.as_path();
    match command {
        DbCommand::Check { format, .. } => return check(db, *format),
        DbCommand::Repair { .. } => repair(db)?,
        DbCommand::Stats { format, .. } => {
            let stats = read(db)?.stats().map_err(|error| unreadable(db, &error))?;
            output::data(&described(&stats, *format))?;
        }
        DbCommand::Vacuum { .. } => {
            let before = size(db);
            let mut store = write(db)?;
            store.vacuum()?;
            store.close()?;
            output::data(&format!(
                "{}: {before} bytes before, {} now\n",
                db.display(),
                size(db)
            ))?;
        }
        DbCommand::Backup { output, .. } => backup(db, output)?,
        DbCommand::Forget { user, yes, .. } => return forget(db, user, *yes),
        DbCommand::SetAside { yes, .. } => return set_aside::run(db, *yes),
    }
    Ok(ExitCode::SUCCESS)
}

fn read(db: &Path) -> anyhow::Result<History> {
    History::open(db).map_err(explained)
}

fn write(db: &Path) -> anyhow::Result<Store> {
    // Without this, a missing directory is reported as one that cannot be written.
    if !db.exists() {
        let path = db.to_owned();
        return Err(explained(OpenError::Missing { path }));
    }
    Store::open(db, OpenMode::Append, &WriterOptions::default()).map_err(explained)
}

fn explained(error: OpenError) -> anyhow::Error {
    let (exit, hint) = match &error {
        OpenError::Missing { .. } => (Exit::Usage, location::WITHOUT_HISTORY),
        OpenError::Busy { .. } => (
            Exit::Failed,
            "stop the collector first, with `gua stop` or `systemctl stop gua`",
        ),
        _ => return error.into(),
    };
    Failure::new(exit, error.to_string()).hint(hint).into()
}

/// Error for a history that cannot be read. Any SQLite error may mean damage, so the hint is always added.
fn unreadable(db: &Path, error: &ReadError) -> anyhow::Error {
    let hint = matches!(error, ReadError::Sqlite(_)).then(|| set_aside_hint(Some(db)));
    Failure::failed(chain(error)).hint_if(hint).into()
}

/// Error with the hint for damaged files, but only if SQLite reports damage.
pub(crate) fn damaged(db: &Path, error: &(dyn std::error::Error + 'static)) -> anyhow::Error {
    Failure::failed(chain(error))
        .hint_if(tells_of_damage(error).then(|| set_aside_hint(Some(db))))
        .into()
}

fn size(db: &Path) -> u64 {
    std::fs::metadata(db).map_or(0, |facts| facts.len())
}

/// Checks the history; exits with 1 on any finding.
fn check(db: &Path, format: TableFormat) -> anyhow::Result<ExitCode> {
    let history = read(db)?;
    let mut bar = Bar::new("checking");
    let report = history.check(|share| bar.share(share));
    bar.clear();
    let report = report.map_err(|error| unreadable(db, &error))?;
    let findings = findings(&report);
    let text = match format {
        TableFormat::Text if findings.is_empty() => format!(
            "{}: no errors ({} ticks and {} imported rows read, totals of {} quarter hours compared)\n",
            db.display(),
            report.ticks_read,
            report.old_rows_read,
            report.quarters_compared
        ),
        TableFormat::Text => findings
            .iter()
            .map(|(_, what)| format!("{what}\n"))
            .collect(),
        TableFormat::Json => pretty(&json!({
            "schema": "gua.db-check.v1",
            "db": db.display().to_string(),
            "clean": report.is_clean(),
            "ticks_read": report.ticks_read,
            "imported_rows_read": report.old_rows_read,
            "quarters_compared": report.quarters_compared,
            "findings": findings.iter().map(|(kind, what)| json!({"kind": kind, "what": what})).collect::<Vec<_>>(),
        })),
        TableFormat::Csv => {
            let mut table = Table::new([("kind", ""), ("what", "")]);
            let rows = findings.into_iter();
            table.rows = rows
                .map(|(kind, what)| vec![kind.into(), what.into()])
                .collect();
            csv(&table)
        }
    };
    output::data(&text)?;
    if !report.file.is_empty() {
        output::eprint(&format!("hint: {}\n", set_aside_hint(Some(db))));
    } else if report.can_be_repaired() {
        output::eprint("hint: `gua db repair` computes again what follows from the ticks\n");
    }
    Ok(match report.is_clean() {
        true => ExitCode::SUCCESS,
        false => Exit::Failed.into(),
    })
}

/// Findings of a check by kind.
fn findings(report: &CheckReport) -> Vec<(&'static str, String)> {
    let file = report.file.iter().map(|what| ("file", what.clone()));
    let dangling = report
        .dangling
        .iter()
        .map(|what| ("reference", what.clone()));
    let ticks = report
        .ticks_damaged
        .iter()
        .map(|(at, damage)| ("tick", format!("the tick at {at} cannot be read: {damage}")));
    let quarters = report.quarters_wrong.iter().map(|quarter| {
        let from = quarter.period().from();
        (
            "totals",
            format!("the totals of the quarter hour from {from} differ from those of its ticks"),
        )
    });
    let sights = report.first_sights_late.iter();
    let sights = sights.map(|late| ("first-seen", described_sight(late)));
    let sessions = report.sessions_wrong.iter();
    let sessions = sessions.map(|what| ("session", what.clone()));
    let imported = report.old_rows_wrong.iter();
    let imported = imported.map(|what| ("imported", what.clone()));
    file.chain(dangling)
        .chain(ticks)
        .chain(quarters)
        .chain(sights)
        .chain(sessions)
        .chain(imported)
        .collect()
}

fn described_sight(late: &LateSight) -> String {
    format!(
        "{} is stored as first seen at {}, but it was seen at {}",
        sanitize(late.gpu.as_str()),
        late.stored,
        late.earliest
    )
}

/// Computes the first sights, totals and sessions again.
fn repair(db: &Path) -> anyhow::Result<()> {
    let mut store = write(db)?;
    let late = store.repair().map_err(|error| damaged(db, &error))?;
    store.close()?;
    let mut text = String::new();
    for late in &late {
        text.push_str(&format!("corrected: {}\n", described_sight(late)));
    }
    text.push_str(&format!(
        "{}: totals and sessions were computed again; `gua db check` checks the result\n",
        db.display()
    ));
    output::data(&text)
}

fn described(stats: &Stats, format: TableFormat) -> String {
    match format {
        TableFormat::Text => text(stats),
        TableFormat::Json => pretty(&json!({
            "schema": "gua.db-stats.v1",
            "file_bytes": stats.file_bytes,
            "journal_bytes": stats.journal_bytes,
            "free_bytes": stats.free_bytes,
            "ticks": stats.ticks,
            "cards": stats.cards,
            "first_tick": stats.first_tick,
            "last_tick": stats.last_tick,
            "bytes_per_day": stats.bytes_per_day,
            "bytes_per_card_day": stats.bytes_per_card_day,
            "imported": {
                "files": stats.imported.files,
                "card_rows": stats.imported.card_rows,
                "process_rows": stats.imported.process_rows,
                "bytes": stats.imported.bytes,
            },
            "tables": stats.tables.iter().map(|table| {
                json!({"name": table.name, "bytes": table.bytes, "rows": table.rows})
            }).collect::<Vec<_>>(),
        })),
        TableFormat::Csv => {
            let mut table = Table::new([("table", ""), ("bytes", ""), ("rows", "")]);
            let rows = stats.tables.iter();
            table.rows = rows
                .map(|one| vec![one.name.clone().into(), one.bytes.into(), one.rows.into()])
                .collect();
            csv(&table)
        }
    }
}

fn text(stats: &Stats) -> String {
    let shown = |at: Option<Timestamp>| {
        at.map_or_else(
            || "none yet".to_owned(),
            |at| {
                at.to_zoned(TimeZone::system())
                    .strftime("%Y-%m-%d %H:%M:%S %Z")
                    .to_string()
            },
        )
    };
    let growth = stats.bytes_per_day.map_or_else(String::new, |bytes| {
        format!("growth: {bytes:.0} bytes a day\n")
    });
    let OldRows {
        files,
        card_rows,
        process_rows,
        bytes,
    } = stats.imported;
    let imported = match files {
        0 => String::new(),
        files => format!(
            "imported: {card_rows} GPU rows and {process_rows} process rows of {}, {bytes} bytes\n",
            counted(files, "file")
        ),
    };
    let tables = stats.tables.iter().map(|table| {
        format!(
            "  {:<20} {:>12} {:>12}\n",
            table.name, table.bytes, table.rows
        )
    });
    format!(
        "file: {} bytes, {} of them free; journal: {} bytes\nticks: {}, of {} GPUs, from {} to {}\n{imported}{growth}  {:<20} {:>12} {:>12}\n{}",
        stats.file_bytes,
        stats.free_bytes,
        stats.journal_bytes,
        stats.ticks,
        stats.cards,
        shown(stats.first_tick),
        shown(stats.last_tick),
        "table",
        "bytes",
        "rows",
        tables.collect::<String>()
    )
}

fn backup(db: &Path, target: &Path) -> anyhow::Result<()> {
    let history = read(db)?;
    let mut bar = Bar::new("copying");
    let copied = history.backup(target, |done, all| {
        bar.show(Progress {
            rows_done: done.into(),
            rows_total: all.into(),
        });
    });
    bar.clear();
    match copied {
        Err(error @ BackupError::Exists { .. }) => {
            let hint = "choose another name, or remove the file";
            Err(Failure::usage(error.to_string()).hint(hint).into())
        }
        Err(error) => Err(damaged(db, &error)),
        Ok(()) => output::data(&format!("{}: {} bytes\n", target.display(), size(target))),
    }
}

/// Erases a user's identity, after confirmation on a terminal or with `--yes`.
fn forget(db: &Path, user: &str, yes: bool) -> anyhow::Result<ExitCode> {
    let mut store = write(db)?;
    if !yes
        && !confirmed(
            &format!("Erase {user:?} from {} permanently? [y/N] ", db.display()),
            "erased data cannot be restored; `gua db backup` makes a copy",
        )?
    {
        output::eprint("nothing was erased\n");
        return Ok(Exit::Failed.into());
    }
    let forgotten = store.forget(user)?;
    store.close()?;
    if forgotten.is_empty() {
        let message = format!("no user {user:?} in `{}`", db.display());
        return Err(Failure::failed(message).into());
    }
    let names = forgotten
        .known_as
        .iter()
        .map(|(_, name)| name.as_str())
        .collect::<Vec<_>>();
    let known_as = match names.as_slice() {
        [] => String::new(),
        names => format!("; their time now belongs to {}", names.join(", ")),
    };
    output::data(&format!(
        "erased from {} processes and {} imported rows{known_as}\n",
        forgotten.processes, forgotten.old_rows
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for confirmation. The hint is shown if there is no terminal.
fn confirmed(question: &str, hint: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(
            Failure::usage("pass --yes if there is no terminal to confirm at")
                .hint(hint)
                .into(),
        );
    }
    output::eprint(question);
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
