//! Names of the replaced tools under which this program can be called. Commands that are not implemented are reported.

mod nvgpu;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, FromArgMatches};
use gua_query::words::refuse_new_words;
use gua_settings::FlagValue;

use crate::cli::{self, CollectArgs, RecordDemoArgs, ReportArgs};
use crate::commands::report::OnTerminal;
use crate::commands::{csv, daemon, demo, report};
use crate::context::{Context, VERSION};
use crate::failure::{self, Exit, Failure};
use crate::output;

/// Tool name under which the program was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Gua,
    GpuUsageAudit,
    Nvgpu,
    Nvl,
    GpuStats,
}

impl Name {
    /// Determines the name from the path with which the program was started.
    #[must_use]
    pub fn of(program: &Path) -> Self {
        match program.file_name().and_then(|name| name.to_str()) {
            Some("gpu-usage-audit") => Name::GpuUsageAudit,
            Some("nvgpu") => Name::Nvgpu,
            Some("nvl") => Name::Nvl,
            Some("gpu_stats") => Name::GpuStats,
            _ => Name::Gua,
        }
    }
}

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

/// Runs the program under one of the other names. `arguments` do not include the program name.
#[must_use]
pub fn run(name: Name, arguments: &[OsString]) -> ExitCode {
    match name {
        Name::GpuUsageAudit => audit(arguments),
        Name::Nvl => printed("nvl", nvgpu::nvl(arguments)),
        Name::GpuStats => printed("gpu_stats", gpu_stats(arguments)),
        Name::Nvgpu | Name::Gua => nvgpu::nvgpu(arguments),
    }
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
                refuse_new_words("--since", &args.since)?;
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
    T::augment_args(command)
        .about(about)
        .long_about(None)
        .max_term_width(100)
        .disable_version_flag(true)
}

/// Parses arguments that are not part of gua's own command tree, and runs the command. Help and version are printed to
/// stdout, other messages of clap to stderr as usage errors.
fn run_as<T: FromArgMatches>(
    tree: clap::Command,
    arguments: &[OsString],
    command: impl FnOnce(T, &[FlagValue]) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let name = tree.get_name().to_owned();
    let words = std::iter::once(OsString::from(&name)).chain(arguments.iter().cloned());
    let error = match cli::parse::<T>(tree, words) {
        Ok(parsed) => {
            let done = command(parsed.args, &parsed.flags);
            return done.unwrap_or_else(|error| failure::report(&name, &error));
        }
        Err(error) => error,
    };
    let text = error.render().ansi().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp => printed(&name, output::data(&text)),
        ErrorKind::DisplayVersion => printed(&name, output::data(&format!("{VERSION}\n"))),
        _ => {
            output::eprint(&text);
            Exit::Usage.into()
        }
    }
}
