//! The check after an import: as many rows, and the same sums, on both sides.

use rusqlite::Connection;

use super::error::LegacyError;
use super::import::{DEVICE, HOST, RUN, Small, load_texts};
use super::open::OldFile;
use super::rows::{CardRow, OldRow, ProcessRow, SUMMED, counted};
use super::scan::{Blocks as _, Order, Stored, stored_statement};

/// The count of a table's rows, and of each summed column how many cells are filled and their sum.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    rows: u64,
    sums: [(u64, i128); SUMMED],
}

/// Fails with a sentence that says what differs.
pub(crate) fn verify(old: &OldFile, history: &Connection, source: i64) -> Result<(), LegacyError> {
    compare::<CardRow>(old, history, source)?;
    compare::<ProcessRow>(old, history, source)?;
    for table in [&HOST, &RUN, &DEVICE] {
        let there = count_small(old, table)?;
        let sql = format!("SELECT count(*) FROM {} WHERE source = ?1", table.ours);
        let here: u64 = history
            .query_row(&sql, [source], |row| counted(row, 0))
            .map_err(LegacyError::Write)?;
        if there != here {
            return Err(LegacyError::Unverified(format!(
                "{} has {there} rows there and {here} here",
                table.old
            )));
        }
    }
    old.confirm()
}

fn count_small(old: &OldFile, table: &Small) -> Result<u64, LegacyError> {
    if !table
        .columns
        .iter()
        .all(|column| old.columns().has(table.old, column))
    {
        return Ok(0);
    }
    let sql = format!("SELECT count(*) FROM {}", table.old);
    old.connection
        .query_row(&sql, [], |row| counted(row, 0))
        .map_err(|source| old.failed(source))
}

fn compare<R: OldRow>(old: &OldFile, history: &Connection, source: i64) -> Result<(), LegacyError> {
    let (there, here) = (tally_there::<R>(old)?, tally_here::<R>(history, source)?);
    let table = R::TABLE;
    if there.rows != here.rows {
        let (there, here) = (there.rows, here.rows);
        return Err(LegacyError::Unverified(format!(
            "{table} has {there} rows there and {here} here"
        )));
    }
    let sums = there.sums.iter().zip(here.sums).zip(R::SUMS);
    for ((there, here), column) in sums {
        if *there != here {
            let (there, here) = (there.1, here.1);
            return Err(LegacyError::Unverified(format!(
                "{table}.{column} adds up to {there} there and {here} here"
            )));
        }
    }
    Ok(())
}

fn tally_there<R: OldRow>(old: &OldFile) -> Result<Tally, LegacyError> {
    let column = |column: &str| match old.columns().has(R::TABLE, column) {
        // Two sums of half a number each, since SQLite's sum of large numbers would overflow.
        true => format!("count({column}), sum({column} >> 32), sum({column} & 4294967295)"),
        false => "0, NULL, NULL".to_owned(),
    };
    let columns = R::SUMS.map(column).join(", ");
    let sql = format!("SELECT count(*), {columns} FROM {}", R::TABLE);
    let read = |row: &rusqlite::Row<'_>| -> Result<Tally, rusqlite::Error> {
        let mut tally = Tally {
            rows: counted(row, 0)?,
            ..Tally::default()
        };
        for (index, sum) in tally.sums.iter_mut().enumerate() {
            let at = 1 + 3 * index;
            let high: Option<i64> = row.get(at + 1)?;
            let low: Option<i64> = row.get(at + 2)?;
            let whole = (i128::from(high.unwrap_or(0)) << 32) + i128::from(low.unwrap_or(0));
            *sum = (counted(row, at)?, whole);
        }
        Ok(tally)
    };
    old.connection
        .query_row(&sql, [], read)
        .map_err(|source| old.failed(source))
}

fn tally_here<R: OldRow>(history: &Connection, source: i64) -> Result<Tally, LegacyError> {
    let mut texts = load_texts(history)?;
    let mut statement = stored_statement::<R>(history, Order::Time)?;
    let mut stored = Stored::new(&mut statement, source, (i64::MIN, i64::MAX))?;
    let mut tally = Tally::default();
    while let Some(block) = next::<R>(&mut stored, &mut texts)? {
        tally.rows += block.rows.len() as u64;
        for row in &block.rows {
            for (sum, number) in tally.sums.iter_mut().zip(row.sums()) {
                if let Some(number) = number {
                    sum.0 += 1;
                    sum.1 += i128::from(number);
                }
            }
        }
    }
    Ok(tally)
}

fn next<R: OldRow>(
    stored: &mut Stored<'_>,
    texts: &mut super::rows::Texts,
) -> Result<Option<super::block::Block<R>>, LegacyError> {
    stored.next(texts)
}
