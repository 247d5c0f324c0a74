//! From arguments to an exit code: selects the command, loads its settings and reports usage errors.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::FromArgMatches as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use gua_probe::process::ignored;
use gua_probe::reader::{READER_ARGUMENT, serve_stdio};
use gua_wire::Token;

use crate::cli::{Cli, Command, DaemonArgs, StartArgs};
use crate::commands::{bench, csv, demo, doctor, list, phase, service, summarize, top};
use crate::config::{self, FlagValue, Inputs, Loaded};
use crate::failure::{self, Exit, Failure};
use crate::names::{self, Name};
use crate::{
    available, claim, cloud, commands, daemon, db, explain, export, import, job, manual, output,
    plot, quota, report, runs, statement,
};

/// Version number that `gua version` prints.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs the program with the arguments of the process, including the program name.
#[must_use]
pub fn main(arguments: &[OsString]) -> ExitCode {
    ignored::heed_children();
    // The reader child is this same program; it must not depend on the command-line interface.
    if arguments
        .get(1)
        .is_some_and(|first| first == READER_ARGUMENT)
    {
        return serve_stdio();
    }
    if let Some(rest) = daemon::background::own_arguments(arguments) {
        return daemon::background::serve(rest);
    }
    let own_name = arguments
        .first()
        .map_or(OsStr::new("gua"), OsString::as_os_str);
    match Name::of(Path::new(own_name)) {
        Name::Gua => gua(arguments),
        other => names::run(other, arguments.get(1..).unwrap_or_default()),
    }
}

