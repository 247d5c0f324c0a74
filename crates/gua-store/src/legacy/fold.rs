//! Card-ticks of old rows, moment by moment, with no more than one moment in memory: from an old file in place, or from
//! what was imported. How they count is decided in `gua-model`.

use std::collections::HashMap;
use std::time::Duration;

use gua_model::legacy::{LegacyCardTick, LegacyMoment, LegacyProcess, LegacyRun, LegacyTool};
use gua_model::{GpuUuid, Period, ProcessKind};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _};

use super::cursor::{Cursor, Moments, Unpacked, Wanted};
use super::error::LegacyError;
use super::gpu_stats::OF_GPU_STATS;
use super::import::load_texts;
use super::open::OldFile;
use super::rows::{CardRow, OldRow, ProcessRow, TextId, Texts};
use super::scan::{Choice, Order, Stored, stored_statement};
use super::stamp::{Stamp, old_text};

impl OldFile {
    /// Folds every moment of a window, in the order of time. Where the file's rows turn out not to be in that order,
    /// the fold begins anew with sorted ones; that is why `start` is asked for what to begin with.
    pub fn fold<A>(
        &self,
        window: Period,
        start: impl Fn() -> A,
        mut step: impl FnMut(&mut A, &LegacyMoment<'_>),
    ) -> Result<A, LegacyError> {
        let intervals = self.intervals()?;
        let mut orders =
            vec![self.narrow(window)?.unwrap_or_else(by_row), sorted(window)].into_iter();
        loop {
            let Some(rows) = orders.next() else {
                let why = "some are not written as gpu-usage-audit writes them; `gua import` can take them".to_owned();
                return Err(LegacyError::Disorder {
                    path: self.path.clone(),
                    why,
                });
            };
            let wanted = Wanted {
                rows,
                window: ends(window),
            };
            let read = |source| self.failed(source);
            let kilobytes = if wanted.rows.parameters.is_empty() {
                SCAN_CACHE
            } else {
                SORT_CACHE
            };
            self.connection
                .pragma_update(None, "cache_size", -kilobytes)
                .map_err(read)?;
            let mut sum = start();
            let mut texts = Texts::default();
            let mut cards = self.select_counted::<CardRow>(&wanted)?;
            let mut processes = self.select_counted::<ProcessRow>(&wanted)?;
            let cards = Cursor::<CardRow>::new(self, &mut cards, &wanted, &mut texts)?;
            let processes = Cursor::<ProcessRow>::new(self, &mut processes, &wanted, &mut texts)?;
            match merge(cards, processes, &mut texts, &intervals, &mut |moment| {
                step(&mut sum, moment);
            })? {
                Merged::Whole => {
                    self.confirm()?;
                    return Ok(sum);
                }
                Merged::Disordered => {}
            }
        }
    }

    /// The recorded interval of every run.
    fn intervals(&self) -> Result<Intervals, LegacyError> {
        if !self.columns().has("daemon_run", "interval_seconds") {
            return Ok(Intervals::default());
        }
        intervals(
            &self.connection,
            "SELECT id, interval_seconds FROM daemon_run",
            [],
        )
        .map_err(|source| self.failed(source))
    }

    /// For a window that is a small part of the file: its rows by the index on card and time. `None` where a scan of
    /// the whole file is no slower, or where there is no such index.
    fn narrow(&self, window: Period) -> Result<Option<Choice>, LegacyError> {
        let read = |source| self.failed(source);
        let indexes: i64 = self
            .connection
            .query_row(
                "SELECT count(*) FROM sqlite_master WHERE type = 'index' \
                 AND name IN ('idx_gpu_sample_uuid_ts', 'idx_proc_sample_uuid_ts')",
                [],
                |row| row.get(0),
            )
            .map_err(read)?;
        if indexes != 2 {
            return Ok(None);
        }
        let mut cards = self.cards(CardRow::TABLE).map_err(read)?;
        let mut ends: Option<(i64, i64)> = None;
        for card in &cards {
            let (first, last): (Option<String>, Option<String>) = self
                .connection
                .query_row(
                    "SELECT (SELECT min(ts) FROM gpu_sample WHERE gpu_uuid = ?1), \
                     (SELECT max(ts) FROM gpu_sample WHERE gpu_uuid = ?1)",
                    [card],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .map_err(read)?;
            let micros = |text: Option<String>| {
                text.and_then(|text| Stamp::parse(&text))
                    .map(|stamp| stamp.at_us)
            };
            let (Some(first), Some(last)) = (micros(first), micros(last)) else {
                return Ok(None);
            };
            let (low, high) = ends.unwrap_or((first, last));
            ends = Some((low.min(first), high.max(last)));
        }
        let Some((first, last)) = ends else {
            return Ok(None);
        };
        let from = window.from().as_microsecond().clamp(first, last);
        let to = window.to().as_microsecond().clamp(first, last);
        if cards.len() > MOST_CARDS || (to - from).saturating_mul(NARROW) > last - first {
            return Ok(None);
        }
        cards.extend(self.cards(ProcessRow::TABLE).map_err(read)?);
        cards.sort();
        cards.dedup();
        let places = (3..3 + cards.len())
            .map(|place| format!("?{place}"))
            .collect::<Vec<_>>()
            .join(", ");
        let mut choice = sorted(window);
        choice.clause =
            format!("WHERE gpu_uuid IN ({places}) AND ts >= ?1 AND ts < ?2 ORDER BY ts, rowid");
        choice.parameters.extend(cards);
        Ok(Some(choice))
    }

    /// Every card that has rows.
    pub(super) fn seen_cards(&self) -> Result<Vec<String>, rusqlite::Error> {
        self.cards(CardRow::TABLE)
    }

    /// Every card of a table, by hopping from one to the next in the index.
    fn cards(&self, table: &str) -> Result<Vec<String>, rusqlite::Error> {
        let sql =
            format!("SELECT gpu_uuid FROM {table} WHERE gpu_uuid > ?1 ORDER BY gpu_uuid LIMIT 1");
        let mut next = self.connection.prepare(&sql)?;
        let mut cards: Vec<String> = Vec::new();
        loop {
            let last = cards.last().map_or("", String::as_str);
            match next.query_row([last], |row| row.get(0)).optional()? {
                Some(card) if cards.len() <= MOST_CARDS => cards.push(card),
                _ => return Ok(cards),
            }
        }
    }
}

/// A window is narrow when it is at most one in this many parts of the file: to sort more costs more than a scan.
const NARROW: i64 = 10;
/// A scan never comes back to a page, so that few of them, which stay near the processor, are faster than many.
const SCAN_CACHE: i64 = 256;
/// What may be used to sort, in kilobytes; the rest goes to a temporary file.
const SORT_CACHE: i64 = 8_000;
/// Beyond this the file is scanned.
const MOST_CARDS: usize = 500;

/// In the order of writing, which is that of time unless the clock was set back or two collectors wrote. All rows are
/// read: to have SQLite look at each time takes longer.
fn by_row() -> Choice {
    Choice {
        clause: "ORDER BY rowid".to_owned(),
        parameters: Vec::new(),
    }
}

/// The plus keeps SQLite from trying, for every row, whether the text is a number after all: the column's declared type
/// would have it so.
fn sorted(window: Period) -> Choice {
    let (from, to) = ends(window);
    Choice {
        clause: "WHERE +ts >= ?1 AND +ts < ?2 ORDER BY +ts, rowid".to_owned(),
        parameters: vec![from, to],
    }
}

fn ends(window: Period) -> (String, String) {
    (old_text(window.from()), old_text(window.to()))
}

/// Folds what was imported from one source; it lies in the order of time.
pub(crate) fn fold_stored(
    history: &Connection,
    source: i64,
    window: Period,
    each: &mut dyn FnMut(&LegacyMoment<'_>),
) -> Result<(), LegacyError> {
    let intervals = intervals(
        history,
        "SELECT row, interval_seconds FROM old_run WHERE source = ?1",
        [source],
    )
    .map_err(LegacyError::Write)?;
    let mut texts = load_texts(history)?;
    let ends = (window.from().as_microsecond(), window.to().as_microsecond());
    let mut cards = stored_statement::<CardRow>(history, Order::Time)?;
    let mut processes = stored_statement::<ProcessRow>(history, Order::Time)?;
    let cards = Stored::new(&mut cards, source, ends)?;
    let cards: Unpacked<_, CardRow> = Unpacked::new(cards, &mut texts)?;
    let processes = Stored::new(&mut processes, source, ends)?;
    let processes: Unpacked<_, ProcessRow> = Unpacked::new(processes, &mut texts)?;
    merge(cards, processes, &mut texts, &intervals, each).map(drop)
}

/// What each run's ticks stand for.
#[derive(Debug, Default)]
struct Intervals(HashMap<i64, Duration>);

impl Intervals {
    fn of(&self, run: Option<i64>) -> LegacyRun {
        let known = run.and_then(|run| self.0.get(&run));
        LegacyRun {
            run,
            interval: known.copied().unwrap_or(LegacyRun::NONE.interval),
        }
    }
}

fn intervals(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
) -> Result<Intervals, rusqlite::Error> {
    let mut query = connection.prepare(sql)?;
    let mut rows = query.query(values)?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        // No release writes an interval that is no length of time.
        if let Ok(interval) = Duration::try_from_secs_f64(row.get(1)?) {
            found.insert(row.get(0)?, interval);
        }
    }
    Ok(Intervals(found))
}

enum Merged {
    Whole,
    /// A moment came after a later one: what was given so far is worthless.
    Disordered,
}

/// Reads both tables side by side, moment by moment.
fn merge(
    mut cards: impl Moments<CardRow>,
    mut processes: impl Moments<ProcessRow>,
    texts: &mut Texts,
    intervals: &Intervals,
    each: &mut dyn FnMut(&LegacyMoment<'_>),
) -> Result<Merged, LegacyError> {
    let mut moment = Moment::default();
    let mut names = Names::default();
    let mut before = i64::MIN;
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
        moment.find_places(&mut names, texts)?;
        moment.give(now, &names, texts, intervals, each);
    }
    Ok(Merged::Whole)
}

/// All rows of one moment, and to which card-tick each belongs.
#[derive(Default)]
struct Moment {
    cards: Vec<(Option<i64>, CardRow)>,
    processes: Vec<(Option<i64>, ProcessRow)>,
    /// The first row of every card and run.
    heads: Vec<(Option<i64>, CardRow)>,
    /// Further rows of a card and run: its place in `heads`, and the utilisation.
    more: Vec<(usize, i64)>,
    /// For every process row in the order of `heads`: its place there and its own in `processes`. Those whose run has no
    /// row for their card come last.
    order: Vec<(usize, usize)>,
}

const STRAY: usize = usize::MAX;

impl Moment {
    fn find_places(&mut self, names: &mut Names, texts: &Texts) -> Result<(), LegacyError> {
        self.heads.clear();
        self.more.clear();
        self.order.clear();
        for (run, row) in &self.cards {
            let text = texts.get(row.gpu).unwrap_or_default();
            if !names.learn(row.gpu, text) {
                return Err(LegacyError::BadCard(text.escape_debug().to_string()));
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
        // As a rule they come in this order.
        if !self.order.is_sorted() {
            self.order.sort_unstable();
        }
        Ok(())
    }

    fn give(
        &self,
        now: i64,
        names: &Names,
        texts: &Texts,
        intervals: &Intervals,
        each: &mut dyn FnMut(&LegacyMoment<'_>),
    ) {
        let at = Timestamp::from_microsecond(now).expect("a stamp is made from a time in range");
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
            ticks.push(LegacyCardTick {
                at,
                gpu: names.get(row.gpu),
                util: row.util_pct,
                index: row.gpu_index,
                memory_used_mb: row.memory_used_mb,
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

/// Where the card and run stand; `likely` is looked at first, and the place after it.
fn place_of(
    heads: &[(Option<i64>, CardRow)],
    likely: usize,
    run: Option<i64>,
    gpu: TextId,
) -> Option<usize> {
    let is_it = |(its_run, row): &(Option<i64>, CardRow)| row.gpu == gpu && *its_run == run;
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

/// Cards by their text, each checked once.
#[derive(Default)]
struct Names(Vec<Option<GpuUuid>>);

impl Names {
    /// Whether the text can be the name of a card.
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
        known.expect("every card of the moment was learned")
    }
}
