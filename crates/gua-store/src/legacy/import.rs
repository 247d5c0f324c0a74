//! Copying an old history into ours: every row, in chunks, as often as one likes.
//!
//! A file is known by its content, so that a copy of it or a grown one is the same source. What was imported before is
//! compared row by row and left as it is; only what is new is added. A crash between two chunks loses nothing: the next
//! import goes on where the last commit ended. Where the caller has begun a change, all of it is part of that one.

use std::ops::ControlFlow;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _};

use super::block::{Block, FULL};
use super::error::LegacyError;
use super::open::OldFile;
use super::rows::{CardRow, OldRow, ProcessRow, Texts, counted};
use super::scan::{Blocks as _, Choice, Scan, stored_block};
use super::verify;

/// Rows between two commits: large enough to be fast, small enough that a stop is quick and the log stays short.
const CHUNK: u64 = 50_000;

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub rows_done: u64,
    pub rows_total: u64,
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Card rows in the old file, and how many of them were not here before.
    pub card_rows: u64,
    pub new_card_rows: u64,
    /// Process rows likewise.
    pub process_rows: u64,
    pub new_process_rows: u64,
    /// Runs of the old collector that are new here.
    pub new_runs: u64,
}

/// Who is asked between two chunks; to break ends the import with what is committed.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

pub(crate) fn import(
    old: &OldFile,
    history: &mut Connection,
    now: Timestamp,
    on_progress: OnProgress<'_>,
) -> Result<Imported, LegacyError> {
    refuse_newer(old)?;
    let Some(source) = begin(old, history, now)? else {
        old.confirm()?;
        return Ok(Imported::default());
    };
    let mut texts = load_texts(history)?;
    let mut work = Work {
        old,
        source: source.id,
        saved_texts: texts.all().len(),
        progress: Progress {
            rows_done: 0,
            rows_total: count::<CardRow>(old)? + count::<ProcessRow>(old)?,
        },
        on_progress,
    };
    let (card_rows, new_card_rows) =
        work.copy::<CardRow>(history, &mut texts, source.last_card_row)?;
    let (process_rows, new_process_rows) =
        work.copy::<ProcessRow>(history, &mut texts, source.last_process_row)?;
    let new_runs = finish(old, history, source.id, now)?;
    verify::verify(old, history, source.id)?;
    Ok(Imported {
        card_rows,
        new_card_rows,
        process_rows,
        new_process_rows,
        new_runs,
    })
}

/// A column that this program does not know would be lost, so such a file is read in place only.
fn refuse_newer(old: &OldFile) -> Result<(), LegacyError> {
    let unknown = old.columns().0.iter().find(|(table, column)| {
        let column = column.as_str();
        let known: &[&str] = match table.as_str() {
            CardRow::TABLE => CardRow::COLUMNS,
            ProcessRow::TABLE => ProcessRow::COLUMNS,
            "host" => HOST.columns,
            "daemon_run" => RUN.columns,
            _ => DEVICE.columns,
        };
        let leading = match table.as_str() {
            CardRow::TABLE | ProcessRow::TABLE => ["ts", "run_id"].contains(&column),
            "daemon_run" => column == "id",
            _ => false,
        };
        !leading && !known.contains(&column)
    });
    match unknown {
        Some((table, column)) => Err(LegacyError::Newer {
            path: old.path().into(),
            table: table.clone(),
            column: column.clone(),
        }),
        None => Ok(()),
    }
}

/// What is known of a source from earlier imports.
struct Source {
    id: i64,
    last_card_row: i64,
    last_process_row: i64,
}

