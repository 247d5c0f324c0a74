//! From arguments to an exit code: selects the command, loads its settings and reports usage errors.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::error::{ContextKind, ContextValue};
use gua_collector::daemon::background;
use gua_collector::socket;
use gua_probe::process::ignored;
use gua_probe::reader::{READER_ARGUMENT, serve_stdio};
use gua_settings::FlagValue;
use gua_wire::Token;
use rustix::process::Signal;

use crate::cli::{self, BoardCommand, Cli, Command, DaemonArgs, ServeArgs, StartArgs};
use crate::commands::*;
use crate::context::{Context, VERSION};
use crate::failure;
use crate::names;
use crate::output;

/// Runs the program with the arguments of the process, including the program name.
pub fn main(arguments: &[OsString]) -> ExitCode {
    ignored::restore_child_signal();
    if !ignored::was_ignored(Signal::XFSZ.as_raw()) {
        gua_files::fail_writes_over_the_limit();
    }
    // The reader child is this same program; it must not depend on the command-line interface.
    match arguments.get(1).and_then(|first| first.to_str()) {
        Some(READER_ARGUMENT) => return serve_stdio(),
        Some(socket::ANSWERS_ARGUMENT) => {
            return socket::serve_stdin(&arguments[2..], output::eprint);
        }
        Some(socket::ANSWER_ARGUMENT) => return socket::answer_stdin(&arguments[2..]),
        _ => {}
    }
    if let Some(rest) = background::own_arguments(arguments) {
        return daemon::serve(rest);
    }
    let own_name = arguments.first().map_or(Path::new("gua"), Path::new);
    if gua_settings::inputs::is_color_forced() {
        ColorChoice::Always.write_global();
    }
    let rest = arguments.get(1..).unwrap_or_default();
    names::run(own_name, rest).unwrap_or_else(|| gua(arguments))
}

fn gua(arguments: &[OsString]) -> ExitCode {
    if let Some(wanted) = wanted_color(arguments) {
        wanted.write_global();
    }
    if arguments.len() == 1 && output::is_terminal() && list::overview().is_some() {
        return ExitCode::SUCCESS;
    }
    let parsed = match cli::parse::<Cli>(cli::tree(), arguments.iter().cloned()) {
        Ok(parsed) => parsed,
        Err(error) => return answer(error, arguments),
    };
    // Certain only after parsing, because the flag may be abbreviated.
    match parsed.args.color {
        clap::ColorChoice::Always => ColorChoice::Always.write_global(),
        clap::ColorChoice::Never => ColorChoice::Never.write_global(),
        clap::ColorChoice::Auto => {}
    }
    let cli::Parsed { args, flags, name } = parsed;
    run(&args.command, &flags).unwrap_or_else(|error| match &args.command {
        Command::Daemon(daemon) if daemon.foreground => {
            failure::report_server(&format!("{name} --foreground"), &flags, &error)
        }
        Command::Serve(ServeArgs { command: None, .. })
        | Command::Board(BoardCommand::Serve(_)) => failure::report_server(&name, &flags, &error),
        _ => failure::report(&name, &error),
    })
}

