//! Rows in pages, which one process reads for another within limits of size and time.
//!
//! A page ends at the end of a batch, and the next one continues there: the day is read again, and the batches that were sent
//! already are skipped. Rows and batches are the same as in an export without pages.

use gua_query::QueryError;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::error::ExportError;
use crate::rows::{EachBatch, Event, OpenRecords, Rows, read_rows};
use crate::run::{Ask, Exported};

/// Number of cells after which a page ends, with its current batch. A cell takes at most 11 bytes, and most take two.
const MAX_CELLS: usize = 3_000_000;

/// Question for a page of rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageQuestion {
    /// The rows of the whole export; its format does not matter.
    pub ask: Ask,
    /// Start of the page; `None` for the first one.
    pub from: Option<Place>,
}

/// A place between two batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub(crate) day: Date,
    /// Number of batches of that day before it.
    pub(crate) batches: u32,
}

impl Place {
    pub(crate) const START: Self = Self {
        day: Date::MIN,
        batches: 0,
    };
}

/// A part of an export.
#[derive(Debug, Serialize, Deserialize)]
pub struct Page {
    batches: Vec<(Date, Batch)>,
    /// Findings in this part.
    exported: Exported,
    /// Completed fraction of the window.
    share: f64,
    /// Start of the next page; `None` for the last one.
    pub next: Option<Place>,
}

/// Reads a page. It ends early if `is_late` returns true, but not before the end of the first day.
pub fn page(
    open: &OpenRecords<'_>,
    question: &PageQuestion,
    is_late: impl Fn() -> bool,
) -> Result<Page, QueryError> {
    let PageQuestion { ask, from } = question;
    let mut page = Page {
        batches: Vec::new(),
        exported: Exported::default(),
        share: 1.0,
        next: None,
    };
    let mut place = from.unwrap_or(Place::START);
    let mut cells = 0;
    let mut exported = Exported::default();
    let read = read_rows(open, ask, *from, &mut exported, &mut |event| {
        match event {
            Event::Rows(day, batch) => {
                if day != place.day {
                    place = Place { day, batches: 0 };
                }
                place.batches = place.batches.saturating_add(1);
                cells += batch.rows * batch.columns.len();
                page.batches.push((day, batch));
            }
            Event::EndOfDay(day, share) => {
                page.share = share;
                // There is no day after the last one of the calendar, and no page.
                place = Place {
                    day: day.tomorrow().unwrap_or(Date::MAX),
                    batches: 0,
                };
            }
        }
        if cells < MAX_CELLS && !is_late() {
            return Ok(());
        }
        page.next = Some(place);
        Err(ExportError::Stopped)
    });
    match read {
        Err(ExportError::Stopped) if page.next.is_some() => {}
        Err(ExportError::Read(error)) => return Err(error),
        Err(error) => return Err(QueryError::Open(Box::new(error))),
        Ok(()) => {}
    }
    page.exported = exported;
    Ok(page)
}

/// Rows that this function reads page by page.
#[derive(Clone, Copy, Debug)]
pub struct PagedRows<F>(pub F);

impl<F: Fn(PageQuestion) -> Result<Page, QueryError> + Send> Rows for PagedRows<F> {
    fn batches(
        &self,
        ask: &Ask,
        progress: &mut dyn FnMut(f64),
        each: &mut EachBatch<'_>,
    ) -> Result<Exported, ExportError> {
        let mut exported = Exported::default();
        let mut from = None;
        loop {
            let ask = ask.clone();
            let columns = ask.what.columns();
            let page = (self.0)(PageQuestion { ask, from })?;
            for (day, batch) in page.batches {
                if !batch.fits(columns) {
                    let problem = "the other side sent rows of another table";
                    return Err(QueryError::Open(problem.into()).into());
                }
                each(day, batch)?;
            }
            exported.merge(&page.exported);
            progress(page.share);
            match page.next {
                Some(_) => from = page.next,
                None => return Ok(exported),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use gua_query::Records;
    use gua_store::History;
    use gua_test::recorded::record;
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::{Edges, Format, Outlet, RecordRows, What, Words, run};

    /// Files in memory.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Outlet for Memory {
        fn open(&mut self, _: Option<Date>) -> io::Result<Box<dyn Write + Send>> {
            Ok(Box::new(self.clone()))
        }

        fn close(&mut self, _: Box<dyn Write + Send>) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(rows: &dyn Rows, ask: &Ask) -> (Exported, Vec<u8>) {
        let mut memory = Memory::default();
        let exported = run(rows, ask, &mut memory, &mut |_| {}).unwrap();
        let bytes = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        (exported, bytes.clone())
    }

    #[test]
    fn pages_are_the_same_rows_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let from: Timestamp = "2025-10-02T16:07:00Z".parse().unwrap();
        record(&path, from, 1100, |tick| {
            let people: &[&str] = if tick % 90 < 45 { &["ada"] } else { &["bob"] };
            vec![(50, people), (0, &["eve"][..])]
        });
        let open = || -> Result<Box<dyn Records>, QueryError> {
            Ok(Box::new(History::open(&path).unwrap()))
        };
        let pages = AtomicU32::new(0);
        let now: Timestamp = "2025-10-05T00:00:00Z".parse().unwrap();
        let now = now.to_zoned(TimeZone::UTC);
        let words = Words {
            tz: Some("UTC".to_owned()),
            since: Some("2025-10-02T17:01:03Z".to_owned()),
            ..Words::default()
        };
        for what in What::ALL {
            for edges in [Edges::Cut, Edges::Whole] {
                let ask = Ask::new(what, Format::Csv, &words, edges, &now).unwrap();
                pages.store(0, Ordering::Relaxed);
                // Every page ends as early as it can.
                let paged = PagedRows(|question: PageQuestion| {
                    pages.fetch_add(1, Ordering::Relaxed);
                    page(&open, &question, || true)
                });
                let whole = written(&RecordRows(open), &ask);
                assert_eq!(written(&paged, &ask), whole, "{what:?} {edges:?}");
                assert!(whole.0.rows > 10, "{what:?}");
                let pages = pages.load(Ordering::Relaxed);
                assert!(pages > 2, "{what:?}: {pages} pages");
            }
        }
    }

    #[test]
    fn rows_of_another_table_are_refused() {
        let paged = PagedRows(|_: PageQuestion| {
            Ok(Page {
                batches: vec![(Date::MIN, Batch::new(What::Sessions.columns(), 0))],
                exported: Exported::default(),
                share: 1.0,
                next: None,
            })
        });
        let words = Words::default();
        let ask = Ask::new(
            What::Samples,
            Format::Csv,
            &words,
            Edges::Cut,
            &Timestamp::MIN.to_zoned(TimeZone::UTC),
        )
        .unwrap();
        let mut memory = Memory::default();
        let refused = run(&paged, &ask, &mut memory, &mut |_| {}).unwrap_err();
        assert!(refused.to_string().contains("another table"), "{refused}");
    }
}