/// Finds the source that a file is, or makes one. `None` for a file without any row, which has nothing to be known by.
fn begin(
    old: &OldFile,
    history: &mut Connection,
    now: Timestamp,
) -> Result<Option<Source>, LegacyError> {
    let facts = facts(old)?;
    if facts.is_empty() {
        return Ok(None);
    }
    let change = history.savepoint().map_err(LegacyError::Write)?;
    let mut known = None;
    for fact in &facts {
        let found = change
            .query_row(
                "SELECT id, last_card_row, last_process_row, erased FROM old_source \
                 JOIN old_source_fact ON source = id WHERE fact = ?1",
                [fact],
                |row| {
                    let source = Source {
                        id: row.get(0)?,
                        last_card_row: row.get(1)?,
                        last_process_row: row.get(2)?,
                    };
                    Ok((source, row.get::<_, bool>(3)?))
                },
            )
            .optional()
            .map_err(LegacyError::Write)?;
        known = known.or(found);
    }
    let source = match known {
        Some((_, true)) => return Err(LegacyError::Erased),
        Some((source, false)) => source,
        None => {
            change
                .execute(
                    "INSERT INTO old_source (path, imported_us, columns, last_card_row, last_process_row, complete, erased) \
                     VALUES (?1, ?2, ?3, ?4, ?4, 0, 0)",
                    (old.path().to_string_lossy(), now.as_microsecond(), old.columns().line(), i64::MIN),
                )
                .map_err(LegacyError::Write)?;
            Source {
                id: change.last_insert_rowid(),
                last_card_row: i64::MIN,
                last_process_row: i64::MIN,
            }
        }
    };
    for fact in &facts {
        change
            .execute(
                "INSERT OR IGNORE INTO old_source_fact (fact, source) VALUES (?1, ?2)",
                (fact, source.id),
            )
            .map_err(LegacyError::Write)?;
    }
    change.commit().map_err(LegacyError::Write)?;
    Ok(Some(source))
}

/// What stays the same while a file grows, where it is copied and when old samples are deleted: its first host and run,
/// with their times to the microsecond. Which of the two is written first differs, so each of them will do.
fn facts(old: &OldFile) -> Result<Vec<String>, LegacyError> {
    if let Some(fact) = &old.known_by {
        return Ok(vec![fact.clone()]);
    }
    let first = |table: &str, columns: &[&str]| -> Result<Option<String>, LegacyError> {
        if !columns
            .iter()
            .all(|column| old.columns().has(table, column))
        {
            return Ok(None);
        }
        let sql = format!(
            "SELECT {} FROM {table} ORDER BY rowid LIMIT 1",
            columns.join(" || ' ' || ")
        );
        let found = old
            .connection
            .query_row(&sql, [], |row| row.get::<_, Option<String>>(0))
            .optional();
        let found = found.map_err(|source| old.failed(source))?.flatten();
        Ok(found.map(|text| format!("{table} {text}")))
    };
    let mut facts = Vec::new();
    facts.extend(first("host", &["hostname", "first_seen"])?);
    facts.extend(first("daemon_run", &["id", "started_at"])?);
    if facts.is_empty() {
        // Samples alone, as in a file that was put together by hand.
        facts.extend(first("gpu_sample", &["gpu_uuid", "ts"])?);
        facts.extend(first("proc_sample", &["gpu_uuid", "ts"])?);
    }
    Ok(facts)
}

fn count<R: OldRow>(old: &OldFile) -> Result<u64, LegacyError> {
    let sql = format!("SELECT count(*) FROM {}", R::TABLE);
    old.connection
        .query_row(&sql, [], |row| counted(row, 0))
        .map_err(|source| old.failed(source))
}

pub(crate) fn load_texts(history: &Connection) -> Result<Texts, LegacyError> {
    let load = || -> Result<Texts, rusqlite::Error> {
        let mut texts = Texts::default();
        let mut query = history.prepare("SELECT text FROM old_text ORDER BY id")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            texts.id(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
        }
        Ok(texts)
    };
    load().map_err(LegacyError::Write)
}

struct Work<'a> {
    old: &'a OldFile,
    source: i64,
    /// How many texts are in the file already.
    saved_texts: usize,
    progress: Progress,
    on_progress: OnProgress<'a>,
}

