//! The thread of a daemon that keeps the archive: once for each day in UTC, again within the day where it failed. It is
//! waited for by nobody, and gives way to ticks and pushes.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::archive::{Archive, ArchiveError, ArchiveState, Archived, utc_day};
use super::courier::Say;
use super::enrolment::Enrolment;
use super::mailbox::{Mailbox, Taken};
use super::pause::Pause;
use super::told::Told;
use crate::chain::chain;
use gua_probe::clock;
use gua_store::History;
use gua_store::legacy::OldForm;
use gua_wire::users::UserPolicy;

/// A day is left alone for so long after its end: its last tick may still be on its way to the disk.
const SETTLING: Duration = Duration::from_secs(300);
/// How often it is looked whether a day has ended.
const LOOK: Duration = Duration::from_secs(60);
/// The pause after a first failure, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// Background work: ticks and pushes go first.
const NICE: i32 = 10;

/// What the archive of a daemon needs.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    pub users: UserPolicy,
    pub retention_days: u32,
}

pub(super) struct Archivist {
    enrolment: Enrolment,
    history: PathBuf,
    options: ArchiveOptions,
    say: Say,
    /// Closed when the daemon ends; nothing is ever put in.
    end: Arc<Mailbox<()>>,
    pause: Pause,
    told: Told,
}

impl Archivist {
    /// Starts the thread. It ends when the mailbox is closed, an upload that is on its way with the process.
    pub(super) fn start(
        enrolment: Enrolment,
        history: PathBuf,
        options: ArchiveOptions,
        say: Say,
    ) -> io::Result<Arc<Mailbox<()>>> {
        let end = Arc::new(Mailbox::new(1));
        let archivist = Self {
            enrolment,
            history,
            options,
            say,
            end: Arc::clone(&end),
            pause: Pause::new(FIRST_PAUSE, LONGEST_PAUSE),
            told: Told::default(),
        };
        thread::Builder::new()
            .name("gua-archive".to_owned())
            .spawn(move || archivist.run())?;
        Ok(end)
    }

    fn run(mut self) {
        // Where the system does not allow it, it works at the usual rank. On Linux this is a thread's own.
        let _ = rustix::process::setpriority_process(None, NICE);
        loop {
            self.work_if_due();
            let rest = self.pause.remaining(clock::monotonic());
            if self.end.take(Some(rest.unwrap_or(LOOK))) == Taken::Closed {
                return;
            }
        }
    }

    fn work_if_due(&mut self) {
        let settled = clock::now() - SETTLING;
        let today = utc_day(settled);
        // The courier says what is wrong with an enrolment.
        let Ok(enrolled) = self.enrolment.current() else {
            return;
        };
        let board = enrolled.config.server_url.to_string();
        if ArchiveState::is_done(&self.history, &board, today) {
            return;
        }
        let result = open(&self.history).and_then(|history| {
            let archive = Archive {
                enrolled: &enrolled,
                history: &history,
                users: &self.options.users,
                today,
                retention_days: self.options.retention_days,
            };
            let end = &self.end;
            archive.upload(&mut |_| match end.is_closed() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        });
        ArchiveState::note(&self.history, &board, (clock::now(), today), &result);
        match result {
            Ok(archived) => self.succeeded(archived),
            Err(_) if self.end.is_closed() => {}
            Err(error) => self.failed(&error),
        }
    }

    fn succeeded(&mut self, archived: Archived) {
        self.pause.succeeded();
        let _ = self.told.over();
        let told = archived.told(self.options.retention_days);
        (self.say)(&format!("archive: {told}"));
    }

    fn failed(&mut self, error: &ArchiveError) {
        self.pause.failed(clock::monotonic());
        let why = gua_model::text::harmless(&chain(error));
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
