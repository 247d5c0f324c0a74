//! `gua run`: runs a command, watches it, and prints at the end what it used and what it wasted. It exits as the job does.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gua_claim::{Claim, ClaimDir, random_word};
use gua_collector::{claims, reader};
use gua_model::{DriverPids, VisibleDevices};
use gua_probe::host::namespace::{PidLookup, pid_lookup, surroundings};
use gua_probe::host::{self, HostRoot};
use gua_run::{
    End, Options, Outcome, Record, RunName, Scope, end_by, record_end, record_start, supervise,
    verdict,
};
use gua_settings::{CUDA_VISIBLE_DEVICES, Inputs};
use jiff::Timestamp;
use signal_hook::iterator::Handle;

use super::available::Query;
use super::available::lease::{Acquired, acquire};
use crate::commands::prelude::*;

/// Minimum of `--interval`.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Exit codes of shells and env(1) for a command that cannot be run, and for one that does not exist.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

const MAX_NAME_LENGTH: usize = 64;

/// Default of `--gpus`.
const AUTOMATIC: &str = "auto";

/// Maximum delay of a job by the check that its GPUs exist.
const MAX_CHECK_TIME: Duration = Duration::from_secs(2);

pub fn run(args: &RunArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if args.interval < MIN_INTERVAL {
        bail!(Failure::usage("--interval must be at least 10ms"));
    }
    let (_, command) = args.parts();
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| Failure::usage("no command to run"))?;
    let inputs = &context.loaded.inputs;
    let driver_pids = context.settings().driver.pids.value;
    let (mut scope, note) = scope(&args.gpus, inputs, driver_pids)?;
    if let Scope::Given(_) = scope
        && args.gpus != AUTOMATIC
    {
        check_gpus(&args.gpus, context)?;
    }
    let record = args.out.as_deref().map(open).transpose()?;
    let mut command = Command::new(program);
    command.args(arguments);
    let lease = args.claim.map(|count| obtain(count, args, context));
    let mut lease = match lease.transpose()? {
        None => None,
        Some(Err(code)) => return Ok(code),
        Some(Ok(lease)) => {
            scope = Scope::Given(VisibleDevices::parse(&lease.gpus()));
            command.envs(lease.variables());
            Some(lease)
        }
    };
    let options = Options {
        command,
        name: name(args, program),
        interval: args.interval,
        scope,
        thresholds: context.settings().thresholds(),
        zone: context.zone(),
        reader: reader::options(context.settings()),
        record,
        notes: note.map(str::to_owned).into_iter().collect(),
        unknown_gpus: unknown_gpus(args, inputs),
    };
    let directory = || claims::directory(context.settings());
    if let Some(lease) = &mut lease {
        lease.release_signals();
    }
    match supervise(options, |name, started| {
        record_start(directory(), name, started);
    }) {
        Ok(outcome) => {
            // Released before this process exits, perhaps by a signal.
            drop(lease);
            let note = record_end(directory(), &outcome);
            Ok(ended(args, note, outcome))
        }
        Err(error) => Ok(not_started(args, program, &error)),
    }
}

fn ended(args: &RunArgs, note: Option<String>, mut outcome: Outcome) -> ExitCode {
    outcome.conclude(note);
    if !args.quiet {
        output::eprint(&verdict::text(&outcome.summary, args.out.as_deref()));
    }
    if let End::Signal(signal) = outcome.end {
        end_by(signal);
    }
    let code = outcome.end.shell_code();
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn not_started(args: &RunArgs, program: &OsStr, error: &io::Error) -> ExitCode {
    let is_timeout = args.wait == Some(None) && timeout(program).is_some();
    let program = sanitize(&program.to_string_lossy());
    output::eprint(&format!("gua run: cannot start `{program}`: {error}\n"));
    if is_timeout {
        output::eprint(&format!(
            "hint: to wait at most {program}, pass `--wait={program}`\n"
        ));
    }
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_RUN,
    })
}

/// Opens the run's directory. A directory that cannot be written is a usage error, reported before the job starts.
fn open(directory: &Path) -> Result<Record, Failure> {
    Record::open(directory).map_err(|error| {
        Failure::usage(format!("{error}: {}", error.source))
            .hint("the command was not started; pass another directory with --out")
    })
}

/// Name of the run: the program without its directory, and never its arguments, which can hold secrets.
fn name(args: &RunArgs, program: &OsString) -> RunName {
    let own = Path::new(program).file_name().unwrap_or(program);
    let name = args.name.clone();
    let name = name.unwrap_or_else(|| own.to_string_lossy().into_owned());
    RunName {
        id: new_id(clock::now()),
        name: sanitize(&name).chars().take(MAX_NAME_LENGTH).collect(),
        host: host::name(),
    }
}

/// A new run id. A process in a container can have the pid of another outside, so a random part is added.
fn new_id(at: Timestamp) -> String {
    let moment = at.strftime("%Y%m%dT%H%M%S");
    format!("{moment}-{:x}-{}", std::process::id(), random_word())
}

/// Returns the GPUs to watch, with a note for the run if they are not those that it uses.
fn scope(
    asked: &str,
    inputs: &Inputs,
    driver_pids: DriverPids,
) -> Result<(Scope, Option<&'static str>), Failure> {
    match asked {
        "all" => Ok((Scope::All, None)),
        AUTOMATIC => Ok(automatic(inputs, driver_pids)),
        list => {
            let Some(gpus) = VisibleDevices::parse_whole(list) else {
                let list = sanitize(list);
                return Err(Failure::usage(format!(
                    "--gpus {list}: expected auto, all, or GPUs such as 0,1 or GPU-5f3a"
                )));
            };
            Ok((Scope::Given(gpus), None))
        }
    }
}

