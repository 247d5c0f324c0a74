//! The directory of gpu_stats: its files, one per day, and the interval that it was configured with.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::failure::Failure;

use super::{Parsed, day_of, parse};

/// Default interval of gpu_stats.
const USUAL: Duration = Duration::from_secs(300);
/// Maximum size of a file. A day has at most one line per GPU and minute, so a larger file is not from gpu_stats.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum interval in seconds; a longer gap between two samples is not the interval of gpu_stats.
const MAX_PAUSE: i64 = 86_400;

fn cannot(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    Failure::because(format!("cannot read `{}`", path.display()))
}

/// Files of a directory, or the single file, in chronological order.
pub fn days(place: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = BTreeMap::new();
    match fs::metadata(place).map(|facts| facts.is_dir()) {
        Ok(true) => {
            for entry in fs::read_dir(place).map_err(cannot(place))? {
                let entry = entry.map_err(cannot(place))?;
                if let Some(day) = entry.file_name().to_str().and_then(day_of) {
                    files.insert(day, entry.path());
                }
            }
        }
        Ok(false) => return Ok(vec![place.to_owned()]),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let problem = format!("there is nothing at {}", place.display());
            let hint = "gpu_stats writes its files to ~/gpu_stats";
            return Err(Failure::usage(problem).hint(hint));
        }
        Err(error) => return Err(cannot(place)(error)),
    }
    if files.is_empty() {
        let problem = format!("there are no gpu_stats files in {}", place.display());
        let hint = "they are named like 20261031_gpu_stats.csv; files of --csv-format full have another format, which is not imported";
        return Err(Failure::usage(problem).hint(hint));
    }
    Ok(files.into_values().collect())
}

/// Reads the rows of one day.
pub fn read_day(path: &Path) -> Result<Parsed, Failure> {
    let bytes = gua_files::read_regular(path, MAX_BYTES).map_err(cannot(path))?;
    parse(&bytes).map_err(Failure::because(format!(
        "`{}` is not a gpu_stats file",
        path.display()
    )))
}

/// Most frequent time between samples, which is the configured interval of gpu_stats.
pub fn usual_interval(files: &[PathBuf]) -> Result<Duration, Failure> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    let mut before = None;
    for path in files {
        let mut times: Vec<i64> = read_day(path)?
            .rows
            .iter()
            .map(|row| row.timestamp)
            .collect();
        times.sort_unstable();
        times.dedup();
        for time in times {
            let pause = before.replace(time).map(|before| time - before);
            if let Some(pause) = pause.filter(|pause| (1..=MAX_PAUSE).contains(pause)) {
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
