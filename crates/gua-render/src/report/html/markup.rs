//! Elements and tables of a page. They are always closed, escaped and well-formed XML.

use crate::chart::Language;
use crate::markup::Markup;
use crate::report::labels;
use crate::table::{Cell, Table};

/// Number of rows above which a table has a dense layout.
const MANY: usize = 24;
/// Number of characters above which a text may wrap.
const LONG: usize = 30;

/// Display options of a table.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) id: &'a str,
    pub(crate) language: Language,
    /// Maximum number of rows; one row sums up the rest.
    pub(crate) top: usize,
    /// Writes content before the value of a cell, by row and column.
    pub(crate) before: &'a dyn Fn(&mut Markup, usize, usize),
    /// Writes content below the value of a cell.
    pub(crate) below: &'a dyn Fn(&mut Markup, usize, usize),
}

/// Writes no additional content.
pub(crate) fn nothing(_: &mut Markup, _: usize, _: usize) {}

pub(crate) fn table(html: &mut Markup, table: &Table, look: Look<'_>) {
    let shown = table.rows.len().min(look.top);
    let rest = &table.rows[shown..];
    let text_column: Vec<bool> = (0..table.columns.len())
        .map(|place| {
            let is_text = |row: &Vec<Cell>| matches!(row.get(place), Some(Cell::Text(_)));
            table.rows.iter().any(is_text)
        })
        .collect();
    let dense = if shown > MANY { "dense" } else { "" };
    let class = |place: usize| if text_column[place] { "t" } else { "n" };
    html.element(
        "div",
        &[("class", "scroll"), ("tabindex", "0"), ("role", "group")],
        |html| {
            html.element("table", &[("id", look.id), ("class", dense)], |html| {
                html.element("thead", &[], |html| {
                    html.element("tr", &[], |html| {
                        for (place, column) in table.columns.iter().enumerate() {
                            let title = labels::column(&column.key, &column.title, look.language);
                            let attributes = [
                                ("scope", "col"),
                                ("class", class(place)),
                                ("data-key", column.key.as_str()),
                            ];
                            html.element("th", &attributes, |html| name(html, &title));
                        }
                    });
                });
                html.element("tbody", &[], |html| {
                    for (at, row) in table.rows.iter().take(shown).enumerate() {
                        html.element("tr", &[], |html| {
                            for (place, cell) in row.iter().enumerate() {
                                let around = Around {
                                    before: &|html| (look.before)(html, at, place),
                                    below: &|html| (look.below)(html, at, place),
                                };
                                value_cell(html, cell, class(place), &around);
                            }
                        });
                    }
                });
                if !rest.is_empty() {
                    html.element("tfoot", &[], |html| {
                        html.element("tr", &[], |html| rest_cells(html, rest, look.language));
                    });
                }
            });
        },
    );
}

/// Writes a text. Of a UUID only the beginning is visible; a tooltip has the rest.
fn name(html: &mut Markup, text: &str) {
    if is_uuid(text) {
        html.text("span", &[("class", "uuid"), ("title", text)], text);
    } else {
        html.words(text);
    }
}

fn is_uuid(text: &str) -> bool {
    text.starts_with("GPU-") || text.starts_with("MIG-")
}

/// Additional content of a cell.
struct Around<'a> {
    before: &'a dyn Fn(&mut Markup),
    below: &'a dyn Fn(&mut Markup),
}

fn value_cell(html: &mut Markup, cell: &Cell, class: &str, around: &Around<'_>) {
    let shown = cell.shown();
    let value = cell.exact();
    // Only long text may wrap.
    let class = match shown.chars().count() > LONG && !is_uuid(&shown) {
        true => "t long",
        false => class,
    };
    html.element("td", &[("class", class), ("data-value", &value)], |html| {
        (around.before)(html);
        name(html, &shown);
        (around.below)(html);
    });
}

/// Writes one row for the hidden rows. Numbers are summed, so that the columns still add up.
fn rest_cells(html: &mut Markup, rest: &[Vec<Cell>], language: Language) {
    let columns = rest.first().map_or(0, Vec::len);
    for place in 0..columns {
        if place == 0 {
            html.text("td", &[("class", "t")], &labels::rest(rest.len(), language));
            continue;
        }
        let sum = rest
            .iter()
            .filter_map(|row| row.get(place))
            .fold(Cell::Missing, added);
        match sum {
            Cell::Missing => html.text("td", &[], ""),
            sum => {
                let around = Around {
                    before: &|_| {},
                    below: &|_| {},
                };
                value_cell(html, &sum, "n", &around);
            }
        }
    }
}

fn added(sum: Cell, cell: &Cell) -> Cell {
    match (sum, cell) {
        (Cell::Missing, Cell::Count(_) | Cell::Hours(_) | Cell::Kilowatthours(_)) => cell.clone(),
        (Cell::Count(sum), Cell::Count(more)) => Cell::Count(sum + more),
        (Cell::Hours(sum), Cell::Hours(more)) => Cell::Hours(sum + more),
        (Cell::Kilowatthours(sum), Cell::Kilowatthours(more)) => Cell::Kilowatthours(sum + more),
        (sum, _) => sum,
    }
}
