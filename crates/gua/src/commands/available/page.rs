//! Output of `gua available`: the free GPUs for scripts, and the holders of the others for people.

use gua_claim::{Claim, LiveClaim};
use gua_collector::claims::Names;
use gua_model::pick::{Obstacle, Wish, against};
use gua_model::text::short_age;
use gua_model::{Gpu, Place, Sample, classify};
use gua_probe::host::time::ticks_per_second;
use gua_render::document::pretty;
use gua_render::listing::people;
use gua_render::table::csv;

use super::query::Query;
use super::{Found, json};
use crate::cli::{RuleName, TableFormat};
use crate::output;

/// Maximum number of holders that are named; more are counted.
const NAMED: usize = 4;

/// Everything that an answer contains.
pub(super) struct Page<'a> {
    pub(super) sample: &'a Sample,
    pub(super) wish: &'a Wish,
    pub(super) query: &'a Query<'a>,
    pub(super) found: &'a Found<'a>,
    pub(super) claims: &'a [LiveClaim],
    /// The claim on the GPUs that are printed.
    pub(super) granted: Option<&'a Claim>,
}

impl Page<'_> {
    /// Prints the GPUs as text, or everything as JSON or CSV.
    pub(super) fn print(&self, has_answer: bool) -> anyhow::Result<()> {
        match self.query.format {
            None => return Ok(()),
            Some(TableFormat::Json) => {
                return output::raw(pretty(&json::document(self)).as_bytes());
            }
            Some(TableFormat::Csv) => return output::data(&csv(&json::document(self).table())),
            Some(TableFormat::Text) if !has_answer => return Ok(()),
            Some(TableFormat::Text) => {}
        }
        let name = |gpu: &&Gpu| match self.query.args.uuid {
            true => gpu.uuid.to_string(),
            false => gpu.index.to_string(),
        };
        let names: Vec<String> = self.found.free.iter().map(name).collect();
        output::data(&format!("{}\n", names.join(",")))
    }

    /// Name of the rule.
    pub(super) fn rule(&self) -> &'static str {
        match self.query.args.rule {
            RuleName::Gua => "gua",
            RuleName::Nvgpu => "nvgpu",
        }
    }

    /// Age of the last recorded use, if that is the obstacle.
    pub(super) fn used_seconds_ago(&self, why: &Obstacle) -> Option<i64> {
        match why {
            Obstacle::UsedAt(at) => Some(self.sample.at.duration_since(*at).as_secs()),
            _ => None,
        }
    }

    /// One line for each GPU that is not free.
    pub(super) fn obstacles(&self) -> String {
        let mut names = Names::default();
        let mut text = String::new();
        for (gpu, why) in &self.found.others {
            let name = match &gpu.place {
                Place::Instance { .. } => format!("gpu {} instance {}", gpu.index, gpu.uuid),
                Place::Whole | Place::Parent { .. } => format!("gpu {}", gpu.index),
            };
            let line = match why {
                Obstacle::OtherModel | Obstacle::Divided => continue,
                Obstacle::Held => format!("{name} is held by {}", self.holders(gpu)),
                Obstacle::UsedAt(at) => {
                    let age = self.sample.at.duration_since(*at).unsigned_abs();
                    format!("{name} was in use {} ago", short_age(age))
                }
                Obstacle::Claimed => {
                    let by = self.claims.iter().filter(|live| live.holds(&gpu.uuid));
                    let by: Vec<String> =
                        by.map(|live| names.claim(live, self.sample.at)).collect();
                    format!("{name} is claimed by {}", by.join(" and by "))
                }
                other => format!("{name} is not free: {other}"),
            };
            text.push_str(&format!("{}: {line}\n", self.query.prefix));
        }
        let without_gpu = |problem: &&gua_model::Problem| problem.gpu.is_none();
        for problem in self.sample.problems.iter().filter(without_gpu) {
            text.push_str(&format!("{}: {problem}\n", self.query.prefix));
        }
        text
    }

    fn holders(&self, gpu: &Gpu) -> String {
        let ticks = ticks_per_second();
        let mut named: Vec<String> = against(gpu, self.wish)
            .map(|process| {
                let identity = process.identity.as_ref().ok();
                let age = identity.and_then(|identity| identity.age(self.sample.since_boot, ticks));
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
}
