//! All facts that doctor collects, as data. The checks use nothing else.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::fault::DriverFault;
use crate::host::Kernel;
use crate::host::collector::Collector;
use crate::host::device::Devices;
use crate::host::disk::Spot;
use crate::host::driver::KernelModule;
use crate::host::logind::RemoveIpc;
use crate::host::mount::{Hiding, Mount};
use crate::host::namespace::Surroundings;
use crate::host::privilege::Privilege;
use crate::host::time::TimeKeeping;
use gua_model::{DriverPids, Sample};
use jiff::Zoned;

use super::program::Run;

/// Facts about this host.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Time of the examination, in the display time zone.
    pub now: Zoned,
    pub kernel: Kernel,
    pub time_keeping: TimeKeeping,
    pub surroundings: Surroundings,
    pub hiding: Option<Hiding>,
    pub privilege: Privilege,
    pub devices: Devices,
    /// The run of `nvidia-smi`; `None` if it was not found.
    pub smi: Option<Run>,
    pub module: Option<KernelModule>,
    pub driver: Result<Sample, DriverFault>,
    /// `None` if the search for collectors timed out.
    pub collectors: Option<Vec<Collector>>,
    /// Whether logind removes a user's files from the claim directory.
    pub remove_ipc: RemoveIpc,
    /// Entry at the path of the history; `None` if the file system did not respond in time.
    pub spot: Option<Spot>,
    /// The file system of that path, from the mount table.
    pub mount: Option<Mount>,
    pub known: Known,
}

/// Facts that come from outside this crate.
#[derive(Clone, Debug)]
pub struct Known {
    /// Value of PATH, where `nvidia-smi` is looked up.
    pub search_path: Option<OsString>,
    /// Problems of the configuration, one sentence each.
    pub configuration: Vec<String>,
    /// Configuration files that this user may not read.
    pub unreadable_files: Vec<PathBuf>,
    /// Number of alerts, and what is wrong with them, one sentence each.
    pub alerts: (usize, Vec<String>),
    /// The claim directory, or why there is none.
    pub claims: Result<PathBuf, String>,
    pub link: Link,
    /// Path of the history file that a collector would write.
    pub db: PathBuf,
    pub choice: Choice,
    /// Kind of the existing file.
    pub history: HistoryKind,
    /// PID of a collector of gpu-usage-audit that writes the file.
    pub python_writer: Option<u32>,
    /// Path of the history that commands read, if it is not the one that a collector would write.
    pub read_elsewhere: Option<PathBuf>,
    /// The setting `driver.pids`.
    pub driver_pids: PidSetting,
    /// The driver's library, if a setting names one.
    pub library: Option<NamedLibrary>,
}

/// The setting `driver.pids`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PidSetting {
    pub value: DriverPids,
    /// Location of the setting; `None` for the default.
    pub source: Option<String>,
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
    Unverified,
    /// No response; the text says why.
    None(String),
}

/// A library that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLibrary {
    pub path: String,
    /// Environment variable or location in a file that sets it.
    pub source: String,
    /// `None` if this is unknown: the loader resolves the name, or the file system did not respond.
    pub exists: Option<bool>,
}

/// Kind of an existing file, which decides what a collector does with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HistoryKind {
    /// A history of gua, an empty file, or none.
    #[default]
    Ours,
    /// A history of gua into which gpu-usage-audit has written rows that are not imported yet.
    OursWithOldRows(u64),
    /// A history of gpu-usage-audit.
    Old,
    /// Any other file; the text says what it is.
    Other(String),
}

/// Whether the path of the history is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Default,
    Custom,
}
