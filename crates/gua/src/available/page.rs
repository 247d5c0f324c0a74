//! What `gua available` prints: the cards for a script, JSON, and for people who holds the others.

use gua_claim::{Claim, LiveClaim};
use gua_model::pick::{Obstacle, Wish, against, free_memory};
use gua_model::text::short_age;
use gua_model::{Gpu, Place, Sample, classify};
use gua_probe::host::time::ticks_per_second;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Found, holds};
use crate::claims::words::{Names, deadline};
use crate::cli::{AvailableArgs, RuleName};
use crate::look::people;
use crate::output;

/// The version of the JSON. Keys are added under the same number; none changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Holders beyond this are counted and not named.
const NAMED: usize = 4;

/// Everything that an answer is made of.
pub(super) struct Page<'a> {
    pub(super) sample: &'a Sample,
    pub(super) wish: &'a Wish,
    pub(super) args: &'a AvailableArgs,
    pub(super) found: &'a Found<'a>,
    pub(super) claims: &'a [LiveClaim],
}

impl Page<'_> {
    /// Prints the cards, or all of it as JSON.
    pub(super) fn print(&self, has_answer: bool, granted: Option<&Claim>) -> anyhow::Result<()> {
        if self.args.json {
            let text = serde_json::to_string_pretty(&self.json(granted))?;
            return output::raw(format!("{text}\n").as_bytes());
        }
        if !has_answer {
            return Ok(());
        }
        let name = |gpu: &&Gpu| match self.args.uuid {
            true => gpu.uuid.to_string(),
            false => gpu.index.to_string(),
        };
        let names: Vec<String> = self.found.free.iter().map(name).collect();
        output::data(&format!("{}\n", names.join(",")))
    }

    /// One line a card that is not free.
    pub(super) fn told(&self) -> String {
        let mut names = Names::default();
        let mut text = String::new();
        for (gpu, why) in &self.found.others {
            let card = match &gpu.place {
                Place::Instance { .. } => format!("gpu {} instance {}", gpu.index, gpu.uuid),
                Place::Whole | Place::Parent { .. } => format!("gpu {}", gpu.index),
            };
            let line = match why {
                Obstacle::OtherModel | Obstacle::Divided => continue,
                Obstacle::Held => format!("{card} is held by {}", self.holders(gpu)),
                Obstacle::UsedAt(at) => {
                    let age = self.sample.at.duration_since(*at).unsigned_abs();
                    format!("{card} was in use {} ago", short_age(age))
                }
                Obstacle::Claimed => {
                    let by = self.claims.iter().filter(|live| holds(live, &gpu.uuid));
                    let by: Vec<String> =
                        by.map(|live| names.claim(live, self.sample.at)).collect();
                    format!("{card} is claimed by {}", by.join(" and by "))
                }
                other => format!("{card} is not free: {other}"),
            };
            text.push_str(&format!("gua available: {line}\n"));
        }
        let of_no_card = |problem: &&gua_model::Problem| problem.gpu.is_none();
        for problem in self.sample.problems.iter().filter(of_no_card) {
            text.push_str(&format!("gua available: {problem}\n"));
        }
        text
    }

    fn seconds_since(&self, at: Timestamp) -> i64 {
        self.sample.at.duration_since(at).as_secs()
    }

    fn holders(&self, gpu: &Gpu) -> String {
        let ticks = ticks_per_second();
        let mut named: Vec<String> = against(gpu, self.wish)
            .map(|process| {
                let identity = process.identity.as_ref().ok();
                let age = identity.and_then(|identity| people::age(identity, self.sample, ticks));
                let since =
                    age.map_or_else(String::new, |age| format!(", since {}", short_age(age)));
                let owner = people::owner_and_workload(process);
                format!("{owner} (pid {}{since})", process.pid)
            })
            .collect();
        let more = named.len().saturating_sub(NAMED);
        named.truncate(NAMED);
        if more > 0 {
            named.push(format!("{more} more"));
        }
        format!(
            "{}; {}",
            named.join(", "),
            classify(gpu, &self.wish.thresholds, None).state
        )
    }

    fn json(&self, granted: Option<&Claim>) -> Value {
        let mut names = Names::default();
        let others: Vec<Value> = self
            .found
            .others
            .iter()
            .map(|(gpu, why)| {
                let mut shown = card(gpu);
                shown["why"] = why.to_string().into();
                shown["used_seconds_ago"] = match why {
                    Obstacle::UsedAt(at) => self.seconds_since(*at).into(),
                    _ => Value::Null,
                };
                let state = classify(gpu, &self.wish.thresholds, None).state;
                shown["state"] = state.word().into();
                let holders = against(gpu, self.wish)
                    .map(|process| crate::list::json::holder(process, self.sample));
                shown["holders"] = holders.collect();
                let claims = self.claims.iter().filter(|live| holds(live, &gpu.uuid));
                let claims =
                    claims.map(|live| crate::claim::json::claim(live, &mut names, self.sample.at));
                shown["claims"] = claims.collect();
                shown
            })
            .collect();
        let mut shown = json!({
            "schema_version": SCHEMA_VERSION,
            "at": self.sample.at.to_string(),
            "rule": match self.args.rule {
                RuleName::Gua => "gua",
                RuleName::Nvgpu => "nvgpu",
            },
            "available": self.found.free.iter().map(|gpu| card(gpu)).collect::<Vec<_>>(),
            "not_available": others,
        });
        if let Some(claim) = granted {
            let left = claim.deadline.saturating_sub(self.sample.since_boot);
            shown["claim"] = json!({
                "id": claim.id.to_string(),
                "holder_pid": claim.holder.pid.0,
                "until": deadline(left, self.sample.at).map(|at| at.to_string()),
            });
        }
        shown
    }
}

fn card(gpu: &Gpu) -> Value {
    json!({
        "index": gpu.index,
        "uuid": gpu.uuid.as_str(),
        "parent_uuid": gpu.place.parent().map(|parent| parent.as_str().to_owned()),
        "name": gpu.name.as_ref().ok(),
        "memory_free_bytes": free_memory(gpu).ok().map(|bytes| bytes.0),
        "memory_total_bytes": gpu.memory_total.ok().map(|bytes| bytes.0),
        "power_milliwatts": gpu.power.ok().map(|power| power.0),
        "temperature_celsius": gpu.temperature.ok().map(|degrees| degrees.0),
        "util_percent": gpu.util.ok().map(|util| util.get()),
    })
}
