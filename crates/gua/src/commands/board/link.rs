//! `gua board link`: proves to a board that a member is a user of this host. The command authenticates with the host's agent
//! token, so it needs the enrolment: a user who cannot read it asks root. Only root can link the name of another user.

use gua_collector::board::setup;
use gua_model::Pid;
use gua_model::text::sanitize;
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use gua_wire::Token;
use rustix::process::geteuid;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

pub(super) fn run(code: &str, user: Option<&str>, context: &Context) -> anyhow::Result<()> {
    let code = Token::new(code).map_err(|error| Failure::usage(error.to_string()))?;
    let uid = geteuid();
    let own = own_name();
    let enrolled = setup::enrolled(&context.loaded).map_err(|failure| match &own {
        Some(own) if !uid.is_root() => failure.hint(format!(
            "if the host's service pushes to the board, ask an administrator of this host to run `sudo gua board link CODE --user {own}`"
        )),
        _ => failure,
    })?;
    let user = match (user, &own) {
        (None, Some(own)) => own.as_str(),
        (None, None) => {
            return Err(Failure::failed("the calling user has no name on this host").into());
        }
        (Some(user), own) if uid.is_root() || own.as_deref() == Some(user) => user,
        (Some(user), _) => {
            return Err(Failure::usage(format!("only root can link `{user}`"))
                .hint("run it with sudo, or as that user")
                .into());
        }
    };
    let policy = setup::users(context.settings())?;
    let sent = policy.apply(user).ok_or_else(|| {
        Failure::usage("this host sends no user names to the board: cloud.users is \"omit\"")
    })?;
    let account = enrolled.client.prove_name(&code, &sent, &enrolled.config)?;
    output::data(&format!(
        "gua board link: {user} on this host is {} on the board\n",
        sanitize(&enrolled.config.agent_token.hide_in(&account))
    ))
}

/// Name of the user that this program runs as.
fn own_name() -> Option<String> {
    let mut table = ProcessTable::new(ProcRoot::default(), Passwd::System);
    let own = table.resolve(Pid(std::process::id())).ok()?;
    own.own.ok()?.name
}
