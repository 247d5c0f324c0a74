//! `gua import`: imports histories of the replaced tools.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use gua_collector::make_directory_of;
use gua_collector::python_collector::python_writer;
use gua_compat::gpu_stats::{
    Again, Parsed, StatsDay, StatsImported, StatsInterval, StatsRow, day_of, days, import_day,
    read_day, usual_interval,
};
use gua_compat::gpu_usage_audit::{self, Imported, LegacyError, OldCollector, OldFile, adopt};
use gua_model::duration;
use gua_probe::host::HostRoot;
use gua_settings::Source;
use gua_store::{FileKind, OpenError, OpenMode, Store, WriterOptions, what_is_this};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::commands::prelude::*;
use crate::page_file::is_same_file;

/// Imports the given files into the configured history.
pub fn run(args: &ImportArgs, context: &Context) -> anyhow::Result<()> {
    let db = &context.history_to_open()?;
    let Some(old) = &args.path else {
        return import_stats(args, context, db);
    };
    if is_same_file(old, db) {
        return take_over(db);
    }
    // Checked before a history is created for it.
    OldFile::open(old).map_err(explained)?;
    let mut store = open(context, db)?;
    let imported = Bar::during("importing", |bar| {
        gpu_usage_audit::import(&mut store, old, clock::now(), &mut |progress| {
            bar.show(progress)
        })
    });
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
    OldFile::open(path).map_err(explained)?;
    let options = WriterOptions::default();
    let adopted = Bar::during("importing", |bar| {
        let on = &mut |progress| bar.show(progress);
        adopt(path, clock::now(), collector, &options, on)
    });
    let Some(adopted) = adopted.map_err(explained)? else {
        let problem = format!("`{}` is not an old history", path.display());
        bail!(Failure::usage(problem));
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
    let imported = gpu_usage_audit::import_inside(&mut store, clock::now());
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
            "; left out {} with an impossible time",
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
    let hint = match &error {
        LegacyError::NoFile { .. } => {
            "histories of gpu-usage-audit are at ~/.gua/gua.db, up to 1.0.2 at /tmp/gua.db"
        }
        LegacyError::Ours { .. } => "it needs no import: pass it with --db to read it",
        LegacyError::CollectorRuns { .. } => "stop it with `gua stop`, then import again",
        LegacyError::Newer { .. } => "a newer gua may support it; nothing was imported",
        LegacyError::Differs { .. } => {
            "rows that were imported before have been changed or deleted in the old file; import it into a history of its own with --db"
        }
        LegacyError::Changed { .. } => {
            "another program is writing to it; rows imported so far are kept; import again"
        }
        _ => return error.into(),
    };
    let exit = match error {
        LegacyError::NoFile { .. } | LegacyError::Ours { .. } => Exit::Usage,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string()).hint(hint).into()
}

/// Maximum number of invalid lines per file that are reported individually.
const SHOWN: usize = 5;

/// Imports the CSV files of gpu_stats.
fn import_stats(args: &ImportArgs, context: &Context, db: &Path) -> anyhow::Result<()> {
    let place = args.gpu_stats.as_deref().unwrap_or(Path::new("."));
    if args.interval.is_some_and(|interval| interval.is_zero()) {
        bail!(Failure::usage("--interval must be greater than zero"));
    }
    let files = days(place)?;
    // Only one day is in memory at a time. Nothing is imported before all files have been checked.
    let usual = usual_interval(&files)?;
    let interval = args.interval.map(StatsInterval::Said);
    let again = match args.replace {
        true => Again::Replace,
        false => Again::Continue,
    };
    let interval = interval.unwrap_or(StatsInterval::Usual(usual));
    let wanted = (interval, again, context.zone());
    let mut store = open(context, db)?;
    let mut sums = Sums::default();
    let mut bar = Bar::new("importing");
    for (done, path) in files.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a share, for showing")]
        bar.share(done as f64 / files.len() as f64);
        let parsed = read_day(path)?;
        if !parsed.bad.is_empty() || parsed.torn.is_some() {
            bar.clear();
        }
        print_skipped(path, &parsed);
        stats_day(&mut store, path, &parsed, &wanted, &mut sums)
            .with_context(|| format!("cannot import `{}`", path.display()))?;
    }
    drop(bar);
    store.close().context("cannot close the history")?;
    let db = db.display().to_string();
    output::data(&sums.summary(files.len(), &place.display().to_string(), &db))
}

