//! Verification after an import: the number of rows and the sums must match.

use gua_store::imported::{
    CardRow, ImportedRow, Importer, LegacyError, ProcessRow, SmallTable, Tally,
};

use super::open::OldFile;

/// Fails with a message that describes the difference.
pub(crate) fn verify(old: &OldFile, importer: &Importer<'_>) -> Result<(), LegacyError> {
    compare::<CardRow>(old, importer)?;
    compare::<ProcessRow>(old, importer)?;
    for table in SmallTable::ALL {
        let there = match old.has_small(table) {
            true => old.count(table.name())?,
            false => 0,
        };
        let here = importer.count(table)?;
        if there != here {
            return Err(LegacyError::Unverified(format!(
                "{} has {there} rows there and {here} here",
                table.name()
            )));
        }
    }
    old.confirm()
}

fn compare<R: ImportedRow>(old: &OldFile, importer: &Importer<'_>) -> Result<(), LegacyError> {
    let (there, here) = (tally_there::<R>(old)?, importer.tally::<R>()?);
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

fn tally_there<R: ImportedRow>(old: &OldFile) -> Result<Tally, LegacyError> {
    let column = |column: &str| match old.columns().has(R::TABLE, column) {
        // Sum the upper and the lower half of each number separately, since SQLite's sum of large numbers would
        // overflow.
        true => format!("count({column}), sum({column} >> 32), sum({column} & 4294967295)"),
        false => "0, NULL, NULL".to_owned(),
    };
    let columns = R::SUMS.map(column).join(", ");
    let sql = format!("SELECT count(*), {columns} FROM {}", R::TABLE);
    let read = |row: &rusqlite::Row<'_>| -> Result<Tally, rusqlite::Error> {
        let counted = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
        let mut tally = Tally {
            rows: counted(0)?,
            ..Tally::default()
        };
        for (index, sum) in tally.sums.iter_mut().enumerate() {
            let at = 1 + 3 * index;
            let high: Option<i64> = row.get(at + 1)?;
            let low: Option<i64> = row.get(at + 2)?;
            let whole = (i128::from(high.unwrap_or(0)) << 32) + i128::from(low.unwrap_or(0));
            *sum = (counted(at)?, whole);
        }
        Ok(tally)
    };
    old.connection
        .query_row(&sql, [], read)
        .map_err(|source| old.failed(source))
}
