//! Claims for programs. `docs/schema/gua.claims.v1.json` is the form of it.

use std::path::Path;

use gua_claim::{LiveClaim, Look, Waiter};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Seen;
use crate::claims::words::{Names, deadline};

/// The form of this JSON. Keys are added under the same number; none changes its meaning.
const SCHEMA: &str = "gua.claims.v1";

#[must_use]
pub(super) fn listing(directory: &Path, seen: &Seen, names: &mut Names) -> Value {
    let survey = &seen.survey;
    let now = seen.look.at.wall;
    let claims: Vec<Value> = survey
        .claims
        .iter()
        .map(|live| {
            let mut shown = claim(live, names, now);
            let cards = live.cards.iter().map(|card| {
                json!({
                    "uuid": card.gpu.as_str(),
                    "index": seen.index(&card.gpu),
                    "in_use": seen.is_in_use(live, card),
                })
            });
            shown["cards"] = cards.collect();
            shown
        })
        .collect();
    let queue = survey
        .queue
        .iter()
        .map(|waiter| place(waiter, &seen.look, names));
    json!({
        "schema": SCHEMA,
        "at": now.to_string(),
        "directory": directory.to_string_lossy(),
        "cards_seen": seen.sample.is_some(),
        "claims": claims,
        "queue": queue.collect::<Vec<_>>(),
        "problems": survey.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// One claim without its cards.
#[must_use]
pub fn claim(live: &LiveClaim, names: &mut Names, now: Timestamp) -> Value {
    json!({
        "id": live.claim.id.to_string(),
        "user": names.user(live.claim.owner),
        "uid": live.claim.owner.0,
        "for_pid": live.claim.for_process.pid.0,
        "for_comm": names.comm(&live.claim.for_process),
        "since": live.claim.made.to_string(),
        "until": deadline(live.left, now).map(|at| at.to_string()),
    })
}

fn place(waiter: &Waiter, look: &Look, names: &mut Names) -> Value {
    json!({
        "user": names.user(waiter.owner),
        "uid": waiter.owner.0,
        "pid": waiter.process.pid.0,
        "comm": names.comm(&waiter.process),
        "wanted": waiter.wanted,
        "waited_seconds": waited(waiter, look).as_secs(),
    })
}

pub(super) fn waited(waiter: &Waiter, look: &Look) -> std::time::Duration {
    look.at.since_boot.saturating_sub(waiter.arrived)
}
