//! Converts a sample of the GPUs to the facts by which claims are judged.

use gua_model::pick::is_vacant;
use gua_model::{BootId, CountGraphics, Gpu, GpuUuid, Process, Sample, Thresholds};

use crate::claim::LiveClaim;
use crate::facts::{Look, Moment, OnGpu};

/// GPUs that a request matches: those to take now, and those to take once they are free.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub free: Vec<GpuUuid>,
    pub acceptable: Vec<GpuUuid>,
}

impl Look {
    /// Returns the look of a sample.
    #[must_use]
    pub fn new(sample: &Sample, boot: BootId, thresholds: &Thresholds, choice: Choice) -> Self {
        // A desktop that draws on a GPU neither holds it nor keeps a claim on it.
        let draws_count = thresholds.count_graphics == CountGraphics::Yes;
        let counts = move |process: &&Process| draws_count || process.kind.computes();
        let on_gpus = sample.gpus.iter().flat_map(|gpu| {
            gpu.processes.iter().filter(counts).filter_map(|process| {
                let identity = process.identity.as_ref().ok()?;
                Some(OnGpu {
                    gpu: gpu.uuid.clone(),
                    process: identity.key,
                    user: identity.own.as_ref().ok().map(|user| user.uid),
                })
            })
        });
        let of = |which: &dyn Fn(&Gpu) -> bool| {
            let gpus = sample.gpus.iter().filter(|gpu| which(gpu));
            gpus.map(|gpu| gpu.uuid.clone()).collect()
        };
        Self {
            free: choice.free,
            acceptable: choice.acceptable,
            vacant: of(&|gpu| is_vacant(gpu, thresholds)),
            gpus: sample.gpus.iter().filter(|gpu| gpu.place.counts()).count(),
            on_gpus: on_gpus.collect(),
            unread: of(&|gpu| gpu.compute_list.is_err()),
            ..Self::blind(Moment {
                boot,
                since_boot: sample.since_boot,
                wall: sample.at,
            })
        }
    }

    /// Returns the look for a driver that did not answer: no process is seen on any GPU.
    #[must_use]
    pub fn blind(at: Moment) -> Self {
        Self {
            at,
            free: Vec::new(),
            acceptable: Vec::new(),
            vacant: Vec::new(),
            gpus: 0,
            on_gpus: Vec::new(),
            unread: Vec::new(),
        }
    }
}

impl LiveClaim {
    /// Whether the claim is on this GPU.
    #[must_use]
    pub fn holds(&self, gpu: &GpuUuid) -> bool {
        self.gpus.iter().any(|leased| leased.gpu == *gpu)
    }
}
