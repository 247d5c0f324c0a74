//! Names of the replaced tools under which this program can be called. Commands that are not implemented are reported.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anstream::AutoStream;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches};
use gua_compat::nvgpu::{self, ProcessFacts};
use gua_probe::host::time::ticks_per_second;
use gua_probe::process::ProcRoot;
use gua_probe::process::command::command_line;
use gua_query::words::refuse_new_words;
use gua_settings::FlagValue;

use crate::cli::{self, CollectArgs, NvgpuArgs, NvgpuCommand, RecordDemoArgs, ReportArgs};
use crate::commands::report::OnTerminal;
use crate::commands::{csv, daemon, demo, report};
use crate::context::{Context, VERSION};
use crate::failure::{self, Exit, Failure};
use crate::output;

const AUDIT_USAGE: &str = "\
usage: gpu-usage-audit [-h] [--version] COMMAND

gua under the name of the tool that it replaces.

Commands:
  daemon   collect in the foreground
  report   say who held which GPU, and whether it was used
  demo     record simulated telemetry and report it
  version  print the version number and nothing else
  help     print this text

`gua doctor` looks at this machine.
";

/// Runs the command of another program name, such as gpu-usage-audit. Returns `None` if the program was started as gua.
/// `program` is the path with which it was started; `arguments` do not include it.
pub fn run(program: &Path, arguments: &[OsString]) -> Option<ExitCode> {
    Some(match program.file_name()?.to_str()? {
        "gpu-usage-audit" => audit(arguments),
        "nvl" => printed("nvl", nvl(arguments)),
        "gpu_stats" => printed("gpu_stats", gpu_stats(arguments)),
        "nvgpu" => nvgpu(arguments),
        _ => return None,
    })
}

fn audit(arguments: &[OsString]) -> ExitCode {
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.to_string_lossy(), rest),
        None => {
            output::eprint(AUDIT_USAGE);
            return Exit::Usage.into();
        }
    };
    match &*command {
        "version" | "--version" => {
            printed("gpu-usage-audit", output::data(&format!("{VERSION}\n")))
        }
        "help" | "-h" | "--help" => printed("gpu-usage-audit", output::data(AUDIT_USAGE)),
        "daemon" => run_as(
            audit_command::<CollectArgs>(
                "gpu-usage-audit daemon",
                "Collect in the foreground: ticks on stdout, messages on stderr.",
            ),
            rest,
            |args, flags| succeed(daemon::foreground(&args, Context::load(flags)?)),
        ),
        "report" => run_as(
            audit_command::<ReportArgs>(
                "gpu-usage-audit report",
                "`report` under the name of the tool that it replaces",
            ),
            rest,
            |args: ReportArgs, flags| {
                refuse_new_words("since", &args.since)?;
                report::run(&args, OnTerminal::Sections, &Context::load(flags)?)
            },
        ),
        "demo" => run_as(
            audit_command::<RecordDemoArgs>(
                "gpu-usage-audit demo",
                "`demo` under the name of the tool that it replaces",
            ),
            rest,
            |args, flags| succeed(demo::record(&args, &Context::load(flags)?)),
        ),
        unknown => {
            let known = ["daemon", "report", "demo", "version", "help"];
            output::eprint(&format!(
                "{AUDIT_USAGE}\ngpu-usage-audit: unknown command `{}`{}\n",
                unknown.escape_debug(),
                cli::suggestion(unknown, known.into_iter())
            ));
            Exit::Usage.into()
        }
    }
}

const STATS_USAGE: &str = "\
usage: gpu_stats [-h] [--version]

Adds one sample to the daily CSV file in ~/gpu_stats: gua under the name of the tool that it replaces, as
`gua csv sample`. `gua csv install` takes samples regularly.
";

/// Takes one sample, like the script of that name, which has no arguments.
fn gpu_stats(arguments: &[OsString]) -> anyhow::Result<()> {
    match arguments
        .first()
        .map(|first| first.to_string_lossy())
        .as_deref()
    {
        None => csv::sample(&Context::load(&[])?),
        Some("-h" | "--help") => output::data(STATS_USAGE),
        Some("--version") => output::data(&format!("{VERSION}\n")),
        Some(unknown) => {
            let unknown = unknown.escape_debug();
            Err(Failure::usage(format!("unknown argument `{unknown}`"))
                .hint("`gua csv sample --help` shows the options of gua")
                .into())
        }
    }
}

fn succeed(done: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    done.map(|()| ExitCode::SUCCESS)
}

fn printed(command: &str, printed: anyhow::Result<()>) -> ExitCode {
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(command, &error),
    }
}

/// A command of gpu-usage-audit with the arguments of gua's command.
fn audit_command<T: Args>(name: &'static str, about: &'static str) -> clap::Command {
    let command = clap::Command::new(name).infer_long_args(true);
    cli::at_the_end(T::augment_args(command))
        .about(about)
        .long_about(None)
        .max_term_width(100)
        .disable_version_flag(true)
}

/// Parses arguments that are not part of gua's own command tree, and runs the command.
fn run_as<T: FromArgMatches>(
    tree: clap::Command,
    arguments: &[OsString],
    command: impl FnOnce(T, &[FlagValue]) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let name = tree.get_name().to_owned();
    let words = std::iter::once(OsString::from(&name)).chain(arguments.iter().cloned());
    match cli::parse::<T>(tree, words) {
        Ok(parsed) => {
            let done = command(parsed.args, &parsed.flags);
            done.unwrap_or_else(|error| failure::report(&name, &error))
        }
        Err(error) => clap_error(&name, &error, |text| text),
    }
}

/// Prints a message of clap. Help and version go to stdout; all others are usage errors, which `complete` extends and which go
/// to stderr.
pub(crate) fn clap_error(
    name: &str,
    error: &clap::Error,
    complete: impl FnOnce(String) -> String,
) -> ExitCode {
    let text = error.render().ansi().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp => printed(name, output::data(&text)),
        ErrorKind::DisplayVersion => printed(name, output::data(&format!("{VERSION}\n"))),
        _ => {
            output::eprint(&complete(text));
            Exit::Usage.into()
        }
    }
}

/// Runs `nvgpu` with the arguments after the name.
fn nvgpu(arguments: &[OsString]) -> ExitCode {
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
fn nvl(arguments: &[OsString]) -> anyhow::Result<()> {
    let only = match arguments {
        [only] => only.to_str(),
        _ => None,
    };
    match only {
        Some("--version") => output::data(&format!("{VERSION}\n")),
        Some("-h" | "--help") => output::data(
            "usage: nvl [-h] [--version]\n\nShows the table of cards: gua under the name of the tool that it replaces, as \
             `nvgpu list`.\nIt takes no other arguments. `gua help list` describes all options.\n",
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
