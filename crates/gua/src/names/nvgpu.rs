//! The program under the names `nvgpu` and `nvl`.

use std::ffi::OsString;
use std::process::ExitCode;

use anstream::AutoStream;
use clap::CommandFactory as _;
use gua_compat::nvgpu::{self, ProcessFacts};
use gua_probe::host::time::ticks_per_second;
use gua_probe::process::ProcRoot;
use gua_probe::process::command::command_line;

use super::run_as;
use crate::cli::{NvgpuArgs, NvgpuCommand};
use crate::context::{Context, VERSION};
use crate::output;

/// Runs `nvgpu` with the arguments after the name.
pub(super) fn nvgpu(arguments: &[OsString]) -> ExitCode {
    run_as(NvgpuArgs::command(), arguments, |args: NvgpuArgs, flags| {
        match args.command {
            NvgpuCommand::Available { limit } => {
                output::data(&nvgpu::available(&Context::load(flags)?.sample()?, limit))?;
            }
            NvgpuCommand::List => list(&Context::load(flags)?)?,
            NvgpuCommand::Version => output::data(&format!("{VERSION}\n"))?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Runs `nvl`, which is `nvgpu list`. Like the original it ignores its arguments. Unlike the original, which prints its
/// table, a single flag for help or the version is answered.
pub(super) fn nvl(arguments: &[OsString]) -> anyhow::Result<()> {
    let only = match arguments {
        [only] => only.to_str(),
        _ => None,
    };
    match only {
        Some("--version") => output::data(&format!("{VERSION}\n")),
        Some("-h" | "--help") => output::data(
            "usage: nvl [-h] [--version]\n\nShows the table of cards: gua under the name of the tool that it replaces, as \
             `nvgpu list`.\nIt takes no other arguments. `gua help list` tells what else there is.\n",
        ),
        _ => list(&Context::load(&[])?),
    }
}

fn list(context: &Context) -> anyhow::Result<()> {
    let sample = context.sample()?;
    let is_coloured = AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    let root = ProcRoot::default();
    let facts = ProcessFacts {
        ticks_per_second: ticks_per_second(),
        command: &|key| Some(command_line(&root, key).ok()?.in_short().to_string()),
    };
    output::data(&nvgpu::table(&sample, is_coloured, facts))
}
