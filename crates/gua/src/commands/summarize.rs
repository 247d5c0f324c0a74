//! `gua summarize`: computes the ten values of ResourceSummary from the metric files of `gua run` or run_monitor.

mod files;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::ExitCode;

use gua_run::{Fields, JAX_PEAK, Summarized, UnreadableFile, summarize};
use serde_json::Value;

use crate::cli::SummarizeArgs;
use crate::output;
use files::Files;

/// First event of a run; a log may contain several runs.
const RUN_STARTED: &str = "run_started";

/// Maximum length of a relevant log line.
const LONGEST_LINE: u64 = 64 << 10;

pub fn run(args: &SummarizeArgs) -> anyhow::Result<ExitCode> {
    let files = Files::of(&args.paths)?;
    let mut found = summarize(
        files.gpu.as_deref(),
        files.cpu.as_deref(),
        files.dmon.as_deref(),
    )?;
    if let Some(log) = &files.log
        && let Some(peak) = jax_peak(log)?
    {
        found.summary.jax_peak_bytes_mb = peak;
    }
    output::data(&match args.json {
        true => json(&found),
        false => text(&found),
    })?;
    output::talk(&remarks(&found));
    Ok(ExitCode::SUCCESS)
}

/// Peak memory of JAX as reported by the job; the last value counts. If a log contains several runs, the last run
/// counts, because the metric files are those of the last run.
fn jax_peak(log: &Path) -> Result<Option<f64>, UnreadableFile> {
    let unreadable = |source| UnreadableFile {
        path: log.to_owned(),
        source,
    };
    let mut reader = BufReader::new(File::open(log).map_err(unreadable)?);
    let mut line = Vec::new();
    let mut peak = None;
    loop {
        line.clear();
        let read = (&mut reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line);
        if read.map_err(unreadable)? == 0 {
            return Ok(peak);
        }
        let text = String::from_utf8_lossy(&line);
        if (text.contains(JAX_PEAK) || text.contains(RUN_STARTED))
            && let Ok(entry) = serde_json::from_str::<Value>(&text)
        {
            if entry["event"] == RUN_STARTED {
                peak = None;
            }
            let said = entry["data"][JAX_PEAK].as_f64();
            peak = said.or_else(|| entry[JAX_PEAK].as_f64()).or(peak);
        }
    }
}

fn json(found: &Summarized) -> String {
    let entries = found.summary.entries().into_iter();
    let fields = entries.fold(Fields::new(), |fields, (name, value)| {
        fields.with(name, value)
    });
    format!("{}\n", fields.to_json())
}

fn text(found: &Summarized) -> String {
    let entries = found.summary.entries();
    let widest = entries
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    let line = |(name, value): &(&str, f64)| {
        let shown = match is_measured(found, name) {
            true => format!("{value:.1}"),
            false => "-".to_owned(),
        };
        format!("{name:<widest$}  {shown:>9}\n")
    };
    entries.iter().map(line).collect()
}

/// Whether a value was measured. The peak of JAX is shown only if the job reported it.
fn is_measured(found: &Summarized, name: &str) -> bool {
    let of = |prefix: &str| {
        match prefix {
            "vram" => "peak_vram",
            "power" => "power_watts",
            other => other,
        }
        .to_owned()
    };
    !found
        .missing
        .iter()
        .any(|missing| name.starts_with(&of(missing)))
}

fn remarks(found: &Summarized) -> String {
    let mut text = String::new();
    if found.guessed_mem_util {
        text.push_str(
            "gua summarize: no head names the columns of the dmon file; its third was taken for memory utilisation, as the \
             original does\n",
        );
    }
    if !found.missing.is_empty() {
        let missing = found.missing.join(", ");
        text.push_str(&format!("gua summarize: not measured: {missing}\n"));
    }
    text
}
