//! GPU ticks of imported rows, grouped by time, with only one time in memory. Their accounting is in `gua-model`. The
//! same merge is used for rows read from a foreign file in place.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::legacy::{LegacyGpuTick, LegacyMoment, LegacyProcess, LegacyRun, LegacyTool};
use gua_model::{GpuUuid, Period, ProcessKind, sane};
use rusqlite::Connection;

use super::block::Block;
use super::error::LegacyError;
use super::rows::{GpuRow, ProcessRow, TextId, Texts};
use super::stored::{Blocks, Order, Stored, load_texts, stored_statement};
use crate::sql;

/// Process type of rows that gpu_stats wrote, which does not know the kind of a process.
pub const OF_GPU_STATS: &str = "gpu_stats";

/// Folds the rows imported from one source, which are stored in order of time. Returns the number of rows that cannot be
/// read.
pub(super) fn fold_stored(
    history: &Connection,
    source: i64,
    window: Period,
    each: &mut dyn FnMut(&LegacyMoment<'_>),
) -> Result<u64, LegacyError> {
    let unreadable = Cell::new(0);
    let intervals = intervals(history, source)?;
    let mut texts = load_texts(history)?;
    let ends = sane::bounds(window);
    let mut gpus = stored_statement::<GpuRow>(history, Order::Time)?;
    let mut processes = stored_statement::<ProcessRow>(history, Order::Time)?;
    let gpus = Stored::new(&mut gpus, source, ends, Some(&unreadable))?;
    let processes = Stored::new(&mut processes, source, ends, Some(&unreadable))?;
    match merge(gpus, processes, &mut texts, &intervals, each)? {
        Merged::Whole { unreadable: rows } => Ok(unreadable.get() + rows),
        Merged::Disordered => Ok(unreadable.get()),
    }
}

/// Blocks with a look-ahead of one block.
struct Ahead<B, R> {
    blocks: B,
    next: Option<Block<R>>,
}

impl<R, B: Blocks<R>> Ahead<B, R> {
    fn new(mut blocks: B, texts: &mut Texts) -> Result<Self, LegacyError> {
        let next = blocks.next(texts)?;
        Ok(Self { blocks, next })
    }

    /// Time of the next rows, in microseconds.
    fn peek(&self) -> Option<i64> {
        self.next.as_ref().map(|block| block.stamp.at_us)
    }

    /// Replaces `rows` with the next rows that have this time, each with the run that wrote it.
    fn take(
        &mut self,
        at_us: i64,
        texts: &mut Texts,
        rows: &mut Vec<(Option<i64>, R)>,
    ) -> Result<(), LegacyError> {
        rows.clear();
        while let Some(block) = self.next.take_if(|block| block.stamp.at_us == at_us) {
            rows.extend(block.rows.into_iter().map(|row| (block.run, row)));
            self.next = self.blocks.next(texts)?;
        }
        Ok(())
    }
}

/// Interval of each run: the time that one of its ticks covers.
#[derive(Debug, Default)]
pub struct Intervals(BTreeMap<i64, Duration>);

impl Intervals {
    /// Creates the intervals from the number of each run and its interval in seconds.
    pub fn new(seconds: impl IntoIterator<Item = (i64, f64)>) -> Self {
        // Skip impossible intervals, which no release writes.
        let known = seconds
            .into_iter()
            .filter_map(|(run, seconds)| Some((run, Duration::try_from_secs_f64(seconds).ok()?)))
            .filter(|(_, interval)| sane::is_interval(*interval));
        Self(known.collect())
    }

    fn of(&self, run: Option<i64>) -> LegacyRun {
        let known = run.and_then(|run| self.0.get(&run));
        LegacyRun {
            run,
            interval: known.copied().unwrap_or(LegacyRun::NONE.interval),
        }
    }
}

/// Recorded interval of every run of a source.
fn intervals(history: &Connection, source: i64) -> Result<Intervals, rusqlite::Error> {
    let sql = "SELECT row, interval_seconds FROM old_run WHERE source = ?1";
    let seconds = sql::rows(history, sql, [source], |row| {
        Ok::<(i64, f64), rusqlite::Error>((row.get(0)?, row.get(1)?))
    });
    seconds.map(Intervals::new)
}

/// Outcome of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// All rows were merged, without those of GPUs that have no valid name.
    Whole { unreadable: u64 },
    /// Rows were not in order of time: the results so far must be discarded.
    Disordered,
}

/// Merges both tables in order of time.
pub fn merge(
    gpus: impl Blocks<GpuRow>,
    processes: impl Blocks<ProcessRow>,
    texts: &mut Texts,
    intervals: &Intervals,
    each: &mut dyn FnMut(&LegacyMoment<'_>),
) -> Result<Merged, LegacyError> {
    let mut gpus = Ahead::new(gpus, texts)?;
    let mut processes = Ahead::new(processes, texts)?;
    let mut rows = Rows::default();
    let mut before = i64::MIN;
    let mut unreadable = 0;
    while let Some(now) = gpus.peek().into_iter().chain(processes.peek()).min() {
        if now < before {
            return Ok(Merged::Disordered);
        }
        before = now;
        gpus.take(now, texts, &mut rows.gpus)?;
        processes.take(now, texts, &mut rows.processes)?;
        unreadable += rows.give(now, texts, intervals, each);
    }
    Ok(Merged::Whole { unreadable })
}

/// All rows of one time, with the runs that wrote them.
#[derive(Default)]
struct Rows {
    gpus: Vec<(Option<i64>, GpuRow)>,
    processes: Vec<(Option<i64>, ProcessRow)>,
    /// Head and number of each process.
    places: Vec<(Option<usize>, usize)>,
    names: Names,
}

/// The rows of one GPU and run at one time.
struct Head<'a> {
    run: Option<i64>,
    row: &'a GpuRow,
    /// Utilisation of further rows of the GPU.
    more: Vec<i64>,
    /// Number of its processes.
    processes: usize,
}

