//! The agent's side of a board: who this host is there, how the board is reached, and what may be told of its users.

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
    Proxies,
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

/// Reads the enrolment and settles the way to its board. Nothing is contacted.
pub(crate) fn enrolled(loaded: &Loaded) -> Result<Arc<Enrolled>, Failure> {
    enrolment(loaded).current().map_err(|error| match &error {
        EnrolmentError::Load(cause) => Failure::usage(chain(cause)).hint(remedy(cause)),
        EnrolmentError::Endpoint(error) => no_way(error),
    })
}

/// What can be done about an enrolment that cannot be used.
pub(crate) fn remedy(error: &LoadError) -> &'static str {
    match error {
        LoadError::Missing(_) => {
            "enrol this host with `gua enroll --server-url URL --enrollment-token -`, or name the file with --config"
        }
        LoadError::Unreadable { .. } => {
            "run this as the user who enrolled the host, or name another file with --config"
        }
        LoadError::Faulty { .. } => {
            "`gua enroll --force` replaces it with a new enrolment, `gua unenroll` forgets it, --config names another file"
        }
    }
}

/// The enrolment of the settings, which may not be there.
pub(crate) fn enrolment(loaded: &Loaded) -> Enrolment {
    let file = CloudFile::at(&loaded.settings.cloud.config.value);
    Enrolment::new(file, options(loaded))
}

/// Who speaks, in every push.
pub(crate) fn about<'a>(enrolled: &'a Enrolled, hostname: &'a str) -> About<'a> {
    About {
        hostname,
        agent_version: VERSION,
        host_id: Some(&enrolled.config.host_id),
        display_name: Some(&enrolled.config.display_name),
    }
}

/// Where what is known of the link stands, for those who write a history.
pub(crate) fn link_place(loaded: &Loaded, history: &Path) -> LinkFiles {
    LinkFiles::new(&loaded.settings.cloud.config.value, history)
}

/// Tells the board that nothing could be seen, and notes what became of that. Both cases are a sentence's beginning.
pub(crate) fn heartbeat(
    enrolled: &Enrolled,
    place: &LinkFiles,
    (at, code): (Timestamp, ErrorCode),
) -> Result<String, String> {
    let hostname = host::name();
    let heartbeat = Snapshot::error_heartbeat(about(enrolled, &hostname), at, code);
    let Enrolled { config, client } = enrolled;
    let pushed = client.push(&heartbeat, config);
    place.note(config, clock::now(), &pushed);
    match pushed {
        Ok(()) => Ok(format!(
            "an error heartbeat was pushed to {}",
            named(enrolled)
        )),
        Err(error) => Err(format!(
            "the error heartbeat could not be pushed ({})",
            chain(&error)
        )),
    }
}

/// The same for a driver that could not be read, which is why.
pub(crate) fn tell_of_fault(
    enrolled: &Enrolled,
    place: &LinkFiles,
    fault: DriverFault,
) -> anyhow::Error {
    let what = (clock::now(), ErrorCode::NvmlInitFailed);
    let context = match heartbeat(enrolled, place, what) {
        Ok(told) => format!("{told}, since the driver could not be read"),
        Err(problem) => format!("{problem}, and the driver could not be read"),
    };
    anyhow::Error::new(fault).context(context)
}

/// Removes what is known of the link and what waits for its board; says a line about what waited.
fn forget_link(loaded: &Loaded, history: &Path, config: Option<&CloudConfig>) -> String {
    let peer = config.map(Peer::of);
    match link_place(loaded, history).forget(peer.as_ref()) {
        0 => String::new(),
        some => format!("\n  dropped: {some} missed pushes that waited for the board of before"),
    }
}

/// The board as messages name it: the name that it gave this host, and its address.
pub(crate) fn named(enrolled: &Enrolled) -> String {
    let name = sanitize(&enrolled.config.shown_name());
    format!("{name} ({})", enrolled.config.server_url)
}

/// How boards are reached, by the settings and the environment.
fn options(loaded: &Loaded) -> ConnectOptions {
    let cloud = &loaded.settings.cloud;
    ConnectOptions {
        unencrypted: cloud.allow_http.value,
        ca_file: cloud.ca_file.value.clone(),
        proxies: proxies(loaded.inputs.proxies()),
    }
}

fn proxies(set: gua_settings::Proxies) -> Proxies {
    Proxies {
        http: set.http,
        https: set.https,
        all: set.all,
        none_for: set.none_for,
    }
}

/// The form of pushes that the settings ask for.
pub(crate) fn push_form(settings: &Settings) -> Form {
    match settings.cloud.form.value {
        PushForm::V1_1 => Form::V1_1,
        PushForm::V1_4 => Form::V1_4,
    }
}

fn no_way(error: &EndpointError) -> Failure {
    let failure = Failure::usage(chain(error));
    match error {
        EndpointError::Insecure(_) => failure.hint(
            "use the board's https address; --allow-http sends the secret unencrypted all the same",
        ),
        _ => failure,
    }
}

/// How much of a user's name may be told. The salt of hidden names is made where there is none.
pub(crate) fn users(settings: &Settings) -> anyhow::Result<UserPolicy> {
    Ok(match settings.cloud.users.value {
        UserNames::Plain => UserPolicy::Plain,
        UserNames::Omit => UserPolicy::Omit,
        UserNames::Hash => UserPolicy::Hash(salt::load(&settings.cloud.salt_file.value)?),
    })
}
