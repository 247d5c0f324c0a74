//! The listing for programs: every reading with its unit in its name, `null` where there is none, no command line.
//! `docs/schema/gua.list.v1.json` is the form of it.

use gua_model::since::Start;
use gua_model::text::sanitize;
use gua_model::{Place, Process, Sample, State};
use gua_probe::host::time::ticks_per_second;
use serde_json::{Value, json};

use super::row::Row;
use crate::look::people;

/// The form of this JSON. Keys are added under the same number; none changes its meaning.
const SCHEMA: &str = "gua.list.v1";

/// `unread` is what kept the claims from being read.
#[must_use]
pub fn listing(sample: &Sample, rows: &[Row<'_>], unread: Option<&str>) -> Value {
    let problems = sample.problems.iter().map(ToString::to_string);
    let problems = problems.chain(unread.map(str::to_owned));
    json!({
        "schema": SCHEMA,
        "at": sample.at.to_string(),
        "driver_version": sample.driver.version.as_ref().ok(),
        "gpus": rows.iter().map(|row| card(row, sample, unread.is_none())).collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    })
}

fn card(row: &Row<'_>, sample: &Sample, has_claims_read: bool) -> Value {
    let claims = row.claims.iter().map(|claim| claim.json.clone());
    let gpu = row.gpu;
    let holders = row.holders.iter();
    json!({
        "index": row.index,
        "uuid": gpu.map(|gpu| gpu.uuid.as_str()),
        "parent_uuid": gpu.and_then(|gpu| Some(gpu.place.parent()?.as_str())),
        "place": match gpu.map(|gpu| &gpu.place) {
            Some(Place::Parent { .. }) => "parent",
            Some(Place::Instance { .. }) => "instance",
            Some(Place::Whole) | None => "whole",
        },
        "name": gpu.and_then(|gpu| gpu.name.as_ref().ok()).map(|name| sanitize(name)),
        "status": row.sign.as_str(),
        "state": row.state.map(State::as_str),
        "state_since": row.since.map(|since| since.at.to_string()),
        "state_since_is_bound": row.since.map(|since| since.start == Start::AtLatest),
        "unobserved_because": row.unseen.map(|why| why.as_str()),
        "util_percent": row.reading(|gpu| gpu.util).map(|util| util.get()),
        "memory_used_bytes": row.reading(|gpu| gpu.memory_used).map(|bytes| bytes.0),
        "memory_reserved_bytes": row.reading(|gpu| gpu.memory_reserved).map(|bytes| bytes.0),
        "memory_total_bytes": row.reading(|gpu| gpu.memory_total).map(|bytes| bytes.0),
        "power_milliwatts": row.reading(|gpu| gpu.power).map(|power| power.0),
        "power_limit_milliwatts": row.reading(|gpu| gpu.power_limit).map(|power| power.0),
        "temperature_celsius": row.reading(|gpu| gpu.temperature).map(|degrees| degrees.0),
        "fan_percent": row.reading(|gpu| gpu.fan).map(|fan| fan.0),
        "sm_clock_megahertz": row.reading(|gpu| gpu.sm_clock).map(|clock| clock.0),
        "oldest_holder_seconds": row.oldest.map(|age| age.as_secs()),
        "processes_listed": gpu.is_some_and(|gpu| gpu.compute_list.is_ok()),
        "claims": has_claims_read.then(|| claims.collect::<Vec<_>>()),
        "holders": holders.map(|process| holder(process, sample)).collect::<Vec<_>>(),
    })
}

/// One process on a card.
#[must_use]
pub fn holder(process: &Process, sample: &Sample) -> Value {
    let identity = process.identity.as_ref().ok();
    let workload = identity.map(|identity| &identity.workload);
    let age = identity.and_then(|identity| people::age(identity, sample, ticks_per_second()));
    json!({
        "pid": process.pid.0,
        "owner": people::owner(process),
        "owner_source": identity.and_then(|identity| Some(identity.owner()?.source.as_str())),
        "comm": identity.and_then(|identity| identity.comm.as_ref().ok()).map(|comm| sanitize(comm)),
        "memory_used_bytes": process.memory.ok().map(|bytes| bytes.0),
        "age_seconds": age.map(|age| age.as_secs()),
        "container": workload.and_then(|workload| Some(workload.container.as_ref()?.as_str())),
        "pod": workload.and_then(|workload| Some(workload.pod.as_ref()?.as_str())),
        "job": workload.and_then(|workload| Some(workload.job.as_ref()?.as_str())),
        "unseen_because": process.identity.as_ref().err().map(|why| why.as_str()),
    })
}
