//! `gua board link`: proves to a board that a member is a user of this host. A user who can read the host's enrolment connects
//! to the board directly. Everyone else asks the host's collector, which links only the name of the user who asks. Only root
//! can link the name of another user.

use gua_collector::board::cloud_file::LoadError;
use gua_collector::board::names::{self, LinkError};
use gua_collector::board::{EnrolmentError, setup};
use gua_model::Pid;
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use gua_wire::Token;
use rustix::process::geteuid;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

pub(super) fn run(code: &str, user: Option<&str>, context: &Context) -> anyhow::Result<()> {
    let code = Token::new(code).map_err(|error| Failure::usage(error.to_string()))?;
    let is_root = geteuid().is_root();
    let own = own_name();
    if let Some(user) = user
        && !is_root
        && own.as_deref() != Some(user)
    {
        return Err(Failure::usage(format!("only root can link `{user}`"))
            .hint("run it with sudo, or as that user")
            .into());
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
        Err(EnrolmentError::Load(
            LoadError::Missing(_) | LoadError::Unreadable(_)
        ))
    )
}

/// Name of the user that this program runs as.
fn own_name() -> Option<String> {
    let mut table = ProcessTable::new(ProcRoot::default(), Passwd::System);
    let own = table.resolve(Pid(std::process::id())).ok()?;
    own.own.ok()?.name
}
