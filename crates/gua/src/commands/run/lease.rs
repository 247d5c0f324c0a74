//! `gua run --claim`: leases GPUs for the run. The lease is for this process, and ends with it at the latest.

use std::ffi::OsString;
use std::process::ExitCode;

use gua_claim::{Claim, ClaimDir};
use gua_collector::claims;
use gua_settings::CUDA_VISIBLE_DEVICES;
use signal_hook::iterator::Handle;

use super::super::available::lease::{Acquired, acquire};
use super::super::available::query::Query;
use crate::cli::{AvailableArgs, RunArgs};
use crate::context::Context;

/// A lease that is released when it is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    claim: Claim,
    directory: ClaimDir,
    /// Signals that were handled while waiting for the lease.
    signals: Option<Handle>,
}

impl Lease {
    /// UUIDs, separated by commas.
    pub(super) fn gpus(&self) -> String {
        let uuids: Vec<&str> = self.claim.gpus.iter().map(|gpu| gpu.as_str()).collect();
        uuids.join(",")
    }

    /// Environment that shows the job these GPUs alone, in the order of `nvidia-smi`.
    pub(super) fn variables(&self) -> Vec<(String, OsString)> {
        vec![
            (CUDA_VISIBLE_DEVICES.to_owned(), self.gpus().into()),
            ("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".into()),
        ]
    }

    /// Leaves signals to the job, which is about to start.
    pub(super) fn release_signals(&mut self) {
        if let Some(signals) = self.signals.take() {
            signals.close();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // If this fails, the lease ends with this process.
        let _ = self.directory.release(&self.claim.id);
    }
}

/// Leases GPUs for this process; the exit code after a refusal, whose reason was printed.
pub(super) fn obtain(
    count: u32,
    args: &RunArgs,
    context: &Context,
) -> anyhow::Result<Result<Lease, ExitCode>> {
    let wanted = AvailableArgs {
        count: Some(count),
        uuid: true,
        claim: Some(context.settings().claim.longest.value),
        for_pid: Some(std::process::id()),
        wait: args.wait,
        quiet: args.quiet,
        ..AvailableArgs::default()
    };
    let query = Query {
        prefix: "gua run",
        args: &wanted,
        format: None,
        context,
    };
    Ok(match acquire(&query)? {
        Acquired::Leased { claim, signals } => Ok(Lease {
            claim,
            directory: claims::directory(context.settings())?,
            signals,
        }),
        Acquired::Refused(code) => Err(code),
    })
}
