//! The link of a daemon to its board: configured before the driver is read, started when the history is open.

use std::path::Path;
use std::sync::Arc;

use gua_model::failure::Failure;
use gua_probe::fault::DriverFault;
use gua_probe::host;
use gua_probe::reader::ReaderOptions;
use gua_settings::Loaded;
use gua_wire::snapshot::Form;
use gua_wire::users::UserPolicy;

use crate::VERSION;
use crate::board::setup::{self, ReportedFault};
use crate::board::{
    AgentIdentity, ArchiveOptions, BoardOptions, BoardSink, Enrolled, Enrolment, LinkFiles,
};

/// What a daemon sends to a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    Off,
    Ticks,
    /// Ticks, and closed days once a day.
    TicksAndArchive,
}

impl Cloud {
    /// Converts the flags `--cloud` and `--archive`.
    #[must_use]
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

    /// Fails if a daemon could never push, before it is started.
    pub fn admit(self, loaded: &Loaded) -> Result<(), Failure> {
        match self {
            Cloud::Off => Ok(()),
            Cloud::Ticks | Cloud::TicksAndArchive => setup::enrolled(loaded).map(drop),
        }
    }
}

/// A configured link that is not started yet.
pub(super) struct Link {
    enrolment: Enrolment,
    enrolled: Arc<Enrolled>,
    files: LinkFiles,
    users: UserPolicy,
    form: Form,
    spool_mb: u64,
    /// Retention of the archive; `None` without an archive.
    archive_days: Option<u32>,
}

impl Link {
    /// Configures the link, if one is requested. Nothing is contacted.
    pub(super) fn configure(cloud: Cloud, loaded: &Loaded) -> Result<Option<Self>, Failure> {
        if cloud == Cloud::Off {
            return Ok(None);
        }
        Ok(Some(Self {
            enrolled: setup::enrolled(loaded)?,
            enrolment: setup::enrolment(loaded),
            files: setup::link_files(loaded, &loaded.settings.history.db.value),
            users: setup::users(&loaded.settings)?,
            form: setup::push_form(&loaded.settings),
            spool_mb: loaded.settings.cloud.spool_mb.value,
            archive_days: (cloud == Cloud::TicksAndArchive)
                .then_some(loaded.settings.cloud.archive_days.value),
        }))
    }

    /// `lab 1 (https://board.example.com)`.
    pub(super) fn named(&self) -> String {
        setup::named(&self.enrolled)
    }

    /// Pushes an error heartbeat for a driver that does not answer; returns the error that ends the daemon.
    pub(super) fn report_fault(&self, fault: DriverFault) -> ReportedFault {
        setup::report_fault(&self.enrolled, &self.files, fault)
    }

    /// Starts the threads of the link.
    pub(super) fn start(self, history: &Path, reader: ReaderOptions) -> Result<BoardSink, Failure> {
        let archive = self.archive_days.map(|retention_days| ArchiveOptions {
            users: self.users.clone(),
            retention_days,
        });
        let options = BoardOptions {
            enrolment: self.enrolment,
            identity: AgentIdentity {
                hostname: host::name(),
                agent_version: VERSION.to_owned(),
                users: self.users,
                form: self.form,
            },
            spool_bytes: (self.spool_mb > 0).then_some(self.spool_mb * 1024 * 1024),
            history: history.to_owned(),
            stream: Some(reader),
            archive,
        };
        BoardSink::start(options).map_err(Failure::because("cannot start the link to the board"))
    }
}
