//! `gua explain` as JSON: the same facts as the text, with null for missing ones. `docs/schema/gua.explain.v1.json` is its schema.

use std::time::Duration;

use gua_model::classify::holders;
use gua_model::since::Start;
use gua_model::text::sanitize;
use gua_model::{Basis, GpuUuid, Micros, Outage, Period, Process, RollUp, Share, State, faults};
use gua_query::explain::{Answer, Found, GapFound, ImportedRow, QuarterFound, Seen, When};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{on_gpu_since, words};
use crate::document::{documents, sorted};
use crate::listing::ListedKeep;
use crate::listing::row::Kept;
use crate::sample::{EvidenceDocument, ProblemDocument, ProcessDocument, WindowDocument};

/// The name of this format.
pub const SCHEMA: &str = "gua.explain.v1";

/// The answer as JSON.
pub fn json(answer: &Answer, keeps: &[Kept]) -> String {
    sorted(&ExplainDocument::new(answer, keeps))
}

documents! {
    /// Output of `gua explain --json`. Keys may be added under the same version; none changes its meaning. Null means
    /// unknown or not applicable, never zero.
    pub struct ExplainDocument from (answer: &Answer, keeps: &[Kept]) {
        schema_version: u32 = 1,
        /// The time that is explained.
        at: Timestamp = answer.at,
        uuid: Option<String> = answer.gpu.uuid.as_ref().map(ToString::to_string),
        index: Option<u32> = answer.gpu.index,
        name: Option<String> = answer.gpu.name.as_deref().map(sanitize),
        /// The GPU of a MIG instance.
        parent_uuid: Option<String> = answer.gpu.parent.as_ref().map(ToString::to_string),
        /// Kind of facts about that time: `now`, `tick`, `gap`, `quarter`, `old-row`, `before-first`, `instance-not-there` or
        /// `no-old-row`.
        found: &'static str = kind(&answer.found),
        /// One of the states in docs/states.md; null where it is divided or unknown.
        state: Option<&'static str> = state(&answer.found).map(State::as_str),
        /// Of an imported row, as the tool that wrote it counts it.
        roll_up: Option<&'static str> = match &answer.found {
            Found::ImportedRow(row) => Some(row.class.as_str()),
            found => state(found).and_then(roll_up),
        },
        rule: Option<&'static str> = state(&answer.found).map(words::rule),
        /// Holders who still need the GPU, although they do not use it now.
        keeps: Vec<ListedKeep> = keeps.iter().map(|keep| keep.listed.clone()).collect(),
        #[serde(flatten)]
        facts: Facts = Facts::new(&answer.found),
    }

    /// A tick or a reading.
    pub struct SeenDocument from (seen: &Seen) {
        sampled_at: Timestamp = seen.at,
        /// False for a GPU whose MIG instances are counted in its place.
        counts_as_capacity: bool = seen.gpu.place.counts(),
        instances: Vec<String> = seen.instances.iter().map(GpuUuid::to_string).collect(),
        state_since: Option<Timestamp> = seen.since.map(|since| since.at),
        /// Whether it may be in this state for longer.
        state_since_is_bound: Option<bool> = seen.since.map(|since| since.start == Start::AtLatest),
        shares: Vec<ShareDocument> = {
            let all = seen.shares.iter().map(|share| share.weight).sum();
            let shares = seen.shares.iter();
            shares.map(|share| ShareDocument::new(share, all, &seen.when)).collect()
        },
        /// Null for a reading of now.
        span: Option<SpanDocument> = match seen.when {
            When::Now => None,
            When::Tick { period, interval, basis, ended_by_next, .. } => {
                Some(SpanDocument::new(period, interval, basis, ended_by_next))
            }
        },
        /// The driver's sample buffer.
        util_window: Option<WindowDocument> = match &seen.when {
            When::Now => seen.gpu.window.as_ref().ok().map(WindowDocument::new),
            When::Tick { window, .. } => window.as_ref().map(WindowDocument::new),
        },
        memory_used_bytes: Option<u64> = seen.gpu.memory_used.ok().map(|bytes| bytes.0),
        memory_total_bytes: Option<u64> = seen.gpu.memory_total.ok().map(|bytes| bytes.0),
        /// Faults of the GPU, in words.
        faults: Vec<String> = faults(&seen.gpu).iter().map(ToString::to_string).collect(),
        processes_listed: bool = seen.gpu.compute_list.is_ok(),
        processes: Vec<SeenProcess> = {
            let processes = seen.gpu.processes.iter();
            processes.map(|process| SeenProcess::new(process, seen)).collect()
        },
        problems: Vec<ProblemDocument> = seen.problems.iter().map(ProblemDocument::new).collect(),
        gap: Option<GapDocument> = seen.gap.as_ref().map(GapDocument::new),
    }

    /// A state and its part of the time.
    struct ShareDocument from (share: &Share, all: u64, when: &When) {
        state: &'static str = share.verdict.state.as_str(),
        roll_up: Option<&'static str> = roll_up(share.verdict.state),
        weight: u64 = share.weight,
        of: u64 = all,
        rule: &'static str = words::rule(share.verdict.state),
        reasons: Vec<String> = {
            let is_buffered = matches!(when, When::Tick { basis: Basis::Buffer, .. });
            words::reasons(&share.verdict, is_buffered.then_some((share.weight, all)))
        },
        evidence: EvidenceDocument = EvidenceDocument::new(&share.verdict.evidence),
    }

    /// The time that a tick covers.
    struct SpanDocument from (covered: Period, interval: Duration, on: Basis, ended_by_next: bool) {
        from: Timestamp = covered.from(),
        to: Timestamp = covered.to(),
        seconds: f64 = seconds(covered.micros()),
        interval_seconds: f64 = interval.as_secs_f64(),
        /// `buffer` or `instant`.
        basis: &'static str = on.as_str(),
        ended_by_next_tick: bool = ended_by_next,
    }

    /// A process on the GPU.
    struct SeenProcess from (on_gpu: &Process, seen: &Seen) {
        #[serde(flatten)]
        process: ProcessDocument = ProcessDocument::new(on_gpu),
        /// Whether it holds the GPU.
        holds: bool = holders(&seen.gpu, &seen.thresholds).any(|holder| holder == on_gpu),
        /// Since when it is on the GPU, if that is recorded.
        since: Option<Timestamp> = on_gpu_since(on_gpu, seen),
    }

    struct GapDocument from (gap: &GapFound) {
        from: Timestamp = gap.period.from(),
        to: Timestamp = gap.period.to(),
        seconds: f64 = seconds(gap.period.micros()),
        /// Whether it may have begun earlier.
        from_is_bound: bool = gap.from_is_bound,
        /// Whether it may have lasted longer.
        to_is_bound: bool = gap.to_is_bound,
        /// Whether it lasts until now.
        is_ongoing: bool = gap.is_ongoing,
        reason: &'static str = gap.reason.as_str(),
        outages: Vec<OutageDocument> = gap.outages.iter().map(OutageDocument::new).collect(),
    }

    struct OutageDocument from (outage: &Outage) {
        from: Timestamp = outage.from,
        to: Timestamp = outage.to,
        reason: &'static str = outage.reason.as_str(),
        detail: String = sanitize(&outage.detail),
        ticks_lost: u32 = outage.ticks_lost,
    }

    struct OnlyGap from (gap: &GapFound) {
        gap: GapDocument = GapDocument::new(gap),
    }

    /// The totals of a quarter hour whose ticks have been removed.
    struct QuarterDocument from (found: &QuarterFound) {
        from: Timestamp = found.period.from(),
        to: Timestamp = found.period.to(),
        ticks_kept_from: Timestamp = found.raw_from,
        ticks: u64 = found.total.gpu.ticks,
        states: Vec<StateTime> = {
            let states = found.total.states.iter();
            states.map(|((state, basis), sum)| StateTime::new(*state, *basis, sum.micros)).collect()
        },
        unobserved: Vec<UnobservedTime> = {
            let unobserved = found.total.unobserved.iter();
            unobserved.map(|(reason, time)| UnobservedTime::new(reason.as_str(), *time)).collect()
        },
        owners: Vec<OwnerTime> = {
            let owners = found.owners.iter().zip(&found.total.owners);
            owners.map(|(name, (_, total))| OwnerTime::new(name.as_deref(), total.held)).collect()
        },
    }

    struct StateTime from (of: State, on: Basis, time: Micros) {
        state: &'static str = of.as_str(),
        roll_up: Option<&'static str> = roll_up(of),
        basis: &'static str = on.as_str(),
        seconds: f64 = seconds(time),
    }

    struct UnobservedTime from (why: &'static str, time: Micros) {
        reason: &'static str = why,
        seconds: f64 = seconds(time),
    }

    struct OwnerTime from (name: Option<&str>, held: Micros) {
        /// Null for the unknown owner.
        owner: Option<String> = name.map(sanitize),
        held_seconds: f64 = seconds(held),
    }

    /// A row of gpu-usage-audit.
    struct ImportedRowDocument from (row: &ImportedRow) {
        row_at: Timestamp = row.at,
        interval_seconds: f64 = row.interval.as_secs_f64(),
        util_percent: i64 = row.util,
        processes: Vec<ImportedProcess> = {
            let processes = row.processes.iter();
            processes.map(|(name, mb)| ImportedProcess::new(name.as_deref(), *mb)).collect()
        },
    }

    struct ImportedProcess from (name: Option<&str>, mb: Option<u64>) {
        owner: Option<String> = name.map(sanitize),
        memory_mb: Option<u64> = mb,
    }
}