fn run(command: &Command, flags: &[FlagValue]) -> anyhow::Result<ExitCode> {
    let load = || Context::load(flags);
    match command {
        Command::Version => output::data(&format!("{VERSION}\n"))?,
        Command::Help(args) => match help::help(&args.command) {
            Ok(text) => output::data(&text)?,
            Err(error) => return Ok(answer(error, &[])),
        },
        Command::Completions(args) => output::raw(&completions::script(args.shell))?,
        Command::Man(args) => man::run(args)?,
        Command::Summarize(args) => summarize::run(args)?,
        // Mistakes in the configuration are handled by the command, or do not concern it.
        Command::Service(command) => service::run(command, &Context::load_unchecked(flags))?,
        Command::Config(command) => {
            return config::run(command, &Context::load_unchecked(flags));
        }
        Command::Verify(args) => return verify::run(args, &load()?),
        Command::Doctor(args) => return doctor::run(args, &Context::load_unchecked(flags)),
        Command::Phase(args) => phase::run(args, &Context::load_unchecked(flags))?,
        Command::Status(_) => status::run(&Context::load_with_valid_flags(flags)?)?,
        Command::Stop(_) => return stop::run(&Context::load_with_valid_flags(flags)?),
        Command::Unenroll(_) => unenroll::run(&Context::load_with_valid_flags(flags)?)?,
        Command::List(args) => list::run(args, &load()?)?,
        Command::Me(args) => return me::run(args, flags),
        Command::Metrics(args) => metrics::run(args, &load()?)?,
        Command::Available(args) => return available::run(args, &load()?),
        Command::Explain(args) => return explain::run(args, &load()?),
        Command::Top(args) => top::run(args, &load()?)?,
        Command::Daemon(args) if args.health => {
            return daemon::health(&Context::load_with_valid_flags(flags)?);
        }
        Command::Daemon(args) if args.foreground => daemon::foreground(&args.collect, load()?)?,
        Command::Daemon(DaemonArgs { collect, .. }) | Command::Start(StartArgs { collect, .. }) => {
            return daemon::start(collect, &load()?);
        }
        Command::Claim(command) => return claim::run(command, &load()?),
        Command::Keep(args) => keep::run(args, &load()?)?,
        Command::Nudge(args) => nudge::run(args, &load()?)?,
        Command::Run(args) => return run::run(args, &load()?),
        Command::Runs(command) => return runs::run(command, &load()?),
        Command::Report(args) => return report::run(args, report::OnTerminal::Screen, &load()?),
        Command::Plot(args) => return plot::run(args, &load()?),
        Command::Demo(args) => return demo::run(args, flags),
        Command::Bench(args) => bench::run(args, &load()?)?,
        Command::Statement(args) => return statement::run(args, &load()?),
        Command::Export(args) => export::run(args, &load()?)?,
        Command::Import(args) => import::run(args, &load()?)?,
        Command::Quota(command) => return quota::run(command, &load()?),
        Command::Csv(command) => csv::run(command, &load()?)?,
        Command::Alert(command) => return alert::run(command, &load()?),
        Command::Enroll(args) => enroll::run(args, &load()?)?,
        Command::SyncOnce(args) => sync_once::run(args, &load()?)?,
        Command::SyncArchive(_) => sync_archive::run(&load()?)?,
        Command::Serve(args) => serve::run(args, load()?)?,
        Command::Board(command) => return board::run(command, &load()?),
        Command::Db(command) => return db::run(command, &load()?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Errors of the standard library's parsers, with clearer replacements.
const PARSE_ERRORS: [(&str, &str); 2] = [
    (
        ": invalid digit found in string",
        ": expected a whole number",
    ),
    (
        ": invalid socket address syntax",
        ": expected IP:PORT, such as 127.0.0.1:8080",
    ),
];

/// Prints the message of clap: help and version to stdout, all others to stderr as usage errors.
fn answer(mut error: clap::Error, arguments: &[OsString]) -> ExitCode {
    if arguments.iter().any(|argument| argument == "enroll") {
        hide_what_was_typed(&mut error);
    }
    put_best_suggestion_first(&mut error);
    names::clap_error("gua", &error, |mut text| {
        for (error, meaning) in PARSE_ERRORS {
            text = text.replace(error, meaning);
        }
        // clap omits the usage for invalid values.
        if !text.contains("Usage:") {
            let more = text.find("For more information").unwrap_or(text.len());
            text.insert_str(more, &format!("{}\n\n", help::usage(arguments)));
        }
        text
    })
}

/// Reverses the list of similar commands: clap puts the most similar one last. It suggests one argument or value only.
fn put_best_suggestion_first(error: &mut clap::Error) {
    let kind = ContextKind::SuggestedSubcommand;
    if let Some(ContextValue::Strings(names)) = error.get(kind) {
        let names = names.iter().rev().cloned().collect();
        error.insert(kind, ContextValue::Strings(names));
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

/// Value of `--color`, if it is not `auto`. It is read before the arguments are parsed because parse errors are colored too.
fn wanted_color(arguments: &[OsString]) -> Option<ColorChoice> {
    let mut wanted = None;
    let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let mut words = words.take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let value = match word {
            "--color" => words.next(),
            _ => word.strip_prefix("--color="),
        };
        match value {
            Some("always") => wanted = Some(ColorChoice::Always),
            Some("never") => wanted = Some(ColorChoice::Never),
            _ => {}
        }
    }
    wanted
}
