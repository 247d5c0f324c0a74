//! Tables with box-drawing lines, aligned by terminal width: a Korean letter takes two columns.

use gua_model::table::{Align, Cell, Table};
use unicode_width::UnicodeWidthStr as _;

/// Draws a table. The titles of right-aligned columns are centred.
pub(super) fn boxed(table: &Table) -> String {
    let titles = table.columns.iter().map(|column| column.title.clone());
    let rows = table.rows.iter();
    let rows = rows.map(|row| row.iter().map(Cell::shown).collect());
    let lines: Vec<Vec<String>> = std::iter::once(titles.collect()).chain(rows).collect();
    let width = |place: usize| lines.iter().map(|line| line[place].width()).max();
    let widths = (0..table.columns.len()).map(|place| width(place).unwrap_or(0));
    let widths: Vec<usize> = widths.collect();
    let rule = |left: &str, middle: &str, right: &str| {
        let parts: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("  {left}{}{right}\n", parts.join(middle))
    };
    // Writes one line. Right-aligned texts have `1 / part` of the free space before them: 1 aligns right, 2 centres.
    let line = |texts: &[String], part: usize| {
        let cells = texts.iter().zip(&table.columns).zip(&widths);
        let cells = cells.map(|((text, column), width)| {
            let room = width - text.width();
            let before = match column.layout.align {
                Align::Right => room / part,
                _ => 0,
            };
            let (before, after) = (" ".repeat(before), " ".repeat(room - before));
            format!(" {before}{text}{after} ")
        });
        format!("  │{}│\n", cells.collect::<Vec<_>>().join("│"))
    };
    let mut text = rule("┌", "┬", "┐");
    text.push_str(&line(&lines[0], 2));
    text.push_str(&rule("├", "┼", "┤"));
    for cells in &lines[1..] {
        text.push_str(&line(cells, 1));
    }
    text.push_str(&rule("└", "┴", "┘"));
    text
}
