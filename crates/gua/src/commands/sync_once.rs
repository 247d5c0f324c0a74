//! `gua sync-once`: takes one sample, stores it, then pushes it. A failed push does not affect the stored sample.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gua_collector::board::{Enrolled, LinkFiles, LiveReporter, setup};
use gua_collector::daemon::{Append, DaemonError, HistoryFile, options};
use gua_collector::{Options, Sink as _, make_directory_of};
use gua_compat::gpu_usage_audit::Adopted;
use gua_model::demo::{self, Script};
use gua_model::usage_state::UsageTracker;
use gua_model::{Sample, Tick};
use gua_settings::Settings;
use gua_store::{OpenError, OpenMode, Store, WriterOptions};
use gua_wire::snapshot::{BuildError, Built, ErrorCode, Form, Observed, usage_states};
use tracing::{info, warn};

use crate::commands::prelude::*;
use crate::commands::{demo as fake, sync_archive};
use crate::simulated;

pub fn run(args: &SyncOnceArgs, context: &Context) -> anyhow::Result<()> {
    context.start_command_log();
    let settings = context.settings();
    if let Some(failure) = setup::insecure(&context.loaded).filter(|_| !args.fake) {
        return store_without_push(failure, context);
    }
    let enrolled = setup::enrolled(&context.loaded)?;
    let sync = Sync {
        enrolled: &enrolled,
        form: setup::push_form(settings),
        files: setup::link_files(&context.loaded, &settings.history.db.value),
        live: setup::live_reporter(&context.loaded, &context.flags, &settings.history.db.value)?,
        is_simulated: args.fake,
    };
    let pushed = if args.fake {
        let script = match sync.form {
            Form::V1_1 => Script::V1_1,
            Form::V1_4 => Script::V1_8,
        };
        let sample = demo::sample(script, 0, clock::now(), clock::since_boot());
        let stored = store_fake(args, context, &sample)?;
        sync.push_sample(&sample, &stored)
    } else {
        sync.push_reading(&place(context)?, context)
    };
    if !args.archive {
        return pushed;
    }
    // Also after a failed push: closed days do not depend on it.
    let days = settings.cloud.archive_days.value;
    let archived = sync.archive(&settings.history.db.value, days);
    match (pushed, archived) {
        (Ok(()), archived) => {
            archived.context("the sample was pushed, but the archive is incomplete")
        }
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(second)) => {
            let line = format!("gua sync-once: the archive is incomplete: {second:#}");
            warn!(error = format!("{second:#}"), line, "archive upload failed");
            Err(error)
        }
    }
}

/// The history to write, if it may be written.
fn place(context: &Context) -> Result<HistoryFile, Failure> {
    let place = HistoryFile::configured(&context.loaded);
    place.admit(Append::Yes)?;
    Ok(place)
}

/// Stores a sample of a host whose board may not be contacted.
fn store_without_push(failure: Failure, context: &Context) -> anyhow::Result<()> {
    let stored = store(&place(context)?, &context.sample()?, context.settings())?;
    let message = format!("{}; {}", failure.message, stored.message_after_failure());
    Err(Failure { message, ..failure }.into())
}

/// One synchronisation.
struct Sync<'a> {
    enrolled: &'a Enrolled,
    form: Form,
    files: LinkFiles,
    live: LiveReporter,
    is_simulated: bool,
}

