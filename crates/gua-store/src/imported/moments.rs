//! GPU ticks of imported rows, grouped by time, with only one time in memory. Their accounting is in `gua-model`. The
//! same merge is used for rows read from a foreign file in place.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use gua_model::legacy::{LegacyGpuTick, LegacyMoment, LegacyProcess, LegacyRun, LegacyTool};
use gua_model::{GpuUuid, Period, ProcessKind, sane};
use rusqlite::Connection;

use super::block::Block;
use super::error::LegacyError;
use super::rows::{GpuRow, ProcessRow, TextId, Texts};
use super::stored::{Blocks, Order, Stored, load_texts, stored_statement};
use crate::sql::rows;

/// Process type of rows that gpu_stats wrote, which does not know the kind of a process.
pub const OF_GPU_STATS: &str = "gpu_stats";

/// Rows with the run that wrote them, grouped by time.
pub trait Moments<R> {
    /// Time of the next rows, in microseconds.
    fn peek(&self) -> Option<i64>;
    /// Appends the next rows, all of which have the same time.
    fn take(
        &mut self,
        texts: &mut Texts,
        rows: &mut Vec<(Option<i64>, R)>,
    ) -> Result<(), LegacyError>;
}

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
    let mut cards = stored_statement::<GpuRow>(history, Order::Time)?;
    let mut processes = stored_statement::<ProcessRow>(history, Order::Time)?;
    let cards = Stored::new(&mut cards, source, ends)?.skipping(&unreadable);
    let cards: Unpacked<_, GpuRow> = Unpacked::new(cards, &mut texts)?;
    let processes = Stored::new(&mut processes, source, ends)?.skipping(&unreadable);
    let processes: Unpacked<_, ProcessRow> = Unpacked::new(processes, &mut texts)?;
    match merge(cards, processes, &mut texts, &intervals, each)? {
        Merged::Whole { unreadable: rows } => Ok(unreadable.get() + rows),
        Merged::Disordered => Ok(unreadable.get()),
    }
}

/// Rows from imported blocks.
pub(super) struct Unpacked<B, R> {
    blocks: B,
    ahead: Option<Block<R>>,
}

impl<R, B: Blocks<R>> Unpacked<B, R> {
    pub(super) fn new(mut blocks: B, texts: &mut Texts) -> Result<Self, LegacyError> {
        let ahead = blocks.next(texts)?;
        Ok(Self { blocks, ahead })
    }
}

impl<R, B: Blocks<R>> Moments<R> for Unpacked<B, R> {
    fn peek(&self) -> Option<i64> {
        self.ahead.as_ref().map(|block| block.stamp.at_us)
    }

    fn take(
        &mut self,
        texts: &mut Texts,
        rows: &mut Vec<(Option<i64>, R)>,
    ) -> Result<(), LegacyError> {
        if let Some(block) = self.ahead.take() {
            rows.extend(block.rows.into_iter().map(|row| (block.run, row)));
        }
        self.ahead = self.blocks.next(texts)?;
        Ok(())
    }
}

/// Interval of each run: the time that one of its ticks covers.
#[derive(Debug, Default)]
pub struct Intervals(HashMap<i64, Duration>);

