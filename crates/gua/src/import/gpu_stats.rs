//! `gua import --gpu-stats`: the days of gpu_stats. Every line that is not taken is told, and why.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use gua_probe::clock;
use gua_store::legacy::{Imported, StatsDay, StatsRow};
use gua_wire::gpu_stats::{Parsed, Row, day_of, parse};
use jiff::Timestamp;

use super::{explained, open};
use crate::cli::ImportArgs;
use crate::config::Loaded;
use crate::duration;
use crate::failure::Failure;
use crate::output;

/// How often gpu_stats looks unless its timer was changed.
const USUAL: Duration = Duration::from_secs(300);
/// A day has a line for each card and look; more than this is no day of gpu_stats.
const MOST_BYTES: u64 = 1 << 30;
/// Bad lines of a file that are told one by one.
const TOLD: usize = 5;

/// A file of one day.
struct Day {
    path: PathBuf,
    parsed: Parsed,
}

pub(super) fn run(args: &ImportArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let place = args.gpu_stats.as_deref().unwrap_or(Path::new("."));
    let days = read(place)?;
    let interval = args.interval.unwrap_or_else(|| usual_interval(&days));
    if interval.is_zero() {
        return Err(Failure::usage("--interval: a row stands for more than no time").into());
    }
    let mut store = open(loaded)?;
    let mut sum = Imported::default();
    let (mut nobody, mut without_usage) = (0, 0);
    for day in &days {
        tell(day);
        let mut rows = Vec::new();
        for row in &day.parsed.rows {
            match taken(row) {
                Taken::Row(row) => rows.push(row),
                Taken::Nobody => nobody += 1,
                Taken::WithoutUsage => without_usage += 1,
            }
        }
        let path = day.path.clone();
        let day = StatsDay {
            path,
            interval,
            rows,
        };
        let on = &mut |_| ControlFlow::Continue(());
        let imported = store.import_gpu_stats(&day, clock::now(), on);
        let imported = imported
            .map_err(explained)
            .with_context(|| format!("cannot import `{}`", day.path.display()))?;
        sum.card_rows += imported.card_rows;
        sum.new_card_rows += imported.new_card_rows;
    }
    store.close().context("cannot close the history")?;
    let (files, new) = (days.len(), sum.new_card_rows);
    let days = if files == 1 {
        "1 day".to_owned()
    } else {
        format!("{files} days")
    };
    let known = match sum.card_rows - new {
        0 => String::new(),
        known => format!(" ({known} were here already)"),
    };
    let db = loaded.settings.history.db.value.display();
    let mut said = format!(
        "imported {new} rows of {days} from {} into {db}{known}\n  each stands for {}\n",
        place.display(),
        duration::written(interval)
    );
    if nobody > 0 {
        said.push_str(&format!(
            "  rows that say that nobody was on any card: {nobody}; they name no card, so that time stays unobserved\n"
        ));
    }
    if without_usage > 0 {
        said.push_str(&format!(
            "  rows without a usage, left out: {without_usage}\n"
        ));
    }
    output::data(&said)?;
    Ok(ExitCode::SUCCESS)
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

/// All days of a directory, or the one of a file, in the order of time. None is imported before all have been read.
fn read(place: &Path) -> anyhow::Result<Vec<Day>> {
    let cannot = |path: &Path| format!("cannot read `{}`", path.display());
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
        Ok(false) => {
            let name = place.file_name().and_then(|name| name.to_str());
            files.insert(name.and_then(day_of).unwrap_or_default(), place.to_owned());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let problem = format!("there is nothing at {}", place.display());
            let hint = "gpu_stats keeps its days in ~/gpu_stats";
            return Err(Failure::usage(problem).hint(hint).into());
        }
        Err(error) => return Err(error).with_context(|| cannot(place)),
    }
    if files.is_empty() {
        let problem = format!("there is no day of gpu_stats in {}", place.display());
        let hint = "its files are called like 20261031_gpu_stats.csv";
        return Err(Failure::usage(problem).hint(hint).into());
    }
    let day = |path: PathBuf| -> anyhow::Result<Day> {
        let facts = fs::metadata(&path).with_context(|| cannot(&path))?;
        anyhow::ensure!(
            facts.is_file() && facts.len() <= MOST_BYTES,
            "`{}` is no file of a day",
            path.display()
        );
        let bytes = fs::read(&path).with_context(|| cannot(&path))?;
        let parsed =
            parse(&bytes).with_context(|| format!("`{}` is not of gpu_stats", path.display()))?;
        Ok(Day { path, parsed })
    };
    files.into_values().map(day).collect()
}

/// The most frequent time from one look to the next, which is how often gpu_stats was told to look.
fn usual_interval(days: &[Day]) -> Duration {
    let rows = days.iter().flat_map(|day| &day.parsed.rows);
    let mut times: Vec<i64> = rows.map(|row| row.timestamp).collect();
    times.sort_unstable();
    times.dedup();
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for two in times.windows(2) {
        if let [one, other] = two {
            *counts.entry(other - one).or_default() += 1;
        }
    }
    // The shorter of two that are as frequent: it claims less.
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.and_then(|(seconds, _)| u64::try_from(seconds).ok())
        .map_or(USUAL, Duration::from_secs)
}

fn tell(day: &Day) {
    let path = day.path.display();
    for (line, why) in day.parsed.bad.iter().take(TOLD) {
        output::talk(&format!("gua import: {path}:{line}: skipped: {why}\n"));
    }
    let more = day.parsed.bad.len().saturating_sub(TOLD);
    if more > 0 {
        output::talk(&format!("gua import: {path}: more lines skipped: {more}\n"));
    }
    if let Some(line) = day.parsed.torn {
        output::talk(&format!(
            "gua import: {path}:{line}: skipped: the last line has no end and may be half of a row; import again once it is whole\n"
        ));
    }
}
