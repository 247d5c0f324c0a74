//! `gua import --gpu-stats`: imports the daily CSV files of gpu_stats. Skipped lines are reported with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use gua_compat::gpu_stats::{Again, StatsDay, StatsImported, StatsInterval, StatsRow};
use gua_compat::gpu_stats::{Parsed, Row, day_of, parse};
use gua_compat::gpu_usage_audit::{Imported, LegacyError};
use gua_model::text::counted;
use gua_probe::clock;
use gua_store::Store;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{explained, open};
use crate::cli::ImportArgs;
use crate::config::Loaded;
use crate::duration;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Bar;

/// Default interval of gpu_stats.
const USUAL: Duration = Duration::from_secs(300);
/// Maximum size of a file. A day has at most one line per GPU and minute, so a larger file is not from gpu_stats.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum interval in seconds; a longer gap between two samples is not the interval of gpu_stats.
const LONGEST_PAUSE: i64 = 86_400;
/// Maximum number of invalid lines per file that are reported individually.
const TOLD: usize = 5;

pub(super) fn run(args: &ImportArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let place = args.gpu_stats.as_deref().unwrap_or(Path::new("."));
    if args.interval.is_some_and(|interval| interval.is_zero()) {
        return Err(Failure::usage("--interval: a row stands for more than no time").into());
    }
    let files = files(place)?;
    // Only one day is in memory at a time. Nothing is imported before all files have been checked.
    let usual = usual_interval(&files)?;
    let wanted = Wanted {
        interval: match args.interval {
            Some(said) => StatsInterval::Said(said),
            None => StatsInterval::Usual(usual),
        },
        again: match args.replace {
            true => Again::Replace,
            false => Again::Continue,
        },
    };
    let mut store = open(loaded)?;
    let mut sums = Sums::default();
    let mut bar = Bar::new("importing");
    for (done, path) in files.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a share, for showing")]
        bar.share(done as f64 / files.len() as f64);
        let parsed = read(path)?;
        if !parsed.bad.is_empty() || parsed.torn.is_some() {
            bar.clear();
        }
        tell(path, &parsed);
        let imported = import(&mut store, path, &parsed, &wanted, &mut sums);
        if imported.is_err() {
            bar.clear();
        }
        imported.with_context(|| format!("cannot import `{}`", path.display()))?;
    }
    bar.clear();
    store.close().context("cannot close the history")?;
    let db = loaded.settings.history.db.value.display().to_string();
    output::data(&sums.said(files.len(), &place.display().to_string(), &db))?;
    Ok(ExitCode::SUCCESS)
}

/// Import options.
struct Wanted {
    interval: StatsInterval,
    again: Again,
}

fn import(
    store: &mut Store,
    path: &Path,
    parsed: &Parsed,
    wanted: &Wanted,
    sums: &mut Sums,
) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for row in &parsed.rows {
        match taken(row) {
            Taken::Row(row) => rows.push(row),
            Taken::Nobody => sums.nobody += 1,
            Taken::WithoutUsage => sums.without_usage += 1,
        }
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let by_rows = || {
        let first = parsed.rows.first().map(|row| row.timestamp);
        let first = first.and_then(|second| Timestamp::from_second(second).ok());
        first.map(|first| first.to_zoned(TimeZone::system()).date())
    };
    let Some(date) = name.and_then(day_of).or_else(by_rows) else {
        return Ok(());
    };
    let day = StatsDay {
        path: path.to_owned(),
        date,
        interval: wanted.interval,
        rows,
    };
    let on = &mut |_| ControlFlow::Continue(());
    let imported = gua_compat::gpu_stats::import_day(store, &day, wanted.again, clock::now(), on);
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
                "its rows were imported as {} each, and not {}",
                duration::written(*known),
                duration::written(*asked)
            ),
            "leave --interval out to import what is new, or give --replace to import it anew",
        ),
        LegacyError::Differs { .. } => (
            "rows that were imported before have been changed or deleted in the file".to_owned(),
            "--replace imports it anew, in place of what was imported",
        ),
        _ => return explained(error),
    };
    Failure {
        exit: Exit::Failed,
        message,
        hint: Some(hint.to_owned()),
    }
    .into()
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
        self.rows.card_rows += day.imported.card_rows;
        self.rows.new_card_rows += day.imported.new_card_rows;
        self.left_out += day.left_out;
        self.days_left_out += u64::from(day.left_out > 0);
        *self.intervals.entry(day.interval).or_default() += 1;
    }

    fn said(&self, files: usize, place: &str, db: &str) -> String {
        let new = self.rows.new_card_rows;
        let known = match self.rows.card_rows - new {
            0 => String::new(),
            1 => " (1 was here already)".to_owned(),
            known => format!(" ({known} were here already)"),
        };
        let days = counted(u64::try_from(files).unwrap_or(u64::MAX), "day");
        let rows = counted(new, "row");
        let mut said = format!("imported {rows} of {days} from {place} into {db}{known}\n");
        let one = self.intervals.len() == 1;
        let intervals: Vec<String> = self
            .intervals
            .iter()
            .map(|(interval, days)| match one {
                true => duration::written(*interval),
                false => format!(
                    "{} ({})",
                    duration::written(*interval),
                    counted(*days, "day")
                ),
            })
            .collect();
        if !intervals.is_empty() {
            said.push_str(&format!("  each stands for {}\n", intervals.join(", ")));
        }
        if self.left_out > 0 {
            said.push_str(&format!(
                "  left out {} of {}: the history has observations of those times already, and they would count twice\n",
                counted(self.left_out, "row"),
                counted(self.days_left_out, "day")
            ));
        }
        if self.nobody > 0 {
            said.push_str(&format!(
                "  rows that say that nobody was on any card: {}; they name no card, so that time stays unobserved\n",
                self.nobody
            ));
        }
        if self.without_usage > 0 {
            said.push_str(&format!(
                "  rows without a usage, left out: {}\n",
                self.without_usage
            ));
        }
        said
    }
}

