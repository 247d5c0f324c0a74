//! `gua me`: what the user holds, used this week and could release. `--motd` prints the same as a log-in message.
//!
//! A log-in must not wait for a driver or a disk. The log-in message therefore uses the last recorded tick in place of the
//! driver, and the program ends without a message if the answer takes too long.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gua_collector::claims::{Claims, Names};
use gua_collector::{listing, notes};
use gua_model::quota::{Standing, Term};
use gua_model::report::Report;
use gua_model::{Owner, Period, Sample};
use gua_query::{Detail, QueryError, Question, TicksQuestion};
use gua_render::listing::ClaimsDocument;
use gua_render::me::{Facts, HeldGpu, Holding, MeDocument, NudgeNote};
use gua_settings::FlagValue;
use jiff::SignedDuration;

use super::{claim, quota};
use crate::commands::prelude::*;
use crate::context::this_process;

/// Maximum age of a recorded tick that is used for a log-in message.
const RECENT: SignedDuration = SignedDuration::from_mins(15);

pub fn run(args: &MeArgs, flags: &[FlagValue]) -> anyhow::Result<ExitCode> {
    if let Some(longest) = args.motd {
        return login_message(flags, longest);
    }
    let context = Context::load(flags)?;
    let me = owner()?;
    let mut problems = Vec::new();
    let sample = context.sample();
    if let Err(fault) = &sample {
        problems.push(chain(fault));
    }
    let sample = sample.ok();
    let week = week(&context, &me).unwrap_or_else(|error| {
        problems.push(error);
        None
    });
    let standings = standings(&context, &me).unwrap_or_else(|error| {
        let problem = chain(error.as_ref());
        // Without a history, both questions fail with the same message.
        if !problems.contains(&problem) {
            problems.push(problem);
        }
        Vec::new()
    });
    let is_seen = sample.is_some();
    let document = document(&context, &me, (sample, week.as_ref()), standings, problems);
    output::data(&match args.format.wanted() {
        TableFormat::Text => document.text(&context.zone()),
        TableFormat::Json => document.json(),
        TableFormat::Csv => csv(&document.table()),
    })?;
    if args.format.wanted() != TableFormat::Json {
        for problem in &document.problems {
            output::eprint(&format!("gua me: {problem}\n"));
        }
    }
    Ok(success_or(Exit::Failed, is_seen))
}

