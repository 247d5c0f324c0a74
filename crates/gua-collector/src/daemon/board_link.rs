//! The link of a daemon to its board: configured before the driver is read, started when the history is open.

use std::sync::{Arc, Mutex};

use gua_model::failure::Failure;
use gua_probe::fault::DriverFault;
use gua_settings::{FlagValue, Loaded};

use crate::board::names::NameBoard;
use crate::board::setup::{self, ReportedFault};
use crate::board::{BoardSink, Enrolled, Enrolment, LinkFiles, LiveReporter};

/// Data that a daemon sends to a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    Off,
    Ticks,
    /// Ticks, and closed days once a day.
    TicksAndArchive,
}

impl Cloud {
    /// Converts the flags `--cloud` and `--archive`.
    pub fn new(cloud: bool, archive: bool) -> Self {
        match (cloud, archive) {
            (false, _) => Cloud::Off,
            (true, false) => Cloud::Ticks,
            (true, true) => Cloud::TicksAndArchive,
        }
    }

    /// The corresponding flags.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Cloud::Off => &[],
            Cloud::Ticks => &["--cloud"],
            Cloud::TicksAndArchive => &["--cloud", "--archive"],
        }
    }

    /// Fails if a daemon could never push, before it is started. A board without TLS is only a warning: the daemon then
    /// collects without pushes.
    pub fn admit(self, loaded: &Loaded) -> Result<Option<Failure>, Failure> {
        if self == Cloud::Off {
            return Ok(None);
        }
        match setup::insecure(loaded) {
            Some(warning) => Ok(Some(warning)),
            None => setup::enrolled(loaded).map(|_| None),
        }
    }
}

/// A configured link that is not started yet.
pub(super) struct Link {
    enrolled: Arc<Enrolled>,
    enrolment: Enrolment,
    live: LiveReporter,
    archive_days: Option<u32>,
}

impl Link {
    /// Configures the link, if one is requested. Nothing is contacted.
    pub(super) fn configure(
        cloud: Cloud,
        loaded: &Loaded,
        flags: &[FlagValue],
    ) -> Result<Option<Self>, Failure> {
        if cloud == Cloud::Off {
            return Ok(None);
        }
        let settings = &loaded.settings;
        let has_archive = cloud == Cloud::TicksAndArchive;
        Ok(Some(Self {
            enrolled: setup::enrolled(loaded)?,
            enrolment: setup::enrolment(loaded),
            live: setup::live_reporter(loaded, flags, &settings.history.db.value)?,
            archive_days: has_archive.then_some(settings.cloud.archive_days.value),
        }))
    }

    /// `lab 1 (https://board.example.com)`.
    pub(super) fn named(&self) -> String {
        setup::named(&self.enrolled)
    }

    /// Pushes an error heartbeat for a driver that does not answer; returns the error that ends the daemon.
    pub(super) fn report_fault(&self, fault: DriverFault) -> ReportedFault {
        let files = LinkFiles::new(self.enrolment.file.path(), &self.live.history);
        setup::report_fault(&self.enrolled, &files, fault)
    }

    /// The board of users who run `gua board link`.
    pub(super) fn name_board(&self) -> NameBoard {
        NameBoard {
            enrolment: Mutex::new(self.enrolment.clone()),
            users: self.live.users.clone(),
        }
    }

    /// Starts the threads of the link.
    pub(super) fn start(self) -> Result<BoardSink, Failure> {
        let what = "cannot start the link to the board";
        BoardSink::start(self.enrolment, self.live, self.archive_days)
            .map_err(Failure::because(what))
    }
}
