//! Sections and tables of a page.

use crate::language::{Label, Language};
use crate::markup::Markup;
use crate::report::{Page, labels};
use crate::table::{Cell, Table};

/// Number of rows above which a table has a dense layout.
const MANY: usize = 24;
/// Number of characters above which a text may wrap.
const LONG: usize = 30;

/// Writes a section with a heading, and a number behind it where there is one.
pub(super) fn section(
    html: &mut Markup,
    page: &Page<'_>,
    (id, title, count): (&str, Label, Option<usize>),
    inside: impl FnOnce(&mut Markup),
) {
    html.element("section", &[("id", id)], |html| {
        html.element("h2", &[], |html| {
            html.words(title.of(page.language));
            if let Some(count) = count {
                html.words(" ");
                html.text("span", &[("class", "count")], &count.to_string());
            }
        });
        inside(html);
    });
}

pub(crate) fn paragraph(html: &mut Markup, text: &str) {
    html.text("p", &[("class", "say")], text);
}

/// Writes a large number, with its name above and details below.
pub(crate) fn tile(
    html: &mut Markup,
    (class, name): (&str, &str),
    value: impl FnOnce(&mut Markup),
    below: impl FnOnce(&mut Markup),
) {
    html.element("div", &[("class", &format!("tile {class}"))], |html| {
        html.text("div", &[("class", "name")], name);
        html.element("div", &[("class", "value")], value);
        html.element("div", &[("class", "below")], below);
    });
}

/// Writes the head of a page: a kicker, a title and facts with their names.
pub(crate) fn masthead(html: &mut Markup, kicker: &str, title: &str, facts: &[(&str, String)]) {
    html.element("header", &[], |html| {
        html.text("p", &[("class", "kicker")], kicker);
        html.text("h1", &[], title);
        html.element("dl", &[("class", "facts")], |html| {
            for (label, value) in facts {
                html.element("div", &[], |html| {
                    html.text("dt", &[], label);
                    html.text("dd", &[], value);
                });
            }
        });
    });
}

/// Writes additional content of a cell, by row and column.
type Hook<'a> = &'a dyn Fn(&mut Markup, usize, usize);

/// Display options of a table.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) id: &'a str,
    pub(crate) language: Language,
    /// Maximum number of rows; one row sums up the rest.
    pub(crate) top: usize,
    /// Content before the value of a cell.
    pub(crate) before: Hook<'a>,
    /// Content below the value of a cell.
    pub(crate) below: Hook<'a>,
}

impl<'a> Look<'a> {
    /// A table with all of its rows.
    pub(crate) fn whole(id: &'a str, language: Language) -> Self {
        Self {
            id,
            language,
            top: usize::MAX,
            before: &|_, _, _| {},
            below: &|_, _, _| {},
        }
    }

    /// A table with as many rows as the page shows of a list.
    pub(super) fn of(page: &Page<'_>, id: &'a str) -> Self {
        Self {
            top: page.top,
            ..Self::whole(id, page.language)
        }
    }
}

pub(crate) fn table(html: &mut Markup, table: &Table, look: Look<'_>) {
    let (shown, rest) = table.rows.split_at(table.rows.len().min(look.top));
    let is_text = |place: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(place));
        cells.any(Cell::is_text)
    };
    let classes = (0..table.columns.len()).map(|place| if is_text(place) { "t" } else { "n" });
    let classes: Vec<&str> = classes.collect();
    let scroll = [("class", "scroll"), ("tabindex", "0"), ("role", "group")];
    html.element("div", &scroll, |html| {
        let dense = if shown.len() > MANY { "dense" } else { "" };
        html.element("table", &[("id", look.id), ("class", dense)], |html| {
            html.element("thead", &[], |html| {
                html.element("tr", &[], |html| {
                    for (column, class) in table.columns.iter().zip(&classes) {
                        let title = labels::column(&column.key, &column.title, look.language);
                        let key = ("data-key", column.key.as_str());
                        let attributes = [("scope", "col"), ("class", *class), key];
                        html.element("th", &attributes, |html| name(html, &title));
                    }
                });
            });
            html.element("tbody", &[], |html| {
                for (at, row) in shown.iter().enumerate() {
                    html.element("tr", &[], |html| {
                        for ((place, cell), class) in row.iter().enumerate().zip(&classes) {
                            value_cell(html, cell, class, (at, place), look);
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
    });
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

fn value_cell(
    html: &mut Markup,
    cell: &Cell,
    class: &str,
    (row, column): (usize, usize),
    look: Look<'_>,
) {
    let shown = cell.shown();
    // Only long text may wrap.
    let class = match shown.chars().count() > LONG && !is_uuid(&shown) {
        true => "t long",
        false => class,
    };
    let attributes = [("class", class), ("data-value", &cell.exact())];
    html.element("td", &attributes, |html| {
        (look.before)(html, row, column);
        name(html, &shown);
        (look.below)(html, row, column);
    });
}

/// Writes one row for the hidden rows. Numbers are summed, so that the columns still add up.
fn rest_cells(html: &mut Markup, rest: &[Vec<Cell>], language: Language) {
    let columns = rest.first().map_or(0, Vec::len);
    html.text("td", &[("class", "t")], &labels::rest(rest.len(), language));
    for place in 1..columns {
        let cells = rest.iter().filter_map(|row| row.get(place));
        match cells.fold(Cell::Missing, added) {
            Cell::Missing => html.text("td", &[], ""),
            sum => value_cell(html, &sum, "n", (0, place), Look::whole("", language)),
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
