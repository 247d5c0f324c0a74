//! One export: rows are read day by day and written on another thread, with one batch queued between them.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use gua_model::Period;
use gua_model::legacy::OwnSince;
use gua_store::History;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::batch::{Batch, Row};
use crate::column::Column;
use crate::days::{Day, days};
use crate::error::ExportError;
use crate::names::Names;
use crate::tables::sessions::OldSessions;
use crate::tables::{Reading, What, processes, samples, sessions, totals};
use crate::turns::Turns;
use crate::{csv, json_lines, parquet};

/// Maximum number of rows in a batch. A day of twelve GPUs at thirty seconds is one batch.
const MOST_ROWS: usize = 50_000;
/// Number of threads that read ticks: with the one that writes, they keep two CPUs busy.
const READERS: usize = 2;

/// Selection of the rows.
#[derive(Clone, Debug)]
pub struct Ask {
    pub what: What,
    pub format: Format,
    pub window: Period,
    /// Whether the end of the window was given; otherwise imported rows with future times count too, as in reports.
    pub ends: bool,
    pub edges: Edges,
    /// Time zone of the days by which rows are grouped.
    pub zone: TimeZone,
}

/// File format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    JsonLines,
    Parquet,
}

/// Treatment of time at an edge of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Only the part inside the window counts, so that sums equal those of a report.
    Cut,
    /// Time belongs to the day in which its tick or session began, so that days exported one by one add up.
    Whole,
}

/// Destination of files.
pub trait Outlet: Send {
    /// Opens the file of a day, or the one file for all.
    fn open(&mut self, day: Option<Date>) -> io::Result<Box<dyn Write + Send>>;
    /// Completes the last opened file.
    fn close(&mut self, file: Box<dyn Write + Send>) -> io::Result<()>;
}

/// Summary of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub rows: u64,
    pub files: u64,
    /// Number of unreadable ticks, which have no rows.
    pub ticks_damaged: u64,
    /// Requested ticks before this time have been deleted by retention.
    pub kept_from: Option<Timestamp>,
    /// Quarter hours at an edge are whole, because their ticks have been deleted.
    pub widened: bool,
}

/// Writes the rows of a history. `progress` is called with the completed fraction of the window.
pub fn run(
    history: &History,
    ask: &Ask,
    outlet: &mut dyn Outlet,
    progress: &mut dyn FnMut(f64),
) -> Result<Exported, ExportError> {
    let table = Table {
        name: ask.what.as_str(),
        columns: ask.what.columns(),
        format: ask.format,
    };
    let by_day = ask.edges == Edges::Whole;
    let (exported, files) = both(history, ask, progress, |receiver| {
        write(receiver, outlet, table, by_day)
    })?;
    Ok(Exported { files, ..exported })
}

/// Passes the rows batch by batch to `each` instead of writing them, until it asks to stop.
#[cfg(feature = "arrow")]
pub(crate) fn batches(
    history: &History,
    ask: &Ask,
    each: &mut (dyn FnMut(&Batch) -> bool + Send),
) -> Result<Exported, ExportError> {
    let take = |receiver: &Receiver<Message>| {
        for message in receiver {
            if let Message::Rows(batch) = message
                && !each(&batch)
            {
                break;
            }
        }
        Ok(())
    };
    let (exported, ()) = both(history, ask, &mut |_| {}, take)?;
    Ok(exported)
}

