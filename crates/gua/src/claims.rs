//! The claims of this host as commands meet them: where they stand, what a sample says about them, and who asks.

pub mod refusal;
pub mod words;

use std::collections::HashSet;

use anyhow::Context as _;
use gua_claim::{
    ClaimDir, ClaimError, Kernel, Look, Moment, OnCard, OpenError, PidNamespace, Session, Standing,
    Survey, USUAL_PLACES,
};
use gua_model::pick::is_vacant;
use gua_model::{
    BootId, CountGraphics, Gpu, GpuUuid, Pid, Process, ProcessKey, Sample, StartTicks, Thresholds,
};
use gua_probe::clock;
use gua_probe::process::lineage::{Life, Lineage};
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};

use crate::config::Settings;
use crate::failure::{Exit, Failure};

/// The shared directory, and the kernel by which claims are judged.
#[derive(Debug)]
pub struct Claims {
    pub dir: ClaimDir,
    pub kernel: HostKernel,
}

/// The kernel of this host.
#[derive(Debug)]
pub struct HostKernel {
    lineage: Lineage,
    pub boot: BootId,
}

impl HostKernel {
    pub fn new() -> anyhow::Result<Self> {
        let boot = ProcessTable::new(ProcRoot::default(), Passwd::System).boot();
        let boot = boot.map_err(|why| {
            let why = why.as_str();
            anyhow::anyhow!("the kernel does not say which boot this is ({why})")
        })?;
        Ok(Self {
            lineage: Lineage::default(),
            boot,
        })
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
        self.lineage.namespace().map(PidNamespace)
    }

    fn standing(&self, process: &ProcessKey) -> Standing {
        match self.lineage.life(process) {
            Life::Running => Standing::Running,
            Life::Stopped => Standing::Stopped,
            Life::Ended => Standing::Ended,
            Life::Unknown => Standing::Unknown,
        }
    }

    fn descends(&self, process: &ProcessKey, ancestor: &ProcessKey) -> bool {
        self.lineage.descends(process, ancestor)
    }

    fn session(&self, process: &ProcessKey) -> Option<Session> {
        self.lineage.session(process).map(Session)
    }
}

/// Opens the directory that the settings name, else the one that all users of this host find.
pub fn directory(settings: &Settings) -> Result<ClaimDir, OpenError> {
    match &settings.claim.dir.value {
        Some(path) => ClaimDir::open(path),
        None => ClaimDir::find(&USUAL_PLACES),
    }
}

impl Claims {
    pub fn open(settings: &Settings) -> anyhow::Result<Self> {
        let dir = directory(settings).map_err(|error| Failure {
            exit: Exit::Failed,
            message: gua_collector::chain::chain(&error),
            hint: Some(
                "an administrator can make /run/gua (mode 1777, root's), or name a directory with claim.dir".to_owned(),
            ),
        })?;
        Ok(Self {
            dir,
            kernel: HostKernel::new()?,
        })
    }

    /// Who has what and who waits, by this look.
    pub fn survey(&self, look: &Look) -> Result<Survey, ClaimError> {
        self.dir.survey(look, &self.kernel)
    }

    /// The process that a claim is for: the one that is named, else the one that called us.
    pub fn for_process(&self, caller: &Caller) -> Result<ProcessKey, Failure> {
        let pid = caller.pid;
        let boot = self.kernel.boot;
        let found = caller.start.map(|start| ProcessKey { boot, pid, start });
        let lives = |process: &ProcessKey| self.kernel.standing(process) != Standing::Ended;
        caller.check()?;
        found.filter(lives).ok_or_else(|| {
            let message = match caller.is_named {
                true => format!("there is no process {pid} to be seen that the claim could be for"),
                false => format!(
                    "the process that called gua (pid {pid}) cannot be seen, so no claim can end with it"
                ),
            };
            Failure {
                exit: Exit::Failed,
                message,
                hint: Some("--for PID names another".to_owned()),
            }
        })
    }

    /// This process, which asks.
    pub fn this_process(&self) -> anyhow::Result<ProcessKey> {
        let pid = Pid(std::process::id());
        let found = self.kernel.lineage.process(pid, self.kernel.boot);
        found.context("this process cannot be seen in /proc")
    }

    /// The error with what can be found out about it: who sits on the lock.
    pub fn explained(&self, error: ClaimError) -> anyhow::Error {
        let is_busy = matches!(error, ClaimError::Busy { .. });
        let locks = std::fs::read_to_string("/proc/locks").ok();
        let owner = locks
            .filter(|_| is_busy)
            .and_then(|locks| self.dir.lock_owner(&locks));
        match owner {
            Some(pid) => {
                let who = words::Names::default().process(pid);
                anyhow::Error::new(error).context(format!("the lock is held by {who}"))
            }
            None => error.into(),
        }
    }
}

