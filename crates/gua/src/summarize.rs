//! `gua summarize`: the ten numbers of a run from its metric files, of gua or of the original.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use gua_run::{Fields, JAX_PEAK, Summarized, file, summarize};
use serde_json::Value;

use crate::cli::SummarizeArgs;
use crate::failure::Failure;
use crate::output;

/// No line of a log that is of use here is longer.
const LONGEST_LINE: u64 = 64 << 10;

pub fn run(args: &SummarizeArgs) -> anyhow::Result<ExitCode> {
    let files = Files::of(&args.paths)?;
    let mut found = summarize(
        files.gpu.as_deref(),
        files.cpu.as_deref(),
        files.dmon.as_deref(),
    )
    .context("cannot read the metric files")?;
    if let Some(peak) = files.log.as_deref().and_then(jax_peak) {
        found.summary.jax_peak_bytes_mb = peak;
    }
    output::data(&match args.json {
        true => json(&found),
        false => text(&found),
    })?;
    output::talk(&remarks(&found));
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Default)]
struct Files {
    gpu: Option<PathBuf>,
    cpu: Option<PathBuf>,
    dmon: Option<PathBuf>,
    log: Option<PathBuf>,
}

impl Files {
    fn of(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut files = Self::default();
        for path in paths {
            let shown = path.display();
            if path.is_dir() {
                if paths.len() > 1 {
                    return Err(Failure::usage("one directory at a time, or files"));
                }
                return Self::in_directory(path);
            }
            if !path.exists() {
                return Err(Failure::usage(format!("there is no `{shown}`")));
            }
            let place = match kind(path) {
                Kind::Gpu => &mut files.gpu,
                Kind::Cpu => &mut files.cpu,
                Kind::Dmon => &mut files.dmon,
                Kind::Log => &mut files.log,
            };
            if let Some(other) = place.replace(path.clone()) {
                let other = other.display();
                return Err(Failure::usage(format!(
                    "`{other}` and `{shown}` are files of the same kind"
                )));
            }
        }
        Ok(files)
    }

    fn in_directory(directory: &Path) -> Result<Self, Failure> {
        let there = |name: &str| Some(directory.join(name)).filter(|path| path.exists());
        let files = Self {
            gpu: there(file::GPU),
            cpu: there(file::CPU),
            dmon: there(file::DMON),
            log: there(file::LOG),
        };
        if files.gpu.is_none() && files.cpu.is_none() && files.dmon.is_none() {
            let (shown, names) = (directory.display(), [file::GPU, file::CPU, file::DMON]);
            return Err(Failure::usage(format!(
                "`{shown}` has none of the files {}",
                names.join(", ")
            )));
        }
        Ok(files)
    }
}

enum Kind {
    Gpu,
    Cpu,
    Dmon,
    Log,
}

/// Told by what is in it, since people name files as they like.
fn kind(path: &Path) -> Kind {
    let first = first_line(path).unwrap_or_default();
    if first.starts_with('{') {
        Kind::Log
    } else if first.starts_with('#') {
        Kind::Dmon
    } else {
        match first.split(',').count() {
            0..=1 => Kind::Dmon,
            2..=4 => Kind::Cpu,
            _ => Kind::Gpu,
        }
    }
}

fn first_line(path: &Path) -> Option<String> {
    let mut line = Vec::new();
    let file = File::open(path).ok()?.take(LONGEST_LINE);
    BufReader::new(file).read_until(b'\n', &mut line).ok()?;
    Some(String::from_utf8_lossy(&line).trim().to_owned())
}

/// What the job said of JAX's own peak: the last word counts.
fn jax_peak(log: &Path) -> Option<f64> {
    let mut reader = BufReader::new(File::open(log).ok()?);
    let mut line = Vec::new();
    let mut peak = None;
    loop {
        line.clear();
        let read = (&mut reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line);
        if read.ok()? == 0 {
            return peak;
        }
        let text = String::from_utf8_lossy(&line);
        if text.contains(JAX_PEAK)
            && let Ok(entry) = serde_json::from_str::<Value>(&text)
        {
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

/// Whether the number rests on something. JAX's peak is shown only where it was told.
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
