//! Rows of a table: read day by day on other threads, and passed on in the order of the days.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::ScopedJoinHandle;

use gua_model::Period;
use gua_query::{QueryError, Records, RecordsError};
use jiff::Timestamp;
use jiff::civil::Date;

use crate::batch::{Batch, Row};
use crate::column::Column;
use crate::days::{Day, days, keep_days_near};
use crate::error::ExportError;
use crate::names::Names;
use crate::page::Place;
use crate::run::{Ask, Exported};
use crate::tables::sessions::OldSessions;
use crate::tables::{Reading, What, processes, samples, sessions, totals};

/// Maximum number of rows in a batch. A day of twelve GPUs at thirty seconds is one batch; a day of a test has several.
const MAX_ROWS: usize = if cfg!(test) { 500 } else { 50_000 };
/// Number of threads that read ticks: with the one that writes, they keep two CPUs busy.
const READERS: usize = 2;

/// Receives the rows of an export, batch by batch and with their day, until it fails.
pub type EachBatch<'a> = dyn FnMut(Date, Batch) -> Result<(), ExportError> + 'a;

/// Source of the rows of an export: records ([`RecordRows`]), or another process that reads them page by page.
pub trait Rows: Send {
    /// Passes the rows to `each`. `progress` is called with the completed fraction of the window.
    fn batches(
        &self,
        ask: &Ask,
        progress: &mut dyn FnMut(f64),
        each: &mut EachBatch<'_>,
    ) -> Result<Exported, ExportError>;
}

/// Opens the records, once for each thread that reads them.
pub type OpenRecords<'a> = dyn Fn() -> Result<Box<dyn Records>, QueryError> + Sync + 'a;

/// Rows of records that this function opens.
#[derive(Clone, Copy, Debug)]
pub struct RecordRows<F>(pub F);

impl<F: Fn() -> Result<Box<dyn Records>, QueryError> + Send + Sync> Rows for RecordRows<F> {
    fn batches(
        &self,
        ask: &Ask,
        progress: &mut dyn FnMut(f64),
        each: &mut EachBatch<'_>,
    ) -> Result<Exported, ExportError> {
        let mut exported = Exported::default();
        read_rows(
            &self.0,
            ask,
            None,
            &mut exported,
            &mut |event| match event {
                Event::Rows(day, batch) => each(day, batch),
                Event::EndOfDay(_, share) => {
                    progress(share);
                    Ok(())
                }
            },
        )?;
        Ok(exported)
    }
}

/// Step of an export.
pub(crate) enum Event {
    Rows(Date, Batch),
    /// All rows of the day were passed on, which is this fraction of the window.
    EndOfDay(Date, f64),
}

/// A message of a reader about the day that it reads.
enum Message {
    Rows(Batch),
    /// All rows of the day were sent: the number of those that cannot be read, and whether an edge was widened to its quarter
    /// hour.
    EndOfDay {
        damaged: u64,
        widened: bool,
    },
}

/// Passes the rows from a place on to `each`, until it fails; `exported` counts them. Readers run on their own threads: each reads
/// every n-th day and sends it over its own channel, and the channels are received from in the order of the days.
pub(crate) fn read_rows(
    open: &OpenRecords<'_>,
    ask: &Ask,
    from: Option<Place>,
    exported: &mut Exported,
    each: &mut dyn FnMut(Event) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let days = plan(open()?.as_ref(), ask, from, exported)?;
    let from = from.unwrap_or(Place::START);
    let begin = days.partition_point(|day| day.date < from.day);
    // Decoding ticks takes longer than writing their rows.
    let readers = if ask.what.needs_ticks() { READERS } else { 1 };
    let readers = readers.min(days.len() - begin);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut channels = Vec::new();
        for first in 0..readers {
            let (sender, receiver) = sync_channel(0);
            let days = &days;
            threads.push(scope.spawn(move || {
                let records = open()?;
                read(
                    records.as_ref(),
                    ask,
                    days,
                    (begin + first, readers),
                    sender,
                )
            }));
            channels.push(receiver);
        }
        let mut taken = Ok(());
        'days: for (place, day) in days.iter().enumerate().skip(begin) {
            let mut skipped = if day.date == from.day {
                from.batches
            } else {
                0
            };
            loop {
                match channels[(place - begin) % readers].recv() {
                    Ok(Message::Rows(_)) if skipped > 0 => skipped -= 1,
                    Ok(Message::Rows(batch)) => {
                        exported.rows += batch.rows as u64;
                        taken = each(Event::Rows(day.date, batch));
                    }
                    Ok(Message::EndOfDay { damaged, widened }) => {
                        exported.ticks_damaged = exported.ticks_damaged.saturating_add(damaged);
                        exported.widened |= widened;
                        break;
                    }
                    // The reader has failed: its thread returns the error.
                    Err(_) => break 'days,
                }
                if taken.is_err() {
                    break 'days;
                }
            }
            taken = each(Event::EndOfDay(day.date, share(place + 1, days.len())));
            if taken.is_err() {
                break;
            }
        }
        drop(channels);
        let mut read = Ok(());
        for thread in threads {
            match join(thread) {
                // This reader stopped because another thread failed.
                Ok(()) | Err(ExportError::Stopped) => {}
                Err(error) => read = Err(error),
            }
        }
        taken.and(read)
    })
}

