//! `gua import --gpu-stats`: imports the daily CSV files of gpu_stats. Skipped lines are reported with the reason.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use gua_compat::gpu_stats::{
    Again, Parsed, StatsDay, StatsImported, StatsInterval, StatsRow, day_of, days, import_day,
    read_day, usual_interval,
};
use gua_compat::gpu_usage_audit::{Imported, LegacyError};
use gua_model::duration;
use gua_model::text::counted;
use gua_probe::clock;
use gua_store::Store;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{explained, open};
use crate::cli::ImportArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::progress::Bar;

/// Maximum number of invalid lines per file that are reported individually.
const SHOWN: usize = 5;

pub(super) fn run(args: &ImportArgs, context: &Context, db: &Path) -> anyhow::Result<()> {
    let place = args.gpu_stats.as_deref().unwrap_or(Path::new("."));
    if args.interval.is_some_and(|interval| interval.is_zero()) {
        return Err(Failure::usage("--interval must be greater than zero").into());
    }
    let files = days(place)?;
    // Only one day is in memory at a time. Nothing is imported before all files have been checked.
    let usual = usual_interval(&files)?;
    let wanted = Wanted {
        interval: match args.interval {
            Some(interval) => StatsInterval::Said(interval),
            None => StatsInterval::Usual(usual),
        },
        again: match args.replace {
            true => Again::Replace,
            false => Again::Continue,
        },
    };
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
        let imported = import(&mut store, path, &parsed, &wanted, &mut sums);
        if imported.is_err() {
            bar.clear();
        }
        imported.with_context(|| format!("cannot import `{}`", path.display()))?;
    }
    bar.clear();
    store.close().context("cannot close the history")?;
    let db = db.display().to_string();
    output::data(&sums.summary(files.len(), &place.display().to_string(), &db))
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
    let imported = import_day(store, &day, wanted.again, clock::now(), on);
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
        let days = counted(u64::try_from(files).unwrap_or(u64::MAX), "day");
        let rows = counted(new, "row");
        let mut text = format!("imported {rows} of {days} from {place} into {db}{known}\n");
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
