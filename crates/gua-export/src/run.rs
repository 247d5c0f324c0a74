//! One export: rows are read day by day on other threads, and written in the order of the days.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::ScopedJoinHandle;

use gua_model::Period;
use gua_store::History;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::batch::{Batch, Row};
use crate::column::Column;
use crate::days::{Day, days, keep_days_near};
use crate::error::ExportError;
use crate::names::Names;
use crate::tables::sessions::OldSessions;
use crate::tables::{Reading, What, processes, samples, sessions, totals};
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
    let mut files = 0;
    let mut open: Option<(Option<Date>, Encoder)> = None;
    if ask.edges == Edges::Cut {
        open = Some((None, Encoder::open(outlet, table, None)?));
        files += 1;
    }
    let exported = batches(history, ask, progress, &mut |date, batch| {
        let day = (ask.edges == Edges::Whole).then_some(date);
        if let Some((_, done)) = open.take_if(|(of, _)| *of != day) {
            done.close(outlet)?;
        }
        if open.is_none() {
            open = Some((day, Encoder::open(outlet, table, day)?));
            files += 1;
        }
        let (_, encoder) = open.as_mut().expect("it was opened just now");
        encoder.rows(batch)
    })?;
    // An incomplete file is not renamed into place.
    if let Some((_, done)) = open {
        done.close(outlet)?;
    }
    Ok(Exported { files, ..exported })
}

/// A message of a reader about the day that it reads.
enum Message {
    Rows(Batch),
    /// All rows of the day were sent.
    EndOfDay,
}

