//! Tables as CSV. The tables themselves, their columns and their text are `gua_model::table`; as JSON they are
//! [`crate::document::Rows`].

use gua_model::csv::csv_lines;
pub use gua_model::table::{Cell, Column, Header, Table, rounded};

pub(crate) use gua_model::table;

/// The table as CSV with a header line of keys.
pub fn csv(table: &Table) -> String {
    csv_headed(table, CsvHeader::Yes)
}

/// Whether CSV output starts with the line of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvHeader {
    Yes,
    No,
}

/// The table as CSV; repeated output (`--watch`) has one header line.
pub fn csv_headed(table: &Table, header: CsvHeader) -> String {
    csv_lines(|lines| {
        if header == CsvHeader::Yes {
            let mut keys = table.columns.iter();
            keys.try_for_each(|column| lines.text(&column.key))?;
            lines.end()?;
        }
        table.rows.iter().try_for_each(|row| lines.row(row))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Rows;

    #[test]
    fn csv_and_json_have_the_same_numbers_and_nothing_for_a_missing_value() {
        let mut table = Table::new([("user", "user"), ("held_hours", "held h")]);
        table
            .rows
            .push(vec!["ada".into(), Cell::Hours(1.234_567_89)]);
        table.rows.push(vec!["김".into(), Cell::Missing]);
        assert_eq!(csv(&table), "user,held_hours\nada,1.234568\n김,\n");
        let json = serde_json::to_string(&Rows(table)).unwrap();
        let rows = r#"[{"user":"ada","held_hours":1.234568},{"user":"김","held_hours":null}]"#;
        assert_eq!(json, rows);
    }

    #[test]
    fn a_name_cannot_break_out_of_its_cell() {
        let check = |text: &str, expected: &str| {
            let mut table = Table::new([("a", ""), ("b", "")]);
            table.rows.push(vec![text.into(), Cell::Count(1)]);
            let csv = csv_headed(&table, CsvHeader::No);
            assert_eq!(csv, format!("{expected},1\n"));
        };
        check("a,\"b\"\n", "\"a,\"\"b\"\"\u{fffd}\"");
        check("=1+1", "'=1+1");
        check("-", "-");
        let mut negative = Table::new([("temperature_celsius", "")]);
        negative.rows.push(vec![Cell::Integer(-5)]);
        assert_eq!(csv_headed(&negative, CsvHeader::No), "-5\n");
    }
}
