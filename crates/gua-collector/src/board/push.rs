//! A tick on its way to the board, and its encoded form.

use std::sync::Arc;

use gua_model::Sample;
use gua_wire::snapshot::{ErrorCode, LeftOut, Observed, UsageStates};
use gua_wire::{CloudConfig, Snapshot};
use jiff::Timestamp;

use super::live::LiveReporter;
use super::setup;

/// The result of a tick.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) at: Timestamp,
    /// `None` if the driver could not be read.
    pub(super) sample: Option<Arc<Sample>>,
    pub(super) usage: UsageStates,
}

/// The body of a push.
#[derive(Debug)]
pub(super) struct EncodedPush {
    pub(super) at: Timestamp,
    pub(super) body: String,
    /// Sample for the live report; `None` if the driver could not be read.
    pub(super) sample: Option<Arc<Sample>>,
}

impl Push {
    /// Encodes the push for an enrolled host; also returns the GPUs that the format cannot represent.
    pub(super) fn encode(
        &self,
        config: &CloudConfig,
        reporter: &LiveReporter,
    ) -> (EncodedPush, Vec<LeftOut>) {
        let about = setup::about(config, &reporter.hostname);
        let heartbeat = |why| Snapshot::error_heartbeat(about, self.at, why);
        let built = self.sample.as_deref().map(|sample| {
            let observed = Observed {
                about,
                sample,
                usage: &self.usage,
                users: &reporter.users,
                form: setup::push_form(&reporter.settings),
            };
            observed.build()
        });
        let (snapshot, left_out) = match built {
            None => (heartbeat(ErrorCode::NvmlInitFailed), Vec::new()),
            Some(Ok(built)) => (built.snapshot, built.left_out),
            Some(Err(nothing)) => (heartbeat(ErrorCode::GpuReadingUnavailable), nothing.0),
        };
        let push = EncodedPush {
            at: self.at,
            body: snapshot.body(),
            sample: self.sample.clone(),
        };
        (push, left_out)
    }
}
