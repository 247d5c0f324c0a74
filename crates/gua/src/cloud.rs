//! The agent's side of a board: who this host is there, how the board is reached, and what may be told of its users.

pub mod enroll;
mod salt;
pub mod sync_once;
pub mod unenroll;

use gua_collector::board::way::Wishes;
use gua_collector::board::{Client, CloudFile, Way, WayError};
use gua_collector::chain::chain;
use gua_wire::snapshot::About;
use gua_wire::users::UserPolicy;
use gua_wire::{CloudConfig, ServerUrl};

use crate::config::kind::UserNames;
use crate::config::{Loaded, Settings};
use crate::dispatch::VERSION;
use crate::failure::Failure;

/// A host that is enrolled, and the way to its board.
#[derive(Debug)]
pub(crate) struct Enrolled {
    pub(crate) config: CloudConfig,
    pub(crate) client: Client,
}

impl Enrolled {
    /// Reads the enrolment and settles the way. Nothing is contacted.
    pub(crate) fn load(loaded: &Loaded) -> Result<Self, Failure> {
        let file = CloudFile::at(&loaded.settings.cloud.config.value);
        let config = file.load().map_err(|error| {
            Failure::usage(chain(&error)).hint(
                "enrol this host with `gua enroll --server-url URL --enrollment-token -`, or name the file with --config",
            )
        })?;
        let client = client(loaded, &config.server_url)?;
        Ok(Self { config, client })
    }

    /// Who speaks, in every push.
    pub(crate) fn about<'a>(&'a self, hostname: &'a str) -> About<'a> {
        About {
            hostname,
            agent_version: VERSION,
            host_id: Some(&self.config.host_id),
            display_name: Some(&self.config.display_name),
        }
    }

    /// The board as messages name it: the name that it gave this host, and its address.
    pub(crate) fn named(&self) -> String {
        let name = gua_model::text::harmless(&self.config.display_name);
        format!("{name} ({})", self.config.server_url)
    }
}

/// The way to a board, by the settings and the environment.
fn client(loaded: &Loaded, board: &ServerUrl) -> Result<Client, Failure> {
    let cloud = &loaded.settings.cloud;
    let wishes = Wishes {
        unencrypted: cloud.allow_http.value,
        ca_file: cloud.ca_file.value.as_deref(),
        proxies: &loaded.inputs.proxies(),
    };
    Way::to(board, wishes).map(Client::new).map_err(|error| {
        let failure = Failure::usage(chain(&error));
        match error {
            WayError::Insecure(_) => failure.hint(
                "use the board's https address; --allow-http sends the secret unencrypted all the same",
            ),
            _ => failure,
        }
    })
}

/// How much of a user's name may be told. The salt of hidden names is made where there is none.
pub(crate) fn users(settings: &Settings) -> anyhow::Result<UserPolicy> {
    Ok(match settings.cloud.users.value {
        UserNames::Plain => UserPolicy::Plain,
        UserNames::Omit => UserPolicy::Omit,
        UserNames::Hash => UserPolicy::Hash(salt::load(&settings.cloud.salt_file.value)?),
    })
}
