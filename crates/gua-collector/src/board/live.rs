//! The live report of this host (`gua.live.v1`): whether `gua available` would offer each GPU, with the claims and keeps.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use gua_model::pick::{Criteria, LastUse, obstacle};
use gua_model::{GpuUuid, Sample};
use gua_query::LastUseQuestion;
use gua_settings::Settings;
use gua_wire::LiveReport;
use gua_wire::live::{GpuClaim, GpuKeep, LiveInputs};
use gua_wire::snapshot::ErrorCode;
use gua_wire::users::UserPolicy;
use jiff::{SignedDuration, Timestamp};

use super::quotas::QuotaReporter;
use crate::VERSION;
use crate::claims::{self, Names, Taken, deadline};
use crate::location::file_at;
use crate::notes;

/// Default of `gua available --free-for`.
const FREE_FOR: SignedDuration = SignedDuration::from_secs(60);

/// The live report of a host whose driver could not be read.
pub fn failed(hostname: &str, at: Timestamp) -> LiveReport {
    LiveReport::failed(hostname, VERSION, at, ErrorCode::NvmlInitFailed)
}

/// Builds live reports.
#[derive(Clone, Debug)]
pub struct LiveReporter {
    pub settings: Settings,
    /// History that shows whether a GPU was in use a moment ago.
    pub history: PathBuf,
    pub hostname: String,
    pub users: UserPolicy,
    /// Source of the use of quotas; `None` omits it from reports.
    pub quotas: Option<Arc<QuotaReporter>>,
}

impl LiveReporter {
    /// Builds the body of a push. Without a sample, the driver could not be read.
    pub fn body(&self, at: Timestamp, sample: Option<&Sample>) -> String {
        match sample {
            Some(sample) => self.report(sample).body(),
            None => failed(&self.hostname, at).body(),
        }
    }

    /// Builds the live report of a sample.
    pub fn report(&self, sample: &Sample) -> LiveReport {
        let criteria = Criteria {
            thresholds: self.settings.thresholds(),
            idle_since: sample.at.checked_sub(FREE_FOR).ok(),
            ..Criteria::default()
        };
        let last_use = self.last_use(sample, &criteria);
        let free = sample.gpus.iter();
        let free = free.filter(|gpu| obstacle(gpu, &criteria, &last_use).is_none());
        let free = free.map(|gpu| gpu.uuid.clone()).collect();
        let (taken, unread) = match claims::taken(&self.settings, sample, free) {
            Ok(taken) => (taken, None),
            Err(error) => (
                Taken::default(),
                Some(format!("cannot read claims: {error}")),
            ),
        };
        let mut report = self.build(sample, &criteria, &last_use, (&taken, &self.keeps(sample)));
        report.problems.extend(unread);
        let quotas = self.quotas.as_ref();
        report.quotas = quotas.map_or_else(Vec::new, |quotas| quotas.quotas(sample.at));
        report
    }

    /// Builds the live report of a recorded sample. Claims and keeps are not recorded.
    pub fn recorded(&self, sample: &Sample) -> LiveReport {
        let criteria = Criteria {
            thresholds: self.settings.thresholds(),
            ..Criteria::default()
        };
        let unknown = (&Taken::default(), &HashMap::new());
        self.build(sample, &criteria, &LastUse::new(), unknown)
    }

    fn build(
        &self,
        sample: &Sample,
        criteria: &Criteria,
        last_use: &LastUse,
        (taken, keeps): (&Taken, &HashMap<GpuUuid, Vec<GpuKeep>>),
    ) -> LiveReport {
        LiveInputs {
            hostname: &self.hostname,
            agent_version: VERSION,
            sample,
            users: &self.users,
            criteria,
            last_use,
            claims: &self.claims(taken, sample.at),
            keeps,
            kept: &taken.kept,
            waiting: u32::try_from(taken.survey.queue.len()).unwrap_or(u32::MAX),
        }
        .build()
    }

    /// Recent use. Without a history, only the sample decides, as for `gua available`.
    fn last_use(&self, sample: &Sample, criteria: &Criteria) -> LastUse {
        let Some(from) = criteria.idle_since else {
            return LastUse::new();
        };
        let question = LastUseQuestion {
            from,
            now: sample.at,
            thresholds: criteria.thresholds,
            as_free: Vec::new(),
        };
        let found = file_at(self.history.clone()).last_use(&question);
        found.unwrap_or_default()
    }

    fn claims(&self, taken: &Taken, now: Timestamp) -> HashMap<GpuUuid, GpuClaim> {
        let mut names = Names::default();
        let mut claims = HashMap::new();
        for live in &taken.survey.claims {
            let owner = names.user(live.claim.owner);
            let claim = GpuClaim {
                owner: self.users.apply(&owner).map(Into::into),
                until: deadline(live.left, now),
            };
            let gpus: HashSet<&GpuUuid> = live.gpus.iter().map(|leased| &leased.gpu).collect();
            claims.extend(gpus.into_iter().map(|gpu| (gpu.clone(), claim.clone())));
        }
        claims
    }

    /// Keeps of the people who hold each GPU.
    fn keeps(&self, sample: &Sample) -> HashMap<GpuUuid, Vec<GpuKeep>> {
        let keeps = notes::keeps(&self.settings, sample.at);
        let (mut names, thresholds) = (Names::default(), self.settings.thresholds());
        let gpus = sample.gpus.iter().filter(|_| !keeps.is_empty());
        let of_gpu = gpus.map(|gpu| {
            let its = notes::of_gpu(&keeps, gpu, &thresholds, (&mut names, sample.at));
            let its = its.into_iter().map(|kept| {
                let keep = kept.listed;
                GpuKeep::new(&self.users, &keep.user, keep.until, &keep.why)
            });
            (gpu.uuid.clone(), its.collect())
        });
        of_gpu.collect()
    }
}