/// Reads on this thread and, if ticks are read, on a second one that takes every other day; `write` runs on another.
fn both<T: Send>(
    history: &History,
    ask: &Ask,
    progress: &mut dyn FnMut(f64),
    write: impl FnOnce(&Receiver<Message>) -> Result<T, ExportError> + Send,
) -> Result<(Exported, T), ExportError> {
    let seen = seen(history, &Names::of_history(history)?, ask)?;
    let parts = seen.map_or_else(Vec::new, |seen| days(seen, &ask.zone));
    // Decoding ticks takes longer than writing their rows.
    let readers = if ask.what.needs_ticks() {
        READERS.min(parts.len().max(1))
    } else {
        1
    };
    let turns = Arc::new(Turns::default());
    let history_path = history.path();
    let (sender, receiver) = sync_channel(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || write(&receiver));
        let part = |reader: usize| Part {
            ask,
            days: &parts,
            reader,
            readers,
        };
        let mut helpers = Vec::new();
        for reader in 1..readers {
            let sink = Sink::new(sender.clone(), ask.what.columns(), Arc::clone(&turns));
            let part = part(reader);
            helpers.push(scope.spawn(move || {
                let turns = Arc::clone(&sink.turns);
                let history = History::open(history_path).inspect_err(|_| turns.give_up())?;
                part.read(&history, sink, &mut |_| {})
            }));
        }
        let sink = Sink::new(sender, ask.what.columns(), Arc::clone(&turns));
        let mut read = part(0).read(history, sink, progress);
        for helper in helpers {
            let helped = helper
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            read = read.and_then(|exported| Ok(exported.with(&helped?)));
        }
        let written = writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // After a write error, the reader only reports that its channel is closed.
        let written = written?;
        read.map(|exported| (exported, written))
    })
}

impl Exported {
    fn with(self, other: &Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            ticks_damaged: self.ticks_damaged + other.ticks_damaged,
            widened: self.widened || other.widened,
            ..self
        }
    }
}

/// Days of one reader.
#[derive(Clone, Copy)]
struct Part<'a> {
    ask: &'a Ask,
    days: &'a [Day],
    reader: usize,
    readers: usize,
}

/// Returns the part of the window in which the history can have rows: days without any are skipped.
fn seen(history: &History, names: &Names, ask: &Ask) -> Result<Option<Period>, ExportError> {
    let old = history.old_facts()?;
    let began = names.own_since().into_values().min();
    let began = began
        .into_iter()
        .chain(old.as_ref().and_then(|old| old.began))
        .min();
    let Some(began) = began else {
        return Ok(None);
    };
    let old_ended = old.and_then(|old| old.ended).filter(|_| !ask.ends);
    let to = old_ended.map_or(ask.window.to(), |ended| ended.max(ask.window.to()));
    // A tick before the window may reach into it.
    Ok((began < to).then(|| Period::new(began.max(ask.window.from()), to)))
}

impl Part<'_> {
    /// Reads the days; on failure the other reader stops waiting.
    fn read(
        self,
        history: &History,
        sink: Sink,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Exported, ExportError> {
        let turns = Arc::clone(&sink.turns);
        let names = Names::of_history(history);
        let reading = names.and_then(|names| {
            Ok(Reading {
                history,
                thresholds: history.thresholds()?,
                own_since: OwnSince(names.own_since()),
                names,
                edges: self.ask.edges,
                window: self.ask.window,
                sink,
            })
        });
        let exported = reading.and_then(|reading| read(reading, self, progress));
        if exported.is_err() {
            turns.give_up();
        }
        exported
    }
}