/// Returns the days of the export. Notes in `exported` what is known before the rows are read.
fn plan(
    records: &dyn Records,
    ask: &Ask,
    from: Option<Place>,
    exported: &mut Exported,
) -> Result<Vec<Day>, ExportError> {
    let seen = seen(records, ask)?;
    let mut days = seen.map_or_else(Vec::new, |seen| days(seen, &ask.zone));
    keep_days_near(&mut days, &records.days_with_rows()?);
    let raw_from = records.raw_from()?;
    exported.kept_from = raw_from.filter(|raw| ask.what.needs_ticks() && *raw > ask.window.from());
    // Only the first page counts them.
    if from.is_none() {
        exported.ticks_damaged = records.absurd_ticks()?.into();
    }
    Ok(days)
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the part of the window in which the history can have rows: days without any are skipped.
fn seen(records: &dyn Records, ask: &Ask) -> Result<Option<Period>, ExportError> {
    let old = records.imported_facts()?;
    let own = records.gpus()?.into_iter().map(|gpu| gpu.first_seen);
    let began = own.chain(old.as_ref().and_then(|old| old.began)).min();
    let Some(began) = began else {
        return Ok(None);
    };
    let old_ended = old.and_then(|old| old.ended).filter(|_| !ask.ends);
    let to = old_ended.map_or(ask.window.to(), |ended| ended.max(ask.window.to()));
    // A tick before the window may reach into it.
    Ok((began < to).then(|| Period::new(began.max(ask.window.from()), to)))
}

/// Reads every n-th day from the first one.
fn read(
    records: &dyn Records,
    ask: &Ask,
    days: &[Day],
    (first, every): (usize, usize),
    sender: SyncSender<Message>,
) -> Result<(), ExportError> {
    let mut reading = Reading {
        records,
        thresholds: records.thresholds()?,
        own_ticks: records.own_coverage(Period::new(ask.window.from(), Timestamp::MAX))?,
        edges: ask.edges,
        window: ask.window,
        sink: Sink::new(sender, Names::of(records)?, ask.what.columns()),
    };
    // Imported rows cover whole ticks. Without a given end, the last day includes all rows dated later.
    let old_end = Some(ask.window.to()).filter(|_| ask.ends);
    let old_end = old_end.unwrap_or(Timestamp::MAX);
    let old_window = Period::new(ask.window.from(), old_end);
    let old_sessions = match ask.what {
        What::Sessions => OldSessions::read(&reading, old_window)?,
        _ => OldSessions::default(),
    };
    let mine = days.iter().enumerate().skip(first).step_by(every);
    for (place, &Day { period, .. }) in mine {
        let (is_first, is_last) = (place == 0, place + 1 == days.len());
        let old = Period::new(period.from(), if is_last { old_end } else { period.to() });
        let own = period
            .overlap(ask.window)
            .unwrap_or(Period::new(period.from(), period.from()));
        let mut widened = false;
        let damaged = match ask.what {
            What::Samples => samples::rows(&mut reading, own, old, is_first)?.into(),
            What::Processes => processes::rows(&mut reading, own, old)?.into(),
            What::Sessions => {
                sessions::rows(&mut reading, &old_sessions, (own, old), is_first)?;
                // The first day counts those of the whole window, so that later pages do not count them again.
                if is_first { old_sessions.damaged } else { 0 }
            }
            What::Totals | What::UserTotals => {
                let (damaged, window) = totals::rows(&mut reading, ask.what, (own, old))?;
                widened = window != own;
                damaged
            }
        };
        let end = Message::EndOfDay { damaged, widened };
        reading.sink.end_day(end)?;
    }
    Ok(())
}

fn share(done: usize, all: usize) -> f64 {
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    number(done) / number(all.max(1))
}

/// Collects the rows of a reader into batches and sends them.
pub(crate) struct Sink {
    sender: SyncSender<Message>,
    names: Names,
    columns: &'static [Column],
    batch: Batch,
    is_closed: bool,
}

impl Sink {
    fn new(sender: SyncSender<Message>, names: Names, columns: &'static [Column]) -> Self {
        Self {
            sender,
            names,
            columns,
            batch: Batch::new(columns, 0),
            is_closed: false,
        }
    }

    pub(crate) fn push(&mut self, row: &impl Row) {
        self.batch.push(&self.names, row);
        if self.batch.rows >= MAX_ROWS {
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

    fn end_day(&mut self, end: Message) -> Result<(), RecordsError> {
        if self.batch.rows > 0 {
            self.flush();
        }
        self.send(end);
        self.check()
    }

    /// Fails if nothing receives the rows any more, since reading on is then useless.
    pub(crate) fn check(&self) -> Result<(), RecordsError> {
        match self.is_closed {
            true => Err(RecordsError::Stopped),
            false => Ok(()),
        }
    }
}
