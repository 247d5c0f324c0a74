//! GPUs that one user holds, used and could release: the output of `gua me`, and its short form for a login.

use gua_model::idle::{Idle, is_idle_now};
use gua_model::quota::Standing;
use gua_model::report::Report;
use gua_model::table::Table;
use gua_model::text::{counted, gigabytes, sanitize, short_age};
use gua_model::{Bytes, State};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

use crate::document::{Window, documents, local, pretty, rows};
use crate::listing::{ClaimEntry, ClaimsDocument};
use crate::quota::{self, QuotaRow, quota_rows};
use crate::report::{IdleTime, PersonSums};
use crate::table::table;

/// Format name of [`MeDocument`].
pub const SCHEMA: &str = "gua.me.v1";

rows! {
    /// One process of the user on one GPU.
    pub struct Holding {
        gpu_index: u32 as "gpu",
        gpu_uuid: String as "uuid",
        gpu_name: Option<String> as "name",
        /// State of the GPU.
        state: Option<&'static str>,
        pid: u32,
        /// Short name of the process.
        process: Option<String>,
        memory_bytes: Option<u64> as "memory",
        /// Start of the state, if a daemon has recorded it.
        state_since: Option<Timestamp> as "since",
        /// Until when the user keeps the GPU (`gua keep`).
        kept_until: Option<Timestamp> as "kept",
        /// The reason that the user gave.
        kept_why: Option<String> as "why",
    }
}

/// A process of the user, and for how long it has been idle.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeldGpu {
    #[serde(flatten)]
    pub holding: Holding,
    #[serde(flatten)]
    pub idle: IdleTime,
    /// The idle time in words, if it is known and not zero.
    #[serde(skip)]
    idle_for: Option<String>,
    /// Whether it has been idle for long enough to advise ending it.
    #[serde(skip)]
    is_idle_for_long: bool,
}

documents! {
    /// Output of `gua me --json`. Keys may be added under the same version; none changes its meaning. CSV has the rows
    /// of `gpus`.
    pub struct MeDocument from (facts: &Facts<'_>) {
        pub schema: &'static str = SCHEMA,
        /// Time at which the GPUs were read, in UTC.
        pub at: Timestamp = facts.at,
        pub user: String = facts.user.clone(),
        /// Null if the GPUs could not be read.
        pub gpus: Option<Vec<HeldGpu>> = facts.gpus.clone(),
        /// Null without a history, and if it does not name the user.
        pub week: Option<Week> = facts.week.map(Week::new),
        pub quotas: Vec<QuotaRow> = quota_rows(&facts.standings),
        /// Leases of the user.
        pub claims: Vec<ClaimEntry> = own_claims(facts),
        /// Waiting requests of the user.
        pub queue: Vec<QueuePlace> = own_requests(facts),
        /// Questions of other users whether the user still needs GPUs (`gua nudge`).
        pub nudges: Vec<NudgeNote> = facts.nudges.clone(),
        /// GPUs that the user could release, each with the command that releases it: held ones that were not used for
        /// at least 10 minutes and are not kept, and unused leases.
        pub releasable: Vec<Releasable> = releasable(facts),
        /// Facts that could not be found out, in words.
        pub problems: Vec<String> = facts.problems.clone(),
        #[serde(skip)]
        standings: Vec<Standing> = facts.standings.clone(),
    }

    /// Use in the current week, which starts on Monday in the local time zone.
    pub struct Week from (report: &Report) {
        pub period: Window = report.window.into(),
        #[serde(flatten)]
        pub sums: PersonSums = PersonSums::new(&report.all.held),
    }
}

/// A waiting request and its place in the queue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QueuePlace {
    /// 1 is next.
    pub place: usize,
    /// Number of requests in the queue.
    pub of: usize,
    /// Number of GPUs wanted.
    pub wanted: usize,
    pub waited_seconds: u64,
}