fn gua(arguments: &[OsString]) -> ExitCode {
    wanted_color(arguments).write_global();
    let parsed = manual::tree()
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return answer(error, arguments),
    };
    // Certain only after parsing, because the flag may be abbreviated.
    match cli.color {
        clap::ColorChoice::Always => ColorChoice::Always.write_global(),
        clap::ColorChoice::Never => ColorChoice::Never.write_global(),
        clap::ColorChoice::Auto => {}
    }
    run(&cli.command).unwrap_or_else(|error| failure::report(cli.command.name(), &error))
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Version => output::data(&format!("{VERSION}\n"))?,
        Command::Help(args) => match manual::help(&args.command) {
            Ok(text) => output::data(&text)?,
            Err(error) => return Ok(answer(error, &[])),
        },
        Command::Completions(args) => output::raw(&manual::completions(args.shell))?,
        Command::Man(args) => manual::page::run(args)?,
        Command::Service { command } => return service::run(command),
        Command::Config { command } => return commands::config::run(command),
        Command::List(args) => return list::run(args, &load(&command.settings())?),
        Command::Available(args) => return available::run(args, &load(&command.settings())?),
        Command::Explain(args) => return explain::run(args, &load(&command.settings())?),
        Command::Top(args) => return top::run(args, &load(&command.settings())?),
        Command::Doctor(args) => {
            // An invalid configuration is one of its findings.
            let loaded = Loaded::from(&Inputs::of_this_process(), &command.settings());
            return doctor::run(args, &loaded);
        }
        Command::Daemon(args) if args.foreground => {
            return daemon::foreground(&args.collect);
        }
        Command::Daemon(DaemonArgs { collect, files, .. })
        | Command::Start(StartArgs { collect, files }) => {
            return daemon::background::start(collect, files);
        }
        Command::Status(_) => {
            return daemon::status::run(&load_what_is_sound(&command.settings())?);
        }
        Command::Stop(_) => return daemon::stop::run(&load_what_is_sound(&command.settings())?),
        Command::Claim { command: what } => return claim::run(what, &load(&command.settings())?),
        Command::Run(args) => return job::run(args, &load(&command.settings())?),
        Command::Runs { command: what } => return runs::run(what, &load(&command.settings())?),
        Command::Phase(args) => return phase::run(args),
        Command::Summarize(args) => return summarize::run(args),
        Command::Report(args) => return report::run(args, &load(&command.settings())?),
        Command::Plot(args) => return plot::run(args, &load(&command.settings())?),
        Command::Demo(args) => return demo::run(args, &load(&command.settings())?),
        Command::Bench(args) => return bench::run(args, &load(&command.settings())?),
        Command::Statement(args) => return statement::run(args, &load(&command.settings())?),
        Command::Export(args) => return export::run(args, &load(&command.settings())?),
        Command::Import(args) => return import::run(args, &load(&command.settings())?),
        Command::Quota { command: what } => return quota::run(what, &load(&command.settings())?),
        Command::Csv { command: what } => return csv::run(what, &load(&command.settings())?),
        Command::Enroll(args) => return cloud::enroll::run(args, &load(&command.settings())?),
        Command::Unenroll(_) => {
            return cloud::unenroll::run(&load_what_is_sound(&command.settings())?);
        }
        Command::SyncOnce(args) => {
            return cloud::sync_once::run(args, &load(&command.settings())?);
        }
        Command::SyncArchive(_) => {
            return cloud::sync_archive::run(&load(&command.settings())?);
        }
        Command::Db { command: what } => return db::run(what, &load(&command.settings())?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads the settings of this process with these flags. A problem with the settings is a usage error.
pub fn load(flags: &[FlagValue]) -> Result<Loaded, Failure> {
    let loaded = Loaded::from(&Inputs::of_this_process(), flags);
    settled(&loaded)?;
    Ok(loaded)
}

/// Loads the settings for commands that must also work with an invalid configuration: only an invalid flag is an error.
fn load_what_is_sound(flags: &[FlagValue]) -> Result<Loaded, Failure> {
    let loaded = Loaded::from(&Inputs::of_this_process(), flags);
    sound_flags(&loaded)?;
    Ok(loaded)
}

/// Reports an invalid flag. The message does not refer to `gua config check`, which does not see flags.
fn sound_flags(loaded: &Loaded) -> Result<(), Failure> {
    let is_flag = |problem: &&config::Problem| matches!(problem.place, config::Place::Flag(_));
    match loaded.problems.iter().find(is_flag) {
        Some(problem) => Err(Failure::usage(problem.to_string())),
        None => Ok(()),
    }
}

/// Returns the settings, or the first problem with them as a usage error.
pub fn settled(loaded: &Loaded) -> Result<&config::Settings, Failure> {
    sound_flags(loaded)?;
    match loaded.problems.as_slice() {
        [] => Ok(&loaded.settings),
        [only] => Err(Failure::usage(only.to_string()).hint("`gua config check` explains")),
        [first, rest @ ..] => {
            let more = format!("`gua config check` lists this and {} more", rest.len());
            Err(Failure::usage(first.to_string()).hint(more))
        }
    }
}

/// Prints the message of clap: help and version to stdout, all others to stderr as usage errors.
fn answer(mut error: clap::Error, arguments: &[OsString]) -> ExitCode {
    if arguments.iter().any(|argument| argument == "enroll") {
        hide_what_was_typed(&mut error);
    }
    let mut text = error.render().ansi().to_string();
    let written = match error.kind() {
        ErrorKind::DisplayHelp => output::data(&text),
        ErrorKind::DisplayVersion => output::data(&format!("{VERSION}\n")),
        _ => {
            // clap omits the usage for invalid values.
            if !text.contains("Usage:") {
                let more = text.find("For more information").unwrap_or(text.len());
                text.insert_str(more, &format!("{}\n\n", manual::usage(arguments)));
            }
            output::talk(&text);
            return Exit::Usage.into();
        }
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report("gua", &error),
    }
}

/// Redacts the typed word in an error, because a misplaced word may be the token. Names of flags are kept.
fn hide_what_was_typed(error: &mut clap::Error) {
    for kind in [
        ContextKind::InvalidArg,
        ContextKind::InvalidValue,
        ContextKind::InvalidSubcommand,
    ] {
        let is_flag = |value: &ContextValue| matches!(value, ContextValue::String(word) if word.starts_with('-'));
        if error.get(kind).is_some_and(|value| !is_flag(value)) {
            error.insert(kind, ContextValue::String(Token::HIDDEN.to_owned()));
            // The suggestion repeats the word.
            error.remove(ContextKind::Suggested);
        }
    }
}

/// Value of `--color`, read before the arguments are parsed because parse errors are colored too.
fn wanted_color(arguments: &[OsString]) -> ColorChoice {
    let mut rest = arguments
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str());
    while let Some(argument) = rest.next() {
        let value = match argument.split_once('=') {
            _ if argument == "--" => break,
            Some(("--color", value)) => Some(value),
            None if argument == "--color" => rest.next(),
            _ => continue,
        };
        match value {
            Some("always") => return ColorChoice::Always,
            Some("never") => return ColorChoice::Never,
            _ => {}
        }
    }
    ColorChoice::Auto
}
