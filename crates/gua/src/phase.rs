//! `gua phase`: a mark for the `gua run` around this process.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use gua_run::{DESCRIPTOR_VARIABLE, LONGEST_MARK, Mark, PIPE_VARIABLE};
use rustix::fs::OFlags;
use serde_json::Map;

use crate::cli::PhaseArgs;
use crate::config::Inputs;
use crate::failure::Failure;
use crate::output;

pub fn run(args: &PhaseArgs) -> anyhow::Result<ExitCode> {
    let mut lines = String::new();
    for mark in marks(args) {
        let line = mark.line();
        if line.len() >= LONGEST_MARK {
            return Err(Failure::usage("that is more than a mark can hold").into());
        }
        lines.push_str(&line);
        lines.push('\n');
    }
    match pipe(&Inputs::of_this_process()) {
        Some(mut pipe) => {
            // Each line whole: the pipe takes as much at once or nothing.
            for line in lines.split_inclusive('\n') {
                pipe.write_all(line.as_bytes())
                    .context("the run around this does not listen")?;
            }
        }
        None if args.quiet => {}
        None => output::talk("gua phase: there is no `gua run` around this; nothing is marked\n"),
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

/// The pipe by the name of the process that reads it; else, where that is out of sight, by the descriptor that we inherited.
fn pipe(inputs: &Inputs) -> Option<File> {
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

/// Only a pipe: whatever else has the number by now is not for us.
fn open(path: &Path) -> Option<File> {
    let is_pipe = path.metadata().ok()?.file_type().is_fifo();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    opened.ok().filter(|_| is_pipe)
}