/// A question of another user.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NudgeNote {
    pub user: String,
    pub at: Timestamp,
    /// Indexes of the GPUs that were idle then.
    pub gpus: Vec<u32>,
}

/// A GPU that the user could release.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Releasable {
    pub gpu_index: Option<u32>,
    /// Why it counts as unused.
    pub reason: String,
    /// Command that releases it.
    pub command: String,
}

/// Everything that [`MeDocument`] is made from.
#[derive(Debug)]
pub struct Facts<'a> {
    pub at: Timestamp,
    pub user: String,
    /// `None` if the GPUs could not be read.
    pub gpus: Option<Vec<HeldGpu>>,
    pub week: Option<&'a Report>,
    pub standings: Vec<Standing>,
    /// Claims of all users, and the uid whose claims count.
    pub claims: Option<(ClaimsDocument, u32)>,
    pub nudges: Vec<NudgeNote>,
    pub problems: Vec<String>,
}

impl HeldGpu {
    /// Adds the idle time at a moment to a process.
    pub fn new(holding: Holding, idle: Option<Idle>, at: Timestamp) -> Self {
        Self {
            holding,
            idle: IdleTime::new(idle, at),
            idle_for: idle
                .filter(|idle| idle.length(at).as_secs() > 0)
                .map(|idle| format!("idle for {}", idle.shown(at))),
            is_idle_for_long: idle.is_some_and(|idle| idle.is_long(at)),
        }
    }

    /// Whether the process only held its GPU at this reading.
    fn is_idle(&self) -> bool {
        let mut idle = State::ALL.into_iter().filter(|state| is_idle_now(*state));
        idle.any(|state| Some(state.as_str()) == self.holding.state)
    }
}

impl Holding {
    fn label(&self) -> String {
        let process = self.process.as_deref().map_or("?".to_owned(), sanitize);
        format!("{process} ({})", self.pid)
    }

    fn kept(&self, zone: &TimeZone) -> Option<String> {
        let until = local(self.kept_until?, zone, "%a %H:%M");
        let why = self.kept_why.as_deref().map_or_else(String::new, sanitize);
        Some(format!("kept until {until}: {why}"))
    }
}

impl MeDocument {
    /// Returns the processes as one table.
    pub fn table(&self) -> Table {
        let gpus = || self.gpus.iter().flatten();
        let idle = gpus().map(|held| &held.idle);
        Table::of(Holding::COLUMNS, gpus().map(|held| &held.holding))
            .beside(Table::of(IdleTime::COLUMNS, idle))
    }

    pub fn json(&self) -> String {
        pretty(self)
    }

    /// Returns the text for a terminal.
    pub fn text(&self, zone: &TimeZone) -> String {
        let mut out = self.holdings(zone);
        for nudge in &self.nudges {
            out.push_str(&format!("{}\n", nudge.sentence()));
        }
        if let Some(week) = &self.week {
            let sums = &week.sums;
            let charged = sums
                .charged_hours
                .map_or(String::new(), |hours| format!(", {:.1} h charged", hours.0));
            let energy = sums
                .energy_kwh
                .map_or(String::new(), |energy| format!(", {:.1} kWh", energy.0));
            out.push_str(&format!(
                "This week: {:.1} h held, {:.1} h of them idle{charged}{energy}\n",
                sums.held_hours.0, sums.idle_held_hours.0
            ));
        }
        if !self.standings.is_empty() {
            out.push_str(&quota::text(&self.standings, zone));
        }
        for place in &self.queue {
            out.push_str(&format!("Queue: {}\n", place.sentence()));
        }
        if !self.releasable.is_empty() {
            out.push_str("You could release\n");
        }
        for one in &self.releasable {
            out.push_str(&format!("  {}\n", one.sentence()));
        }
        out
    }

