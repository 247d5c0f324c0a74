//! The link of a daemon to its board: settled before the driver is touched, started once the history is open.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use gua_collector::board::{
    AgentIdentity, ArchiveOptions, BoardOptions, BoardSink, Enrolled, Enrolment, LinkFiles, Say,
};
use gua_probe::fault::DriverFault;
use gua_probe::reader::ReaderOptions;
use gua_probe::{clock, host};
use gua_wire::snapshot::Form;
use gua_wire::users::UserPolicy;
use jiff::tz::TimeZone;

use super::observer::log_line;
use crate::cli::CollectArgs;
use crate::config::Loaded;
use crate::dispatch::VERSION;
use crate::failure::Failure;
use crate::{cloud, output};

/// What is sent to a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cloud {
    Off,
    Ticks,
    /// And closed days, once a day.
    TicksAndArchive,
}

impl Cloud {
    pub(super) fn asked(args: &CollectArgs) -> Self {
        match (args.cloud, args.archive) {
            (false, _) => Cloud::Off,
            (true, false) => Cloud::Ticks,
            (true, true) => Cloud::TicksAndArchive,
        }
    }

    /// The flags that ask for it.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Cloud::Off => &[],
            Cloud::Ticks => &["--cloud"],
            Cloud::TicksAndArchive => &["--cloud", "--archive"],
        }
    }
}

impl Cloud {
    /// Refuses a daemon that could never speak to its board, before it is started.
    pub(super) fn admit(self, loaded: &Loaded) -> Result<(), Failure> {
        match self {
            Cloud::Off => Ok(()),
            Cloud::Ticks | Cloud::TicksAndArchive => cloud::enrolled(loaded).map(|_| ()),
        }
    }
}

/// A link that is not started yet.
pub(super) struct Link {
    enrolment: Enrolment,
    enrolled: Arc<Enrolled>,
    place: LinkFiles,
    users: UserPolicy,
    form: Form,
    spool_mb: u64,
    /// How many days the archive keeps, where there is one.
    archive_days: Option<u32>,
}

impl Link {
    /// The link that is asked for, if one is. Nothing is contacted.
    pub(super) fn settle(cloud: Cloud, loaded: &Loaded) -> anyhow::Result<Option<Self>> {
        if cloud == Cloud::Off {
            return Ok(None);
        }
        Ok(Some(Self {
            enrolled: cloud::enrolled(loaded)?,
            enrolment: cloud::enrolment(loaded),
            place: cloud::link_place(loaded, &loaded.settings.history.db.value),
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

    /// The driver did not answer and the daemon ends: the board is told, and both are said.
    pub(super) fn tell_of(&self, fault: DriverFault) -> anyhow::Error {
        cloud::tell_of_fault(&self.enrolled, &self.place, fault)
    }

    /// Starts to speak.
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
            say: log(),
        };
        BoardSink::start(options).context("the link to the board cannot be started")
    }
}

/// Lines of the threads beside the loop. The log is rotated by the loop's own lines.
fn log() -> Say {
    Arc::new(|text: &str| {
        output::talk(&log_line(clock::now(), &TimeZone::system(), text));
    })
}
