//! The agent's side of a board: who this host is there, how the board is reached, and what may be told of its users.

pub mod enroll;
mod salt;
pub mod sync_archive;
pub mod sync_once;
pub mod unenroll;
mod unseen;

use std::sync::Arc;

use gua_collector::board::{CloudFile, Enrolled, Enrolment, EnrolmentError, WayError, Wishes};
use gua_collector::chain::chain;
use gua_model::text::harmless;
use gua_wire::snapshot::About;
use gua_wire::users::UserPolicy;

use crate::config::kind::UserNames;
use crate::config::{Loaded, Settings};
use crate::dispatch::VERSION;
use crate::failure::Failure;

/// Reads the enrolment and settles the way to its board. Nothing is contacted.
pub(crate) fn enrolled(loaded: &Loaded) -> Result<Arc<Enrolled>, Failure> {
    enrolment(loaded).current().map_err(|error| match error {
        EnrolmentError::Load(error) => Failure::usage(chain(&error)).hint(
            "enrol this host with `gua enroll --server-url URL --enrollment-token -`, or name the file with --config",
        ),
        EnrolmentError::Way(error) => no_way(&error),
    })
}

/// The enrolment of the settings, which may not be there.
pub(crate) fn enrolment(loaded: &Loaded) -> Enrolment {
    let file = CloudFile::at(&loaded.settings.cloud.config.value);
    Enrolment::new(file, wishes(loaded))
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

/// The board as messages name it: the name that it gave this host, and its address.
pub(crate) fn named(enrolled: &Enrolled) -> String {
    let name = harmless(&enrolled.config.shown_name());
    format!("{name} ({})", enrolled.config.server_url)
}

/// How boards are reached, by the settings and the environment.
fn wishes(loaded: &Loaded) -> Wishes {
    let cloud = &loaded.settings.cloud;
    Wishes {
        unencrypted: cloud.allow_http.value,
        ca_file: cloud.ca_file.value.clone(),
        proxies: loaded.inputs.proxies(),
    }
}

fn no_way(error: &WayError) -> Failure {
    let failure = Failure::usage(chain(error));
    match error {
        WayError::Insecure(_) => failure.hint(
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