fn read(
    mut reading: Reading<'_>,
    part: Part<'_>,
    progress: &mut dyn FnMut(f64),
) -> Result<Exported, ExportError> {
    let ask = part.ask;
    let mut exported = Exported::default();
    let raw_from = reading.history.raw_from()?;
    exported.kept_from = raw_from.filter(|raw| ask.what.needs_ticks() && *raw > ask.window.from());
    let mut old_sessions = match ask.what {
        What::Sessions => OldSessions::read(&reading, old_window(ask))?,
        _ => OldSessions::default(),
    };
    let count = part.days.len();
    let mine = part.days.iter().enumerate().skip(part.reader);
    for (place, &Day { date, period }) in mine.step_by(part.readers) {
        let (is_first, is_last) = (place == 0, place + 1 == count);
        // Imported rows cover whole ticks. Without a given end, the last day includes all rows dated later.
        let old = match is_last && !ask.ends {
            true => Period::new(period.from(), Timestamp::MAX),
            false => period,
        };
        let own = period
            .overlap(ask.window)
            .unwrap_or(Period::new(period.from(), period.from()));
        reading.sink.begin(place, date);
        exported.ticks_damaged += u64::from(match ask.what {
            What::Samples => samples::rows(&mut reading, own, old, is_first)?,
            What::Processes => processes::rows(&mut reading, own, old)?,
            What::Sessions => {
                sessions::rows(&mut reading, &mut old_sessions, (own, is_first, is_last))?
            }
            What::Totals | What::UserTotals => {
                let (damaged, window) = totals::rows(&mut reading, ask.what, (own, old))?;
                exported.widened |= window != own;
                damaged
            }
        });
        reading.sink.end();
        progress(share(place + 1, count));
    }
    if part.reader == 0 {
        reading.sink.finish(count);
    }
    exported.rows = reading.sink.rows;
    Ok(exported)
}

fn old_window(ask: &Ask) -> Period {
    match ask.ends {
        true => ask.window,
        false => Period::new(ask.window.from(), Timestamp::MAX),
    }
}

fn share(done: usize, all: usize) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    number(done) / number(all.max(1))
}

/// Rows that are passed to the writer.
pub(crate) struct Sink {
    sender: SyncSender<Message>,
    turns: Arc<Turns>,
    /// Day of the rows.
    day: usize,
    /// Date of the day until its first batch is sent, which waits for its turn.
    date: Option<Date>,
    columns: &'static [Column],
    batch: Batch,
    rows: u64,
    is_closed: bool,
}

enum Message {
    Day(Date),
    Rows(Batch),
    /// All rows were sent. Without it the file is incomplete.
    End,
}

impl Sink {
    fn new(sender: SyncSender<Message>, columns: &'static [Column], turns: Arc<Turns>) -> Self {
        Self {
            sender,
            turns,
            day: 0,
            date: None,
            columns,
            batch: Batch::new(columns),
            rows: 0,
            is_closed: false,
        }
    }

    pub(crate) fn push(&mut self, row: &impl Row) {
        row.add_to(&mut self.batch);
        if self.batch.rows >= MOST_ROWS {
            self.flush();
        }
    }

    /// Begins a day.
    fn begin(&mut self, day: usize, date: Date) {
        self.day = day;
        self.date = Some(date);
    }

    /// Ends a day.
    fn end(&mut self) {
        self.flush();
        // A day without rows has to wait for its turn too, to pass it on.
        self.is_closed |= !self.turns.wait_for(self.day);
        self.turns.pass(self.day);
    }

    /// Ends all days of all readers.
    fn finish(&mut self, days: usize) {
        if self.turns.wait_for(days) {
            self.is_closed |= self.sender.send(Message::End).is_err();
        }
    }

    fn flush(&mut self) {
        if self.batch.rows > 0 {
            self.rows += self.batch.rows as u64;
            let next = self.batch.of_the_same_size(self.columns);
            let batch = std::mem::replace(&mut self.batch, next);
            let date = self.date.take();
            if date.is_some() {
                self.is_closed |= !self.turns.wait_for(self.day);
            }
            for message in date
                .map(Message::Day)
                .into_iter()
                .chain([Message::Rows(batch)])
            {
                self.is_closed |= self.is_closed || self.sender.send(message).is_err();
            }
        }
    }

    /// Fails if the writer has stopped, since reading on is then useless.
    pub(crate) fn go_on(&self) -> Result<(), ReadStop> {
        match self.is_closed {
            true => Err(ReadStop::Closed),
            false => Ok(()),
        }
    }

    /// Converts the result of reading. A closed channel is not an error here: the writer's error explains it.
    pub(crate) fn settle(&self, read: Result<u32, ReadStop>) -> Result<u32, ExportError> {
        match read {
            Ok(damaged) => Ok(damaged),
            Err(ReadStop::Closed) => Ok(0),
            Err(ReadStop::Read(error)) => Err(error.into()),
        }
    }
}

