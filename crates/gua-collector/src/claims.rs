//! The claims of this host: the shared directory that the settings name, and the kernel by which claims are judged.

mod names;

use std::collections::{BTreeSet, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use gua_claim::{
    ClaimDir, ClaimError, Kernel, Moment, Observed, OpenError, PidNamespace, Session, Survey,
    USUAL_PLACES,
};
use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_model::{BootId, GpuUuid, Pid, ProcessKey, Sample, Uid};
use gua_probe::clock;
use gua_probe::host::{HostRoot, locks};
use gua_probe::process::lineage::Life;
use gua_probe::process::{ProcRoot, ProcessTable, sub_uids};
use gua_settings::Settings;

pub use self::names::{Names, deadline, moment};

/// The shared directory, and the kernel by which claims are judged.
#[derive(Debug)]
pub struct Claims {
    pub dir: ClaimDir,
    pub kernel: HostKernel,
}

/// The kernel of this host.
#[derive(Debug)]
pub struct HostKernel {
    proc: ProcRoot,
    pub boot: BootId,
}

impl HostKernel {
    pub fn new() -> Result<Self, Failure> {
        let boot = ProcessTable::default().boot();
        let boot = boot.map_err(|why| {
            let why = why.as_str();
            Failure::failed(format!("cannot read the boot id ({why})"))
        })?;
        Ok(Self {
            proc: ProcRoot::default(),
            boot,
        })
    }

    /// A process with this PID, if it is visible.
    pub fn process(&self, pid: Pid) -> Option<ProcessKey> {
        self.proc.process(pid, self.boot)
    }
}

impl Kernel for HostKernel {
    fn now(&self) -> Moment {
        Moment {
            boot: self.boot,
            since_boot: clock::since_boot(),
            wall: clock::now(),
        }
    }

    fn namespace(&self) -> Option<PidNamespace> {
        self.proc.pid_namespace().map(PidNamespace)
    }

    fn standing(&self, process: &ProcessKey) -> Life {
        self.proc.life(process)
    }

    fn user(&self, process: &ProcessKey) -> Option<Uid> {
        self.proc.user(process)
    }

    fn descends(&self, process: &ProcessKey, ancestor: &ProcessKey) -> bool {
        self.proc.descends(process, ancestor)
    }

    fn session(&self, process: &ProcessKey) -> Option<Session> {
        self.proc.session(process).map(Session)
    }
}

/// Opens the directory that the settings name, else the default one of the host.
pub fn directory(settings: &Settings) -> Result<ClaimDir, OpenError> {
    open(settings.claim.dir.value.as_deref())
}

/// Opens the named directory, else the default one of the host.
pub(crate) fn open(path: Option<&Path>) -> Result<ClaimDir, OpenError> {
    let opened = match path {
        Some(path) => ClaimDir::open(path),
        None => ClaimDir::find(&USUAL_PLACES),
    };
    Ok(opened?.with_subuids(sub_uids()))
}

impl Claims {
    pub fn open(settings: &Settings) -> Result<Self, Failure> {
        let dir = directory(settings).map_err(|error| {
            Failure::failed(chain(&error)).hint(
                "an administrator can create /run/gua (owner root, mode 1777) or configure a directory with claim.dir",
            )
        })?;
        let kernel = HostKernel::new()?;
        Ok(Self { dir, kernel })
    }

    /// Returns the error with its cause, if it can be found: the process that holds the lock.
    pub fn explained(&self, error: &ClaimError) -> Failure {
        let is_busy = matches!(error, ClaimError::Busy { .. });
        let inode = std::fs::metadata(self.dir.path()).map(|facts| facts.ino());
        let holders = match (is_busy, inode) {
            (true, Ok(inode)) => locks::holders(&HostRoot::real(), &[inode]),
            _ => BTreeSet::new(),
        };
        Failure::failed(match holders.first() {
            Some(pid) => {
                let who = Names::default().process(*pid);
                format!("the lock is held by {who}: {}", chain(error))
            }
            None => chain(error),
        })
    }
}

/// Claims that exclude GPUs which are free otherwise, for commands that only show them.
#[derive(Debug, Default)]
pub struct Taken {
    pub survey: Survey,
    /// GPUs that are kept for waiting processes.
    pub kept: HashSet<GpuUuid>,
}

/// Reads the claims for a listing. A host without a directory for claims has none.
pub fn taken(settings: &Settings, sample: &Sample, free: Vec<GpuUuid>) -> Result<Taken, String> {
    let dir = match directory(settings) {
        Ok(dir) => dir,
        Err(OpenError::NoPlace { .. }) => return Ok(Taken::default()),
        Err(error) => return Err(chain(&error)),
    };
    let kernel = HostKernel::new().map_err(|failure| failure.message)?;
    let observed = Observed {
        acceptable: free.clone(),
        free,
        ..Observed::new(sample, kernel.boot, &settings.thresholds())
    };
    let survey = dir
        .survey(&observed, &kernel)
        .map_err(|error| chain(&error))?;
    let kept = survey.kept(&observed, &kernel);
    Ok(Taken { survey, kept })
}
