//! Tables with box-drawing lines, aligned by terminal width: a Korean letter takes two columns.

use gua_model::table::Align;
use unicode_width::UnicodeWidthStr as _;

/// A column: its title, its alignment and the text of a cell. The title of a column of numbers is centred.
pub(super) type BoxColumn<'a, R> = (&'a str, Align, &'a dyn Fn(&R) -> String);

/// Draws a table of these rows.
pub(super) fn boxed<R>(columns: &[BoxColumn<'_, R>], rows: &[&R]) -> String {
    let cells = |row: &&R| columns.iter().map(|(_, _, cell)| cell(row)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let widths = columns.iter().enumerate().map(|(place, (title, ..))| {
        let cells = rows.iter().map(|row| row[place].width());
        cells.chain([title.width()]).max().unwrap_or(0)
    });
    let widths: Vec<usize> = widths.collect();
    let rule = |left: &str, middle: &str, right: &str| {
        let parts: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("  {left}{}{right}\n", parts.join(middle))
    };
    // Writes a text with the given part of the free room before it.
    let line = |texts: &[&str], before: &dyn Fn(Align, usize) -> usize| {
        let cells = texts.iter().zip(columns).zip(&widths);
        let cells = cells.map(|((text, (_, align, _)), width)| {
            let room = width - text.width();
            let before = before(*align, room);
            let (before, after) = (" ".repeat(before), " ".repeat(room - before));
            format!(" {before}{text}{after} ")
        });
        format!("  │{}│\n", cells.collect::<Vec<_>>().join("│"))
    };
    let to_side = |align: Align, room: usize| if align == Align::Right { room } else { 0 };
    let titles: Vec<&str> = columns.iter().map(|(title, ..)| *title).collect();
    let mut text = rule("┌", "┬", "┐");
    text.push_str(&line(&titles, &|align, room| to_side(align, room) / 2));
    text.push_str(&rule("├", "┼", "┤"));
    for row in &rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        text.push_str(&line(&cells, &to_side));
    }
    text.push_str(&rule("└", "┴", "┘"));
    text
}
