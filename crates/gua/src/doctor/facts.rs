//! Everything that doctor looked at, as data. The checks judge this and nothing else.

use std::path::PathBuf;

use gua_model::Sample;
use gua_probe::fault::DriverFault;
use gua_probe::host::Kernel;
use gua_probe::host::collector::Running;
use gua_probe::host::device::Devices;
use gua_probe::host::disk::Spot;
use gua_probe::host::driver::KernelModule;
use gua_probe::host::mount::Hiding;
use gua_probe::host::namespace::Surroundings;
use gua_probe::host::privilege::Privilege;
use gua_probe::host::time::TimeKeeping;
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
    pub hiding: Option<Hiding>,
    pub privilege: Privilege,
    pub devices: Devices,
    pub smi: Smi,
    pub module: Option<KernelModule>,
    pub driver: Result<Sample, DriverFault>,
    /// `None` where looking through the processes took too long.
    pub collectors: Option<Vec<Running>>,
    /// The problems of the configuration, a sentence each.
    pub configuration: Vec<String>,
    pub history: History,
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
}

/// Whether the path is the one that gua takes without being told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Default,
    Custom,
}
