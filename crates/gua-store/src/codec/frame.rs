//! A tick in numbers: every name is an interned id, every reading a slot. Differences are taken between frames.

use gua_model::sample::{Driver, Process, ProcessKind};
use gua_model::{
    BootId, Bytes, Gpu, Missing, Percent, Pid, Problem, Reading, Sample, Tick, UtilWindow, sane,
};
use jiff::Timestamp;

use super::slots::{self, Slot, Slots, lower, packed, upper};
use super::window::duration;
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
    pub(crate) gpus: Vec<GpuFrame>,
    pub(crate) problems: Vec<ProblemFrame>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GpuFrame {
    pub(crate) id: u64,
    pub(crate) slots: Slots,
    pub(crate) window: Reading<UtilWindow>,
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
    pub(crate) gpu: Option<u64>,
    pub(crate) index: Option<u32>,
    pub(crate) call: u64,
    pub(crate) code: Option<u32>,
    pub(crate) why: Missing,
    pub(crate) text: u64,
}

impl GpuFrame {
    pub(crate) fn empty(id: u64) -> Self {
        Self {
            id,
            slots: slots::EMPTY,
            window: Err(Missing::Unsupported),
            processes: Vec::new(),
        }
    }
}

impl ProcessFrame {
    pub(crate) fn empty() -> Self {
        Self {
            pid: 0,
            kind: ProcessKind::Compute,
            who: Ok(0),
            memory: Ok(0),
            sm_util: Ok(0),
        }
    }

    /// Returns the fields that stay the same while a process is on a GPU.
    pub(crate) fn shape(&self) -> (u32, ProcessKind, Slot) {
        (self.pid, self.kind, self.who)
    }
}

impl ProblemFrame {
    pub(crate) fn empty() -> Self {
        Self {
            gpu: None,
            index: None,
            call: 0,
            code: None,
            why: Missing::Failed,
            text: 0,
        }
    }
}

impl Frame {
    /// The frame that a key tick is the difference to.
    pub(crate) fn empty() -> Self {
        Self {
            at: 0,
            since_boot: 0,
            interval: 0,
            boot: Err(Missing::Failed),
            driver: Ok(0),
            cuda: Ok(0),
            gpus: Vec::new(),
            problems: Vec::new(),
        }
    }

    pub(crate) fn new<N: Names>(tick: &Tick, names: &mut N) -> Result<Self, N::Error> {
        let sample = &tick.sample;
        let gpus = sample.gpus.iter().map(|gpu| gpu_frame(gpu, names));
        let gpus = gpus.collect::<Result<_, _>>()?;
        let problems = sample.problems.iter();
        let problems = problems.map(|problem| problem_frame(problem, names));
        Ok(Self {
            at: sample.at.as_nanosecond(),
            since_boot: sample.since_boot.as_nanos(),
            interval: tick.interval.as_nanos(),
            boot: sample.boot.map(|boot| boot.0),
            gpus,
            problems: problems.collect::<Result<_, _>>()?,
            driver: convert(borrowed(&sample.driver.version), |text| names.text(text))?,
            cuda: sample
                .driver
                .cuda
                .map(|(major, minor)| packed(major, minor)),
        })
    }

    pub(crate) fn to_tick<L: Lookup>(&self, lookup: &mut L) -> Result<Tick, Damage> {
        let at = Timestamp::from_nanosecond(self.at).ok();
        let interval = duration(self.interval)?;
        if !sane::is_interval(interval) {
            return Err(Damage::Value("interval"));
        }
        let gpus = self.gpus.iter().map(|gpu| to_gpu(gpu, lookup));
        let gpus = gpus.collect::<Result<_, _>>()?;
        let problems = self.problems.iter();
        let problems = problems.map(|problem| to_problem(problem, lookup));
        Ok(Tick {
            sample: Sample {
                at: at
                    .filter(|at| sane::is_time(*at))
                    .ok_or(Damage::Value("time"))?,
                since_boot: duration(self.since_boot)?,
                boot: self.boot.map(BootId),
                gpus,
                problems: problems.collect::<Result<_, _>>()?,
                driver: Driver {
                    version: convert(self.driver, |id| text(lookup, id))?,
                    cuda: self.cuda.map(|both| (upper(both), lower(both))),
                },
            },
            interval,
        })
    }
}

