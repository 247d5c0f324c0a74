//! `gua board link`: proves to a board that a member is a user of this host. A user who can read the host's enrolment connects
//! to the board directly. Everyone else asks the host's collector, which links only the name of the user who asks. Only root
//! can link the name of another user.

use gua_collector::board::names::{self, LinkError};
use gua_collector::board::{EnrolmentError, setup};
use gua_wire::Token;
use rustix::process::geteuid;

use crate::commands::prelude::*;
use crate::context::this_process;

pub(super) fn run(code: &str, user: Option<&str>, context: &Context) -> anyhow::Result<()> {
    let code = Token::new(code).map_err(|error| Failure::usage(error.to_string()))?;
    let is_root = geteuid().is_root();
    let own = this_process().and_then(|own| own.own.ok()?.name);
    if let Some(user) = user
        && !is_root
        && own.as_deref() != Some(user)
    {
        bail!(
            Failure::usage(format!("only root can link `{user}`"))
                .hint("run it with sudo, or as that user")
        );
    }
    let linked = if !is_root && is_elsewhere(context) {
        names::link_through(&context.settings().cloud.socket.value, &code)
    } else {
        let enrolled = setup::enrolled(&context.loaded)?;
        let policy = setup::users(context.settings())?;
        let user = user.or(own.as_deref()).ok_or(LinkError::NoName);
        user.and_then(|user| names::link(&enrolled, &policy, (user, &code)))
    };
    let linked = linked.map_err(|error| match (&error, &own) {
        (LinkError::NotRunning(_), Some(own)) => Failure::from(error).hint(format!(
            "start the host's service, or ask an administrator of this host to run `sudo gua board link CODE --user {own}`"
        )),
        _ => error.into(),
    })?;
    output::data(&format!(
        "gua board link: {} on this host is {} on the board\n",
        linked.user, linked.account
    ))
}

/// Whether the enrolment is not one of the calling user: it may be that of the host's service.
fn is_elsewhere(context: &Context) -> bool {
    let enrolled = setup::enrolment(&context.loaded).current();
    matches!(
        enrolled,
        Err(EnrolmentError::Missing(_) | EnrolmentError::Unreadable(_))
    )
}
