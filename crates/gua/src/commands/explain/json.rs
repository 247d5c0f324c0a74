//! The answer for programs: the same facts as the text, with `null` for missing ones.

use gua_model::classify::holders;
use gua_model::since::Start;
use gua_model::text::sanitize;
use gua_model::{Basis, GpuUuid, Micros, Outage, RollUp, State};
use gua_probe::doctor::sample_json;
use gua_query::explain::{Answer, Found, GapFound, QuarterFound, Seen, When};
use gua_render::explain::words;
use serde_json::{Map, Value, json};

/// Version of the JSON document. New keys do not change the version; existing keys keep their meaning.
const SCHEMA_VERSION: u32 = 1;

pub(super) fn json(answer: &Answer) -> Value {
    let gpu = &answer.gpu;
    let mut record = Map::new();
    let mut put = |key: &str, value: Value| record.insert(key.to_owned(), value);
    put("schema_version", SCHEMA_VERSION.into());
    put("at", answer.at.to_string().into());
    put("uuid", gpu.uuid.as_ref().map(GpuUuid::as_str).into());
    put("index", gpu.index.into());
    put("name", gpu.name.as_ref().map(|name| sanitize(name)).into());
    put(
        "parent_uuid",
        gpu.parent.as_ref().map(GpuUuid::as_str).into(),
    );
    let (kind, state, rest) = match &answer.found {
        Found::Seen(seen) => {
            let kind = match seen.when {
                When::Now => "now",
                When::Tick { .. } => "tick",
            };
            let state = match seen.shares.as_slice() {
                [share] if seen.gpu.place.counts() => Some(share.verdict.state),
                _ => None,
            };
            (kind, state, self::seen(seen))
        }
        Found::Gap(found) => ("gap", Some(State::Unobserved), json!({ "gap": gap(found) })),
        Found::Quarter(found) => ("quarter", None, quarter(found)),
        Found::ImportedRow(row) => (
            "old-row",
            None,
            json!({
                "row_at": row.at.to_string(),
                "interval_seconds": row.interval.as_secs_f64(),
                "util_percent": row.util,
                "roll_up": row.class.as_str(),
                "processes": row.processes.iter().map(|(name, mb)| json!({
                    "owner": name.as_ref().map(|name| sanitize(name)),
                    "memory_mb": mb,
                })).collect::<Vec<_>>(),
            }),
        ),
        Found::Before { first } => (
            "before-first",
            None,
            json!({
                "first_seen": first.map(|first| first.to_string()),
            }),
        ),
        Found::InstanceAbsent => ("instance-not-there", None, json!({})),
        Found::NoImportedRow { last } => (
            "no-old-row",
            None,
            json!({
                "last_row_at": last.map(|last| last.to_string()),
            }),
        ),
    };
    put("found", kind.into());
    put("state", state.map(State::as_str).into());
    put(
        "roll_up",
        state.and_then(State::roll_up).map(RollUp::as_str).into(),
    );
    put("rule", state.map(words::rule).into());
    if let Value::Object(rest) = rest {
        record.extend(rest);
    }
    record.into()
}

