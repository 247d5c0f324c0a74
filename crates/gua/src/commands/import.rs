//! `gua import`: imports histories of the replaced tools.

mod gpu_stats;

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context as _;
use gua_collector::python_collector::python_writer;
use gua_collector::{location, make_directory_of};
use gua_compat::gpu_usage_audit::{Imported, LegacyError, OldCollector, adopt};
use gua_model::text::counted;
use gua_probe::clock;
use gua_probe::host::HostRoot;
use gua_settings::Source;
use gua_store::{FileKind, OpenError, OpenMode, Store, WriterOptions, what_is_this};

use crate::cli::ImportArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Bar;

/// Imports the given files into the configured history.
pub fn run(args: &ImportArgs, context: &Context) -> anyhow::Result<()> {
    let db = &context.history_to_open()?;
    let Some(old) = &args.path else {
        return gpu_stats::run(args, context, db);
    };
    if is_same(old, db) {
        return take_over(db);
    }
    // Checked before a history is created for it.
    gua_compat::gpu_usage_audit::OldFile::open(old).map_err(explained)?;
    let mut store = open(context, db)?;
    let mut bar = Bar::new("importing");
    let imported =
        gua_compat::gpu_usage_audit::import(&mut store, old, clock::now(), &mut |progress| {
            bar.show(progress);
            ControlFlow::Continue(())
        });
    bar.clear();
    let imported = imported.map_err(explained)?;
    store.close().context("cannot close the history")?;
    let (path, db) = (old.display(), db.display());
    output::data(&match is_new(&imported) {
        true => format!("{} from {path} into {db}\n", sentence(&imported)),
        false => {
            let rows = imported.gpu_rows + imported.process_rows;
            format!("nothing new in {path}: its {rows} rows were imported into {db} before\n")
        }
    })
}

/// Opens the history to import into; creates it if it does not exist.
fn open(context: &Context, db: &Path) -> anyhow::Result<Store> {
    if context.settings().history.db.source == Source::Default {
        make_directory_of(db)?;
    }
    Store::open(db, OpenMode::CreateOrAppend, &WriterOptions::default()).map_err(busy)
}

/// Handles an old history at the path of the new one: imports it into a new file and renames the old file.
fn take_over(path: &Path) -> anyhow::Result<()> {
    if matches!(what_is_this(path), FileKind::OurHistory { .. }) {
        return import_inside(path);
    }
    let collector = match python_writer(&HostRoot::real(), path) {
        Some(_) => OldCollector::Running,
        None => OldCollector::NotRunning,
    };
    gua_compat::gpu_usage_audit::OldFile::open(path).map_err(explained)?;
    let mut bar = Bar::new("importing");
    let options = WriterOptions::default();
    let adopted = adopt(path, clock::now(), collector, &options, &mut |progress| {
        bar.show(progress);
        ControlFlow::Continue(())
    });
    bar.clear();
    let Some(adopted) = adopted.map_err(explained)? else {
        return Err(Failure::usage(format!("`{}` is not an old history", path.display())).into());
    };
    let what = adopted
        .imported
        .map_or_else(|| "finished an import".to_owned(), |it| sentence(&it));
    output::data(&format!(
        "{what} into {}; the old file is now {}\n",
        path.display(),
        adopted.old_renamed_to.display()
    ))
}

/// Imports the rows that gpu-usage-audit has written into a history of gua.
fn import_inside(path: &Path) -> anyhow::Result<()> {
    let mut store = Store::open(path, OpenMode::Append, &WriterOptions::default()).map_err(busy)?;
    let imported = gua_compat::gpu_usage_audit::import_inside(&mut store, clock::now());
    let imported = imported.map_err(explained)?;
    store.close().context("cannot close the history")?;
    match imported {
        Some(imported) => output::data(&format!(
            "{} that gpu-usage-audit wrote into {}\n",
            sentence(&imported),
            path.display()
        )),
        None => Err(explained(LegacyError::Ours { path: path.into() })),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn is_new(imported: &Imported) -> bool {
    imported.new_gpu_rows + imported.new_process_rows + imported.new_runs > 0
}

fn sentence(imported: &Imported) -> String {
    let all = imported.gpu_rows + imported.process_rows;
    let new = imported.new_gpu_rows + imported.new_process_rows;
    let known = match all - new {
        0 => String::new(),
        1 => " (1 row was imported before)".to_owned(),
        known => format!(" ({known} rows were imported before)"),
    };
    let skipped = match imported.skipped_rows {
        0 => String::new(),
        rows => format!(
            "; left out {} whose time cannot be true",
            counted(rows, "row")
        ),
    };
    format!(
        "imported {}, {} and {}{known}{skipped}",
        counted(imported.new_gpu_rows, "GPU row"),
        counted(imported.new_process_rows, "process row"),
        counted(imported.new_runs, "run")
    )
}

/// Error for a history that cannot be opened, with a distinct message if a collector is writing to it.
fn busy(error: OpenError) -> anyhow::Error {
    let hint = match &error {
        OpenError::Busy { .. } => {
            "a history has one writer: `gua stop`, import, `gua start`; for a service `systemctl stop gua`, import, `systemctl start gua`. Or import into another file with --db, which needs no stop"
        }
        OpenError::Unreadable { .. } => return location::unreadable(&error).into(),
        _ => return error.into(),
    };
    Failure::failed(error.to_string()).hint(hint).into()
}

/// Adds a hint to the error of an old file that cannot be imported, if there is a remedy.
pub(crate) fn explained(error: LegacyError) -> anyhow::Error {
    let (exit, hint) = match &error {
        LegacyError::NoFile { .. } => (
            Exit::Usage,
            "histories of gpu-usage-audit are at ~/.gua/gua.db, up to 1.0.2 at /tmp/gua.db",
        ),
        LegacyError::Ours { .. } => (
            Exit::Usage,
            "it needs no import: pass it with --db to read it",
        ),
        LegacyError::CollectorRuns { .. } => {
            (Exit::Failed, "stop it with `gua stop`, then import again")
        }
        LegacyError::Newer { .. } => (
            Exit::Failed,
            "a newer gua may support it; nothing was imported",
        ),
        LegacyError::Differs { .. } => (
            Exit::Failed,
            "rows that were imported before have been changed or deleted in the old file; import it into a history of its own with --db",
        ),
        LegacyError::Changed { .. } => (
            Exit::Failed,
            "another program is writing to it; rows imported so far are kept; import again",
        ),
        _ => return error.into(),
    };
    Failure::new(exit, error.to_string()).hint(hint).into()
}
