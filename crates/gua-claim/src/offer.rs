//! The steps from an offer to a claim, which ensure that no GPU is given twice and none is leaked.
//!
//! 1. **Offered**: under the lock, the GPUs are claimed for the requesting process. From here on no other process gets
//!    them; if the requester is killed, the claim ends with it.
//! 2. **Confirmed**: a sample that was taken after the offer still shows them free. The sample before the lock may have
//!    been old: another user may have claimed the GPU, started to use it and released the claim in between.
//! 3. **Handed over**: once the answer is printed, the claim is rewritten with the process that it is for.
//!
//! An offer or grant that is dropped is released.

use std::time::Duration;

use gua_model::{GpuUuid, ProcessKey};
use rustix::io::Errno;

use crate::claim::{Claim, MAX_SAMPLE_AGE};
use crate::directory::{ClaimDir, Lock};
use crate::error::ClaimError;
use crate::facts::{Kernel, Life, Observed};
use crate::survey::Leftover;
use crate::user_dir::UserDir;

/// GPUs that are reserved for the requester until a second sample confirms them.
#[derive(Debug)]
pub struct Offer {
    grant: Grant,
    made: Duration,
    leftovers: Vec<Leftover>,
}

/// GPUs that were granted to the requester, to be handed to the process that they are for. They are released when it is
/// dropped.
#[derive(Debug)]
pub struct Grant {
    /// The claim after the hand-over.
    claim: Claim,
    user_dir: UserDir,
    is_handed_over: bool,
}

impl Drop for Grant {
    fn drop(&mut self) {
        if !self.is_handed_over {
            // If the removal fails, the claim counts only while this process lives.
            let _ = self.user_dir.remove(&self.claim.id.file());
        }
    }
}

impl ClaimDir {
    /// Records that the GPUs of `claim` belong to the requester.
    pub(crate) fn offer(
        &self,
        lock: &Lock,
        claim: Claim,
        requester: ProcessKey,
        made: Duration,
        leftovers: Vec<Leftover>,
    ) -> Result<Offer, ClaimError> {
        let user_dir = self.own_user_dir(lock)?;
        let first = Claim {
            for_process: requester,
            // The claim ends with the requester, regardless of other processes in its session.
            session: None,
            ..claim.clone()
        };
        user_dir
            .write(&first.id.file(), &first.to_bytes())
            .map_err(|source| self.cannot_write(source))?;
        Ok(Offer {
            grant: Grant {
                claim,
                user_dir,
                is_handed_over: false,
            },
            made,
            leftovers,
        })
    }

    /// Whether a sample is older than `MAX_SAMPLE_AGE`.
    pub(crate) fn is_stale(observed: &Observed, kernel: &dyn Kernel) -> bool {
        kernel
            .now()
            .since_boot
            .saturating_sub(observed.at.since_boot)
            > MAX_SAMPLE_AGE
    }
}

impl Offer {
    pub fn gpus(&self) -> &[GpuUuid] {
        &self.grant.claim.gpus
    }

    /// Confirms the offer with a sample that was taken after it. `None` if one of the GPUs is no longer free, or the sample
    /// is older than the offer; the GPUs are released then.
    pub fn confirm(
        self,
        dir: &ClaimDir,
        observed: &Observed,
        kernel: &dyn Kernel,
    ) -> Option<Grant> {
        let is_after = observed.at.since_boot >= self.made && !ClaimDir::is_stale(observed, kernel);
        let is_free = |gpu: &GpuUuid| observed.free.contains(gpu);
        if !is_after || !self.gpus().iter().all(is_free) {
            return None;
        }
        dir.sweep(&self.leftovers, observed, kernel);
        Some(self.grant)
    }
}

impl Grant {
    /// Returns the claim after the hand-over.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Transfers the claim to the process that it is for. Call it once the answer is printed: until then the claim ends
    /// with the requester.
    pub fn hand_over(mut self, dir: &ClaimDir, kernel: &dyn Kernel) -> Result<Claim, ClaimError> {
        let claim = &self.claim;
        if kernel.standing(&claim.for_process) == Life::Ended {
            return Err(ClaimError::ProcessEnded);
        }
        // The requester may have been stopped in between. After the deadline the GPUs may belong to others.
        if kernel.now().since_boot >= claim.deadline {
            return Err(ClaimError::TooLate(claim.id.clone()));
        }
        match self.user_dir.replace(&claim.id.file(), &claim.to_bytes()) {
            Ok(()) => {
                self.is_handed_over = true;
                Ok(claim.clone())
            }
            // The claim was released meanwhile, so the GPUs may belong to another process.
            Err(Errno::NOENT) => Err(ClaimError::NoSuchClaim(claim.id.clone())),
            Err(source) => Err(dir.cannot_write(source)),
        }
    }
}
