//! Elements and tables of a page. They are always closed, escaped and well-formed XML.

use crate::chart::Language;
use crate::report::labels;
use crate::svg::Svg;
use crate::table::{Cell, Table};

/// A part of a page that grows.
#[derive(Debug, Default)]
pub(crate) struct Html {
    out: Svg,
}

/// Attributes of an element.
type Attributes<'a> = &'a [(&'a str, &'a str)];

impl Html {
    pub(crate) fn finish(self) -> String {
        self.out.finish()
    }

    /// An element and what is in it.
    pub(crate) fn element(
        &mut self,
        name: &str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Self),
    ) {
        self.out.open(name, attributes);
        inside(self);
        self.out.close(name);
        if matches!(
            name,
            "section" | "tr" | "p" | "header" | "table" | "head" | "li"
        ) {
            self.out.line_break();
        }
    }

    /// An element that never has anything in it.
    pub(crate) fn void(&mut self, name: &str, attributes: Attributes<'_>) {
        self.out.leaf(name, attributes);
    }

    /// An element with text in it.
    pub(crate) fn text(&mut self, name: &str, attributes: Attributes<'_>, text: &str) {
        self.element(name, attributes, |inside| inside.words(text));
    }

    /// Text beside elements.
    pub(crate) fn words(&mut self, text: &str) {
        self.out.content(text);
    }

    pub(crate) fn style(&mut self, sheet: &str) {
        self.out.style(sheet);
    }

    /// A chart, which is markup already.
    pub(crate) fn chart(&mut self, svg: &str) {
        self.out.markup(svg);
    }

    /// Writes a number for display, with its exact value as an attribute.
    pub(crate) fn number(&mut self, key: &str, cell: &Cell) {
        let value = cell.exact();
        self.text(
            "data",
            &[("data-key", key), ("value", &value)],
            &cell.shown(),
        );
    }
}

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
    pub(crate) before: &'a dyn Fn(&mut Html, usize, usize),
    /// Writes content below the value of a cell.
    pub(crate) below: &'a dyn Fn(&mut Html, usize, usize),
}

/// Writes no additional content.
pub(crate) fn nothing(_: &mut Html, _: usize, _: usize) {}

pub(crate) fn table(html: &mut Html, table: &Table, look: Look<'_>) {
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
fn name(html: &mut Html, text: &str) {
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
    before: &'a dyn Fn(&mut Html),
    below: &'a dyn Fn(&mut Html),
}

fn value_cell(html: &mut Html, cell: &Cell, class: &str, around: &Around<'_>) {
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
fn rest_cells(html: &mut Html, rest: &[Vec<Cell>], language: Language) {
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