fn seen(seen: &Seen) -> Value {
    let all: u64 = seen.shares.iter().map(|share| share.weight).sum();
    let mut shares = Vec::new();
    for share in &seen.shares {
        let state = share.verdict.state;
        let buffered = matches!(
            seen.when,
            When::Tick {
                basis: Basis::Buffer,
                ..
            }
        );
        shares.push(json!({
            "state": state.as_str(),
            "roll_up": state.roll_up().map(RollUp::as_str),
            "weight": share.weight,
            "of": all,
            "rule": words::rule(state),
            "reasons": words::reasons(&share.verdict, buffered.then_some((share.weight, all))),
            "evidence": sample_json::evidence(&share.verdict.evidence),
        }));
    }
    let (span, window) = match &seen.when {
        When::Now => (Value::Null, seen.gpu.window.ok()),
        When::Tick {
            period,
            interval,
            basis,
            window,
            ended_by_next,
        } => (
            json!({
                "from": period.from().to_string(),
                "to": period.to().to_string(),
                "seconds": seconds(period.micros()),
                "interval_seconds": interval.as_secs_f64(),
                "basis": basis.as_str(),
                "ended_by_next_tick": ended_by_next,
            }),
            *window,
        ),
    };
    let gpu = &seen.gpu;
    let holding: Vec<_> = holders(gpu, &seen.thresholds).collect();
    let processes = gpu.processes.iter().map(|process| {
        let mut value = sample_json::process(process);
        let key = process.identity.as_ref().ok().map(|identity| identity.key);
        let session = seen
            .sessions
            .iter()
            .rfind(|session| Some(session.key.process) == key);
        value["holds"] = holding.contains(&process).into();
        value["since"] = session.map(|session| session.from.to_string()).into();
        value
    });
    json!({
        "sampled_at": seen.at.to_string(),
        "counts_as_capacity": gpu.place.counts(),
        "instances": seen.instances.iter().map(GpuUuid::as_str).collect::<Vec<_>>(),
        "state_since": seen.since.map(|since| since.at.to_string()),
        "state_since_is_bound": seen.since.map(|since| since.start == Start::AtLatest),
        "shares": shares,
        "span": span,
        "util_window": window.as_ref().map(sample_json::window),
        "memory_used_bytes": gpu.memory_used.ok().map(|bytes| bytes.0),
        "memory_total_bytes": gpu.memory_total.ok().map(|bytes| bytes.0),
        "processes_listed": gpu.compute_list.is_ok(),
        "processes": processes.collect::<Vec<_>>(),
        "problems": seen.problems.iter().map(sample_json::problem).collect::<Vec<_>>(),
        "gap": seen.gap.as_ref().map(gap),
    })
}

fn gap(gap: &GapFound) -> Value {
    let outage = |outage: &Outage| {
        json!({
            "from": outage.from.to_string(),
            "to": outage.to.to_string(),
            "reason": outage.reason.as_str(),
            "detail": sanitize(&outage.detail),
            "ticks_lost": outage.ticks_lost,
        })
    };
    json!({
        "from": gap.period.from().to_string(),
        "to": gap.period.to().to_string(),
        "seconds": seconds(gap.period.micros()),
        "from_is_bound": gap.from_is_bound,
        "to_is_bound": gap.to_is_bound,
        "goes_on": gap.goes_on,
        "reason": gap.reason.as_str(),
        "outages": gap.outages.iter().map(outage).collect::<Vec<_>>(),
    })
}

fn quarter(found: &QuarterFound) -> Value {
    let states = found.total.states.iter().map(|((state, basis), sum)| {
        json!({
            "state": state.as_str(),
            "roll_up": state.roll_up().map(RollUp::as_str),
            "basis": basis.as_str(),
            "seconds": seconds(sum.micros),
        })
    });
    let unobserved = found.total.unobserved.iter();
    let owners = found.owners.iter().zip(&found.total.owners);
    json!({
        "from": found.period.from().to_string(),
        "to": found.period.to().to_string(),
        "ticks_kept_from": found.raw_from.to_string(),
        "ticks": found.total.card.ticks,
        "states": states.collect::<Vec<_>>(),
        "unobserved": unobserved.map(|(reason, micros)| json!({
            "reason": reason.as_str(),
            "seconds": seconds(*micros),
        })).collect::<Vec<_>>(),
        "owners": owners.map(|(name, (_, owner))| json!({
            "owner": name.as_ref().map(|name| sanitize(name)),
            "held_seconds": seconds(owner.held),
        })).collect::<Vec<_>>(),
    })
}

fn seconds(micros: Micros) -> f64 {
    std::time::Duration::from_micros(micros.0).as_secs_f64()
}