impl Sync<'_> {
    fn push_reading(&self, place: &HistoryFile, context: &Context) -> anyhow::Result<()> {
        let sample = match context.sample() {
            Ok(sample) => sample,
            Err(fault) => return Err(setup::report_fault(self.enrolled, &self.files, fault).into()),
        };
        let stored = store(place, &sample, context.settings())?;
        self.push_sample(&sample, &stored)
    }

    fn push_sample(&self, sample: &Sample, stored: &Stored) -> anyhow::Result<()> {
        match self.snapshot(sample) {
            Ok(built) => self.push(sample, &built, stored),
            Err(error) => Err(self.push_heartbeat(sample, error, stored)),
        }
    }

    fn snapshot(&self, sample: &Sample) -> Result<Built, BuildError> {
        let usage = usage_states(&mut UsageTracker::default(), sample);
        Observed {
            about: setup::about(&self.enrolled.config, &self.live.hostname),
            sample,
            usage: &usage,
            users: &self.live.users,
            form: self.form,
        }
        .build()
    }

    /// Live report of a sample of the driver. Nothing is known about claims on simulated GPUs.
    fn live(&self, sample: &Sample) -> Option<String> {
        (!self.is_simulated).then(|| self.live.body(sample.at, Some(sample)))
    }

    fn push(&self, sample: &Sample, built: &Built, stored: &Stored) -> anyhow::Result<()> {
        let config = &self.enrolled.config;
        let body = built.snapshot.body();
        let pushed = self.enrolled.push(&body, || self.live(sample));
        if !self.is_simulated {
            self.files.record(config, clock::now(), &pushed);
        }
        let saved = || stored.message_after_failure();
        pushed.with_context(|| format!("cannot push to the board, {}", saved()))?;
        for gpu in &built.left_out {
            let line = format!("gua sync-once: GPU {} was left out: {}", gpu.index, gpu.why);
            warn!(gpu = gpu.index, error = %gpu.why, line, "GPU left out of pushes");
        }
        let partial = match built.snapshot.errors.as_slice() {
            [] => String::new(),
            codes => format!(" [partial: {}]", codes.join(", ")),
        };
        output::data(&format!(
            "gua sync-once: pushed {} GPUs to {}{partial}\n  {}\n",
            built.snapshot.gpus.len(),
            setup::named(self.enrolled),
            stored.message()
        ))
    }

    fn archive(&self, db: &Path, days: u32) -> anyhow::Result<()> {
        let files = (db, &self.files);
        match sync_archive::upload_daily(self.enrolled, files, &self.live.users, days)? {
            Some(archived) => output::data(&format!("  archive: {}\n", archived.summary(days))),
            None => Ok(()),
        }
    }

    /// Pushes an error heartbeat if the format can represent none of the GPUs.
    fn push_heartbeat(&self, sample: &Sample, error: BuildError, stored: &Stored) -> anyhow::Error {
        let what = (sample.at, ErrorCode::GpuReadingUnavailable);
        let pushed = setup::heartbeat(self.enrolled, &self.files, what, || self.live(sample));
        let pushed = pushed.unwrap_or_else(|problem| problem);
        anyhow::Error::new(error).context(format!("{pushed}, {}", stored.message_after_failure()))
    }
}

/// Place in which the sample is stored.
enum Stored {
    At(PathBuf),
    /// A collector has the history open and takes its own samples.
    ByCollector {
        path: PathBuf,
        pid: Option<u32>,
    },
}

impl Stored {
    fn message(&self) -> String {
        match self {
            Stored::At(path) => format!("local snapshot saved to {}", path.display()),
            Stored::ByCollector { path, pid } => {
                let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
                let path = path.display();
                format!(
                    "local history: {path} belongs to the running collector{pid}; nothing was added"
                )
            }
        }
    }

    /// The message in the context of an error.
    fn message_after_failure(&self) -> String {
        match self {
            Stored::At(path) => format!("the local snapshot is saved to {}", path.display()),
            Stored::ByCollector { path, .. } => {
                format!("the running collector keeps writing {}", path.display())
            }
        }
    }
}

/// Stores the sample in the history.
fn store(place: &HistoryFile, sample: &Sample, settings: &Settings) -> anyhow::Result<Stored> {
    let options = options(settings);
    make_directory_of(place.path())?;
    let written = place
        .adopt_old(&options, &mut |_| ControlFlow::Continue(()))
        .and_then(|adopted| {
            if let Some(Adopted { old_renamed_to, .. }) = adopted {
                let (path, renamed_to) = (place.path().display(), old_renamed_to.display());
                let line = format!("gua sync-once: {path} was a history of gpu-usage-audit and is imported; the old file is kept as {renamed_to}");
                info!(%renamed_to, line, "history of gpu-usage-audit imported and verified");
            }
            write(place, sample, &options)
        });
    match written {
        Ok(()) => Ok(Stored::At(place.path().to_owned())),
        Err(DaemonError::Open(OpenError::Busy { path, pid })) => {
            Ok(Stored::ByCollector { path, pid })
        }
        Err(error) => Err(error).context("cannot save the local snapshot; nothing was pushed"),
    }
}

fn write(place: &HistoryFile, sample: &Sample, options: &Options) -> Result<(), DaemonError> {
    let mut history = place.open(Append::Yes, sample, options)?;
    let stored = history.deliver(&tick(sample, options));
    Box::new(history).finish(clock::now());
    stored.map_err(|error| Failure::failed(error.message))?;
    Ok(())
}

/// Stores a fake sample, never in a history of real ones: without --db it goes to a new temporary file.
fn store_fake(args: &SyncOnceArgs, context: &Context, sample: &Sample) -> anyhow::Result<Stored> {
    let options = options(context.settings());
    let db = match &args.db {
        Some(_) => context.settings().history.db.value.clone(),
        None => fake::fresh(context)?,
    };
    fake::refuse_real(&db)?;
    make_directory_of(&db)?;
    let mut store = Store::open(&db, OpenMode::CreateOrAppend, &WriterOptions::default())?;
    let run = store.begin_run(&simulated::new_run(sample.at, options.interval))?;
    store.record(run, &tick(sample, &options))?;
    store.end_run(run, clock::now())?;
    store.close()?;
    Ok(Stored::At(db))
}

fn tick(sample: &Sample, options: &Options) -> Tick {
    Tick {
        sample: sample.clone(),
        interval: options.interval,
    }
}
