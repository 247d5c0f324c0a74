//! A limit on the work of statements. The statements are ours, but the file may have been made by another user, so that one
//! of them would run for hours: this interrupts it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use crate::files::length;

/// Steps of SQLite's virtual machine between two checks: a fraction of a millisecond.
const STRIDE: u16 = 10_000;
/// Steps that are allowed for any file: about a second.
const BASE: u64 = 100_000_000;
/// Steps that are allowed for each byte of the file. Reading all of it takes less than one.
const PER_BYTE: u64 = 1000;

/// Counts the steps of one connection.
#[derive(Debug)]
pub struct Work(Arc<AtomicU64>);

impl Work {
    /// Interrupts statements on this connection once they have taken a thousand times as many steps as reading the whole
    /// file takes.
    pub fn limit(connection: &mut Connection, path: &Path) -> rusqlite::Result<Self> {
        let most = (length(path, "") + length(path, "-wal"))
            .saturating_mul(PER_BYTE)
            .saturating_add(BASE);
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        connection.progress_handler(
            i32::from(STRIDE),
            Some(move || counted.fetch_add(STRIDE.into(), Ordering::Relaxed) > most),
        )?;
        Ok(Self(steps))
    }

    /// Resets the count for the next question.
    pub fn restart(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_statement_is_interrupted_and_the_next_question_is_answered() {
        let mut connection = Connection::open_in_memory().unwrap();
        let work = Work::limit(&mut connection, Path::new("/nonexistent/gua.db")).unwrap();
        let ask = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let count_to = |end: &str| {
            format!(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n {end}) SELECT count(*) FROM n"
            )
        };
        assert_eq!(ask(&count_to("LIMIT 100000")), Ok(100_000));
        let endless = ask(&count_to("")).unwrap_err();
        assert_eq!(
            endless.sqlite_error_code(),
            Some(rusqlite::ErrorCode::OperationInterrupted)
        );
        work.restart();
        assert_eq!(ask(&count_to("LIMIT 100000")), Ok(100_000));
    }
}
