//! Ticks in, spans out: the time that each tick covers.
//!
//! A tick covers its interval, or the time until the next tick where that comes sooner. The driver's buffer that is read at
//! the next tick describes the time in between, so a span is closed by the next tick. A GPU that is lost at both ticks was
//! lost in between, also where the next tick is late.
//!
//! Ticks are pushed in the order of their wall clock, as history keeps them: then every span depends on its tick and the
//! next one alone, and a fold that begins at any tick gives the same spans from there on. Where the wall clock is set
//! back during a live fold, time that was already accounted for is not accounted for again: each microsecond of the wall
//! clock counts once.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::classify::{Basis, classify, divide, holders};
use crate::energy;
use crate::id::GpuUuid;
use crate::owner::Identity;
use crate::period::Period;
use crate::period_set::PeriodSet;
use crate::reading::{Missing, Reading};
use crate::sample::{Gpu, Place, Process};
use crate::slices::{self, Slices};
use crate::span::{Holder, Share, Span};
use crate::state::{State, Thresholds, Verdict};
use crate::tick::Tick;
use crate::unit::{Centipercent, Millijoules, Milliwatts};
use crate::window::UtilWindow;

/// The power that each GPU draws when truly idle, where it is known.
pub type Floors = BTreeMap<GpuUuid, Milliwatts>;

/// The fold from ticks to spans.
#[derive(Clone, Debug)]
pub struct Spans {
    thresholds: Thresholds,
    /// May change between two ticks; the floor at the time when a span is closed counts.
    pub floors: Floors,
    open: Option<Tick>,
    /// The time that spans were made for.
    accounted: PeriodSet,
}

impl Spans {
    pub fn new(thresholds: Thresholds, floors: Floors) -> Self {
        Self {
            thresholds,
            floors,
            open: None,
            accounted: PeriodSet::default(),
        }
    }

    /// Takes the next tick; returns the spans of the tick before it, in the driver's order of GPUs.
    pub fn push(&mut self, tick: &Tick) -> Vec<Span> {
        self.push_owned(tick.clone()).1
    }

    /// The same without a copy of the tick; the tick before it comes back with its spans.
    pub fn push_owned(&mut self, tick: Tick) -> (Option<Tick>, Vec<Span>) {
        let open = self.open.take();
        let closed = match &open {
            Some(open) if tick.sample.at > open.sample.at => self.close(open, Some(&tick)),
            // The clock was set back: nothing later is known of the open tick.
            Some(open) => self.close(open, None),
            None => Vec::new(),
        };
        self.open = Some(tick);
        (open, closed)
    }

    /// The tick that was pushed last, whose spans are not known yet.
    pub fn open(&self) -> Option<&Tick> {
        self.open.as_ref()
    }

    /// Frees what is remembered about time before the open tick. The caller promises that no later tick is before it, as on
    /// a clock that is never set.
    pub fn forget_past(&mut self) {
        if let Some(open) = &self.open {
            self.accounted.forget_before(open.sample.at);
        }
    }

    /// The spans of the last tick, which end with its interval or at `until`.
    pub fn finish(mut self, until: Timestamp) -> Vec<Span> {
        let Some(open) = self.open.take() else {
            return Vec::new();
        };
        let mut spans = self.close(&open, None);
        for span in &mut spans {
            span.to = span.to.min(until);
        }
        spans.retain(|span| !span.period().is_empty());
        spans
    }

    fn close(&mut self, tick: &Tick, next: Option<&Tick>) -> Vec<Span> {
        let from = tick.sample.at;
        // The wall clock decides here, so that the spans of a history lie end to end.
        let until_next = next.map(|next| next.sample.at.duration_since(from).unsigned_abs());
        let covered = tick.cadence().covered(until_next);
        let Some(period) = self.accounted.claim(Period::starting(from, covered)) else {
            return Vec::new();
        };
        let next = next.map(|next| Next::new(tick, next));
        let missing = missing_parents(&tick.sample.gpus);
        let gpus: Vec<&Gpu> = tick.sample.gpus.iter().chain(&missing).collect();
        let slices = slices::assign(&gpus);
        let span = |(gpu, slices): (&&Gpu, Slices)| {
            let closing = Closing {
                period,
                next: next.as_ref(),
                gpus: &gpus,
            };
            self.span(gpu, slices, &closing)
        };
        let mut spans: Vec<Span> = gpus.iter().zip(slices).map(span).collect();
        if let Some(next) = next {
            self.extend_lost(&mut spans, next.tick);
        }
        spans
    }