/// Rejects named GPUs that do not exist as a usage error, before the job starts. A driver that does not answer does not
/// delay the job.
fn check_gpus(list: &str, context: &Context) -> Result<(), Failure> {
    let mut reader = context.reader();
    let Ok(sample) = reader.sample_within(MAX_CHECK_TIME) else {
        return Ok(());
    };
    let is_unknown = |part: &&str| VisibleDevices::parse(part).gpus(&sample.gpus).is_empty();
    match list.split(',').find(is_unknown) {
        None => Ok(()),
        Some(part) => {
            let part = sanitize(part.trim());
            Err(Failure::usage(format!("--gpus {part}: no such GPU"))
                .hint("the command was not started; `gua list` shows the GPUs"))
        }
    }
}

/// Note for a run whose named GPUs the driver does not know. An empty list is valid: it hides all GPUs on purpose.
fn unknown_gpus(args: &RunArgs, inputs: &Inputs) -> Option<String> {
    if args.claim.is_some() {
        return None;
    }
    if args.gpus != AUTOMATIC {
        return Some(format!("--gpus {}: no such GPU", sanitize(&args.gpus)));
    }
    let list = inputs.variables.get(CUDA_VISIBLE_DEVICES)?;
    let list = sanitize(&list.to_string_lossy());
    let is_named = !list.trim().is_empty();
    is_named.then(|| format!("CUDA_VISIBLE_DEVICES={list} names no GPU of this host"))
}

/// GPUs that the environment makes visible to the job, else those on which its processes are seen.
fn automatic(inputs: &Inputs, driver_pids: DriverPids) -> (Scope, Option<&'static str>) {
    // An empty value hides every GPU.
    if let Some(list) = inputs.variables.get(CUDA_VISIBLE_DEVICES) {
        let gpus = VisibleDevices::parse(&list.to_string_lossy());
        return (Scope::Given(gpus), None);
    }
    let namespace = surroundings(&HostRoot::real()).pid_namespace;
    if pid_lookup(driver_pids, namespace) == PidLookup::Foreign {
        let note = "all GPUs were watched: in a container the processes of the driver cannot be identified";
        return (Scope::All, Some(note));
    }
    (Scope::Seen, None)
}

/// A lease that is released when it is dropped.
#[derive(Debug)]
struct Lease {
    claim: Claim,
    directory: ClaimDir,
    /// Signals that were handled while waiting for the lease.
    signals: Option<Handle>,
}

impl Lease {
    /// UUIDs, separated by commas.
    fn gpus(&self) -> String {
        let uuids: Vec<&str> = self.claim.gpus.iter().map(|gpu| gpu.as_str()).collect();
        uuids.join(",")
    }

    /// Environment that shows the job these GPUs alone, in the order of `nvidia-smi`.
    fn variables(&self) -> [(&'static str, String); 2] {
        [
            (CUDA_VISIBLE_DEVICES, self.gpus()),
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
        ]
    }

    /// Leaves signals to the job, which is about to start.
    fn release_signals(&mut self) {
        if let Some(signals) = self.signals.take() {
            signals.close();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // If this fails, the lease ends with this process.
        let _ = self.directory.release(&self.claim.id);
    }
}

/// Leases GPUs for this process; the exit code after a refusal, whose reason was printed.
fn obtain(
    count: u32,
    args: &RunArgs,
    context: &Context,
) -> anyhow::Result<Result<Lease, ExitCode>> {
    let wanted = AvailableArgs {
        count: Some(count),
        uuid: true,
        claim: Some(context.settings().claim.longest.value),
        for_pid: Some(std::process::id()),
        wait: args.parts().0,
        quiet: args.quiet,
        ..without_flags()
    };
    let query = Query {
        prefix: "gua run",
        args: &wanted,
        format: None,
        context,
    };
    Ok(match acquire(&query)? {
        Acquired::Leased { claim, signals } => Ok(Lease {
            claim,
            directory: claims::directory(context.settings())?,
            signals,
        }),
        Acquired::Refused(code) => Err(code),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(asked: &str, variable: Option<&str>, expected: Option<&Scope>) {
        let variables = variable.map(|value| (CUDA_VISIBLE_DEVICES, OsString::from(value)));
        let inputs = Inputs {
            variables: BTreeMap::from_iter(variables),
            home: None,
            system_file: "/nonexistent".into(),
        };
        let found = scope(asked, &inputs, DriverPids::Auto);
        let found = found.ok().map(|(scope, _)| scope);
        assert_eq!(found.as_ref(), expected, "{asked} {variable:?}");
    }

    #[test]
    fn runs_with_the_same_second_and_pid_are_distinguished() {
        let ids = [(); 2].map(|()| new_id(Timestamp::UNIX_EPOCH));
        assert!(ids[0].starts_with("19700101T000000-"), "{ids:?}");
        assert_ne!(ids[0], ids[1]);
    }

    #[test]
    fn the_gpus_are_those_of_the_flag_else_those_that_the_job_was_given() {
        let given = |list: &str| Scope::Given(VisibleDevices::parse(list));
        check("all", Some("0"), Some(&Scope::All));
        check("auto", Some("0,GPU-a"), Some(&given("0,GPU-a")));
        check("auto", Some(""), Some(&given("")));
        check("1,GPU-b", Some("0"), Some(&given("1,GPU-b")));
        check("1,x", None, None);
        check("", None, None);
    }
}
