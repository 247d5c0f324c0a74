//! Writes a history from its pages: the side of the client.

use std::collections::HashMap;
use std::path::Path;

use gua_files::Over;
use gua_model::GpuUuid;
use gua_query::QueryError;
use gua_query::records::ImportedFacts;
use gua_store::imported::{
    GpuRow, LegacyError, OnProgress, ProcessRow, Progress, SmallTable, Texts, old_text,
};
use gua_store::{Facts, RunInfo};
use jiff::Timestamp;
use rusqlite::Statement;
use rusqlite::types::Value;

use super::own::Writer;
use super::page::{OldMoment, OldPage, OldPageQuestion, OldRun};
use super::{Export, Exported, insert_sql, to_new_file, write_row};

/// Requests a page.
pub type AskPage<'a> = &'a dyn Fn(OldPageQuestion) -> Result<OldPage, QueryError>;

/// Writes a history that another process reads page by page to a new file at `output`, as
/// [`export`](super::export) writes one that this process can open.
pub fn export_pages(
    facts: &Facts,
    ask: AskPage<'_>,
    output: &Path,
    over: Over,
    on_progress: OnProgress<'_>,
) -> Result<Exported, LegacyError> {
    to_new_file(output, over, |change| {
        let progress = Progress {
            rows_done: 0,
            rows_total: facts.info.ticks,
        };
        let mut export = Export::new(change, progress, on_progress);
        let mut imported = Imported {
            gpus: change.prepare(&insert_sql::<GpuRow>())?,
            processes: change.prepare(&insert_sql::<ProcessRow>())?,
            seen: HashMap::new(),
            runs: Vec::new(),
        };
        let mut old_facts = None;
        let mut page = ask(OldPageQuestion::default())?;
        let mut own = None;
        loop {
            old_facts = page.facts.take().or(old_facts);
            export.exported.damaged_ticks += page.damaged_ticks;
            imported.write(&page, &mut export)?;
            if !page.own.is_empty() || page.next.is_none() {
                let own = match &mut own {
                    Some(own) => own,
                    None => {
                        // Imported rows come first, so all of them are known now.
                        imported.write_lists(old_facts.as_ref(), &mut export)?;
                        own.insert(Own::begin(facts, &mut export)?)
                    }
                };
                own.write(&mut page, &mut export)?;
            }
            let Some(next) = page.next else {
                break;
            };
            page = ask(OldPageQuestion { from: Some(next) })?;
        }
        Ok(export.exported)
    })
}

/// Writer of the imported rows. It collects the facts for the small tables.
struct Imported<'a> {
    gpus: Statement<'a>,
    processes: Statement<'a>,
    /// Times of the first and last row of each GPU.
    seen: HashMap<String, (Timestamp, Timestamp)>,
    /// The runs in order of their numbers in the file, which begin at 1, with the time of their first row.
    runs: Vec<(OldRun, Timestamp)>,
}

impl Imported<'_> {
    fn write(&mut self, page: &OldPage, export: &mut Export<'_>) -> Result<(), LegacyError> {
        let mut texts = Texts::default();
        for text in &page.texts {
            texts.id(text);
        }
        for moment in &page.imported {
            self.moment(moment, &texts, export)?;
        }
        Ok(())
    }

    fn moment(
        &mut self,
        moment: &OldMoment,
        texts: &Texts,
        export: &mut Export<'_>,
    ) -> Result<(), LegacyError> {
        let text = old_text(moment.at);
        for (run, row) in &moment.gpus {
            let number = self.number(*run, moment.at);
            write_row(&mut self.gpus, (None, &text, number), row, texts)?;
            if let Some(gpu) = texts.get(row.gpu) {
                let seen = self.seen.entry(gpu.to_owned());
                seen.or_insert((moment.at, moment.at)).1 = moment.at;
            }
        }
        for (run, row) in &moment.processes {
            let number = self.number(*run, moment.at);
            write_row(&mut self.processes, (None, &text, number), row, texts)?;
        }
        let (gpus, processes) = (moment.gpus.len() as u64, moment.processes.len() as u64);
        export.exported.gpu_rows += gpus;
        export.exported.process_rows += processes;
        export.progress.rows_total += gpus + processes;
        export.advance(gpus + processes)
    }

    /// Number of a run in the file.
    fn number(&mut self, run: OldRun, at: Timestamp) -> Option<i64> {
        run.0?;
        let place = match self.runs.iter().rposition(|(known, _)| *known == run) {
            Some(place) => place,
            None => {
                self.runs.push((run, at));
                self.runs.len() - 1
            }
        };
        i64::try_from(place + 1).ok()
    }

    /// Writes the hosts, runs and GPUs of the imported rows.
    fn write_lists(
        &self,
        facts: Option<&ImportedFacts>,
        export: &mut Export<'_>,
    ) -> Result<(), LegacyError> {
        for (number, ((_, interval), started)) in (1..).zip(&self.runs) {
            let cells = [old_text(*started).into(), interval.as_secs_f64().into()];
            export.insert(SmallTable::RUN, Some(number), &cells)?;
            export.exported.runs += 1;
            export.own_offset = number;
        }
        let Some(facts) = facts else {
            return Ok(());
        };
        let time = |time: Option<Timestamp>| Value::from(old_text(time.unwrap_or_default()));
        if let Some(host) = &facts.host {
            let cells = [
                host.name.clone().into(),
                host.environment.clone().into(),
                host.driver.clone().into(),
                time(facts.began),
                time(facts.ended),
            ];
            export.insert(SmallTable::HOST, None, &cells)?;
        }
        for (uuid, gpu) in &facts.gpus {
            let (Some(name), Some(memory)) = (&gpu.name, gpu.memory_total) else {
                continue;
            };
            let seen = self.seen.get(uuid.as_str());
            let cells = [
                GpuUuid::as_str(uuid).to_owned().into(),
                name.clone().into(),
                i64::try_from(memory.whole_mb()).unwrap_or(i64::MAX).into(),
                time(seen.map(|seen| seen.0).or(facts.began)),
                time(seen.map(|seen| seen.1).or(facts.ended)),
            ];
            export.insert(SmallTable::DEVICE, None, &cells)?;
        }
        Ok(())
    }
}