fn stats_day(
    store: &mut Store,
    path: &Path,
    parsed: &Parsed,
    (interval, again, zone): &(StatsInterval, Again, TimeZone),
    sums: &mut Sums,
) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for row in &parsed.rows {
        match (&row.holder, Timestamp::from_second(row.timestamp)) {
            (Some(holder), Ok(at)) => match holder.usage {
                Some(usage) => rows.push(StatsRow {
                    at,
                    user: holder.user.clone(),
                    pid: holder.pid,
                    gpu: holder.gpu,
                    usage,
                }),
                None => sums.without_usage += 1,
            },
            _ => sums.nobody += 1,
        }
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let by_rows = || {
        let first = Timestamp::from_second(parsed.rows.first()?.timestamp).ok()?;
        Some(first.to_zoned(zone.clone()).date())
    };
    let Some(date) = name.and_then(day_of).or_else(by_rows) else {
        return Ok(());
    };
    let day = StatsDay {
        path: path.to_owned(),
        date,
        interval: *interval,
        rows,
    };
    let on = &mut |_| ControlFlow::Continue(());
    let imported = import_day(store, &day, *again, clock::now(), on);
    if let Some(imported) = imported.map_err(refused)? {
        sums.add(&imported);
    }
    Ok(())
}

/// Adds a hint to the error of a day that was imported before with other options.
fn refused(error: LegacyError) -> anyhow::Error {
    let (message, hint) = match &error {
        LegacyError::OtherInterval { known, asked, .. } => (
            format!(
                "its rows were imported with an interval of {}, not {}",
                duration::written(*known),
                duration::written(*asked)
            ),
            "leave --interval out to import only new rows, or pass --replace to import it again",
        ),
        LegacyError::Differs { .. } => (
            "rows that were imported before have been changed or deleted in the file".to_owned(),
            "--replace imports it again and replaces the previous import",
        ),
        _ => return explained(error),
    };
    Failure::failed(message).hint(hint).into()
}

/// Totals over all days.
#[derive(Default)]
struct Sums {
    rows: Imported,
    nobody: u64,
    without_usage: u64,
    left_out: u64,
    days_left_out: u64,
    /// Number of days by the duration of their rows.
    intervals: BTreeMap<Duration, u64>,
}

impl Sums {
    fn add(&mut self, day: &StatsImported) {
        self.rows.gpu_rows += day.imported.gpu_rows;
        self.rows.new_gpu_rows += day.imported.new_gpu_rows;
        self.left_out += day.left_out;
        self.days_left_out += u64::from(day.left_out > 0);
        *self.intervals.entry(day.interval).or_default() += 1;
    }

    fn summary(&self, files: usize, place: &str, db: &str) -> String {
        let new = self.rows.new_gpu_rows;
        let known = match self.rows.gpu_rows - new {
            0 => String::new(),
            1 => " (1 was imported before)".to_owned(),
            known => format!(" ({known} were imported before)"),
        };
        let days = counted(files as u64, "day");
        let rows = counted(new, "row");
        let mut text = format!("imported {rows} of {days} from {place} into {db}{known}\n");
        let is_one = self.intervals.len() == 1;
        let interval = |(interval, days): (&Duration, &u64)| {
            let interval = duration::written(*interval);
            match is_one {
                true => interval,
                false => format!("{interval} ({})", counted(*days, "day")),
            }
        };
        let intervals: Vec<String> = self.intervals.iter().map(interval).collect();
        if !intervals.is_empty() {
            text.push_str(&format!("  interval of each: {}\n", intervals.join(", ")));
        }
        if self.left_out > 0 {
            text.push_str(&format!(
                "  left out {} of {}: the history already covers these times, and they would count twice\n",
                counted(self.left_out, "row"),
                counted(self.days_left_out, "day")
            ));
        }
        if self.nobody > 0 {
            text.push_str(&format!(
                "  rows without any process: {}; they name no GPU, so that time stays unobserved\n",
                self.nobody
            ));
        }
        if self.without_usage > 0 {
            text.push_str(&format!(
                "  rows without a usage, left out: {}\n",
                self.without_usage
            ));
        }
        text
    }
}

fn print_skipped(path: &Path, parsed: &Parsed) {
    let path = path.display();
    for (line, why) in parsed.bad.iter().take(SHOWN) {
        output::eprint(&format!("gua import: {path}:{line}: skipped: {why}\n"));
    }
    let more = parsed.bad.len().saturating_sub(SHOWN);
    if more > 0 {
        output::eprint(&format!("gua import: {path}: more lines skipped: {more}\n"));
    }
    if let Some(line) = parsed.torn {
        output::eprint(&format!(
            "gua import: {path}:{line}: skipped: the last line has no newline and may be incomplete; import again once it is complete\n"
        ));
    }
}