    /// Extends the spans of GPUs that are lost at a tick and not found by the next one: they were lost in between too,
    /// however late that is.
    fn extend_lost(&mut self, spans: &mut [Span], next: &Tick) {
        let is_alive = |gpu: &GpuUuid| {
            let is_it = |seen: &&Gpu| seen.uuid == *gpu && seen.util != Err(Missing::Gone);
            next.sample.gpus.iter().any(|seen| is_it(&seen))
        };
        let mut lost: BTreeMap<GpuUuid, bool> = BTreeMap::new();
        for span in spans.iter().filter(|span| span.counts()) {
            let all = lost.entry(span.physical().clone()).or_insert(true);
            *all = *all && span.is_lost() && !is_alive(&span.gpu);
        }
        let is_lost = |span: &Span| lost.get(span.physical()) == Some(&true);
        let Some(end) = spans.iter().find(|span| is_lost(span)).map(|span| span.to) else {
            return;
        };
        let Some(hole) = self.accounted.claim(Period::new(end, next.sample.at)) else {
            return;
        };
        for span in spans.iter_mut().filter(|span| is_lost(span)) {
            span.to = hole.to();
        }
    }

    fn span(&self, gpu: &Gpu, slices: Slices, closing: &Closing<'_>) -> Span {
        let Closing { period, next, .. } = *closing;
        let later = next.and_then(|next| next.consecutive(&gpu.uuid));
        let window = later.and_then(|(later, elapsed)| {
            let window = later.window.as_ref().ok()?;
            window.covers(elapsed).then_some(window)
        });
        let floor = self.floors.get(&gpu.uuid).copied();
        let instances = closing.instances(&gpu.uuid);
        let is_divided = instances > 0 || !gpu.place.counts();
        let (shares, basis) = match is_divided {
            true => {
                let parent = classify(gpu, &self.thresholds, floor);
                let verdict = unallocated(parent, &gpu.place, instances);
                (vec![Share { verdict, weight: 1 }], Basis::Instant)
            }
            false => divide(gpu, window, &self.thresholds, floor),
        };
        Span {
            gpu: gpu.uuid.clone(),
            parent: gpu.place.parent().cloned(),
            slices,
            from: period.from(),
            to: period.to(),
            shares,
            basis,
            util: mean_util(gpu, window),
            energy: closing.energy(gpu, slices),
            holders: holders(gpu, &self.thresholds)
                .filter(|_| !is_divided)
                .map(|process| holder(process, later.map(|(later, _)| later)))
                .collect(),
        }
    }
}

/// A tick that is closed: the time that it covers, the tick after it, and its GPUs.
struct Closing<'a> {
    period: Period,
    next: Option<&'a Next<'a>>,
    gpus: &'a [&'a Gpu],
}

impl Closing<'_> {
    /// Number of MIG instances of a GPU in the tick.
    fn instances(&self, uuid: &GpuUuid) -> u32 {
        let gpus = self.gpus.iter();
        let instances = gpus.filter(|gpu| gpu.place.parent() == Some(uuid)).count();
        u32::try_from(instances).unwrap_or(u32::MAX)
    }

    /// Energy of some slices: only the physical GPU has a counter.
    fn energy(&self, gpu: &Gpu, slices: Slices) -> Reading<Millijoules> {
        let uuid = gpu.place.parent().unwrap_or(&gpu.uuid);
        let is_physical = |gpu: &&&Gpu| gpu.uuid == *uuid && gpu.place.parent().is_none();
        let physical = self.gpus.iter().find(is_physical).ok_or(Missing::Failed)?;
        let later = self.next.and_then(|next| next.consecutive(uuid));
        let all = energy::counted(physical, later, self.period)?;
        Ok(Millijoules(slices.part(all.0)))
    }
}