/// Converts the value of a reading; the reason of a missing one stays.
pub(super) fn convert<T, U, E>(
    reading: Reading<T>,
    convert: impl FnOnce(T) -> Result<U, E>,
) -> Result<Reading<U>, E> {
    match reading {
        Ok(value) => convert(value).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// A reading of the value in place.
pub(super) fn borrowed<T>(reading: &Reading<T>) -> Reading<&T> {
    reading.as_ref().map_err(|why| *why)
}

fn gpu_frame<N: Names>(gpu: &Gpu, names: &mut N) -> Result<GpuFrame, N::Error> {
    let mut processes = Vec::with_capacity(gpu.processes.len());
    for process in &gpu.processes {
        let sm_util = |util: Option<Percent>| util.map_or(0, |util| u64::from(util.get()) + 1);
        processes.push(ProcessFrame {
            pid: process.pid.0,
            kind: process.kind,
            who: convert(borrowed(&process.identity), |who| names.process(who))?,
            memory: process.memory.map(|bytes| bytes.0),
            sm_util: process.sm_util.map(sm_util),
        });
    }
    Ok(GpuFrame {
        slots: slots::from_gpu(gpu, names)?,
        id: names.gpu(&gpu.uuid)?,
        window: gpu.window,
        processes,
    })
}

fn problem_frame<N: Names>(problem: &Problem, names: &mut N) -> Result<ProblemFrame, N::Error> {
    let gpu = problem.gpu.as_ref().map(|uuid| names.gpu(uuid));
    Ok(ProblemFrame {
        gpu: gpu.transpose()?,
        index: problem.index,
        call: names.text(&problem.call)?,
        code: problem.code,
        why: problem.why,
        text: names.text(&problem.text)?,
    })
}

pub(super) fn text<L: Lookup>(lookup: &mut L, id: u64) -> Result<String, Damage> {
    lookup.text(id).ok_or(Damage::Name("a text"))
}

pub(super) fn gpu_uuid<L: Lookup>(lookup: &mut L, id: u64) -> Result<gua_model::GpuUuid, Damage> {
    lookup.gpu(id).ok_or(Damage::Name("a GPU"))
}

fn to_gpu<L: Lookup>(frame: &GpuFrame, lookup: &mut L) -> Result<Gpu, Damage> {
    let mut gpu = slots::to_gpu(frame.id, &frame.slots, lookup)?;
    gpu.window = frame.window;
    let processes = frame.processes.iter();
    let processes = processes.map(|process| to_process(process, lookup));
    gpu.processes = processes.collect::<Result<_, _>>()?;
    Ok(gpu)
}

fn to_process<L: Lookup>(frame: &ProcessFrame, lookup: &mut L) -> Result<Process, Damage> {
    let sm_util = |code: u64| match code.checked_sub(1) {
        None => Ok(None),
        Some(percent) => {
            let percent = u32::try_from(percent).ok().and_then(Percent::new);
            percent.map(Some).ok_or(Damage::Value("percentage"))
        }
    };
    let who = |id: u64| lookup.process(id).ok_or(Damage::Name("a process"));
    Ok(Process {
        pid: Pid(frame.pid),
        kind: frame.kind,
        memory: frame.memory.map(Bytes),
        sm_util: convert(frame.sm_util, sm_util)?,
        identity: convert(frame.who, who)?,
    })
}

fn to_problem<L: Lookup>(frame: &ProblemFrame, lookup: &mut L) -> Result<Problem, Damage> {
    Ok(Problem {
        gpu: frame.gpu.map(|id| gpu_uuid(lookup, id)).transpose()?,
        index: frame.index,
        call: text(lookup, frame.call)?,
        code: frame.code,
        why: frame.why,
        text: text(lookup, frame.text)?,
    })
}
