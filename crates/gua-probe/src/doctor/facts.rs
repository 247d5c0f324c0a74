//! All facts that doctor collects, as data. The checks use nothing else.

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

use super::smi::Run;

/// Facts about this host.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Time of the examination, in the display time zone.
    pub now: Zoned,
    pub kernel: Kernel,
    pub time_keeping: TimeKeeping,
    pub surroundings: Surroundings,
    /// The setting `driver.pids`, with its source.
    pub driver_pids: PidSetting,
    pub hiding: Option<Hiding>,
    pub privilege: Privilege,
    pub devices: Devices,
    /// The run of `nvidia-smi`; `None` if it was not found.
    pub smi: Option<Run>,
    pub module: Option<KernelModule>,
    /// The driver's library, if a setting names one.
    pub library: Option<NamedLibrary>,
    pub driver: Result<Sample, DriverFault>,
    /// Thresholds that decide a GPU's state.
    pub thresholds: Thresholds,
    /// Clock ticks per second in the kernel's start times of processes.
    pub ticks_per_second: u64,
    /// `None` if the search for collectors timed out.
    pub collectors: Option<Vec<Running>>,
    /// Problems of the configuration, one sentence each.
    pub configuration: Vec<String>,
    /// Configuration files that this user may not read.
    pub unreadable_files: Vec<PathBuf>,
    pub claims: Claims,
    pub link: Link,
    pub history: History,
    /// Names of the commands that this version has.
    pub commands: Vec<String>,
}

/// The setting `driver.pids`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PidSetting {
    pub value: DriverPids,
    /// Location of the setting; `None` for the default.
    pub source: Option<String>,
}

/// Location of the claims.
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
    /// The enrolment exists but cannot be used.
    Unusable {
        path: PathBuf,
        why: String,
        fault: Fault,
    },
    Enrolled(Enrolled),
}

/// Problem with an enrolment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It belongs to another user, or a directory above it does.
    Unreadable,
    /// It can be read but is not a valid enrolment.
    Contents,
    /// Its board cannot be contacted as configured: certificates, proxies, encryption.
    Endpoint,
}

/// An enrolled host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// File that contains the secret.
    pub path: PathBuf,
    /// Name of the host on the board, and the board's URL.
    pub named: String,
    /// Permissions of the file; `None` if they cannot be read.
    pub mode: Option<u32>,
    /// Whether the secret crosses a network unencrypted.
    pub is_exposed: bool,
    pub answer: Answer,
}

/// Response of a board to a request that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Accepted,
    /// The board rejected the host's token.
    Denied,
    /// The board responded, but has no request that would verify the token.
    Unasked,
    /// No response; the text says why.
    None(String),
}

/// A library that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLibrary {
    pub path: String,
    /// Environment variable or location in a file that sets it.
    pub source: String,
    pub presence: Presence,
}

impl NamedLibrary {
    /// Describes the problem if the library does not exist.
    #[must_use]
    pub fn fate(&self) -> String {
        format!("`{}` (from {}) does not exist", self.path, self.source)
    }

    /// Returns the advice if it is the wrong library.
    #[must_use]
    pub fn correction(&self) -> String {
        format!("Correct {} or unset it", self.source)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Present,
    Absent,
    /// Unknown: the loader resolves the name, or the file system did not respond.
    Unknown,
}

/// The history file that a collector would write.
#[derive(Clone, Debug)]
pub struct History {
    pub path: PathBuf,
    pub choice: Choice,
    /// `None` if the file system did not respond in time.
    pub spot: Option<Spot>,
    /// Name and type of the file system, from the mount table.
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
    /// A virtual file system of the kernel, where no file can be created.
    Kernel,
}

/// Whether the path is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Default,
    Custom,
}