/// The process that a claim is for, as it was when we began: if it ends before the claim is made, another
/// process has taken its children by then, and perhaps its pid.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pid: Pid,
    /// `None` where there is no such process to be seen.
    start: Option<StartTicks>,
    is_named: bool,
}

impl Caller {
    /// Asked before anything that takes time.
    #[must_use]
    pub fn now(named: Option<u32>) -> Self {
        let pid = Pid(named.unwrap_or_else(std::os::unix::process::parent_id));
        // Which boot this is, is not asked of it.
        let found = Lineage::default().process(pid, BootId(0));
        Self {
            pid,
            start: found.map(|process| process.start),
            is_named: named.is_some(),
        }
    }

    /// Refuses a caller that has ended since, and one that may only have taken us over from it.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_named {
            return Ok(());
        }
        let pid = self.pid;
        if pid == Pid(1) {
            return Err(Failure::usage(
                "the process that called gua has ended, or is the first one of this host (pid 1), which no claim ends with",
            )
            .hint("--for PID names the process that the claim is for; --for $$ the shell"));
        }
        if Pid(std::os::unix::process::parent_id()) != pid {
            return Err(Failure {
                exit: Exit::Failed,
                message: format!(
                    "the process that called gua (pid {pid}) has ended, so nobody would hold the claim"
                ),
                hint: None,
            });
        }
        Ok(())
    }
}

/// Which cards an asker wants: those that it would take now, and those that it would take once they are free.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub free: Vec<GpuUuid>,
    pub acceptable: Vec<GpuUuid>,
}

/// What a sample says to those who judge claims.
pub fn look(sample: &Sample, boot: BootId, thresholds: &Thresholds, choice: Choice) -> Look {
    let on_cards = sample.gpus.iter().flat_map(|gpu| {
        // A desktop that draws on a card does not hold it, and keeps no claim on it.
        let draws_count = thresholds.count_graphics == CountGraphics::Yes;
        let counts = move |process: &&Process| draws_count || process.kind.computes();
        gpu.processes.iter().filter(counts).filter_map(|process| {
            let identity = process.identity.as_ref().ok()?;
            Some(OnCard {
                gpu: gpu.uuid.clone(),
                process: identity.key,
                user: identity.own.as_ref().ok().map(|user| user.uid),
            })
        })
    });
    let of = |which: &dyn Fn(&Gpu) -> bool| {
        let cards = sample.gpus.iter().filter(|gpu| which(gpu));
        cards.map(|gpu| gpu.uuid.clone()).collect()
    };
    Look {
        at: Moment {
            boot,
            since_boot: sample.since_boot,
            wall: sample.at,
        },
        free: choice.free,
        acceptable: choice.acceptable,
        vacant: of(&|gpu| is_vacant(gpu, thresholds)),
        cards: sample.gpus.iter().filter(|gpu| gpu.place.counts()).count(),
        on_cards: on_cards.collect(),
        unread: of(&|gpu| gpu.compute_list.is_err()),
    }
}

/// The same where the driver does not answer: nobody is seen on any card.
pub fn blind_look(kernel: &HostKernel) -> Look {
    Look {
        at: kernel.now(),
        free: Vec::new(),
        acceptable: Vec::new(),
        vacant: Vec::new(),
        cards: 0,
        on_cards: Vec::new(),
        unread: Vec::new(),
    }
}

/// What stands in the way of cards that are free otherwise, for those who only look. Where there are no claims to be
/// read, nothing does.
#[derive(Debug, Default)]
pub struct Taken {
    pub survey: Survey,
    pub kept: HashSet<GpuUuid>,
}

/// Reads the claims for a listing. A host without a place for claims has none; what else goes wrong is told.
pub fn taken(settings: &Settings, sample: &Sample, free: Vec<GpuUuid>) -> Result<Taken, String> {
    let said = |error: &(dyn std::error::Error + 'static)| gua_collector::chain::chain(error);
    let dir = match directory(settings) {
        Ok(dir) => dir,
        Err(OpenError::NoPlace { .. }) => return Ok(Taken::default()),
        Err(error) => return Err(said(&error)),
    };
    let kernel = HostKernel::new().map_err(|error| format!("{error:#}"))?;
    let claims = Claims { dir, kernel };
    let choice = Choice {
        acceptable: free.clone(),
        free,
    };
    let thresholds = settings.thresholds();
    let look = look(sample, claims.kernel.boot, &thresholds, choice);
    let survey = claims.survey(&look).map_err(|error| said(&error))?;
    let kept = survey.kept(&look, &claims.kernel);
    Ok(Taken { survey, kept })
}
