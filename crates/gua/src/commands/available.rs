//! `gua available`: prints the free GPUs for scripts, and the holders of the others for people.

mod found;
pub(crate) mod lease;
pub(crate) mod query;

use std::process::ExitCode;

use gua_collector::claims;
use gua_model::text::sanitize;
use gua_probe::process::is_user;

use self::found::Found;
use self::query::Query;
use super::board::fleet;
use super::quota;
use crate::cli::{AvailableArgs, RuleName};
use crate::context::Context;
use crate::failure::{Exit, Failure, success_or};
use crate::output;

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
        return Err(Failure::usage("--for needs --claim or --wait").into());
    }
    let sample = context.sample()?;
    let mut found = Found::new(query, &sample);
    if args.rule == RuleName::Nvgpu {
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
        false => found.obstacles() + &found.shortage(had, query.count()),
    });
    Ok(success_or(Exit::Nothing, is_enough))
}