    fn holdings(&self, zone: &TimeZone) -> String {
        let user = sanitize(&self.user);
        let Some(gpus) = &self.gpus else {
            return format!("Cannot tell which GPUs {user} holds: the GPUs could not be read\n");
        };
        if gpus.is_empty() {
            return format!("{user} holds no GPU\n");
        }
        let memory = |bytes: u64| format!("{} GB", gigabytes(Bytes(bytes)));
        let about = |held: &HeldGpu| {
            let since = match (held.is_idle(), held.holding.state_since) {
                (true, _) => held.idle_for.clone(),
                (false, since) => since.map(|since| {
                    let length = self.at.duration_since(since).unsigned_abs();
                    format!("for {}", short_age(length))
                }),
            };
            let parts = [since, held.holding.kept(zone)].into_iter().flatten();
            parts.collect::<Vec<_>>().join(", ")
        };
        let table = table!(held in gpus =>
            "gpu" => held.holding.gpu_index,
            "state" => held.holding.state.unwrap_or("unknown"),
            "process" => held.holding.label(),
            "memory" => held.holding.memory_bytes.map(memory),
            "" => about(held),
        );
        format!("{user} holds\n{}", table.text(2))
    }

    /// Returns the lines of a log-in message. Empty if there is nothing to do.
    pub fn login_message(&self) -> String {
        let idle = self.releasable.iter().map(Releasable::sentence);
        let waiting = self.queue.iter().map(QueuePlace::sentence);
        let tight = self
            .standings
            .iter()
            .filter(|standing| standing.is_over() || standing.will_be_over());
        let tight = tight.map(|standing| {
            let word = match standing.is_over() {
                true => "over the limit",
                false => "over the limit soon at this pace",
            };
            format!("{word}: {}", quota::use_of(standing))
        });
        let nudges = self.nudges.iter().map(NudgeNote::sentence);
        let lines = nudges.chain(idle).chain(waiting).chain(tight);
        lines.map(|line| format!("gua: {line}\n")).collect()
    }
}

fn own_claims(facts: &Facts<'_>) -> Vec<ClaimEntry> {
    let Some((all, uid)) = &facts.claims else {
        return Vec::new();
    };
    let own = all.claims.iter().filter(|entry| entry.claim.uid == *uid);
    own.cloned().collect()
}

fn own_requests(facts: &Facts<'_>) -> Vec<QueuePlace> {
    let Some((all, uid)) = &facts.claims else {
        return Vec::new();
    };
    let own = all.queue.iter().zip(1..);
    let own = own.filter(|(entry, _)| entry.uid == *uid);
    own.map(|(entry, place)| QueuePlace {
        place,
        of: all.queue.len(),
        wanted: entry.wanted,
        waited_seconds: entry.waited_seconds,
    })
    .collect()
}

/// Processes that have been idle for long, then leases that are not in use.
fn releasable(facts: &Facts<'_>) -> Vec<Releasable> {
    let idle = facts.gpus.iter().flatten().filter(|held| {
        let is_kept = held.holding.kept_until.is_some();
        !is_kept && held.is_idle() && held.is_idle_for_long
    });
    let idle = idle.map(
        |HeldGpu {
             holding, idle_for, ..
         }| {
            let idle_for = idle_for.as_deref().unwrap_or_default();
            Releasable {
                gpu_index: Some(holding.gpu_index),
                reason: format!("{}, {idle_for}", holding.label()),
                command: format!("kill {}", holding.pid),
            }
        },
    );
    let unused = own_claims(facts).into_iter().flat_map(|entry| {
        let command = format!("gua claim release {}", entry.claim.id);
        let unused = entry
            .gpus
            .into_iter()
            .filter(|gpu| gpu.in_use == Some(false));
        unused.map(move |gpu| Releasable {
            gpu_index: gpu.index,
            reason: "leased, not in use".to_owned(),
            command: command.clone(),
        })
    });
    idle.chain(unused).collect()
}