/// Writer of the ticks of gua.
struct Own<'a> {
    /// Runs in order of their start.
    runs: Vec<&'a RunInfo>,
    writer: Writer<'a>,
}

impl<'a> Own<'a> {
    /// Writes the collector runs.
    fn begin(facts: &'a Facts, export: &mut Export<'a>) -> Result<Self, LegacyError> {
        for run in &facts.runs {
            export.run_row(run)?;
        }
        let mut runs: Vec<&RunInfo> = facts.runs.iter().collect();
        runs.sort_by_key(|run| run.started);
        let writer = Writer::new(export.change)?;
        Ok(Self { runs, writer })
    }

    fn write(&mut self, page: &mut OldPage, export: &mut Export<'_>) -> Result<(), LegacyError> {
        for tick in page.own.drain(..) {
            let at = tick.sample.at;
            let begun = self.runs.partition_point(|run| run.started <= at);
            // The last run that had started, or the first one. There is none if all runs are damaged.
            let run = self.runs.get(begun.saturating_sub(1));
            let host = run.map(|run| run.host.as_str());
            export.own_tick(run.map(|run| run.id), &tick, host, &mut self.writer)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ops::ControlFlow;

    use gua_model::{Period, Uid};
    use gua_query::{Detail, Others, Question, Records, View, Viewer};
    use gua_store::{History, OpenMode, Store, WriterOptions};
    use gua_test::old_history::{self, Shape};
    use gua_test::recorded::record;
    use jiff::tz::TimeZone;
    use rusqlite::Connection;

    use super::super::export;
    use super::super::page::old_page;
    use super::*;
    use crate::gpu_usage_audit::import;

    /// Reads the rows of a table. Records lack the numbers and usage states of imported rows, and runs get new numbers.
    fn rows(path: &Path, sql: &str) -> Vec<String> {
        let connection = Connection::open(path).unwrap();
        let mut query = connection.prepare(sql).unwrap();
        let columns = query.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            let cells = (0..columns).map(|at| row.get::<_, Value>(at));
            let cells: Result<Vec<Value>, _> = cells.collect();
            Ok(format!("{:?}", cells?))
        };
        let found = query.query_map([], row).unwrap();
        let mut found: Vec<String> = found.map(Result::unwrap).collect();
        found.sort();
        found
    }

    fn check(history: &Path, imported_until: &str, least_pages: u32) {
        let opened = || History::open(history).unwrap();
        let go_on = &mut |_| ControlFlow::Continue(());
        let (whole, paged) = (
            history.with_extension("whole"),
            history.with_extension("paged"),
        );
        let expected = export(&opened(), &whole, Over::Refuse, go_on).unwrap();
        for is_late in [false, true] {
            let pages = Cell::new(0);
            let ask = |question: OldPageQuestion| {
                pages.set(pages.get() + 1);
                let records: &dyn Records = &opened();
                old_page(records, question, || is_late)
            };
            let facts = opened().facts().unwrap();
            let found = export_pages(&facts, &ask, &paged, Over::Refuse, go_on).unwrap();
            assert_eq!(found, expected);
            assert!(pages.get() >= least_pages, "{} pages", pages.get());
            for sql in [
                "SELECT * FROM host".to_owned(),
                "SELECT started_at FROM daemon_run".to_owned(),
                "SELECT * FROM gpu_device".to_owned(),
                format!("SELECT *, rowid FROM gpu_sample WHERE ts >= '{imported_until}'"),
                format!("SELECT *, rowid FROM proc_sample WHERE ts >= '{imported_until}'"),
                "SELECT ts, gpu_uuid, util_pct, gpu_index, memory_used_mb, temperature_c, power_w, interval_seconds \
                 FROM gpu_sample LEFT JOIN daemon_run ON id = run_id"
                    .to_owned(),
                "SELECT ts, gpu_uuid, pid, mem_used_mb, loginuid_user, owner_user, process_name, interval_seconds \
                 FROM proc_sample LEFT JOIN daemon_run ON id = run_id"
                    .to_owned(),
            ] {
                assert_eq!(rows(&paged, &sql), rows(&whole, &sql), "{sql}");
            }
            std::fs::remove_file(&paged).unwrap();
        }
        std::fs::remove_file(&whole).unwrap();
    }

    #[test]
    fn a_file_of_pages_has_the_rows_of_the_whole_export() {
        let directory = tempfile::tempdir().unwrap();
        let history = directory.path().join("gua.db");
        let midnight: Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        // Eighty rows in a quarter hour, so that pages end within one.
        record(&history, midnight, 90, |tick| {
            let people: &[&str] = if tick % 30 < 20 { &["ada"] } else { &[] };
            vec![(50 - tick % 50, people), (0, &["eve", "?"][..])]
        });
        check(&history, "", 4);

        let old = directory.path().join("old.db");
        let shape = Shape {
            gpus: 2,
            ticks: 200,
            interval_seconds: 30,
            process_rows: 300,
        };
        old_history::write(&old, &shape, midnight).unwrap();
        let options = WriterOptions::default();
        let mut store = Store::open(&history, OpenMode::Append, &options).unwrap();
        let go_on = &mut |_| ControlFlow::Continue(());
        import(&mut store, &old, midnight, go_on).unwrap();
        store.close().unwrap();
        check(&history, "2026-11-15", 9);
    }

    #[test]
    fn ticks_without_a_readable_run_are_written() {
        let directory = tempfile::tempdir().unwrap();
        let history = directory.path().join("gua.db");
        let midnight: Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        record(&history, midnight, 30, |_| vec![(50, &["ada"][..])]);
        let damage = "UPDATE collector_run SET boot = x'00'";
        old_history::change(&history, damage).unwrap();
        // Only the whole export knows the number of the run.
        check(&history, "2027-01-01", 1);
    }

    #[test]
    fn imported_rows_of_other_people_have_no_pid() {
        let directory = tempfile::tempdir().unwrap();
        let (history, old) = (
            directory.path().join("gua.db"),
            directory.path().join("old.db"),
        );
        let midnight: Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        let shape = Shape {
            gpus: 4,
            ticks: 300,
            interval_seconds: 30,
            process_rows: 2400,
        };
        old_history::write(&old, &shape, midnight).unwrap();
        let options = WriterOptions::default();
        let mut store = Store::open(&history, OpenMode::Create, &options).unwrap();
        let go_on = &mut |_| ControlFlow::Continue(());
        import(&mut store, &old, midnight, go_on).unwrap();
        store.close().unwrap();
        let opened = || History::open(&history).unwrap();
        let view = || {
            let viewer = Viewer {
                uid: Uid(1001),
                name: Some("grace".to_owned()),
            };
            let pseudonym = |name: &str| format!("alias of {}", name.len());
            let others = Others::Pseudonyms(Box::new(pseudonym));
            View::new(Box::new(opened()), viewer, others)
        };

        let ask = |question: OldPageQuestion| old_page(&view(), question, || false);
        let facts = opened().facts().unwrap();
        let exported = directory.path().join("exported.db");
        export_pages(&facts, &ask, &exported, Over::Refuse, go_on).unwrap();
        let found = rows(
            &exported,
            "SELECT DISTINCT loginuid_user IS 'grace', pid > 0 FROM proc_sample",
        );
        assert_eq!(
            found,
            ["[Integer(0), Integer(0)]", "[Integer(1), Integer(1)]"]
        );

        let window = Period::new("2026-11-14T00:00:00Z".parse().unwrap(), midnight);
        let question = Question {
            detail: Detail::Charts,
            ..Question::of_window(window, TimeZone::UTC, midnight)
        };
        let masked = gua_query::report(&view(), &question).unwrap();
        let of_root = gua_query::report(&opened(), &question).unwrap();
        assert_eq!(masked.session_count, of_root.session_count);
        let mut own = 0;
        for hold in masked.sessions.iter().chain(&masked.past) {
            let is_own = hold.owner.as_deref() == Some("grace");
            assert_eq!(hold.pid.is_some(), is_own, "{hold:?}");
            own += u32::from(is_own);
        }
        assert!(own > 0);
    }
}