enum Taken {
    Row(StatsRow),
    Nobody,
    WithoutUsage,
}

fn taken(row: &Row) -> Taken {
    let (Some(holder), Ok(at)) = (&row.holder, Timestamp::from_second(row.timestamp)) else {
        return Taken::Nobody;
    };
    let Some(usage) = holder.usage else {
        return Taken::WithoutUsage;
    };
    Taken::Row(StatsRow {
        at,
        user: holder.user.clone(),
        pid: holder.pid,
        gpu: holder.gpu,
        usage,
    })
}

fn cannot(path: &Path) -> String {
    format!("cannot read `{}`", path.display())
}

/// Files of a directory, or the single file, in chronological order.
fn files(place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = BTreeMap::new();
    match fs::metadata(place).map(|facts| facts.is_dir()) {
        Ok(true) => {
            for entry in fs::read_dir(place).with_context(|| cannot(place))? {
                let entry = entry.with_context(|| cannot(place))?;
                if let Some(day) = entry.file_name().to_str().and_then(day_of) {
                    files.insert(day, entry.path());
                }
            }
        }
        Ok(false) => return Ok(vec![place.to_owned()]),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let problem = format!("there is nothing at {}", place.display());
            let hint = "gpu_stats keeps its days in ~/gpu_stats";
            return Err(Failure::usage(problem).hint(hint).into());
        }
        Err(error) => return Err(error).with_context(|| cannot(place)),
    }
    if files.is_empty() {
        let problem = format!("there is no day of gpu_stats in {}", place.display());
        let hint = "its files are called like 20261031_gpu_stats.csv; those of --csv-format full are another form, which is not imported";
        return Err(Failure::usage(problem).hint(hint).into());
    }
    Ok(files.into_values().collect())
}

/// Reads the rows of one day.
fn read(path: &Path) -> anyhow::Result<Parsed> {
    let facts = fs::metadata(path).with_context(|| cannot(path))?;
    anyhow::ensure!(
        facts.is_file() && facts.len() <= MOST_BYTES,
        "`{}` is no file of a day",
        path.display()
    );
    let bytes = fs::read(path).with_context(|| cannot(path))?;
    parse(&bytes).with_context(|| format!("`{}` is not of gpu_stats", path.display()))
}

/// Most frequent time between samples, which is the configured interval of gpu_stats.
fn usual_interval(files: &[PathBuf]) -> anyhow::Result<Duration> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    let mut before = None;
    for path in files {
        let mut times: Vec<i64> = read(path)?.rows.iter().map(|row| row.timestamp).collect();
        times.sort_unstable();
        times.dedup();
        for time in times {
            let pause = before.replace(time).map(|before| time - before);
            if let Some(pause) = pause.filter(|pause| (1..=LONGEST_PAUSE).contains(pause)) {
                *counts.entry(pause).or_default() += 1;
            }
        }
    }
    // If two are equally frequent, the shorter one: it counts less time.
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    Ok(most
        .and_then(|(seconds, _)| u64::try_from(seconds).ok())
        .map_or(USUAL, Duration::from_secs))
}

fn tell(path: &Path, parsed: &Parsed) {
    let path = path.display();
    for (line, why) in parsed.bad.iter().take(TOLD) {
        output::talk(&format!("gua import: {path}:{line}: skipped: {why}\n"));
    }
    let more = parsed.bad.len().saturating_sub(TOLD);
    if more > 0 {
        output::talk(&format!("gua import: {path}: more lines skipped: {more}\n"));
    }
    if let Some(line) = parsed.torn {
        output::talk(&format!(
            "gua import: {path}:{line}: skipped: the last line has no end and may be half of a row; import again once it is whole\n"
        ));
    }
}
