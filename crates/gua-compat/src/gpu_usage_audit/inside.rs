//! Rows that gpu-usage-audit writes into a history of gua. It makes its tables in any file that it is pointed at, so a cron
//! job that was left over keeps writing to the usual path. The rows are imported like those of a file of its own. The
//! tables stay as they are, because the other program may have them open.

use std::ops::ControlFlow;
use std::path::Path;

use gua_store::imported::{GpuRow, ProcessRow};
use gua_store::imported::{Imported, ImportedRow as _, LegacyError};
use gua_store::{History, Store};
use jiff::Timestamp;

use super::import::{facts, import_open};
use super::open::OldFile;

/// Imports the rows that gpu-usage-audit has written into the history since the last call; `None` if there are none.
pub fn import_inside(store: &mut Store, now: Timestamp) -> Result<Option<Imported>, LegacyError> {
    let Some(old) = OldFile::inside(store.path())? else {
        return Ok(None);
    };
    let known = store.imported_to(&facts(&old)?)?;
    if old.rows_after(known)? == 0 {
        return Ok(None);
    }
    let go_on = &mut |_| ControlFlow::Continue(());
    import_open(&old, store, now, go_on).map(Some)
}

/// Number of rows that gpu-usage-audit has written into the history at a path and that are not imported yet.
pub fn rows_inside(path: &Path) -> Result<u64, LegacyError> {
    let opened = History::open(path).map_err(|error| LegacyError::History(Box::new(error)))?;
    match OldFile::inside(path)? {
        Some(old) => old.rows_after(opened.imported_to(&facts(&old)?)?),
        None => Ok(0),
    }
}

impl OldFile {
    /// Number of rows of the two large tables after these.
    fn rows_after(&self, known: Option<(i64, i64)>) -> Result<u64, LegacyError> {
        let (gpu, process) = known.unwrap_or((i64::MIN, i64::MIN));
        let sql = format!(
            "SELECT (SELECT count(*) FROM {} WHERE rowid > ?1) + (SELECT count(*) FROM {} WHERE rowid > ?2)",
            GpuRow::TABLE,
            ProcessRow::TABLE
        );
        self.connection
            .query_row(&sql, [gpu, process], |row| row.get::<_, i64>(0))
            .map(i64::unsigned_abs)
            .map_err(|source| self.failed(source))
    }
}

#[cfg(test)]
mod tests {
    use gua_store::{OpenMode, WriterOptions};
    use gua_test::old_history::{self, Shape};

    use super::*;

    #[test]
    fn rows_of_the_python_tool_in_our_file_are_imported_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let options = WriterOptions::default();
        let store = Store::open(&path, OpenMode::Create, &options).unwrap();
        store.close().unwrap();
        assert_eq!(rows_inside(&path).unwrap(), 0);
        let shape = Shape {
            gpus: 2,
            ticks: 10,
            interval_seconds: 30,
            process_rows: 20,
        };
        let end = Timestamp::from_second(1_790_000_000).unwrap();
        old_history::write(&path, &shape, end).unwrap();
        assert_eq!(rows_inside(&path).unwrap(), 40);

        let mut store = Store::open(&path, OpenMode::Append, &options).unwrap();
        let imported = import_inside(&mut store, end).unwrap().unwrap();
        assert_eq!((imported.new_gpu_rows, imported.new_process_rows), (20, 20));
        assert_eq!(import_inside(&mut store, end).unwrap(), None);
        assert_eq!(rows_inside(&path).unwrap(), 0);

        // The cron job runs again, beside the open history.
        let other = rusqlite::Connection::open(&path).unwrap();
        let again = "INSERT INTO gpu_sample (ts, gpu_uuid, util_pct) VALUES ('2026-11-01T00:00:00+00:00', 'GPU-x', 5)";
        other.execute(again, []).unwrap();
        assert_eq!(rows_inside(&path).unwrap(), 1);
        let imported = import_inside(&mut store, end).unwrap().unwrap();
        assert_eq!((imported.new_gpu_rows, imported.gpu_rows), (1, 21));
        store.close().unwrap();
        let report = History::open(&path).unwrap().check(|_| {}).unwrap();
        assert!(report.is_clean(), "{report:?}");

        // Erasing a person removes the other program's rows too.
        let someone = "SELECT loginuid_user FROM proc_sample WHERE loginuid_user IS NOT NULL";
        let someone: String = other.query_row(someone, [], |row| row.get(0)).unwrap();
        let mut store = Store::open(&path, OpenMode::Append, &options).unwrap();
        assert!(store.forget(&someone).unwrap().old_rows > 0);
        assert_eq!(import_inside(&mut store, end).unwrap(), None);
        let left = "SELECT count(*) FROM sqlite_schema WHERE name = 'proc_sample'";
        let left: i64 = other.query_row(left, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
}