/// Passes the rows to `each`, batch by batch and with their day, until it fails. Readers run on threads of their own and
/// take turns: each has every n-th day and a channel, and the channels are received from in the order of the days.
pub(crate) fn batches(
    history: &History,
    ask: &Ask,
    progress: &mut dyn FnMut(f64),
    each: &mut dyn FnMut(Date, &Batch) -> Result<(), ExportError>,
) -> Result<Exported, ExportError> {
    let seen = seen(history, &Names::of_history(history)?, ask)?;
    let mut days = seen.map_or_else(Vec::new, |seen| days(seen, &ask.zone));
    let with_rows = history.days(Date::MIN, Date::MAX)?;
    keep_days_near(&mut days, &(&with_rows.whole | &with_rows.cut));
    // Decoding ticks takes longer than writing their rows.
    let readers = if ask.what.needs_ticks() { READERS } else { 1 };
    let readers = readers.min(days.len());
    let raw_from = history.raw_from()?;
    let mut exported = Exported {
        kept_from: raw_from.filter(|raw| ask.what.needs_ticks() && *raw > ask.window.from()),
        ticks_damaged: history.absurd_ticks()?.into(),
        ..Exported::default()
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut channels = Vec::new();
        for first in 0..readers {
            let (sender, receiver) = sync_channel(0);
            let (days, path) = (&days, history.path());
            threads.push(scope.spawn(move || {
                let history = History::open(path)?;
                read(&history, ask, days, (first, readers), sender)
            }));
            channels.push(receiver);
        }
        let mut taken = Ok(());
        'days: for (place, day) in days.iter().enumerate() {
            loop {
                match channels[place % readers].recv() {
                    Ok(Message::Rows(batch)) => {
                        exported.rows += batch.rows as u64;
                        taken = each(day.date, &batch);
                    }
                    Ok(Message::EndOfDay) => break,
                    // The reader has failed: its thread returns the error.
                    Err(_) => break 'days,
                }
                if taken.is_err() {
                    break 'days;
                }
            }
            progress(share(place + 1, days.len()));
        }
        drop(channels);
        let mut read = Ok(());
        for thread in threads {
            match join(thread) {
                Ok((damaged, widened)) => {
                    exported.ticks_damaged += damaged;
                    exported.widened |= widened;
                }
                // It stopped because another thread failed.
                Err(ExportError::Stopped) => {}
                Err(error) => read = Err(error),
            }
        }
        taken.and(read).map(|()| exported)
    })
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the part of the window in which the history can have rows: days without any are skipped.
fn seen(history: &History, names: &Names, ask: &Ask) -> Result<Option<Period>, ExportError> {
    let old = history.old_facts()?;
    let began = names
        .began()
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

/// Reads every n-th day from the first one. Returns the number of damaged ticks, and whether an edge was widened to its
/// quarter hour.
fn read(
    history: &History,
    ask: &Ask,
    days: &[Day],
    (first, every): (usize, usize),
    sender: SyncSender<Message>,
) -> Result<(u64, bool), ExportError> {
    let names = Names::of_history(history)?;
    let mut reading = Reading {
        history,
        thresholds: history.thresholds()?,
        own_ticks: history.own_coverage(Period::new(ask.window.from(), Timestamp::MAX))?,
        names,
        edges: ask.edges,
        window: ask.window,
        sink: Sink::new(sender, ask.what.columns()),
    };
    let mut old_sessions = match ask.what {
        What::Sessions => OldSessions::read(&reading, old_window(ask))?,
        _ => OldSessions::default(),
    };
    let (mut damaged, mut widened) = (0, false);
    let mine = days.iter().enumerate().skip(first).step_by(every);
    for (place, &Day { period, .. }) in mine {
        let (is_first, is_last) = (place == 0, place + 1 == days.len());
        // Imported rows cover whole ticks. Without a given end, the last day includes all rows dated later.
        let old = match is_last && !ask.ends {
            true => Period::new(period.from(), Timestamp::MAX),
            false => period,
        };
        let own = period
            .overlap(ask.window)
            .unwrap_or(Period::new(period.from(), period.from()));
        damaged += u64::from(match ask.what {
            What::Samples => samples::rows(&mut reading, own, old, is_first)?,
            What::Processes => processes::rows(&mut reading, own, old)?,
            What::Sessions => {
                sessions::rows(&mut reading, &mut old_sessions, (own, is_first, is_last))?;
                0
            }
            What::Totals | What::UserTotals => {
                let (damaged, window) = totals::rows(&mut reading, ask.what, (own, old))?;
                widened |= window != own;
                damaged
            }
        });
        reading.sink.end_day()?;
    }
    Ok((damaged, widened))
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

/// Collects the rows of a reader into batches and sends them.
pub(crate) struct Sink {
    sender: SyncSender<Message>,
    columns: &'static [Column],
    batch: Batch,
    is_closed: bool,
}

impl Sink {
    fn new(sender: SyncSender<Message>, columns: &'static [Column]) -> Self {
        Self {
            sender,
            columns,
            batch: Batch::new(columns, 0),
            is_closed: false,
        }
    }

    pub(crate) fn push(&mut self, row: &impl Row) {
        self.batch.push(row);
        if self.batch.rows >= MOST_ROWS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        // Consecutive days have similar numbers of rows.
        let next = Batch::new(self.columns, self.batch.rows);
        let batch = std::mem::replace(&mut self.batch, next);
        self.send(Message::Rows(batch));
    }

    fn send(&mut self, message: Message) {
        self.is_closed |= self.is_closed || self.sender.send(message).is_err();
    }

    fn end_day(&mut self) -> Result<(), ExportError> {
        if self.batch.rows > 0 {
            self.flush();
        }
        self.send(Message::EndOfDay);
        self.check()
    }

    /// Fails if nothing receives the rows any more, since reading on is then useless.
    pub(crate) fn check(&self) -> Result<(), ExportError> {
        match self.is_closed {
            true => Err(ExportError::Stopped),
            false => Ok(()),
        }
    }
}

#[derive(Clone, Copy)]
struct Table {
    name: &'static str,
    columns: &'static [Column],
    format: Format,
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// A file that is being written, by format.
enum Encoder {
    Csv(Out),
    JsonLines(Out, &'static [Column]),
    Parquet(Box<parquet::Writer<Out>>),
}

impl Encoder {
    fn open(outlet: &mut dyn Outlet, table: Table, day: Option<Date>) -> Result<Self, ExportError> {
        let file = outlet.open(day).map_err(ExportError::Write)?;
        let mut out = BufWriter::with_capacity(1 << 17, file);
        Ok(match table.format {
            Format::Csv => {
                csv::head(&mut out, table.columns).map_err(ExportError::Write)?;
                Encoder::Csv(out)
            }
            Format::JsonLines => Encoder::JsonLines(out, table.columns),
            Format::Parquet => {
                let writer = parquet::Writer::new(out, table.name, table.columns);
                Encoder::Parquet(Box::new(writer.map_err(parquet_error)?))
            }
        })
    }

    fn rows(&mut self, batch: &Batch) -> Result<(), ExportError> {
        let written = match self {
            Encoder::Csv(out) => csv::rows(out, batch),
            Encoder::JsonLines(out, columns) => json_lines::rows(out, columns, batch),
            Encoder::Parquet(writer) => return writer.rows(batch).map_err(parquet_error),
        };
        written.map_err(ExportError::Write)
    }

    fn close(self, outlet: &mut dyn Outlet) -> Result<(), ExportError> {
        let out = match self {
            Encoder::Csv(out) | Encoder::JsonLines(out, _) => out,
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