impl Work<'_> {
    /// Copies one table and returns how many rows it has and how many of them are new.
    fn copy<R: OldRow>(
        &mut self,
        history: &mut Connection,
        texts: &mut Texts,
        known_to: i64,
    ) -> Result<(u64, u64), LegacyError> {
        let choice = Choice {
            clause: "ORDER BY rowid".to_owned(),
            parameters: Vec::new(),
        };
        let mut statement = self.old.select::<R>(&choice)?;
        let mut scan = Scan::<R>::new(self.old, &mut statement, &choice)?;
        let (mut seen, mut new) = (0, 0);
        let mut ended = false;
        while !ended {
            let change = history.savepoint().map_err(LegacyError::Write)?;
            let chunk_began = seen;
            let mut last = None;
            while seen - chunk_began < CHUNK {
                let Some(block) = scan.next(texts)? else {
                    ended = true;
                    break;
                };
                new += self.take(&change, texts, &block, known_to)?;
                let rows = block.rows.len() as u64;
                seen += rows;
                last = Some(block.first_row + i64::try_from(rows).expect("a block is short") - 1);
            }
            self.save(
                &change,
                texts,
                last.filter(|last| *last > known_to)
                    .map(|last| (R::BLOCKS, last)),
            )?;
            self.old.confirm()?;
            change.commit().map_err(LegacyError::Write)?;
            self.progress.rows_done += seen - chunk_began;
            if (self.on_progress)(self.progress).is_break() {
                return Err(LegacyError::Stopped);
            }
        }
        Ok((seen, new))
    }

    /// Compares what was imported before and adds the rest; returns how many rows were added.
    fn take<R: OldRow>(
        &self,
        change: &Connection,
        texts: &Texts,
        block: &Block<R>,
        known_to: i64,
    ) -> Result<u64, LegacyError> {
        let mut at = 0;
        let row_at = |at: usize| block.first_row + i64::try_from(at).expect("a block is short");
        while at < block.rows.len() && row_at(at) <= known_to {
            let stored = self.stored::<R>(change, texts, block.stamp.at_us, row_at(at))?;
            let same = stored.filter(|stored| {
                stored.stamp == block.stamp
                    && stored.run == block.run
                    && !stored.rows.is_empty()
                    && block.rows[at..].starts_with(&stored.rows)
            });
            match same {
                Some(stored) => at += stored.rows.len(),
                None => {
                    return Err(LegacyError::Differs {
                        table: R::TABLE,
                        row: row_at(at),
                    });
                }
            }
        }
        let added = (block.rows.len() - at) as u64;
        let mut cells = Vec::with_capacity(FULL + 64);
        let mut first = at;
        for (index, row) in block.rows.iter().enumerate().skip(at) {
            row.encode(&mut cells);
            if cells.len() >= FULL || index + 1 == block.rows.len() {
                self.insert::<R>(change, block, (first, index + 1 - first), &cells)?;
                cells.clear();
                first = index + 1;
            }
        }
        Ok(added)
    }

    fn stored<R: OldRow>(
        &self,
        change: &Connection,
        texts: &Texts,
        at_us: i64,
        first_row: i64,
    ) -> Result<Option<Block<R>>, LegacyError> {
        let sql = format!(
            "SELECT first_row, at_us, written_as, run, rows, cells FROM {} WHERE source = ?1 AND at_us = ?2 AND first_row = ?3",
            R::BLOCKS
        );
        let mut query = change.prepare_cached(&sql).map_err(LegacyError::Write)?;
        let mut rows = query
            .query((self.source, at_us, first_row))
            .map_err(LegacyError::Write)?;
        match rows.next().map_err(LegacyError::Write)? {
            Some(row) => stored_block(row, texts).map(Some),
            None => Ok(None),
        }
    }

    fn insert<R: OldRow>(
        &self,
        change: &Connection,
        block: &Block<R>,
        (first, rows): (usize, usize),
        cells: &[u8],
    ) -> Result<(), LegacyError> {
        let insert = || -> Result<(), rusqlite::Error> {
            let sql = format!(
                "INSERT INTO {} (source, at_us, first_row, run, written_as, rows, cells) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                R::BLOCKS
            );
            let first_row = block.first_row + i64::try_from(first).expect("a block is short");
            let written_as = block.stamp.written_as.as_deref();
            change.prepare_cached(&sql)?.execute((
                self.source,
                block.stamp.at_us,
                first_row,
                block.run,
                written_as,
                i64::try_from(rows).expect("a block is short"),
                cells,
            ))?;
            Ok(())
        };
        insert().map_err(LegacyError::Write)
    }

    /// Writes down the texts that the chunk brought and how far it came.
    fn save(
        &mut self,
        change: &Connection,
        texts: &Texts,
        reached: Option<(&str, i64)>,
    ) -> Result<(), LegacyError> {
        let mut save = || -> Result<(), rusqlite::Error> {
            let mut insert =
                change.prepare_cached("INSERT INTO old_text (id, text) VALUES (?1, ?2)")?;
            for (id, text) in texts.all().iter().enumerate().skip(self.saved_texts) {
                let id = i64::try_from(id).expect("texts are numbered in 32 bits");
                insert.execute((id, text.as_ref()))?;
            }
            self.saved_texts = texts.all().len();
            if let Some((blocks, last)) = reached {
                let column = if blocks == CardRow::BLOCKS {
                    "last_card_row"
                } else {
                    "last_process_row"
                };
                change.execute(
                    &format!("UPDATE old_source SET {column} = ?2, complete = 0 WHERE id = ?1"),
                    (self.source, last),
                )?;
            }
            Ok(())
        };
        save().map_err(LegacyError::Write)
    }
}

