//! CSV of the archive, and the board's listing of it: every cell that is written can be read back by its rules.
#![no_main]

use gua_wire::archive::{CsvWriter, Listing, Value};
use gua_wire::users::UserPolicy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<[Option<String>; 3]>, Vec<u8>)| {
    let (rows, listing) = input;
    let _ = Listing::read(&listing);
    let mut writer = CsvWriter::new(Vec::new(), &["one", "two", "three"], UserPolicy::Plain).expect("a header");
    for row in &rows {
        let cells = row.iter().map(|cell| cell.as_deref().map(Value::from));
        writer.row(cells.collect()).expect("a row");
    }
    let text = String::from_utf8(writer.finish().expect("the end")).expect("UTF-8 stays UTF-8");
    let read = parse(&text);
    assert_eq!(read.len(), rows.len() + 1);
    for (read, row) in read[1..].iter().zip(&rows) {
        let written: Vec<&str> = row.iter().map(|cell| cell.as_deref().unwrap_or("")).collect();
        assert_eq!(*read, written, "{text:?}");
    }
});

/// Rows of a CSV text with quoted fields.
fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            '\r' if !quoted && letters.peek() == Some(&'\n') => {}
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            other => field.push(other),
        }
    }
    rows
}
