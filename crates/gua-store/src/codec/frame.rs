//! A tick in numbers: every name is an interned id, every reading a slot. Differences are taken between frames.

use gua_model::sample::{Driver, Process, ProcessKind};
use gua_model::{BootId, Bytes, Gpu, Missing, Percent, Pid, Problem, Reading, Sample, Tick};
use jiff::Timestamp;

use super::slots::{self, GpuNames, Slot, Slots};
use super::window::{WindowFrame, duration};
use super::{Damage, Lookup, Names};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// Wall-clock time in nanoseconds.
    pub(crate) at: i128,
    pub(crate) since_boot: u128,
    pub(crate) interval: u128,
    pub(crate) boot: Reading<u128>,
    pub(crate) driver: Slot,
    pub(crate) cuda: Slot,
    pub(crate) cards: Vec<CardFrame>,
    pub(crate) problems: Vec<ProblemFrame>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CardFrame {
    pub(crate) card: u64,
    pub(crate) slots: Slots,
    pub(crate) window: Reading<WindowFrame>,
    pub(crate) processes: Vec<ProcessFrame>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessFrame {
    pub(crate) pid: u32,
    pub(crate) kind: ProcessKind,
    pub(crate) who: Slot,
    pub(crate) memory: Slot,
    /// Percentage plus one; zero if the driver has no sample of the process.
    pub(crate) sm_util: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProblemFrame {
    pub(crate) card: Option<u64>,
    pub(crate) index: Option<u32>,
    pub(crate) call: u64,
    pub(crate) code: Option<u32>,
    pub(crate) why: Missing,
    pub(crate) text: u64,
}

impl CardFrame {
    pub(crate) fn empty(card: u64) -> Self {
        Self {
            card,
            slots: slots::EMPTY,
            window: Err(Missing::Unsupported),
            processes: Vec::new(),
        }
    }
}

impl ProcessFrame {
    /// Returns the fields that stay the same while a process is on a GPU.
    pub(crate) fn shape(&self) -> (u32, ProcessKind, Slot) {
        (self.pid, self.kind, self.who)
    }
}

impl Frame {
    pub(crate) fn new<N: Names>(tick: &Tick, names: &mut N) -> Result<Self, N::Error> {
        let sample = &tick.sample;
        let mut cards = Vec::with_capacity(sample.gpus.len());
        for gpu in &sample.gpus {
            cards.push(card_frame(gpu, names)?);
        }
        let problems = sample
            .problems
            .iter()
            .map(|problem| problem_frame(problem, names))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            at: sample.at.as_nanosecond(),
            since_boot: sample.since_boot.as_nanos(),
            interval: tick.interval.as_nanos(),
            boot: sample.boot.map(|boot| boot.0),
            driver: interned(&sample.driver.version, |text| names.text(text))?,
            cuda: sample
                .driver
                .cuda
                .map(|(major, minor)| (u64::from(major) << 32) | u64::from(minor)),
            cards,
            problems,
        })
    }

    pub(crate) fn to_tick<L: Lookup>(&self, lookup: &mut L) -> Result<Tick, Damage> {
        let version = match self.driver {
            Ok(id) => Ok(text(lookup, id)?),
            Err(why) => Err(why),
        };
        let cuda = self.cuda.map(|packed| {
            let [a, b, c, d, e, f, g, h] = packed.to_be_bytes();
            (
                u32::from_be_bytes([a, b, c, d]),
                u32::from_be_bytes([e, f, g, h]),
            )
        });
        let gpus = self
            .cards
            .iter()
            .map(|card| to_gpu(card, lookup))
            .collect::<Result<_, _>>()?;
        let problems = self
            .problems
            .iter()
            .map(|problem| to_problem(problem, lookup))
            .collect::<Result<_, _>>()?;
        Ok(Tick {
            sample: Sample {
                at: Timestamp::from_nanosecond(self.at).map_err(|_| Damage::Value("time"))?,
                since_boot: duration(self.since_boot)?,
                boot: self.boot.map(BootId),
                driver: Driver { version, cuda },
                gpus,
                problems,
            },
            interval: duration(self.interval)?,
        })
    }
}

