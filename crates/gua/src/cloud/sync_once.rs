//! `gua sync-once`: one look at the cards, kept here first and then sent. What is sent failing changes nothing here.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::board::{Enrolled, LinkFiles};
use gua_collector::{Options, Sink as _};
use gua_model::usage_state::UsageTracker;
use gua_model::{Sample, Tick};
use gua_probe::{clock, host};
use gua_store::{NewRun, OpenError, OpenMode, Store, WriterOptions};
use gua_wire::snapshot::{BuildError, Built, ErrorCode, Form, Observed, usage_states};
use gua_wire::users::UserPolicy;

use super::sync_archive;
use crate::cli::SyncOnceArgs;
use crate::commands::demo;
use crate::config::{Loaded, Settings};
use crate::daemon::history::Place;
use crate::daemon::{Append, make_directory_of, observer};
use crate::dispatch::VERSION;
use crate::failure::{Exit, Failure};
use crate::fake::{self, Script};
use crate::{driver, output};

pub fn run(args: &SyncOnceArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let settings = &loaded.settings;
    let enrolled = super::enrolled(loaded)?;
    let users = super::users(settings)?;
    let hostname = host::name();
    let look = Look {
        enrolled: &enrolled,
        users: &users,
        hostname: &hostname,
        form: super::push_form(settings),
        place: super::link_place(loaded, &settings.history.db.value),
        origin: match args.fake {
            true => Origin::MadeUp,
            false => Origin::Cards,
        },
    };
    let told = if args.fake {
        let script = match super::push_form(settings) {
            Form::V1_1 => Script::V1_1,
            Form::V1_4 => Script::V1_8,
        };
        let sample = fake::sample(script, 0, clock::now(), clock::since_boot());
        let kept = keep_fake(args, loaded, &sample)?;
        look.tell(&sample, &kept)
    } else {
        let place = Place::of(&settings.history.db.value, loaded.inputs.home.as_deref());
        place.admit(Append::Yes)?;
        look.at_the_cards(&place, settings)
    };
    if !args.archive {
        told?;
        return Ok(ExitCode::SUCCESS);
    }
    // Also where the look failed: days that are over do not depend on it.
    let archived = look.archive(
        &settings.history.db.value,
        settings.cloud.archive_days.value,
    );
    match (told, archived) {
        (Ok(()), archived) => {
            archived.context("the look was pushed, and the archive is not complete")?;
        }
        (Err(error), Ok(())) => return Err(error),
        (Err(error), Err(second)) => {
            output::talk(&format!(
                "gua sync-once: the archive is not complete: {second:#}\n"
            ));
            return Err(error);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Who looks, and on whose behalf.
struct Look<'a> {
    enrolled: &'a Enrolled,
    users: &'a UserPolicy,
    hostname: &'a str,
    form: Form,
    place: LinkFiles,
    origin: Origin,
}

/// Where a look comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Cards,
    MadeUp,
}

impl Look<'_> {
    fn at_the_cards(&self, place: &Place, settings: &Settings) -> anyhow::Result<()> {
        let mut reader = driver::reader(settings);
        let sample = match driver::sample(&mut reader) {
            Ok(sample) => sample,
            Err(fault) => return Err(super::tell_of_fault(self.enrolled, &self.place, fault)),
        };
        let kept = keep(place, &sample, settings)?;
        self.tell(&sample, &kept)
    }

    fn tell(&self, sample: &Sample, kept: &Kept) -> anyhow::Result<()> {
        match self.snapshot(sample) {
            Ok(built) => self.push(&built, kept),
            Err(error) => Err(self.tell_of_nothing(sample, error, kept)),
        }
    }

    fn snapshot(&self, sample: &Sample) -> Result<Built, BuildError> {
        let usage = usage_states(&mut UsageTracker::default(), sample);
        Observed {
            about: super::about(self.enrolled, self.hostname),
            sample,
            usage: &usage,
            users: self.users,
            form: self.form,
        }
        .build()
    }

    fn push(&self, built: &Built, kept: &Kept) -> anyhow::Result<()> {
        let Enrolled { config, client } = self.enrolled;
        let pushed = client.push(&built.snapshot, config);
        if self.origin == Origin::Cards {
            self.place.note(config, clock::now(), &pushed);
        }
        pushed.with_context(|| format!("the board was not told, {}", kept.aside()))?;
        for card in &built.left_out {
            output::talk(&format!(
                "gua sync-once: gpu {} was not told: {}\n",
                card.index, card.why
            ));
        }
        let partial = match built.snapshot.errors.as_slice() {
            [] => String::new(),
            codes => format!(" [partial: {}]", codes.join(", ")),
        };
        output::data(&format!(
            "gua sync-once: pushed {} GPUs to {}{partial}\n  {}\n",
            built.snapshot.gpus.len(),
            super::named(self.enrolled),
            kept.told()
        ))
    }

    fn archive(&self, db: &Path, days: u32) -> anyhow::Result<()> {
        let archived =
            sync_archive::once_a_day(self.enrolled, (db, &self.place), self.users, days)?;
        match archived {
            Some(archived) => output::data(&format!("  archive: {}\n", archived.told(days))),
            None => Ok(()),
        }
    }

    /// There are cards, and the form has a place for none of them.
    fn tell_of_nothing(&self, sample: &Sample, error: BuildError, kept: &Kept) -> anyhow::Error {
        let what = (sample.at, ErrorCode::GpuReadingUnavailable);
        let told = super::heartbeat(self.enrolled, &self.place, what);
        let told = told.unwrap_or_else(|problem| problem);
        anyhow::Error::new(error).context(format!("{told}, {}", kept.aside()))
    }
}