/// Number of GPUs of a sample that account for a part of a physical GPU. Reports count these.
pub fn accounted(gpus: &[Gpu]) -> usize {
    let missing = missing_parents(gpus);
    let gpus: Vec<&Gpu> = gpus.iter().chain(&missing).collect();
    let slices = slices::assign(&gpus);
    slices.into_iter().filter(|slices| slices.any()).count()
}

/// Parents that a tick names but does not contain. Their readings failed.
fn missing_parents(gpus: &[Gpu]) -> Vec<Gpu> {
    let mut missing: Vec<Gpu> = Vec::new();
    for gpu in gpus {
        let Some(parent) = gpu.place.parent() else {
            continue;
        };
        if !gpus.iter().chain(&missing).any(|gpu| gpu.uuid == *parent) {
            missing.push(Gpu::without_readings(
                parent.clone(),
                gpu.index,
                Missing::Failed,
            ));
        }
    }
    missing
}

/// Judges the slices that no MIG instance has. Nobody can use them, so they are idle if the GPU responds and all its
/// instances are known.
fn unallocated(parent: Verdict, place: &Place, instances: u32) -> Verdict {
    let mut verdict = parent;
    if let Place::Parent { instances: all } = place
        && parent.unobserved() != Some(Missing::Gone)
    {
        let is_known = instances >= *all;
        verdict.state = match is_known {
            true => State::TrulyIdle,
            false => State::Unobserved,
        };
        verdict.evidence.unobserved = (!is_known).then_some(Missing::Failed);
    }
    verdict
}

/// The tick after the one that is closed.
struct Next<'a> {
    tick: &'a Tick,
    /// The time between the two, where they are consecutive ticks of one boot.
    elapsed: Option<Duration>,
}

impl<'a> Next<'a> {
    fn new(tick: &Tick, next: &'a Tick) -> Self {
        let same_boot = match (tick.sample.boot, next.sample.boot) {
            (Ok(one), Ok(other)) => one == other,
            _ => true,
        };
        let elapsed = next
            .sample
            .since_boot
            .checked_sub(tick.sample.since_boot)
            .filter(|elapsed| same_boot && tick.cadence().follows(*elapsed));
        Self {
            tick: next,
            elapsed,
        }
    }

    /// State of the GPU at the next tick, and the time until then, if the two ticks are consecutive.
    fn consecutive(&self, uuid: &GpuUuid) -> Option<(&'a Gpu, Duration)> {
        let is_it = |gpu: &&Gpu| gpu.uuid == *uuid;
        let later = self.tick.sample.gpus.iter().find(is_it)?;
        Some((later, self.elapsed?))
    }
}

fn mean_util(gpu: &Gpu, window: Option<&UtilWindow>) -> Reading<Centipercent> {
    match window.and_then(UtilWindow::mean_centipercent) {
        Some(mean) => Ok(mean),
        None => gpu
            .util
            .map(|util| Centipercent(u32::from(util.get()) * 100)),
    }
}

fn holder(process: &Process, later: Option<&Gpu>) -> Holder {
    let identity = process.identity.as_ref().ok();
    let key = identity.map(|identity| identity.key);
    Holder {
        process: key,
        owner: identity.and_then(Identity::owner),
        kind: process.kind,
        memory: process.memory,
        sm_util: process.sm_util.and_then(|_| {
            let is_it = |other: &&Process| {
                key.is_some() && other.identity.as_ref().ok().map(|other| other.key) == key
            };
            later
                .and_then(|later| later.processes.iter().find(is_it))
                .map_or(Err(Missing::Gone), |process| process.sm_util)
        }),
    }
}

#[cfg(test)]
mod tests;
