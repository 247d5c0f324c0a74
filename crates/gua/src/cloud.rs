//! The agent's side of a board: the enrolment of this host, the connection options and the policy for user names.

pub mod enroll;
mod hidden_input;
mod salt;
pub mod sync_archive;
pub mod sync_once;
pub mod unenroll;

use std::path::Path;
use std::sync::Arc;

use gua_collector::board::cloud_file::LoadError;
use gua_collector::board::{
    CloudFile, ConnectOptions, EndpointError, Enrolled, Enrolment, EnrolmentError, LinkFiles, Peer,
};
use gua_collector::chain::chain;
use gua_model::text::sanitize;
use gua_probe::fault::DriverFault;
use gua_probe::{clock, host};
use gua_wire::snapshot::{About, ErrorCode, Form};
use gua_wire::users::UserPolicy;
use gua_wire::{CloudConfig, Snapshot};
use jiff::Timestamp;

use crate::config::kind::{PushForm, UserNames};
use crate::config::{Loaded, Settings};
use crate::dispatch::VERSION;
use crate::failure::Failure;

/// Loads the enrolment. Nothing is contacted.
pub(crate) fn enrolled(loaded: &Loaded) -> Result<Arc<Enrolled>, Failure> {
    enrolment(loaded).current().map_err(|error| match &error {
        EnrolmentError::Load(cause) => Failure::usage(chain(cause)).hint(remedy(cause)),
        EnrolmentError::Endpoint(error) => endpoint_failure(error),
    })
}

/// Hint for an unusable enrolment.
pub(crate) fn remedy(error: &LoadError) -> &'static str {
    match error {
        LoadError::Missing(_) => {
            "enrol this host with `gua enroll --server-url URL --enrollment-token -`, or pass the file with --config"
        }
        LoadError::Unreadable { .. } => {
            "run this as the user who enrolled the host, or pass another file with --config"
        }
        LoadError::Invalid { .. } => {
            "replace it with `gua enroll --force`, remove it with `gua unenroll`, or pass another file with --config"
        }
    }
}

/// The configured enrolment, which may not exist.
pub(crate) fn enrolment(loaded: &Loaded) -> Enrolment {
    let file = CloudFile::at(&loaded.settings.cloud.config.value);
    Enrolment::new(file, connect_options(loaded))
}

/// Identity of this host in every push.
pub(crate) fn about<'a>(enrolled: &'a Enrolled, hostname: &'a str) -> About<'a> {
    About {
        hostname,
        agent_version: VERSION,
        host_id: Some(&enrolled.config.host_id),
        display_name: Some(&enrolled.config.display_name),
    }
}

/// The state files of the link of a history.
pub(crate) fn link_files(loaded: &Loaded, history: &Path) -> LinkFiles {
    LinkFiles::new(&loaded.settings.cloud.config.value, history)
}

/// Pushes an error heartbeat and records the result. Both results are the start of a sentence.
pub(crate) fn heartbeat(
    enrolled: &Enrolled,
    files: &LinkFiles,
    (at, code): (Timestamp, ErrorCode),
) -> Result<String, String> {
    let hostname = host::name();
    let heartbeat = Snapshot::error_heartbeat(about(enrolled, &hostname), at, code);
    let Enrolled { config, client } = enrolled;
    let pushed = client.push(&heartbeat, config);
    files.record(config, clock::now(), &pushed);
    match pushed {
        Ok(()) => Ok(format!("pushed an error heartbeat to {}", named(enrolled))),
        Err(error) => Err(format!(
            "cannot push the error heartbeat ({})",
            chain(&error)
        )),
    }
}

/// Pushes an error heartbeat for a driver that could not be read; returns the error for the user.
pub(crate) fn report_fault(
    enrolled: &Enrolled,
    files: &LinkFiles,
    fault: DriverFault,
) -> anyhow::Error {
    let what = (clock::now(), ErrorCode::NvmlInitFailed);
    let context = match heartbeat(enrolled, files, what) {
        Ok(pushed) => format!("{pushed}, because the driver could not be read"),
        Err(problem) => format!("{problem}, and the driver could not be read"),
    };
    anyhow::Error::new(fault).context(context)
}

/// Removes the state and spool of the link; returns a line about dropped pushes.
fn remove_link(loaded: &Loaded, history: &Path, config: Option<&CloudConfig>) -> String {
    let peer = config.map(Peer::of);
    match link_files(loaded, history).remove(peer.as_ref()) {
        0 => String::new(),
        some => format!("\n  dropped: {some} spooled pushes for the previous board"),
    }
}

/// The board in messages: the name of this host there and its URL.
pub(crate) fn named(enrolled: &Enrolled) -> String {
    let name = sanitize(&enrolled.config.shown_name());
    format!("{name} ({})", enrolled.config.server_url)
}

/// Connection options from the settings and the environment.
fn connect_options(loaded: &Loaded) -> ConnectOptions {
    let cloud = &loaded.settings.cloud;
    ConnectOptions {
        unencrypted: cloud.allow_http.value,
        ca_file: cloud.ca_file.value.clone(),
        proxies: loaded.inputs.proxies(),
    }
}

/// The configured format of pushes.
pub(crate) fn push_form(settings: &Settings) -> Form {
    match settings.cloud.form.value {
        PushForm::V1_1 => Form::V1_1,
        PushForm::V1_4 => Form::V1_4,
    }
}

fn endpoint_failure(error: &EndpointError) -> Failure {
    let failure = Failure::usage(chain(error));
    match error {
        EndpointError::Insecure(_) => {
            failure.hint("use the board's https URL; --allow-http sends the token unencrypted")
        }
        _ => failure,
    }
}

/// The policy for user names. The salt of pseudonyms is created if it does not exist.
pub(crate) fn users(settings: &Settings) -> anyhow::Result<UserPolicy> {
    Ok(match settings.cloud.users.value {
        UserNames::Plain => UserPolicy::Plain,
        UserNames::Omit => UserPolicy::Omit,
        UserNames::Hash => UserPolicy::Hash(salt::load(&settings.cloud.salt_file.value)?),
    })
}
