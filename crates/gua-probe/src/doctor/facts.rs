//! Everything that doctor looked at, as data. The checks judge this and nothing else.

use std::path::PathBuf;

use crate::fault::DriverFault;
use crate::host::Kernel;
use crate::host::collector::Running;
use crate::host::device::Devices;
use crate::host::disk::Spot;
use crate::host::driver::KernelModule;
use crate::host::logind::RemoveIpc;
use crate::host::mount::Hiding;
use crate::host::namespace::Surroundings;
use crate::host::privilege::Privilege;
use crate::host::time::TimeKeeping;
use gua_model::{DriverPids, Sample, Thresholds};
use jiff::Zoned;

use super::smi::Smi;

/// What was found on this host.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When it was looked, in the zone in which times are shown.
    pub now: Zoned,
    pub kernel: Kernel,
    pub time_keeping: TimeKeeping,
    pub surroundings: Surroundings,
    /// The setting `driver.pids`, with its source.
    pub driver_pids: PidSetting,
    pub hiding: Option<Hiding>,
    pub privilege: Privilege,
    pub devices: Devices,
    pub smi: Smi,
    pub module: Option<KernelModule>,
    /// The driver's library, where a setting names one.
    pub library: Option<NamedLibrary>,
    pub driver: Result<Sample, DriverFault>,
    /// What decides a card's state.
    pub thresholds: Thresholds,
    /// The kernel's ticks, in which it counts the start of a process.
    pub ticks_per_second: u64,
    /// `None` where looking through the processes took too long.
    pub collectors: Option<Vec<Running>>,
    /// The problems of the configuration, a sentence each.
    pub configuration: Vec<String>,
    /// Configuration files that this user may not read.
    pub unreadable_files: Vec<PathBuf>,
    pub claims: Claims,
    pub link: Link,
    pub history: History,
    /// The commands that this version of gua has.
    pub commands: Vec<String>,
}

/// The setting `driver.pids`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PidSetting {
    pub value: DriverPids,
    /// Where it is set; `None` for the default.
    pub source: Option<String>,
}

/// Where leases on cards stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The directory, or why there is none.
    pub place: Result<PathBuf, String>,
    pub remove_ipc: RemoveIpc,
}

/// The link to a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    NotEnrolled,
    /// The enrolment is there and cannot be used.
    Unusable {
        path: PathBuf,
        why: String,
        fault: Fault,
    },
    Enrolled(Enrolled),
}

/// What is wrong with an enrolment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is another's, or behind something that is.
    Unreadable,
    /// It is read, and is no enrolment.
    Contents,
    /// There is no way to its board that may be gone: certificates, proxies, encryption.
    Endpoint,
}

/// A host that is enrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// The file that holds the secret.
    pub path: PathBuf,
    /// The host's name there, and the board's address.
    pub named: String,
    /// Who may read the file; `None` where that cannot be told.
    pub mode: Option<u32>,
    /// Whether the secret crosses a network unencrypted.
    pub is_exposed: bool,
    pub answer: Answer,
}

/// What a board said to a question that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Accepted,
    /// It does not know the host's token.
    Denied,
    /// It answered, and has no question by which the token could be tried.
    Unasked,
    /// None, and why.
    None(String),
}

/// A library that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLibrary {
    pub path: String,
    /// The variable or the place in a file that names it.
    pub source: String,
    pub presence: Presence,
}

impl NamedLibrary {
    /// What is wrong where it is not there.
    #[must_use]
    pub fn fate(&self) -> String {
        format!("`{}` (from {}) does not exist", self.path, self.source)
    }

    /// What to do where it is the wrong one.
    #[must_use]
    pub fn correction(&self) -> String {
        format!("Correct {} or unset it", self.source)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Present,
    Absent,
    /// It is a name that the loader looks up, or its file system did not answer.
    Unknown,
}

/// The history file that a collector would write.
#[derive(Clone, Debug)]
pub struct History {
    pub path: PathBuf,
    pub choice: Choice,
    /// `None` where the file system did not answer in time.
    pub spot: Option<Spot>,
    /// The file system's name and kind, from the mount table.
    pub file_system: Option<FileSystem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    pub name: String,
    pub reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Local,
    Network,
    /// It is made up by the kernel, and no file can be created there.
    Kernel,
}

/// Whether the path is the one that gua takes without being told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Default,
    Custom,
}
