//! A tick on its way to the board, and its encoded form.

use std::sync::Arc;

use gua_model::Sample;
use gua_wire::snapshot::{About, ErrorCode, Form, LeftOut, Observed, UsageStates};
use gua_wire::users::UserPolicy;
use gua_wire::{CloudConfig, Snapshot};
use jiff::Timestamp;

use crate::VERSION;

/// The result of a tick.
#[derive(Debug)]
pub(super) enum Push {
    Sample {
        sample: Arc<Sample>,
        usage: UsageStates,
    },
    /// The driver could not be read.
    DriverFailed { at: Timestamp },
}

/// How this host presents itself to the board, and how much it reveals about users.
#[derive(Clone, Debug)]
pub struct AgentIdentity {
    pub hostname: String,
    pub users: UserPolicy,
    pub form: Form,
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
        identity: &AgentIdentity,
    ) -> (EncodedPush, Vec<LeftOut>) {
        let about = About {
            hostname: &identity.hostname,
            agent_version: VERSION,
            host_id: Some(&config.host_id),
            display_name: Some(&config.display_name),
        };
        let (at, snapshot, left_out) = match self {
            Push::DriverFailed { at } => {
                let heartbeat = Snapshot::error_heartbeat(about, *at, ErrorCode::NvmlInitFailed);
                (*at, heartbeat, Vec::new())
            }
            Push::Sample { sample, usage } => {
                let observed = Observed {
                    about,
                    sample,
                    usage,
                    users: &identity.users,
                    form: identity.form,
                };
                match observed.build() {
                    Ok(built) => (sample.at, built.snapshot, built.left_out),
                    Err(nothing) => {
                        let why = ErrorCode::GpuReadingUnavailable;
                        let heartbeat = Snapshot::error_heartbeat(about, sample.at, why);
                        (sample.at, heartbeat, nothing.0)
                    }
                }
            }
        };
        let sample = match self {
            Push::Sample { sample, .. } => Some(Arc::clone(sample)),
            Push::DriverFailed { .. } => None,
        };
        let body = snapshot.body();
        (EncodedPush { at, body, sample }, left_out)
    }
}