impl Intervals {
    /// Creates the intervals from the number of each run and its interval in seconds.
    #[must_use]
    pub fn new(seconds: impl IntoIterator<Item = (i64, f64)>) -> Self {
        // Skip intervals that cannot be true, which no release writes.
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
    let seconds: rusqlite::Result<Vec<(i64, f64)>> =
        rows(history, sql, [source], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(Intervals::new(seconds?))
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
    mut cards: impl Moments<GpuRow>,
    mut processes: impl Moments<ProcessRow>,
    texts: &mut Texts,
    intervals: &Intervals,
    each: &mut dyn FnMut(&LegacyMoment<'_>),
) -> Result<Merged, LegacyError> {
    let mut moment = Moment::default();
    let mut names = Names::default();
    let mut before = i64::MIN;
    let mut unreadable = 0;
    while let Some(now) = cards.peek().into_iter().chain(processes.peek()).min() {
        if now < before {
            return Ok(Merged::Disordered);
        }
        before = now;
        moment.cards.clear();
        while cards.peek() == Some(now) {
            cards.take(texts, &mut moment.cards)?;
        }
        moment.processes.clear();
        while processes.peek() == Some(now) {
            processes.take(texts, &mut moment.processes)?;
        }
        unreadable += moment.find_places(&mut names, texts);
        moment.give(now, &names, texts, intervals, each);
    }
    Ok(Merged::Whole { unreadable })
}

/// All rows of one time, and the GPU tick that each belongs to.
#[derive(Default)]
struct Moment {
    cards: Vec<(Option<i64>, GpuRow)>,
    processes: Vec<(Option<i64>, ProcessRow)>,
    /// First row of every GPU and run.
    heads: Vec<(Option<i64>, GpuRow)>,
    /// Further rows of a GPU and run: index in `heads`, and utilisation.
    more: Vec<(usize, i64)>,
    /// For every process row, its index in `heads` and its own index in `processes`, in the order of `heads`. Processes
    /// whose run has no row for their GPU come last.
    order: Vec<(usize, usize)>,
}

const STRAY: usize = usize::MAX;

impl Moment {
    /// Finds the GPU tick of each row, and returns the number of rows of GPUs without a valid name.
    fn find_places(&mut self, names: &mut Names, texts: &Texts) -> u64 {
        let mut unreadable = 0;
        self.heads.clear();
        self.more.clear();
        self.order.clear();
        for (run, row) in &self.cards {
            if !names.learn(row.gpu, texts.get(row.gpu).unwrap_or_default()) {
                unreadable += 1;
                continue;
            }
            match place_of(&self.heads, 0, *run, row.gpu) {
                Some(place) => self.more.push((place, row.util_pct)),
                None => self.heads.push((*run, *row)),
            }
        }
        let mut last = 0;
        for (at, (run, row)) in self.processes.iter().enumerate() {
            match place_of(&self.heads, last, *run, row.gpu) {
                Some(place) => {
                    last = place;
                    self.order.push((place, at));
                }
                None => {
                    if names.learn(row.gpu, texts.get(row.gpu).unwrap_or_default()) {
                        self.order.push((STRAY, at));
                    }
                }
            }
        }
        // They usually are in this order already.
        if !self.order.is_sorted() {
            self.order.sort_unstable();
        }
        unreadable
    }

    fn give(
        &self,
        now: i64,
        names: &Names,
        texts: &Texts,
        intervals: &Intervals,
        each: &mut dyn FnMut(&LegacyMoment<'_>),
    ) {
        let at = sane::nearest(now);
        let rows = self.order.iter().map(|(_, at)| &self.processes[*at].1);
        let processes: Vec<_> = rows.map(|row| process(row, texts)).collect();
        let mut more: Vec<Vec<i64>> = Vec::new();
        if !self.more.is_empty() {
            more.resize_with(self.heads.len(), Vec::new);
            for (place, util) in &self.more {
                more[*place].push(*util);
            }
        }
        let mut ticks = Vec::with_capacity(self.heads.len());
        let mut begun = 0;
        let mut of_run = None;
        for (place, (run, row)) in self.heads.iter().enumerate() {
            let theirs = self.order[begun..].iter();
            let end = begun + theirs.take_while(|(its, _)| *its == place).count();
            let known = of_run.filter(|known: &LegacyRun| known.run == *run);
            let known = known.unwrap_or_else(|| intervals.of(*run));
            of_run = Some(known);
            ticks.push(LegacyGpuTick {
                at,
                gpu: names.get(row.gpu),
                util: row.util_pct,
                index: row.gpu_index,
                memory_used_mb: row.memory_used_mb,
                temperature_c: row.temperature_c,
                power_w: row.power_w,
                run: known,
                processes: &processes[begun..end],
                more_rows: more.get(place).map_or(&[], Vec::as_slice),
            });
            begun = end;
        }
        let strays: Vec<_> = self.order[begun..]
            .iter()
            .zip(&processes[begun..])
            .map(|((_, at), process)| (names.get(self.processes[*at].1.gpu), *process))
            .collect();
        each(&LegacyMoment {
            at,
            ticks: &ticks,
            strays: &strays,
        });
    }
}

/// Index of the GPU and run; `likely` is tried first, then the index after it.
fn place_of(
    heads: &[(Option<i64>, GpuRow)],
    likely: usize,
    run: Option<i64>,
    gpu: TextId,
) -> Option<usize> {
    let is_it = |(its_run, row): &(Option<i64>, GpuRow)| row.gpu == gpu && *its_run == run;
    let from_there = heads.get(likely..).unwrap_or_default();
    match from_there.iter().position(is_it) {
        Some(place) => Some(likely + place),
        None => heads.iter().take(likely).position(is_it),
    }
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
    fn learn(&mut self, id: TextId, text: &str) -> bool {
        let place = id.0 as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        if self.0[place].is_none() {
            self.0[place] = text.parse().ok();
        }
        self.0[place].is_some()
    }

    fn get(&self, id: TextId) -> &GpuUuid {
        let known = self.0.get(id.0 as usize).and_then(Option::as_ref);
        known.expect("every GPU of the moment was learned")
    }
}
