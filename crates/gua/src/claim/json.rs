//! Claims for programs.

use std::path::Path;

use gua_claim::{Hold, LiveClaim, Look, Survey, Waiter};
use gua_model::Sample;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::claims::words::{Names, deadline};

/// The version of this JSON. Keys are added under the same number; none changes its meaning.
const SCHEMA_VERSION: u32 = 1;

#[must_use]
pub(super) fn listing(
    directory: &Path,
    survey: &Survey,
    look: &Look,
    sample: Option<&Sample>,
    names: &mut Names,
) -> Value {
    let index = |uuid: &gua_model::GpuUuid| {
        let gpu = sample?.gpus.iter().find(|gpu| gpu.uuid == *uuid)?;
        Some(gpu.index)
    };
    let claims: Vec<Value> = survey
        .claims
        .iter()
        .map(|live| {
            let mut shown = claim(live, names, look.at.wall);
            let cards = live.cards.iter().map(|card| {
                json!({
                    "uuid": card.gpu.as_str(),
                    "index": index(&card.gpu),
                    "in_use": card.hold == Hold::InUse,
                })
            });
            shown["cards"] = cards.collect();
            shown
        })
        .collect();
    let queue = survey.queue.iter().map(|waiter| place(waiter, look, names));
    json!({
        "schema_version": SCHEMA_VERSION,
        "at": look.at.wall.to_string(),
        "directory": directory.to_string_lossy(),
        "cards_seen": sample.is_some(),
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
        "holder_pid": live.claim.holder.pid.0,
        "holder_comm": names.comm(&live.claim.holder),
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
        "waited_seconds": look.at.since_boot.saturating_sub(waiter.arrived).as_secs(),
    })
}