impl Rows {
    /// Passes on the rows. Returns the number of rows of GPUs without a valid name, which are left out.
    fn give(
        &mut self,
        now: i64,
        texts: &Texts,
        intervals: &Intervals,
        each: &mut dyn FnMut(&LegacyMoment<'_>),
    ) -> u64 {
        let mut unreadable = 0;
        let mut heads: Vec<Head<'_>> = Vec::with_capacity(self.gpus.len());
        for (run, row) in &self.gpus {
            if !self.names.learn(row.gpu, texts) {
                unreadable += 1;
                continue;
            }
            match place_of(&heads, 0, *run, row.gpu) {
                Some(place) => heads[place].more.push(row.util_pct),
                None => heads.push(Head {
                    run: *run,
                    row,
                    more: Vec::new(),
                    processes: 0,
                }),
            }
        }
        self.processes
            .retain(|(_, row)| self.names.learn(row.gpu, texts));
        // Processes in the order of their heads, so that those of a head are one slice. Those whose run has no row for
        // their GPU come first.
        let mut last = 0;
        self.places.clear();
        for (index, (run, row)) in self.processes.iter().enumerate() {
            let place = place_of(&heads, last, *run, row.gpu);
            if let Some(place) = place {
                heads[place].processes += 1;
                last = place;
            }
            self.places.push((place, index));
        }
        self.places.sort_unstable();
        let in_order = self
            .places
            .iter()
            .map(|(_, index)| &self.processes[*index].1);
        let processes: Vec<_> = in_order.clone().map(|row| process(row, texts)).collect();
        let counted: usize = heads.iter().map(|head| head.processes).sum();
        let (strays, mut rest) = processes.split_at(processes.len() - counted);
        let strays = in_order.zip(strays);
        let strays: Vec<_> = strays
            .map(|(row, process)| (self.names.get(row.gpu), *process))
            .collect();
        let at = sane::nearest(now);
        let mut own = |count: usize| {
            let (own, others) = rest.split_at(count);
            rest = others;
            own
        };
        let ticks = heads.iter().map(|head| LegacyGpuTick {
            at,
            gpu: self.names.get(head.row.gpu),
            util: head.row.util_pct,
            index: head.row.gpu_index,
            memory_used_mb: head.row.memory_used_mb,
            temperature_c: head.row.temperature_c,
            power_w: head.row.power_w,
            run: intervals.of(head.run),
            processes: own(head.processes),
            more_rows: &head.more,
        });
        let ticks: Vec<_> = ticks.collect();
        each(&LegacyMoment {
            at,
            ticks: &ticks,
            strays: &strays,
        });
        unreadable
    }
}

/// Index of the GPU and run. The search begins at `first`.
fn place_of(heads: &[Head<'_>], first: usize, run: Option<i64>, gpu: TextId) -> Option<usize> {
    let mut places = (first..heads.len()).chain(0..first);
    places.find(|place| heads[*place].row.gpu == gpu && heads[*place].run == run)
}

fn process<'a>(row: &ProcessRow, texts: &'a Texts) -> LegacyProcess<'a> {
    let text = |id: Option<TextId>| id.and_then(|id| texts.get(id));
    LegacyProcess {
        pid: row.pid,
        index: row.gpu_index,
        identity: text(row.loginuid_user),
        owner: text(row.owner_user),
        name: text(row.process_name),
        memory_mb: row
            .mem_used_mb
            .and_then(|memory| u64::try_from(memory).ok()),
        kind: match text(row.process_type) {
            Some("graphics") => ProcessKind::Graphics,
            _ => ProcessKind::Compute,
        },
        tool: match text(row.process_type) {
            Some(OF_GPU_STATS) => LegacyTool::GpuStats,
            _ => LegacyTool::GpuUsageAudit,
        },
    }
}

/// GPU UUIDs by text id, each parsed once.
#[derive(Default)]
struct Names(Vec<Option<GpuUuid>>);

impl Names {
    /// Parses a text; returns whether it is a valid GPU UUID.
    fn learn(&mut self, id: TextId, texts: &Texts) -> bool {
        let place = id.0 as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        if self.0[place].is_none() {
            self.0[place] = texts.get(id).and_then(|text| text.parse().ok());
        }
        self.0[place].is_some()
    }

    fn get(&self, id: TextId) -> &GpuUuid {
        let known = self.0.get(id.0 as usize).and_then(Option::as_ref);
        known.expect("every GPU of the moment was learned")
    }
}