/// Prints the log-in message. Nothing that fails here may disturb a log-in, so that errors are silent.
fn login_message(flags: &[FlagValue], longest: Duration) -> anyhow::Result<ExitCode> {
    let (send, receive) = mpsc::channel();
    let flags = flags.to_vec();
    let started = thread::Builder::new().spawn(move || {
        // The receiver may have given up.
        let _ = send.send(recorded_message(&flags));
    });
    if started.is_ok()
        && let Ok(Some(message)) = receive.recv_timeout(longest)
    {
        output::data(&message)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The log-in message by the last recorded tick; `None` without a recent one.
fn recorded_message(flags: &[FlagValue]) -> Option<String> {
    let context = Context::load_with_valid_flags(flags).ok()?;
    let me = owner().ok()?;
    let now = context.now();
    let question = TicksQuestion {
        window: Period::new(now.checked_sub(RECENT).ok()?, now),
        limit: 1,
    };
    let ticks = context.source().ticks(&question).ok()?;
    let sample = ticks.into_iter().next_back()?.sample;
    let standings = standings(&context, &me).unwrap_or_default();
    let document = document(&context, &me, (Some(sample), None), standings, Vec::new());
    Some(document.login_message())
}

/// The document about a user on the GPUs of a sample.
fn document(
    context: &Context,
    me: &Owner,
    (sample, week): (Option<Sample>, Option<&Report>),
    standings: Vec<Standing>,
    mut problems: Vec<String>,
) -> MeDocument {
    let seen = sample.as_ref();
    let at = seen.map_or_else(|| context.now(), |sample| sample.at);
    let gpus = seen.map(|sample| holdings(context, sample, me));
    let nudges = seen.map_or_else(Vec::new, |sample| nudges(context, sample, me));
    let claims = claims(context, sample).unwrap_or_else(|error| {
        problems.push(error);
        None
    });
    MeDocument::new(&Facts {
        at,
        user: me.who.shown().into_owned(),
        gpus,
        week,
        standings,
        nudges,
        claims,
        problems,
    })
}

/// The owner of this process, as in the history.
fn owner() -> Result<Owner, Failure> {
    let owner = this_process().and_then(|own| own.owner());
    owner.ok_or_else(|| Failure::failed("the owner of this process is unknown"))
}

/// Processes of the user on the GPUs of a sample.
fn holdings(context: &Context, sample: &Sample, me: &Owner) -> Vec<HeldGpu> {
    let (rows, _) = listing::rows(&context.loaded, sample, None);
    let mut found = Vec::new();
    for row in &rows {
        let Some(gpu) = row.gpu else { continue };
        let state = row.state;
        let since = row.since.map(|since| since.at);
        let keeps = row.keeps.iter().map(|keep| &keep.listed);
        let mut own = keeps.filter(|keep| me.who.uid().is_some_and(|uid| uid.0 == keep.uid));
        let kept = own.next();
        for process in &row.holders {
            let Ok(identity) = &process.identity else {
                continue;
            };
            if identity.owner().is_none_or(|owner| owner.who != me.who) {
                continue;
            }
            let idle = row.idle.as_ref();
            let idle = idle.map(|idle| idle.of(Some(identity.key)));
            let holding = Holding {
                gpu_index: row.index,
                gpu_uuid: gpu.uuid.to_string(),
                gpu_name: gpu.name.clone().ok(),
                state: state.map(|state| state.as_str()),
                pid: process.pid.0,
                process: identity.comm.clone().ok(),
                memory_bytes: process.memory.ok().map(|memory| memory.0),
                state_since: since,
                kept_until: kept.map(|keep| keep.until),
                kept_why: kept.map(|keep| keep.why.clone()),
            };
            found.push(HeldGpu::new(holding, idle, sample.at));
        }
    }
    found
}

/// Questions of other users whether the user still needs GPUs.
fn nudges(context: &Context, sample: &Sample, me: &Owner) -> Vec<NudgeNote> {
    let of = |uid| notes::nudges_to(context.settings(), uid, sample);
    me.who.uid().map_or_else(Vec::new, of)
}

/// The report of this week about the user. `None` if there is no history, or if it does not name the user.
fn week(context: &Context, me: &Owner) -> Result<Option<Report>, String> {
    let (zone, now) = (context.zone(), context.now());
    let period = Term::Week.period(now, &zone);
    let question = Question {
        person: Some(me.who.shown().into_owned()),
        detail: Detail::Sums,
        ..Question::of_window(period, zone, now)
    };
    match context.source().report(&question) {
        Ok(report) => Ok(Some(report)),
        Err(QueryError::NoSuchPerson { .. }) => Ok(None),
        Err(error) => Err(match location::usage_error(&error) {
            Some(Failure { message, hint, .. }) => {
                let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
                message + &hint
            }
            None => chain(&error),
        }),
    }
}

/// Limits that apply to the user, with their use.
fn standings(context: &Context, me: &Owner) -> anyhow::Result<Vec<Standing>> {
    if context.settings().quotas.is_empty() {
        return Ok(Vec::new());
    }
    let accounts = quota::accounts_to_refuse(context)?;
    Ok(accounts.of_person(&me.who.shown())?)
}

/// All claims, and the uid of the user. A host without a directory for claims has none.
fn claims(
    context: &Context,
    sample: Option<Sample>,
) -> Result<Option<(ClaimsDocument, u32)>, String> {
    let Ok(claims) = Claims::open(context.settings()) else {
        return Ok(None);
    };
    let seen = claim::Seen::of(&claims, sample, context).map_err(|error| chain(&error))?;
    let document = claim::document(claims.dir.path(), &seen, &mut Names::default());
    Ok(Some((document, claims.dir.me().0)))
}