impl NudgeNote {
    fn sentence(&self) -> String {
        let gpus: Vec<String> = self
            .gpus
            .iter()
            .map(|index| format!("GPU {index}"))
            .collect();
        let (user, gpus) = (sanitize(&self.user), gpus.join(", "));
        format!(
            "{user} asks whether you still need {gpus}; release it, or answer with `gua keep 2h --why TEXT`"
        )
    }
}

impl QueuePlace {
    fn sentence(&self) -> String {
        let wanted = counted(u64::try_from(self.wanted).unwrap_or(u64::MAX), "GPU");
        let waited = short_age(Duration::from_secs(self.waited_seconds));
        let Self { place, of, .. } = self;
        format!("your request for {wanted} is number {place} of {of}, waiting for {waited}")
    }
}

impl Releasable {
    fn sentence(&self) -> String {
        let gpu = self
            .gpu_index
            .map_or("GPU ?".to_owned(), |index| format!("GPU {index}"));
        format!("{gpu}: {}; to release it: {}", self.reason, self.command)
    }
}

#[cfg(test)]
mod tests {
    use gua_model::Micros;
    use gua_model::since::{Since, Start};
    use jiff::SignedDuration;

    use super::*;

    fn held(gpu_index: u32, state: State, idle: Option<Idle>, at: Timestamp) -> HeldGpu {
        let holding = Holding {
            gpu_index,
            gpu_uuid: format!("GPU-{gpu_index}"),
            gpu_name: None,
            state: Some(state.as_str()),
            pid: 4711 + gpu_index,
            process: Some("python".to_owned()),
            memory_bytes: Some(3 << 30),
            state_since: Some(at - SignedDuration::from_mins(5)),
            kept_until: None,
            kept_why: None,
        };
        HeldGpu::new(holding, idle, at)
    }

    #[test]
    fn only_a_process_that_has_been_idle_for_long_is_to_be_released() {
        let at: Timestamp = "2026-10-30T15:00:00Z".parse().unwrap();
        let idle = |since: SignedDuration, gap_hours: u64| Idle {
            since: Since {
                at: at - since,
                start: Start::Seen,
            },
            unobserved: Micros::from_secs(gap_hours * 3600),
        };
        let for_a_day = idle(SignedDuration::from_hours(26), 5);
        let for_minutes = idle(SignedDuration::from_mins(9), 0);
        let for_no_time = idle(SignedDuration::ZERO, 0);
        let document = MeDocument::new(&Facts {
            at,
            user: "ada".to_owned(),
            gpus: Some(vec![
                held(0, State::Active, None, at),
                held(1, State::IdleHeld, Some(for_a_day), at),
                held(2, State::IdleHeld, None, at),
                held(3, State::IdleHeld, Some(for_minutes), at),
                held(4, State::IdleHeld, Some(for_no_time), at),
            ]),
            week: None,
            standings: Vec::new(),
            claims: None,
            nudges: Vec::new(),
            problems: Vec::new(),
        });
        let text = document.text(&TimeZone::UTC);
        let ends: Vec<&str> = text
            .lines()
            .skip(2)
            .take(5)
            .map(|line| line.split_once("3.0 GB").unwrap().1.trim_start())
            .collect();
        let expected = [
            "for 5m00s",
            "idle for 1d2h (5h00m gap)",
            "",
            "idle for 9m00s",
            "",
        ];
        assert_eq!(ends, expected);
        // A process that has been idle for minutes, or at one reading, may be between two steps of its job.
        let only =
            "gua: GPU 1: python (4712), idle for 1d2h (5h00m gap); to release it: kill 4712\n";
        assert_eq!(document.login_message(), only);
        let asked = MeDocument {
            nudges: vec![NudgeNote {
                user: "bob".to_owned(),
                at,
                gpus: vec![1],
            }],
            ..document
        };
        let message = asked.login_message();
        let (first, rest) = message.split_once('\n').unwrap();
        assert!(
            first.starts_with("gua: bob asks whether you still need GPU 1"),
            "{first}"
        );
        assert_eq!(rest, only);
    }
}
