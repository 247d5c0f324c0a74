//! `gua daemon` and `gua start`: the collector of this host, in the background or in the foreground.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args as _;
use gua_collector::daemon::background::{self, Start};
use gua_collector::daemon::{self, Append, Cloud, DaemonError, HistoryFile, Job};
use gua_collector::log::as_text;
use gua_collector::log_file::{self, last_lines};
use gua_collector::make_directory_of;
use gua_collector::managed::{Managed, PidOwner, owner_of};
use gua_collector::pid_file::{PidFile, PidFileError};
use gua_model::duration;
use gua_settings::{FlagValue, Settings, Source};

use crate::commands::prelude::*;
use crate::failure::{self, quoted};

/// Prefix of the messages about a background daemon.
pub const BACKGROUND: &str = "gua daemon";

/// Number of log lines that are shown after a failed start.
const SHOWN_LINES: usize = 12;
/// Time allowed for a start in addition to the first read, which has three deadlines of the driver.
const START_ALLOWANCE: Duration = Duration::from_secs(5);
/// Exit code of a daemon that finds the PID file locked.
const ALREADY_RUNNING: u8 = 75;

/// Prints the health of the running daemon. Invalid settings are one line too: probes read nothing else.
pub fn health(context: &Context) -> anyhow::Result<ExitCode> {
    let health = match context.loaded.checked() {
        Ok(_) => daemon::health::health(&context.loaded, context.now()),
        Err(invalid) => Err(format!("unhealthy: {}\n", invalid.message)),
    };
    output::data(health.as_ref().unwrap_or_else(|unhealthy| unhealthy))?;
    Ok(success_or(Exit::Failed, health.is_ok()))
}

/// Collects until a signal stops it.
pub fn foreground(args: &CollectArgs, context: Context) -> anyhow::Result<()> {
    Ok(daemon::run(job(args, context, None))?)
}

fn job(args: &CollectArgs, context: Context, starter: Option<File>) -> Job {
    Job {
        loaded: context.loaded,
        flags: context.flags,
        typed_db: args.db.clone(),
        append: args.append.into(),
        cloud: Cloud::new(args.cloud, args.archive),
        starter,
        print: |text| {
            let _ = output::data(text);
        },
        log: output::eprint,
    }
}