/// Replaces the value of a reading by its interned id.
fn interned<T, E>(
    reading: &Reading<T>,
    intern: impl FnOnce(&T) -> Result<u64, E>,
) -> Result<Slot, E> {
    match reading {
        Ok(value) => intern(value).map(Ok),
        Err(why) => Ok(Err(*why)),
    }
}

fn card_frame<N: Names>(gpu: &Gpu, names: &mut N) -> Result<CardFrame, N::Error> {
    let parent = match &gpu.place {
        gua_model::Place::Instance { parent, .. } => Some(names.card(parent)?),
        _ => None,
    };
    let card_names = GpuNames {
        name: interned(&gpu.name, |name| names.text(name))?,
        parent,
    };
    let mut processes = Vec::with_capacity(gpu.processes.len());
    for process in &gpu.processes {
        processes.push(ProcessFrame {
            pid: process.pid.0,
            kind: process.kind,
            who: interned(&process.identity, |identity| names.process(identity))?,
            memory: process.memory.map(|bytes| bytes.0),
            sm_util: process
                .sm_util
                .map(|util| util.map_or(0, |util| u64::from(util.get()) + 1)),
        });
    }
    Ok(CardFrame {
        card: names.card(&gpu.uuid)?,
        slots: slots::from_gpu(gpu, &card_names),
        window: gpu
            .window
            .as_ref()
            .map(WindowFrame::from_window)
            .map_err(|why| *why),
        processes,
    })
}

fn problem_frame<N: Names>(problem: &Problem, names: &mut N) -> Result<ProblemFrame, N::Error> {
    Ok(ProblemFrame {
        card: problem
            .gpu
            .as_ref()
            .map(|uuid| names.card(uuid))
            .transpose()?,
        index: problem.index,
        call: names.text(&problem.call)?,
        code: problem.code,
        why: problem.why,
        text: names.text(&problem.text)?,
    })
}

fn text<L: Lookup>(lookup: &mut L, id: u64) -> Result<String, Damage> {
    lookup.text(id).ok_or(Damage::Name("a text"))
}

fn card<L: Lookup>(lookup: &mut L, id: u64) -> Result<gua_model::GpuUuid, Damage> {
    lookup.card(id).ok_or(Damage::Name("a card"))
}

fn to_gpu<L: Lookup>(frame: &CardFrame, lookup: &mut L) -> Result<Gpu, Damage> {
    let ids = slots::names(&frame.slots);
    let names = GpuNames {
        name: match ids.name {
            Ok(id) => Ok(text(lookup, id)?),
            Err(why) => Err(why),
        },
        parent: ids.parent.map(|id| card(lookup, id)).transpose()?,
    };
    let mut gpu = slots::to_gpu(card(lookup, frame.card)?, &frame.slots, names)?;
    gpu.window = match frame.window {
        Ok(window) => Ok(window.to_window()?),
        Err(why) => Err(why),
    };
    gpu.processes = frame
        .processes
        .iter()
        .map(|process| to_process(process, lookup))
        .collect::<Result<_, _>>()?;
    Ok(gpu)
}

fn to_process<L: Lookup>(frame: &ProcessFrame, lookup: &mut L) -> Result<Process, Damage> {
    let sm_util = match frame.sm_util {
        Ok(0) => Ok(None),
        Ok(above) => {
            let percent = u32::try_from(above - 1).ok().and_then(Percent::new);
            Ok(Some(percent.ok_or(Damage::Value("percentage"))?))
        }
        Err(why) => Err(why),
    };
    let identity = match frame.who {
        Ok(id) => Ok(lookup.process(id).ok_or(Damage::Name("a process"))?),
        Err(why) => Err(why),
    };
    Ok(Process {
        pid: Pid(frame.pid),
        kind: frame.kind,
        memory: frame.memory.map(Bytes),
        sm_util,
        identity,
    })
}

fn to_problem<L: Lookup>(frame: &ProblemFrame, lookup: &mut L) -> Result<Problem, Damage> {
    Ok(Problem {
        gpu: frame.card.map(|id| card(lookup, id)).transpose()?,
        index: frame.index,
        call: text(lookup, frame.call)?,
        code: frame.code,
        why: frame.why,
        text: text(lookup, frame.text)?,
    })
}