/// Copies the three small tables, whose rows the old tool also changes, and closes the import.
fn finish(
    old: &OldFile,
    history: &mut Connection,
    source: i64,
    now: Timestamp,
) -> Result<u64, LegacyError> {
    let change = history.savepoint().map_err(LegacyError::Write)?;
    copy_small(old, &change, source, &HOST)?;
    let new_runs = copy_small(old, &change, source, &RUN)?;
    copy_small(old, &change, source, &DEVICE)?;
    old.confirm()?;
    change
        .execute(
            "UPDATE old_source SET complete = 1, imported_us = ?2, path = ?3, columns = ?4 WHERE id = ?1",
            (source, now.as_microsecond(), old.path().to_string_lossy(), old.columns().line()),
        )
        .map_err(LegacyError::Write)?;
    change.commit().map_err(LegacyError::Write)?;
    Ok(new_runs)
}

/// One of the small tables: its name there and here, and its columns (all of them came with the table).
pub(crate) struct Small {
    pub(crate) old: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) columns: &'static [&'static str],
}

pub(crate) const HOST: Small = Small {
    old: "host",
    ours: "old_host",
    columns: &[
        "hostname",
        "env_kind",
        "driver_version",
        "first_seen",
        "last_seen",
    ],
};
pub(crate) const RUN: Small = Small {
    old: "daemon_run",
    ours: "old_run",
    columns: &["started_at", "interval_seconds"],
};
pub(crate) const DEVICE: Small = Small {
    old: "gpu_device",
    ours: "old_device",
    columns: &[
        "gpu_uuid",
        "name",
        "memory_total_mb",
        "first_seen",
        "last_seen",
    ],
};

/// Copies a small table and returns how many of its rows are new.
fn copy_small(
    old: &OldFile,
    change: &Connection,
    source: i64,
    table: &Small,
) -> Result<u64, LegacyError> {
    if !table
        .columns
        .iter()
        .all(|column| old.columns().has(table.old, column))
    {
        return Ok(0);
    }
    let count = || -> Result<u64, rusqlite::Error> {
        change.query_row(
            &format!("SELECT count(*) FROM {} WHERE source = ?1", table.ours),
            [source],
            |row| counted(row, 0),
        )
    };
    let before = count().map_err(LegacyError::Write)?;
    let columns = table.columns.join(", ");
    let places = (3..3 + table.columns.len())
        .map(|place| format!("?{place}"))
        .collect::<Vec<_>>()
        .join(", ");
    let mut insert = change
        .prepare(&format!(
            "INSERT OR REPLACE INTO {} (source, row, {columns}) VALUES (?1, ?2, {places})",
            table.ours
        ))
        .map_err(LegacyError::Write)?;
    let read = |source| old.failed(source);
    let mut query = old
        .connection
        .prepare(&format!(
            "SELECT rowid, {columns} FROM {} ORDER BY rowid",
            table.old
        ))
        .map_err(read)?;
    let mut rows = query.query([]).map_err(read)?;
    while let Some(row) = rows.next().map_err(read)? {
        let number: i64 = row.get(0).map_err(read)?;
        let mut values = vec![
            rusqlite::types::Value::Integer(source),
            rusqlite::types::Value::Integer(number),
        ];
        for place in 1..=table.columns.len() {
            values.push(row.get(place).map_err(read)?);
        }
        insert
            .execute(rusqlite::params_from_iter(values))
            .map_err(|error| LegacyError::Row {
                table: table.old,
                row: number,
                what: format!("it does not hold what gpu-usage-audit writes there: {error}"),
            })?;
    }
    let after = count().map_err(LegacyError::Write)?;
    Ok(after.saturating_sub(before))
}