/// Reason that reading stopped.
#[derive(Debug)]
pub(crate) enum ReadStop {
    Closed,
    Read(gua_store::ReadError),
}

impl From<gua_store::ReadError> for ReadStop {
    fn from(error: gua_store::ReadError) -> Self {
        ReadStop::Read(error)
    }
}

#[derive(Clone, Copy)]
struct Table {
    name: &'static str,
    columns: &'static [Column],
    format: Format,
}

/// Writes the batches and returns the number of files.
fn write(
    receiver: &Receiver<Message>,
    outlet: &mut dyn Outlet,
    table: Table,
    by_day: bool,
) -> Result<u64, ExportError> {
    let mut files = 0;
    let mut day = None;
    let mut open: Option<Encoder> = None;
    if !by_day {
        open = Some(Encoder::open(outlet, table, None)?);
        files += 1;
    }
    let mut is_whole = false;
    for message in receiver {
        match message {
            Message::End => is_whole = true,
            Message::Day(_) if !by_day => {}
            Message::Day(date) => {
                if let Some(done) = open.take() {
                    done.close(outlet)?;
                }
                day = Some(date);
            }
            Message::Rows(batch) => {
                if open.is_none() {
                    open = Some(Encoder::open(outlet, table, day)?);
                    files += 1;
                }
                open.as_mut()
                    .expect("it was opened just now")
                    .rows(&batch)?;
            }
        }
    }
    // An incomplete file is not renamed into place.
    if let Some(done) = open.filter(|_| is_whole) {
        done.close(outlet)?;
    }
    Ok(files)
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// A file that is being written, by format.
enum Encoder {
    Csv(Out, Table),
    JsonLines(Out, Table),
    Parquet(Box<parquet::Writer<Out>>),
}

impl Encoder {
    fn open(outlet: &mut dyn Outlet, table: Table, day: Option<Date>) -> Result<Self, ExportError> {
        let file = outlet.open(day).map_err(ExportError::Write)?;
        let mut out = BufWriter::with_capacity(1 << 17, file);
        Ok(match table.format {
            Format::Csv => {
                csv::head(&mut out, table.columns).map_err(ExportError::Write)?;
                Encoder::Csv(out, table)
            }
            Format::JsonLines => Encoder::JsonLines(out, table),
            Format::Parquet => {
                let writer = parquet::Writer::new(out, table.name, table.columns);
                Encoder::Parquet(Box::new(writer.map_err(parquet_error)?))
            }
        })
    }

    fn rows(&mut self, batch: &Batch) -> Result<(), ExportError> {
        match self {
            Encoder::Csv(out, table) => {
                csv::rows(out, table.columns, batch).map_err(ExportError::Write)
            }
            Encoder::JsonLines(out, table) => {
                json_lines::rows(out, table.columns, batch).map_err(ExportError::Write)
            }
            Encoder::Parquet(writer) => writer.rows(batch).map_err(parquet_error),
        }
    }

    fn close(self, outlet: &mut dyn Outlet) -> Result<(), ExportError> {
        let out = match self {
            Encoder::Csv(out, _) | Encoder::JsonLines(out, _) => out,
            Encoder::Parquet(writer) => writer.finish().map_err(parquet_error)?,
        };
        let file = out
            .into_inner()
            .map_err(|error| ExportError::Write(error.into_error()))?;
        outlet.close(file).map_err(ExportError::Write)
    }
}

/// Reports a full disk as such, whatever the format.
fn parquet_error(error: ::parquet::errors::ParquetError) -> ExportError {
    match error {
        ::parquet::errors::ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => ExportError::Write(*error),
            Err(source) => ExportError::Parquet(::parquet::errors::ParquetError::External(source)),
        },
        error => ExportError::Parquet(error),
    }
}
