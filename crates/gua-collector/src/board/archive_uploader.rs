//! The daemon's archive thread: uploads once per UTC day and retries after failures. Nothing waits for it, and it runs at a
//! lower priority than ticks and pushes.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use super::archive::{Archive, ArchiveError, ArchiveState, Task, open_day};
use super::enrolment::Enrolment;
use super::link_state::{LinkFiles, Peer};
use super::live::LiveReporter;
use super::retry::Retry;
use super::worker::Worker;
use gua_compat::gpu_usage_audit::OldForm;
use gua_model::chain::chain;
use gua_probe::clocks::Clocks;
use gua_store::History;
use gua_wire::users::UserPolicy;
use tracing::{info, warn};

/// Time between two checks whether a day has ended.
const CHECK_PERIOD: Duration = Duration::from_secs(60);
/// Delay after the first failure, and the longest delay.
const FIRST_DELAY: Duration = Duration::from_secs(60);
const MAX_DELAY: Duration = Duration::from_secs(3600);
/// Scheduling priority of the thread: ticks and pushes go first.
const NICE: i32 = 10;

pub(super) struct ArchiveUploader {
    enrolment: Enrolment,
    history: PathBuf,
    users: UserPolicy,
    retention_days: u32,
    /// Disconnected when the daemon ends.
    end: Receiver<()>,
    retry: Retry,
}

impl ArchiveUploader {
    /// Starts the thread. An upload in progress ends with the process.
    pub(super) fn start(
        enrolment: Enrolment,
        live: &LiveReporter,
        retention_days: u32,
    ) -> io::Result<Worker> {
        let (history, users) = (live.history.clone(), live.users.clone());
        Worker::start("gua-archive", move |end| {
            let uploader = Self {
                enrolment,
                history,
                users,
                retention_days,
                end,
                retry: Self::retry(),
            };
            uploader.run();
        })
    }

    fn retry() -> Retry {
        Retry::new(FIRST_DELAY, MAX_DELAY)
    }

    fn run(mut self) {
        // If this fails, the thread keeps the normal priority. On Linux the priority is per thread.
        let _ = rustix::process::setpriority_process(None, NICE);
        loop {
            let rest = self.step(Clocks::read);
            if self.end.recv_timeout(rest) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Uploads if that is due; returns the time until the next step.
    fn step(&mut self, clocks: impl Fn() -> Clocks) -> Duration {
        if let Some(rest) = self.retry.remaining(clocks().monotonic) {
            return rest;
        }
        self.upload_if_due(&clocks);
        let rest = self.retry.remaining(clocks().monotonic);
        rest.unwrap_or(CHECK_PERIOD)
    }

    fn upload_if_due(&mut self, clocks: impl Fn() -> Clocks) {
        let today = open_day(clocks().wall);
        // The pusher logs what is wrong with the enrolment.
        let Ok(enrolled) = self.enrolment.current() else {
            return;
        };
        let retention_days = self.retention_days;
        let task = Task::new(&enrolled.config, today, retention_days);
        let files = LinkFiles::new(self.enrolment.file.path(), &self.history);
        if ArchiveState::is_done(&files, &task) {
            return;
        }
        let result = open(&self.history).and_then(|history| {
            let archive = Archive {
                enrolled: &enrolled,
                history: &history,
                users: &self.users,
                today,
                retention_days,
            };
            archive.upload(&mut |_| match self.is_ending() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        });
        ArchiveState::record(&files, &task, clocks().wall, &result);
        // The enrolment may have been removed during the upload.
        let current = self.enrolment.current();
        if current.is_err_and(|error| error.is_missing()) {
            files.remove(Some(&Peer::of(&enrolled.config)));
        }
        match result {
            Ok(archived) => {
                if let Some(failures) = self.retry.succeeded() {
                    info!(failures, "archive uploads work again");
                }
                let line = format!("archive: {}", archived.summary(retention_days));
                let (closed_days, uploaded) = (archived.closed_days, archived.uploaded);
                info!(closed_days, uploaded, line, "archive complete");
            }
            Err(_) if self.is_ending() => {}
            Err(error) => {
                if let Some(error) = self.retry.failed(clocks().monotonic, &chain(&error)) {
                    warn!(error, "archive upload failed");
                }
            }
        }
    }

    fn is_ending(&self) -> bool {
        self.end.try_recv() == Err(TryRecvError::Disconnected)
    }
}

/// Opens the history of a daemon, which is always in gua's own format.
fn open(path: &Path) -> Result<OldForm, ArchiveError> {
    let history = History::open(path).map_err(|error| ArchiveError::Open(Box::new(error)))?;
    Ok(OldForm::ours(history)?)
}

#[cfg(test)]
mod tests;
