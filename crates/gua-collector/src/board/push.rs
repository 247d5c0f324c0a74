//! What a tick came to, and the push that is written of it.

use gua_model::Sample;
use gua_wire::snapshot::{About, ErrorCode, Form, LeftOut, Observed, UsageStates};
use gua_wire::users::UserPolicy;
use gua_wire::{CloudConfig, Snapshot};
use jiff::Timestamp;

/// What a tick came to.
#[derive(Debug)]
pub(super) enum Push {
    Seen {
        sample: Box<Sample>,
        usage: UsageStates,
    },
    /// The driver could not be read.
    DriverFailed { at: Timestamp },
}

/// Who speaks, and how much is told.
#[derive(Clone, Debug)]
pub struct AgentIdentity {
    pub hostname: String,
    pub agent_version: String,
    pub users: UserPolicy,
    pub form: Form,
}

/// A push that is written and not yet taken.
#[derive(Debug)]
pub(super) struct EncodedPush {
    pub(super) at: Timestamp,
    pub(super) body: String,
}

impl Push {
    /// Writes the push for an enrolled host, and names the cards that have no place in it.
    pub(super) fn write(
        &self,
        config: &CloudConfig,
        identity: &AgentIdentity,
    ) -> (EncodedPush, Vec<LeftOut>) {
        let about = About {
            hostname: &identity.hostname,
            agent_version: &identity.agent_version,
            host_id: Some(&config.host_id),
            display_name: Some(&config.display_name),
        };
        let (at, snapshot, left_out) = match self {
            Push::DriverFailed { at } => {
                let heartbeat = Snapshot::error_heartbeat(about, *at, ErrorCode::NvmlInitFailed);
                (*at, heartbeat, Vec::new())
            }
            Push::Seen { sample, usage } => {
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
        let body = snapshot.body();
        (EncodedPush { at, body }, left_out)
    }
}
