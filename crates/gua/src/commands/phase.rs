//! `gua phase`: sends a mark to the `gua run` that watches this process.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gua_run::{DESCRIPTOR_VARIABLE, LONGEST_MARK, Mark, PIPE_VARIABLE};
use rustix::fs::OFlags;
use serde_json::Map;

use crate::cli::PhaseArgs;
use crate::config::Inputs;
use crate::failure::Failure;
use crate::output;

/// Sends the marks. Only a usage error fails, because a job must not fail because of a mark.
pub fn run(args: &PhaseArgs) -> anyhow::Result<ExitCode> {
    let names = args.name.iter().chain(&args.event);
    if names.into_iter().any(|name| name.trim().is_empty()) {
        return Err(Failure::usage("a phase or an event needs a name").into());
    }
    let mut lines = Vec::new();
    for mark in marks(args) {
        let line = mark.line() + "\n";
        if line.len() > LONGEST_MARK {
            return Err(Failure::usage("that is more than a mark can hold").into());
        }
        lines.push(line);
    }
    let said = match pipe(&Inputs::of_this_process()) {
        // Writes of at most PIPE_BUF bytes are atomic (pipe(7)), so each line is written completely or not at all.
        Some(mut pipe) => lines
            .iter()
            .try_for_each(|line| pipe.write_all(line.as_bytes()))
            .err()
            .map(|error| {
                format!("the run around this does not listen; nothing is marked: {error}")
            }),
        None => Some("there is no `gua run` around this; nothing is marked".to_owned()),
    };
    if let Some(said) = said.filter(|_| !args.quiet) {
        output::talk(&format!("gua phase: {said}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn marks(args: &PhaseArgs) -> Vec<Mark> {
    let values: Map<_, _> = args.set.iter().cloned().collect();
    if let Some(name) = &args.event {
        return vec![Mark::Event {
            name: name.clone(),
            data: values,
        }];
    }
    let phase = args.name.clone().map(Mark::Phase);
    let set = (!values.is_empty()).then_some(Mark::Set(values));
    phase.into_iter().chain(set).collect()
}

/// Opens the pipe by its path, which contains the PID of the reader; if that is not accessible, by the inherited
/// descriptor.
#[must_use]
pub fn pipe(inputs: &Inputs) -> Option<File> {
    let by_name = inputs.variable(PIPE_VARIABLE).map(PathBuf::from);
    let inherited = inputs
        .variable(DESCRIPTOR_VARIABLE)
        .and_then(|number| number.to_str()?.parse::<u32>().ok())
        .map(|number| PathBuf::from(format!("/proc/self/fd/{number}")));
    [by_name, inherited]
        .into_iter()
        .flatten()
        .find_map(|path| open(&path))
}

/// Opens the path only if it is a pipe: the descriptor may have been reused for another file.
fn open(path: &Path) -> Option<File> {
    let is_pipe = path.metadata().ok()?.file_type().is_fifo();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    opened.ok().filter(|_| is_pipe)
}