/// Facts, by the value of `found`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Facts {
    Seen(Box<SeenDocument>),
    Gap(OnlyGap),
    Quarter(QuarterDocument),
    ImportedRow(ImportedRowDocument),
    BeforeFirst { first_seen: Option<Timestamp> },
    NoImportedRow { last_row_at: Option<Timestamp> },
    InstanceAbsent {},
}

impl Facts {
    fn new(found: &Found) -> Self {
        match found {
            Found::Seen(seen) => Facts::Seen(Box::new(SeenDocument::new(seen))),
            Found::Gap(gap) => Facts::Gap(OnlyGap::new(gap)),
            Found::Quarter(quarter) => Facts::Quarter(QuarterDocument::new(quarter)),
            Found::ImportedRow(row) => Facts::ImportedRow(ImportedRowDocument::new(row)),
            Found::Before { first } => Facts::BeforeFirst { first_seen: *first },
            Found::NoImportedRow { last } => Facts::NoImportedRow { last_row_at: *last },
            Found::InstanceAbsent => Facts::InstanceAbsent {},
        }
    }
}

fn kind(found: &Found) -> &'static str {
    match found {
        Found::Seen(seen) => match seen.when {
            When::Now => "now",
            When::Tick { .. } => "tick",
        },
        Found::Gap(_) => "gap",
        Found::Quarter(_) => "quarter",
        Found::ImportedRow(_) => "old-row",
        Found::Before { .. } => "before-first",
        Found::InstanceAbsent => "instance-not-there",
        Found::NoImportedRow { .. } => "no-old-row",
    }
}

fn state(found: &Found) -> Option<State> {
    match found {
        Found::Seen(seen) => match seen.shares.as_slice() {
            [share] if seen.gpu.place.counts() => Some(share.verdict.state),
            _ => None,
        },
        Found::Gap(_) => Some(State::Unobserved),
        _ => None,
    }
}

fn roll_up(state: State) -> Option<&'static str> {
    state.roll_up().map(RollUp::as_str)
}

fn seconds(time: Micros) -> f64 {
    Duration::from_micros(time.0).as_secs_f64()
}