/// Where the look is kept.
enum Kept {
    At(PathBuf),
    /// A collector has the history open, and looks at the cards by itself.
    ByCollector {
        path: PathBuf,
        pid: Option<u32>,
    },
}

impl Kept {
    fn told(&self) -> String {
        match self {
            Kept::At(path) => format!("local snapshot saved to {}", path.display()),
            Kept::ByCollector { path, pid } => {
                let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
                let path = path.display();
                format!("local history: the collector{pid} writes {path}, nothing was added to it")
            }
        }
    }

    /// The same beside something that failed.
    fn aside(&self) -> String {
        match self {
            Kept::At(path) => format!("the local snapshot is saved to {}", path.display()),
            Kept::ByCollector { path, .. } => {
                format!("the running collector keeps {} as before", path.display())
            }
        }
    }
}

/// Adds the look to the history and commits it.
fn keep(place: &Place, sample: &Sample, settings: &Settings) -> anyhow::Result<Kept> {
    let options = observer::options(settings);
    make_directory_of(place.path())?;
    let written = place
        .adopt_old(&options, &mut |_| ControlFlow::Continue(()))
        .and_then(|_| write(place, sample, &options));
    match written {
        Ok(()) => Ok(Kept::At(place.path().to_owned())),
        Err(error) => match error.downcast_ref() {
            Some(OpenError::Busy { path, pid }) => Ok(Kept::ByCollector {
                path: path.clone(),
                pid: *pid,
            }),
            _ => Err(error.context("the local snapshot was not saved, and nothing was sent")),
        },
    }
}

fn write(place: &Place, sample: &Sample, options: &Options) -> anyhow::Result<()> {
    let mut history = place.open(Append::Yes, sample, options)?;
    let kept = history.deliver(&tick(sample, options));
    history.finish(clock::now());
    kept.map_err(|error| Failure {
        exit: Exit::Failed,
        message: error.message,
        hint: None,
    })?;
    Ok(())
}

/// Made-up cards never come into a history of real ones: without --db they have a file of their own.
fn keep_fake(args: &SyncOnceArgs, loaded: &Loaded, sample: &Sample) -> anyhow::Result<Kept> {
    let options = observer::options(&loaded.settings);
    let db = match &args.db {
        Some(_) => loaded.settings.history.db.value.clone(),
        None => demo::fresh(&loaded.inputs.temporary())?,
    };
    demo::refuse_real(&db)?;
    make_directory_of(&db)?;
    let mut store = Store::open(&db, OpenMode::CreateOrAppend, &WriterOptions::default())?;
    let run = store.begin_run(&NewRun {
        started: sample.at,
        interval: options.interval,
        host: demo::HOST.to_owned(),
        version: VERSION.to_owned(),
        boot: None,
    })?;
    store.record(run, &tick(sample, &options))?;
    store.end_run(run, clock::now())?;
    store.close()?;
    Ok(Kept::At(db))
}

fn tick(sample: &Sample, options: &Options) -> Tick {
    Tick {
        sample: sample.clone(),
        interval: options.interval,
    }
}
