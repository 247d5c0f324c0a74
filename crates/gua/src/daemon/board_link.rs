//! The link of a daemon to its board: configured before the driver is read, started when the history is open.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use gua_collector::board::{
    AgentIdentity, ArchiveOptions, BoardOptions, BoardSink, Enrolled, Enrolment, LinkFiles,
};
use gua_probe::fault::DriverFault;
use gua_probe::host;
use gua_probe::reader::ReaderOptions;
use gua_wire::snapshot::Form;
use gua_wire::users::UserPolicy;

use crate::cli::CollectArgs;
use crate::cloud;
use crate::config::Loaded;
use crate::dispatch::VERSION;
use crate::failure::Failure;

/// What a daemon sends to a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cloud {
    Off,
    Ticks,
    /// Ticks, and closed days once a day.
    TicksAndArchive,
}

impl Cloud {
    pub(super) fn of(args: &CollectArgs) -> Self {
        match (args.cloud, args.archive) {
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
    pub(super) fn admit(self, loaded: &Loaded) -> Result<(), Failure> {
        match self {
            Cloud::Off => Ok(()),
            Cloud::Ticks | Cloud::TicksAndArchive => cloud::enrolled(loaded).map(|_| ()),
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
    pub(super) fn configure(cloud: Cloud, loaded: &Loaded) -> anyhow::Result<Option<Self>> {
        if cloud == Cloud::Off {
            return Ok(None);
        }
        Ok(Some(Self {
            enrolled: cloud::enrolled(loaded)?,
            enrolment: cloud::enrolment(loaded),
            files: cloud::link_files(loaded, &loaded.settings.history.db.value),
            users: cloud::users(&loaded.settings)?,
            form: cloud::push_form(&loaded.settings),
            spool_mb: loaded.settings.cloud.spool_mb.value,
            archive_days: (cloud == Cloud::TicksAndArchive)
                .then_some(loaded.settings.cloud.archive_days.value),
        }))
    }

    /// `lab 1 (https://board.example.com)`.
    pub(super) fn named(&self) -> String {
        cloud::named(&self.enrolled)
    }

    /// Pushes an error heartbeat for a driver that does not answer; returns the error that ends the daemon.
    pub(super) fn report_fault(&self, fault: DriverFault) -> anyhow::Error {
        cloud::report_fault(&self.enrolled, &self.files, fault)
    }

    /// Starts the threads of the link.
    pub(super) fn start(self, history: &Path, reader: ReaderOptions) -> anyhow::Result<BoardSink> {
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
        BoardSink::start(options).context("cannot start the link to the board")
    }
}