/// Starts the daemon, unless one is running.
pub fn start(args: &CollectArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let settings = context.settings();
    let pid_file = PidFile::at(&settings.collect.pid_file.value);
    let cloud = Cloud::new(args.cloud, args.archive);
    if let Some(running) = running(&pid_file)? {
        return already_running(&running, cloud, context);
    }
    context.loaded.safe_for_root()?;
    let append = Append::from(args.append);
    let history = HistoryFile::configured(&context.loaded);
    history.admit(append)?;
    if let Some(Failure { message, hint, .. }) = cloud.admit(&context.loaded)? {
        let hint = hint.map_or_else(String::new, |hint| format!("hint: {hint}\n"));
        output::eprint(&format!(
            "{BACKGROUND}: warning: {message}; nothing is pushed, ticks are stored locally\n{hint}"
        ));
    }
    let log = &settings.collect.log_file.value;
    make_directory_of(pid_file.path())?;
    make_directory_of(log)?;
    let output = log_file::open_to_append(log).map_err(Failure::cannot("write log", log))?;
    let log_began = output.metadata().map_or(0, |facts| facts.len());
    let limit = settings.driver.deadline.value * 3 + START_ALLOWANCE;
    let arguments = background::arguments(settings, &context.flags, append, cloud);
    let mut child = background::spawn(&arguments, output)
        .map_err(Failure::because("cannot start the daemon"))?;
    let pid = child.id();
    let mut show = |note: &str| output::eprint(&format!("{BACKGROUND}: {note}\n"));
    match background::wait(&mut child, limit, &mut show) {
        Start::Ready => {}
        Start::DriverAsked => output::eprint(&format!(
            "{BACKGROUND}: the driver has not answered yet; see the log\n"
        )),
        Start::DriverAnswered => output::eprint(&format!(
            "{BACKGROUND}: no tick was stored within {}; log:\n{}",
            duration::written(limit),
            shown_lines(log, log_began)
        )),
        Start::Ended(status) => {
            // Another start may have won the race.
            if status.code() == Some(ALREADY_RUNNING.into())
                && let Some(running) = running(&pid_file)?
            {
                return already_running(&running, cloud, context);
            }
            return Ok(failed(status, log, log_began));
        }
    }
    output::data(&format!(
        "{BACKGROUND}: started pid {pid}\n  db: {}\n  log: {}\n  stop: gua stop{}\n",
        history.path().display(),
        log.display(),
        pid_file_flag(settings)
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The flag that `gua stop` needs to find a daemon with another PID file.
fn pid_file_flag(settings: &Settings) -> String {
    let pid_file = &settings.collect.pid_file;
    match pid_file.source {
        Source::Default => String::new(),
        _ => format!(" --pid-file {}", quoted(&pid_file.value)),
    }
}

/// The running collector. A stale PID file is removed.
fn running(pid_file: &PidFile) -> anyhow::Result<Option<Managed>> {
    let Some(pid) = pid_file.read() else {
        return Ok(None);
    };
    match owner_of(pid, pid_file) {
        PidOwner::Managed(running) => return Ok(Some(running)),
        PidOwner::Dead => {}
        PidOwner::Foreign => output::data(&format!(
            "{BACKGROUND}: pid {pid} belongs to another process; cleared stale pid file\n"
        ))?,
    }
    pid_file.clear(pid);
    Ok(None)
}

/// Succeeds unless options were given that the running daemon does not have.
fn already_running(running: &Managed, cloud: Cloud, context: &Context) -> anyhow::Result<ExitCode> {
    let (settings, pid) = (context.settings(), running.pid);
    let missing = background::not_applied(settings, &context.flags, cloud, running);
    if !missing.is_empty() {
        let missing = sanitize(&missing.join(" "));
        let problem = format!("already running (pid {pid}) without these options: {missing}");
        let stop = format!(
            "run `gua stop{}` first, then repeat this command",
            pid_file_flag(settings)
        );
        bail!(Failure::failed(problem).hint(stop));
    }
    output::data(&format!("{BACKGROUND}: already running (pid {pid})\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the last lines that a daemon logged since its start.
fn shown_lines(log: &Path, from: u64) -> String {
    let lines = last_lines(log, SHOWN_LINES, from);
    lines.lines().map(|line| as_text(line) + "\n").collect()
}

fn failed(status: ExitStatus, log: &Path, log_began: u64) -> ExitCode {
    let code = match (status.code(), status.signal()) {
        (Some(0), _) | (None, None) => 1,
        (Some(code), _) => u8::try_from(code).unwrap_or(1),
        (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
    };
    let lines = shown_lines(log, log_began);
    output::eprint(&format!(
        "{BACKGROUND}: failed to start (exit {code}); log: {}\n{lines}",
        log.display(),
    ));
    // Then the log does not say so.
    if lines.is_empty() && gua_files::is_full(log) {
        let disk = gua_files::directory(log).display();
        output::eprint(&format!("{BACKGROUND}: the disk of `{disk}` is full\n"));
    }
    ExitCode::from(code)
}

/// Runs the background daemon with the arguments after its mark. Its standard error goes to the log.
pub fn serve(arguments: &[OsString]) -> ExitCode {
    let words = std::iter::once(OsString::from(BACKGROUND)).chain(arguments.iter().cloned());
    let command = CollectArgs::augment_args(clap::Command::new(BACKGROUND));
    let Parsed { args, flags, .. } =
        match parse::<CollectArgs>(FileArgs::augment_args(command), words) {
            Ok(parsed) => parsed,
            Err(error) => return failure::report(BACKGROUND, &error.into()),
        };
    let done = background::become_daemon()
        .map_err(Failure::because("no standard output or error"))
        .map_err(anyhow::Error::from)
        .and_then(|starter| collect(&args, &flags, starter));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref() {
            Some(DaemonError::PidFile(PidFileError::Locked { .. })) => ALREADY_RUNNING.into(),
            _ => failure::report_server(BACKGROUND, &flags, &error),
        },
    }
}

fn collect(args: &CollectArgs, flags: &[FlagValue], starter: File) -> anyhow::Result<()> {
    let context = Context::load(flags)?;
    let job = job(args, context, Some(starter));
    Ok(daemon::run(job)?)
}
