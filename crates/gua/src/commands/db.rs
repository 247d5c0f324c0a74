//! `gua db`: checks, copies and maintains the history file.

mod forget;

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use gua_collector::python_collector::python_writer;
use gua_compat::gpu_usage_audit::Progress;
use gua_probe::host::HostRoot;
use gua_render::table::Table;
use gua_store::{
    BackupError, CheckReport, FileKind, History, LateSight, OpenError, OpenMode, ReadError, Stats,
    Store, WriterLock, WriterOptions, what_is_this,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::prelude::*;
use crate::failure::{damaged, set_aside_hint};

/// Runs one of the commands on the configured history.
pub fn run(command: &DbCommand, context: &Context) -> anyhow::Result<ExitCode> {
    let db = &match command {
        DbCommand::Stats { .. } => context.announced_history(),
        _ => context.history_to_open()?,
    };
    match command {
        DbCommand::Stats(listing) => {
            let stats = location::access(db, context.settings())?.stats(());
            let stats = stats.map_err(|error| damaged(db, &error))?;
            output::data(&described(stats, listing.format.wanted(), &context.zone()))?;
        }
        DbCommand::Check(listing) => return check(db, listing.format.wanted()),
        DbCommand::Repair { .. } => repair(db)?,
        DbCommand::Vacuum { .. } => {
            let before = size(db);
            let mut store = write(db)?;
            let vacuumed = store.vacuum();
            vacuumed.map_err(|error| forget::explained(db, error))?;
            store.close()?;
            output::data(&format!(
                "{}: {before} bytes before, {} now\n",
                db.display(),
                size(db)
            ))?;
        }
        DbCommand::Backup { output, .. } => backup(db, output)?,
        DbCommand::Forget { user, yes, .. } => return forget::run(db, user, *yes, context),
        DbCommand::SetAside { yes, .. } => return set_aside(db, *yes),
    }
    Ok(ExitCode::SUCCESS)
}

fn read(db: &Path) -> anyhow::Result<History> {
    History::open(db).map_err(explained)
}

fn write(db: &Path) -> anyhow::Result<Store> {
    // Without this, a missing or closed directory is reported as one that cannot be written.
    if !db.exists() {
        read(db)?;
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
        OpenError::Unreadable { .. } => return location::unreadable(&error).into(),
        _ => return error.into(),
    };
    Failure::new(exit, error.to_string()).hint(hint).into()
}

/// Error for a history that cannot be read. Any SQLite error may mean damage, so the hint is always added.
fn unreadable(db: &Path, error: &ReadError) -> anyhow::Error {
    let hint = matches!(error, ReadError::Sqlite(_)).then(|| set_aside_hint(Some(db)));
    Failure::failed(chain(error)).hint_if(hint).into()
}

fn size(db: &Path) -> u64 {
    std::fs::metadata(db).map_or(0, |facts| facts.len())
}

/// Format names of [`CheckDocument`] and [`StatsDocument`].
const CHECK: &str = "gua.db-check.v1";
const STATS: &str = "gua.db-stats.v1";

/// Output of `gua db check --json`. Keys may be added under the same version; none changes its meaning.
#[derive(Debug, Serialize, JsonSchema)]
struct CheckDocument {
    schema: &'static str,
    db: String,
    /// Whether there are no findings.
    clean: bool,
    ticks_read: u64,
    imported_rows_read: u64,
    quarters_compared: u64,
    findings: Vec<Finding>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Finding {
    /// `file`, `reference`, `tick`, `totals`, `first-seen`, `session`, `row` or `imported`.
    kind: &'static str,
    what: String,
}

/// Output of `gua db stats --json`. Keys may be added under the same version; none changes its meaning.
#[derive(Debug, Serialize, JsonSchema)]
struct StatsDocument {
    schema: &'static str,
    #[serde(flatten)]
    stats: Stats,
}

/// Checks the history; exits with 1 on any finding.
fn check(db: &Path, format: TableFormat) -> anyhow::Result<ExitCode> {
    let history = read(db)?;
    let report = Bar::during("checking", |bar| history.check(|share| bar.share(share)))
        .map_err(|error| unreadable(db, &error))?;
    let document = CheckDocument {
        schema: CHECK,
        db: db.display().to_string(),
        clean: report.is_clean(),
        ticks_read: report.ticks_read,
        imported_rows_read: report.old_rows_read,
        quarters_compared: report.quarters_compared,
        findings: findings(&report),
    };
    let lines = document.findings.iter();
    output::data(&match format {
        TableFormat::Text if document.findings.is_empty() => format!(
            "{}: no errors ({} ticks and {} imported rows read, totals of {} quarter hours compared)\n",
            document.db,
            document.ticks_read,
            document.imported_rows_read,
            document.quarters_compared
        ),
        TableFormat::Text => lines.map(|finding| format!("{}\n", finding.what)).collect(),
        TableFormat::Json => pretty(&document),
        TableFormat::Csv => {
            let mut table = Table::new([("kind", ""), ("what", "")]);
            let rows = lines.map(|finding| vec![finding.kind.into(), finding.what.clone().into()]);
            table.rows = rows.collect();
            csv(&table)
        }
    })?;
    if !report.file.is_empty() {
        output::eprint(&format!("hint: {}\n", set_aside_hint(Some(db))));
    } else if report.can_be_repaired() {
        output::eprint("hint: `gua db repair` recomputes the totals and sessions from the ticks\n");
    }
    Ok(success_or(Exit::Failed, document.clean))
}

/// Findings of a check by kind.
fn findings(report: &CheckReport) -> Vec<Finding> {
    let damaged = report.ticks_damaged.iter();
    let ticks = damaged.map(|(at, damage)| format!("the tick at {at} cannot be read: {damage}"));
    let totals = report.quarters_wrong.iter().map(|quarter| {
        let from = quarter.period().from();
        format!("the totals of the quarter hour from {from} differ from those of its ticks")
    });
    let sights = report.first_sights_late.iter().map(described_sight);
    let kinds = [
        ("file", report.file.clone()),
        ("reference", report.dangling.clone()),
        ("tick", ticks.collect()),
        ("totals", totals.collect()),
        ("first-seen", sights.collect()),
        ("session", report.sessions_wrong.clone()),
        ("row", report.rows_damaged.clone()),
        ("imported", report.old_rows_wrong.clone()),
    ];
    let of_kind = |(kind, whats): (&'static str, Vec<String>)| {
        whats.into_iter().map(move |what| Finding { kind, what })
    };
    kinds.into_iter().flat_map(of_kind).collect()
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
    let corrected = late.iter();
    let corrected = corrected.map(|late| format!("corrected: {}\n", described_sight(late)));
    output::data(&format!(
        "{}{}: recomputed the totals and sessions; `gua db check` checks the result\n",
        corrected.collect::<String>(),
        db.display()
    ))
}

fn described(stats: Stats, format: TableFormat, zone: &TimeZone) -> String {
    match format {
        TableFormat::Text => text(&stats, zone),
        TableFormat::Json => pretty(&StatsDocument {
            schema: STATS,
            stats,
        }),
        TableFormat::Csv => {
            let mut table = Table::new([("table", ""), ("bytes", ""), ("rows", "")]);
            let rows = stats.tables.into_iter();
            table.rows = rows
                .map(|one| vec![one.name.into(), one.bytes.into(), one.rows.into()])
                .collect();
            csv(&table)
        }
    }
}

fn text(stats: &Stats, zone: &TimeZone) -> String {
    let shown = |at: Option<Timestamp>| match at.map(|at| at.to_zoned(zone.clone())) {
        Some(at) => at.strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
        None => "none yet".to_owned(),
    };
    let growth = stats.bytes_per_day.map_or_else(String::new, |bytes| {
        format!("growth: {bytes:.0} bytes a day\n")
    });
    let old = &stats.imported;
    let imported = match old.files {
        0 => String::new(),
        files => format!(
            "imported: {} GPU rows and {} process rows of {}, {} bytes\n",
            old.gpu_rows,
            old.process_rows,
            counted(files, "file"),
            old.bytes
        ),
    };
    let line = |name: &str, bytes: &dyn Display, rows: &dyn Display| {
        format!("  {name:<20} {bytes:>12} {rows:>12}\n")
    };
    let tables = stats.tables.iter();
    let tables = tables.map(|table| line(&table.name, &table.bytes, &table.rows));
    format!(
        "file: {} bytes, {} of them free; journal: {} bytes\nticks: {}, of {} GPUs, from {} to {}\n{imported}{growth}{}{}",
        stats.file_bytes,
        stats.free_bytes,
        stats.journal_bytes,
        stats.ticks,
        stats.gpus,
        shown(stats.first_tick),
        shown(stats.last_tick),
        line("table", &"bytes", &"rows"),
        tables.collect::<String>()
    )
}

fn backup(db: &Path, target: &Path) -> anyhow::Result<()> {
    let history = read(db)?;
    let copied = Bar::during("copying", |bar| {
        history.backup(target, |done, all| {
            let (rows_done, rows_total) = (done.into(), all.into());
            let _ = bar.show(Progress {
                rows_done,
                rows_total,
            });
        })
    });
    match copied {
        Err(error @ BackupError::Exists { .. }) => {
            let hint = "choose another name, or remove the file";
            Err(Failure::usage(error.to_string()).hint(hint).into())
        }
        Err(error) => Err(damaged(db, &error)),
        Ok(()) => output::data(&format!("{}: {} bytes\n", target.display(), size(target))),
    }
}

/// Asks for confirmation. The hint is shown if there is no terminal.
fn confirmed(question: &str, hint: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!(
            Failure::usage("cannot ask for confirmation without a terminal; pass --yes").hint(hint)
        );
    }
    output::eprint(question);
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Renames the history, after confirmation on a terminal or with `--yes`.
fn set_aside(db: &Path, yes: bool) -> anyhow::Result<ExitCode> {
    let path = target(db)?;
    // Held during the rename.
    let _lock = WriterLock::take_if_there(&path).map_err(explained)?;
    if let Some(pid) = python_writer(&HostRoot::real(), &path) {
        return Err(explained(OpenError::Busy {
            path,
            pid: Some(pid),
        }));
    }
    let kind = what_is_this(&path);
    let question = format!("Set `{}` aside ({kind})? [y/N] ", path.display());
    let hint = "the file is kept under another name, and the next collector starts a new history";
    if !yes && !confirmed(&question, hint)? {
        output::eprint("nothing was renamed\n");
        return Ok(Exit::Failed.into());
    }
    let aside = gua_store::set_aside(&path, clock::now())
        .with_context(|| format!("cannot rename `{}`", path.display()))?;
    output::data(&format!(
        "{}: set aside as {}\n",
        db.display(),
        aside.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Path of the file with symbolic links resolved: renaming a link would leave the file in place.
fn target(db: &Path) -> anyhow::Result<PathBuf> {
    match what_is_this(db) {
        FileKind::Missing => Err(location::no_history(db).into()),
        FileKind::Directory => {
            Err(Failure::usage(format!("`{}` is a directory", db.display())).into())
        }
        _ => db
            .canonicalize()
            .with_context(|| format!("cannot examine `{}`", db.display())),
    }
}

#[cfg(test)]
mod tests {
    use gua_render::schemas::named;
    use gua_test::schema::assert_published;

    use super::*;

    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        for (name, schema) in [named::<CheckDocument>(CHECK), named::<StatsDocument>(STATS)] {
            assert_published(name, &pretty(&schema));
        }
    }
}
