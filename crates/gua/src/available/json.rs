//! The answer for programs: the cards, the others with what speaks against them, and the claim. No command line.
//! `docs/schema/gua.available.v1.json` is the form of it.

use gua_model::pick::{against, free_memory};
use gua_model::text::sanitize;
use gua_model::{Gpu, classify};
use serde_json::{Value, json};

use super::holds;
use super::page::Page;
use crate::claims::words::{Names, deadline};

/// The form of this JSON. Keys are added under the same number; none changes its meaning.
const SCHEMA: &str = "gua.available.v1";

pub(super) fn page(page: &Page<'_>) -> Value {
    let mut names = Names::default();
    let others: Vec<Value> = page
        .found
        .others
        .iter()
        .map(|(gpu, why)| {
            let mut shown = card(gpu);
            shown["why"] = why.to_string().into();
            shown["used_seconds_ago"] = page.used_seconds_ago(why).into();
            let state = classify(gpu, &page.wish.thresholds, None).state;
            shown["state"] = state.as_str().into();
            let holders = against(gpu, page.wish)
                .map(|process| crate::commands::list::json::holder(process, page.sample));
            shown["holders"] = holders.collect();
            let claims = page.claims.iter().filter(|live| holds(live, &gpu.uuid));
            let claims =
                claims.map(|live| crate::claim::json::claim(live, &mut names, page.sample.at));
            shown["claims"] = claims.collect();
            shown
        })
        .collect();
    let claim = page.granted.map(|claim| {
        let left = claim.deadline.saturating_sub(page.sample.since_boot);
        json!({
            "id": claim.id.to_string(),
            "for_pid": claim.for_process.pid.0,
            "until": deadline(left, page.sample.at).map(|at| at.to_string()),
        })
    });
    json!({
        "schema": SCHEMA,
        "at": page.sample.at.to_string(),
        "rule": page.rule(),
        "available": page.found.free.iter().map(|gpu| card(gpu)).collect::<Vec<_>>(),
        "not_available": others,
        "claim": claim,
    })
}

fn card(gpu: &Gpu) -> Value {
    json!({
        "index": gpu.index,
        "uuid": gpu.uuid.as_str(),
        "parent_uuid": gpu.place.parent().map(|parent| parent.as_str().to_owned()),
        "name": gpu.name.as_ref().ok().map(|name| sanitize(name)),
        "memory_free_bytes": free_memory(gpu).ok().map(|bytes| bytes.0),
        "memory_total_bytes": gpu.memory_total.ok().map(|bytes| bytes.0),
        "power_milliwatts": gpu.power.ok().map(|power| power.0),
        "temperature_celsius": gpu.temperature.ok().map(|degrees| degrees.0),
        "util_percent": gpu.util.ok().map(|util| util.get()),
    })
}
