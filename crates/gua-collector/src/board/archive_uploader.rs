//! The thread of a daemon that keeps the archive: once for each day in UTC, again within the day where it failed. It is
//! waited for by nobody, and gives way to ticks and pushes.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::archive::{Archive, ArchiveError, ArchiveState, Archived, Task, open_day};
use super::backoff::RetryDelay;
use super::enrolment::Enrolment;
use super::latest_slot::{LatestSlot, Taken};
use super::link_state::{LinkFiles, Peer};
use super::pusher::Say;
use crate::chain::chain;
use crate::failure_log::FailureLog;
use gua_compat::gpu_usage_audit::OldForm;
use gua_probe::clock;
use gua_store::History;
use gua_wire::users::UserPolicy;
use jiff::Timestamp;

/// How long what is waited for.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// How often it is looked whether a day has ended.
    look: Duration,
    /// The pause after a first failure, and the longest.
    first_pause: Duration,
    longest_pause: Duration,
}

const WAITS: Waits = Waits {
    look: Duration::from_secs(60),
    first_pause: Duration::from_secs(60),
    longest_pause: Duration::from_secs(3600),
};

/// Background work: ticks and pushes go first.
const NICE: i32 = 10;

/// What the archive of a daemon needs.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    pub users: UserPolicy,
    pub retention_days: u32,
}

pub(super) struct ArchiveUploader {
    enrolment: Enrolment,
    history: PathBuf,
    options: ArchiveOptions,
    say: Say,
    /// Closed when the daemon ends; nothing is ever put in.
    end: Arc<LatestSlot<()>>,
    waits: Waits,
    pause: RetryDelay,
    told: FailureLog,
}

/// What time it is: by the wall, and by a clock that never jumps.
trait Hours {
    fn now(&self) -> Timestamp;
    fn monotonic(&self) -> Duration;
}

struct Real;

impl Hours for Real {
    fn now(&self) -> Timestamp {
        clock::now()
    }

    fn monotonic(&self) -> Duration {
        clock::monotonic()
    }
}

impl ArchiveUploader {
    /// Starts the thread. It ends when the slot is closed, an upload that is on its way with the process.
    pub(super) fn start(
        enrolment: Enrolment,
        history: PathBuf,
        options: ArchiveOptions,
        say: Say,
    ) -> io::Result<Arc<LatestSlot<()>>> {
        let uploader = Self::new(enrolment, history, options, say);
        let end = Arc::clone(&uploader.end);
        thread::Builder::new()
            .name("gua-archive".to_owned())
            .spawn(move || uploader.run())?;
        Ok(end)
    }

    fn new(enrolment: Enrolment, history: PathBuf, options: ArchiveOptions, say: Say) -> Self {
        Self {
            enrolment,
            history,
            options,
            say,
            end: Arc::new(LatestSlot::new(1)),
            waits: WAITS,
            pause: RetryDelay::new(WAITS.first_pause, WAITS.longest_pause),
            told: FailureLog::default(),
        }
    }

    fn run(mut self) {
        // Where the system does not allow it, it works at the usual rank. On Linux this is a thread's own.
        let _ = rustix::process::setpriority_process(None, NICE);
        loop {
            let rest = self.turn(&Real);
            if self.end.take(Some(rest)) == Taken::Closed {
                return;
            }
        }
    }

    /// Does what is due, and says how long to rest until the next turn.
    fn turn(&mut self, hours: &impl Hours) -> Duration {
        if let Some(rest) = self.pause.remaining(hours.monotonic()) {
            return rest;
        }
        self.work_if_due(hours);
        let rest = self.pause.remaining(hours.monotonic());
        rest.unwrap_or(self.waits.look)
    }

    fn work_if_due(&mut self, hours: &impl Hours) {
        let today = open_day(hours.now());
        // The pusher says what is wrong with an enrolment.
        let Ok(enrolled) = self.enrolment.current() else {
            return;
        };
        let retention_days = self.options.retention_days;
        let task = Task::new(&enrolled.config, today, retention_days);
        let place = LinkFiles::new(self.enrolment.file().path(), &self.history);
        if ArchiveState::is_done(&place, &task) {
            return;
        }
        let result = open(&self.history).and_then(|history| {
            let archive = Archive {
                enrolled: &enrolled,
                history: &history,
                users: &self.options.users,
                today,
                retention_days,
            };
            let end = &self.end;
            archive.upload(&mut |_| match end.is_closed() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        });
        ArchiveState::note(&place, &task, hours.now(), &result);
        // An upload takes its time, and the host may not be enrolled any more.
        if self
            .enrolment
            .current()
            .is_err_and(|error| error.is_missing())
        {
            place.forget(Some(&Peer::of(&enrolled.config)));
        }
        match result {
            Ok(archived) => self.succeeded(archived),
            Err(_) if self.end.is_closed() => {}
            Err(error) => self.failed(&error, hours.monotonic()),
        }
    }

    fn succeeded(&mut self, archived: Archived) {
        self.pause.succeeded();
        let _ = self.told.over();
        let told = archived.told(self.options.retention_days);
        (self.say)(&format!("archive: {told}"));
    }

    fn failed(&mut self, error: &ArchiveError, now: Duration) {
        self.pause.failed(now);
        let why = gua_model::text::sanitize(&chain(error));
        if self.told.is_news(&why) {
            (self.say)(&format!(
                "archive: {why}; the history stays as it is, and gua tries again within the day"
            ));
        }
    }
}

/// The history of a daemon is always one of ours.
fn open(path: &Path) -> Result<OldForm, ArchiveError> {
    let history = History::open(path).map_err(|error| ArchiveError::Open(Box::new(error)))?;
    Ok(OldForm::ours(history)?)
}

#[cfg(test)]
mod tests;
