//! `gua available`: prints the free GPUs for scripts, and the holders of the others for people.

mod found;
pub(crate) mod lease;

use std::fmt::Display;

use gua_collector::claims;
use gua_model::pick::FreeRule;
use gua_probe::process::is_user;

use self::found::Found;
use super::board::fleet;
use super::quota;
use crate::commands::prelude::*;

pub fn run(args: &AvailableArgs, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(board) = &args.board {
        return fleet::available(args, board, context);
    }
    let query = &Query {
        prefix: "gua available",
        args,
        format: Some(args.format.wanted()),
        context,
    };
    for user in &args.account_as_free {
        // A UID needs no name, and a directory service that does not answer may know the name.
        if user.parse::<u32>().is_err() && is_user(user) == Some(false) {
            output::eprint(&query.line(format!("unknown user `{}`", sanitize(user))));
        }
    }
    if args.respect_quota {
        quota::refuse_who_is_over(context, query.prefix)?;
    }
    if args.claim.is_some() || args.waits().is_some() {
        return lease::run(query);
    }
    if args.for_pid.is_some() {
        bail!(Failure::usage("--for needs --claim or --wait"));
    }
    let sample = context.sample()?;
    let mut found = Found::new(query, &sample);
    if args.rule == FreeRule::MemoryAlone {
        // nvgpu has neither claims nor an exact number.
        found.limit();
        found.print(true, None)?;
        return Ok(ExitCode::SUCCESS);
    }
    match claims::taken(context.settings(), &sample, found.free_uuids()) {
        Ok(taken) => found.leave_out(taken),
        Err(error) => output::eprint(&query.line(error)),
    }
    let had = found.free.len();
    found.limit();
    let is_enough = !found.free.is_empty();
    found.print(is_enough, None)?;
    query.eprint(|| match is_enough {
        true => found.obstacles(),
        false => found.obstacles() + &found.shortage(had, args.exactly()),
    });
    Ok(success_or(Exit::Nothing, is_enough))
}

/// A request for free GPUs.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    /// The command that messages are prefixed with.
    pub(crate) prefix: &'static str,
    pub(crate) args: &'a AvailableArgs,
    /// Format of the answer on standard output; `None` prints no answer.
    pub(crate) format: Option<TableFormat>,
    pub(crate) context: &'a Context,
}

impl Query<'_> {
    /// A message of this command.
    pub(super) fn line(&self, message: impl Display) -> String {
        format!("{}: {message}\n", self.prefix)
    }

    /// Prints messages for people, unless `--quiet` is given.
    pub(super) fn eprint(&self, text: impl FnOnce() -> String) {
        if !self.args.quiet {
            output::eprint(&text());
        }
    }
}
