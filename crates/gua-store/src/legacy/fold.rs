//! Card-ticks of old rows, moment by moment, with no more than one moment in memory: from an old file in place, or from
//! what was imported. How they count is decided in `gua-model`.

use std::collections::HashMap;
use std::time::Duration;

use gua_model::legacy::{LegacyCardTick, LegacyProcess, LegacyRun};
use gua_model::{GpuUuid, Period, ProcessKind};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _};

use super::block::Block;
use super::error::LegacyError;
use super::import::load_texts;
use super::open::OldFile;
use super::rows::{CardRow, OldRow, ProcessRow, TextId, Texts};
use super::scan::{Blocks, Choice, Need, Order, Scan, Stored, stored_statement};
use super::stamp::{Stamp, old_text};

impl OldFile {
    /// Folds every card-tick of a window, in the order of time. Where the file's rows turn out not to be in that order,
    /// the fold begins anew with sorted ones; that is why `start` is asked for what to begin with.
    pub fn fold<A>(
        &self,
        window: Period,
        start: impl Fn() -> A,
        mut step: impl FnMut(&mut A, &LegacyCardTick),
    ) -> Result<A, LegacyError> {
        let intervals = self.intervals()?;
        let mut orders = vec![
            self.narrow(window)?.unwrap_or_else(|| by_row(window)),
            sorted(window),
        ]
        .into_iter();
        loop {
            let choice = orders.next();
            let Some(choice) = choice else {
                let why = "some are not written as gpu-usage-audit writes them; `gua import` can take them".to_owned();
                return Err(LegacyError::Disorder {
                    path: self.path.clone(),
                    why,
                });
            };
            let mut sum = start();
            let mut cards = self.select::<CardRow>(&choice)?;
            let mut processes = self.select::<ProcessRow>(&choice)?;
            let cards = Scan::<CardRow>::new(self, &mut cards, &choice)?;
            let processes = Scan::<ProcessRow>::new(self, &mut processes, &choice)?;
            let mut texts = Texts::default();
            match merge(cards, processes, &mut texts, &intervals, &mut |tick| {
                step(&mut sum, tick);
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
/// Beyond this the file is scanned.
const MOST_CARDS: usize = 500;

/// In the order of writing, which is that of time unless the clock was set back or two collectors wrote.
fn by_row(window: Period) -> Choice {
    chosen(window, "WHERE +ts >= ?1 AND +ts < ?2 ORDER BY rowid")
}

/// The plus keeps SQLite from trying, for every row, whether the text is a number after all: the column's declared type
/// would have it so.
fn sorted(window: Period) -> Choice {
    chosen(window, "WHERE +ts >= ?1 AND +ts < ?2 ORDER BY +ts, rowid")
}

fn chosen(window: Period, clause: &str) -> Choice {
    Choice {
        need: Need::Counted,
        clause: clause.to_owned(),
        parameters: ends(window),
    }
}

fn ends(window: Period) -> Vec<String> {
    vec![old_text(window.from()), old_text(window.to())]
}

/// Folds what was imported from one source; it lies in the order of time.
pub(crate) fn fold_stored(
    history: &Connection,
    source: i64,
    window: Period,
    each: &mut dyn FnMut(&LegacyCardTick),
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
    let processes = Stored::new(&mut processes, source, ends)?;
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
    mut card_blocks: impl Blocks<CardRow>,
    mut process_blocks: impl Blocks<ProcessRow>,
    texts: &mut Texts,
    intervals: &Intervals,
    each: &mut dyn FnMut(&LegacyCardTick),
) -> Result<Merged, LegacyError> {
    let mut moment = Moment::default();
    let mut names = Names::default();
    let mut cards = card_blocks.next(texts)?;
    let mut processes = process_blocks.next(texts)?;
    let mut before = i64::MIN;
    while let Some(now) = earlier(cards.as_ref(), processes.as_ref()) {
        if now < before {
            return Ok(Merged::Disordered);
        }
        before = now;
        moment.clear();
        while let Some(block) = cards.take_if(|block| block.stamp.at_us == now) {
            moment
                .cards
                .extend(block.rows.iter().map(|row| (block.run, *row)));
            cards = card_blocks.next(texts)?;
        }
        while let Some(block) = processes.take_if(|block| block.stamp.at_us == now) {
            moment
                .processes
                .extend(block.rows.iter().map(|row| (block.run, *row)));
            processes = process_blocks.next(texts)?;
        }
        moment.give(now, &mut names, texts, intervals, each)?;
    }
    Ok(Merged::Whole)
}

fn earlier(cards: Option<&Block<CardRow>>, processes: Option<&Block<ProcessRow>>) -> Option<i64> {
    let cards = cards.map(|block| block.stamp.at_us);
    let processes = processes.map(|block| block.stamp.at_us);
    cards.into_iter().chain(processes).min()
}

/// All rows of one moment.
#[derive(Default)]
struct Moment {
    cards: Vec<(Option<i64>, CardRow)>,
    processes: Vec<(Option<i64>, ProcessRow)>,
    /// Where the tick of a card and run stands in `ticks`.
    places: HashMap<(TextId, Option<i64>), usize>,
    ticks: Vec<LegacyCardTick>,
}

impl Moment {
    fn clear(&mut self) {
        self.cards.clear();
        self.processes.clear();
        self.places.clear();
        self.ticks.clear();
    }

    fn give(
        &mut self,
        now: i64,
        names: &mut Names,
        texts: &Texts,
        intervals: &Intervals,
        each: &mut dyn FnMut(&LegacyCardTick),
    ) -> Result<(), LegacyError> {
        let at = Timestamp::from_microsecond(now).expect("a stamp is made from a time in range");
        for (run, row) in &self.cards {
            match self.places.get(&(row.gpu, *run)) {
                Some(place) => self.ticks[*place].more_rows.push(row.util_pct),
                None => {
                    self.places.insert((row.gpu, *run), self.ticks.len());
                    self.ticks.push(LegacyCardTick {
                        at,
                        gpu: names.card(row.gpu, texts)?,
                        util: row.util_pct,
                        run: intervals.of(*run),
                        processes: Vec::new(),
                        more_rows: Vec::new(),
                    });
                }
            }
        }
        for (run, row) in &self.processes {
            // Processes without their card's row count for nothing, as in the old tool.
            let Some(place) = self.places.get(&(row.gpu, *run)) else {
                continue;
            };
            self.ticks[*place].processes.push(LegacyProcess {
                identity: row
                    .loginuid_user
                    .and_then(|user| texts.get(user))
                    .map(str::to_owned),
                memory_mb: row
                    .mem_used_mb
                    .and_then(|memory| u64::try_from(memory).ok()),
                kind: match row.process_type.and_then(|word| texts.get(word)) {
                    Some("graphics") => ProcessKind::Graphics,
                    _ => ProcessKind::Compute,
                },
            });
        }
        self.ticks.iter().for_each(each);
        Ok(())
    }
}

/// Cards by their text, each checked once.
#[derive(Default)]
struct Names(HashMap<TextId, GpuUuid>);

impl Names {
    fn card(&mut self, id: TextId, texts: &Texts) -> Result<GpuUuid, LegacyError> {
        if let Some(card) = self.0.get(&id) {
            return Ok(card.clone());
        }
        let text = texts.get(id).unwrap_or_default();
        let card: GpuUuid = text
            .parse()
            .map_err(|_| LegacyError::BadCard(text.escape_debug().to_string()))?;
        self.0.insert(id, card.clone());
        Ok(card)
    }
}
