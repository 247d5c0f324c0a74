//! Sections and tables of a page.

use gua_model::visible::is_uuid;
use maud::{Markup, html};

use crate::language::{Label, Language};
use crate::markup::Escaped;
use crate::report::{Page, labels};
use crate::table::{Cell, Table};

/// Number of rows above which a table has a dense layout.
const MANY: usize = 24;
/// Number of characters above which a text may wrap.
const LONG: usize = 30;

/// Id of a section, its title, and the number after the title if there is one.
type About<'a> = (&'a str, Label, Option<usize>);

/// Returns a section with a heading.
pub(super) fn section(page: &Page<'_>, about: About<'_>, inside: &Markup) -> Markup {
    html! { section id=(about.0) { (heading(page, about)) (inside) } "\n" }
}

/// Returns a section whose content is folded on a screen. Print shows it.
pub(super) fn folded(page: &Page<'_>, about: About<'_>, inside: &Markup) -> Markup {
    html! {
        section id=(about.0) { details { summary { (heading(page, about)) } (inside) } } "\n"
    }
}

fn heading(page: &Page<'_>, (_, title, count): About<'_>) -> Markup {
    html! {
        h2 {
            (Escaped(title.of(page.language)))
            @if let Some(count) = count { " " span.count { (count) } }
        }
    }
}

pub(crate) fn paragraph(text: impl AsRef<str>) -> Markup {
    html! { p.say { (Escaped(text)) } "\n" }
}

/// Returns a large number, with its name above and details below.
pub(crate) fn tile((class, name): (&str, &str), value: &Markup, below: &Markup) -> Markup {
    html! {
        div class={ "tile " (class) } {
            div.name { (Escaped(name)) }
            div.value { (value) }
            div.below { (below) }
        }
    }
}

/// Returns the head of a page: a kicker, a title and facts with their names.
pub(crate) fn masthead(kicker: &str, title: &str, facts: &[(&str, String)]) -> Markup {
    html! {
        header {
            p.kicker { (Escaped(kicker)) } "\n"
            h1 { (Escaped(title)) }
            dl.facts {
                @for (label, value) in facts { div { dt { (Escaped(label)) } dd { (Escaped(value)) } } }
            }
        } "\n"
    }
}

/// Returns additional content of a cell, by row and column.
type Hook<'a> = &'a dyn Fn(usize, usize) -> Markup;

/// Display options of a table.
#[derive(Clone, Copy)]
pub(crate) struct TableOptions<'a> {
    pub(crate) id: &'a str,
    pub(crate) language: Language,
    /// Maximum number of rows; one row sums up the rest.
    pub(crate) top: usize,
    /// Content before the value of a cell.
    pub(crate) before: Hook<'a>,
    /// Content below the value of a cell.
    pub(crate) below: Hook<'a>,
}

impl<'a> TableOptions<'a> {
    /// A table with all of its rows.
    pub(crate) fn whole(id: &'a str, language: Language) -> Self {
        Self {
            id,
            language,
            top: usize::MAX,
            before: &|_, _| html! {},
            below: &|_, _| html! {},
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

pub(crate) fn table(table: &Table, look: TableOptions<'_>) -> Markup {
    let (shown, rest) = table.rows.split_at(table.rows.len().min(look.top));
    let class = |place: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(place));
        if cells.any(Cell::is_text) { "t" } else { "n" }
    };
    let classes: Vec<&str> = (0..table.columns.len()).map(class).collect();
    let dense = if shown.len() > MANY { "dense" } else { "" };
    html! {
        div.scroll tabindex="0" role="group" {
            table id=(look.id) class=(dense) {
                @if let Some(caption) = labels::caption(look.id) {
                    caption { (Escaped(caption.of(look.language))) }
                }
                thead { tr {
                    @for (column, class) in table.columns.iter().zip(&classes) {
                        th scope="col" class=(class) data-key=(Escaped(&column.key)) {
                            (name(&labels::column(&column.key, &column.title, look.language)))
                        }
                    }
                } "\n" }
                tbody {
                    @for (at, row) in shown.iter().enumerate() {
                        tr {
                            @for ((place, cell), class) in row.iter().enumerate().zip(&classes) {
                                (value_cell(cell, class, (at, place), look))
                            }
                        } "\n"
                    }
                }
                @if !rest.is_empty() { tfoot { tr { (rest_cells(rest, look.language)) } "\n" } }
            } "\n"
        }
    }
}

/// Returns a text. Of a UUID only the beginning is visible; a tooltip has the rest.
fn name(text: &str) -> Markup {
    html! {
        @if is_uuid(text) { span.uuid title=(Escaped(text)) { (Escaped(text)) } } @else { (Escaped(text)) }
    }
}

fn value_cell(
    cell: &Cell,
    class: &str,
    (row, column): (usize, usize),
    look: TableOptions<'_>,
) -> Markup {
    let shown = cell.shown();
    // Only long text may wrap.
    let is_long = shown.chars().count() > LONG && !is_uuid(&shown);
    html! {
        td class=(if is_long { "t long" } else { class }) data-value=(Escaped(cell.exact())) {
            ((look.before)(row, column)) (name(&shown)) ((look.below)(row, column))
        }
    }
}

/// Returns one row for the hidden rows. Numbers are summed, so that the columns still add up.
fn rest_cells(rest: &[Vec<Cell>], language: Language) -> Markup {
    let columns = rest.first().map_or(0, Vec::len);
    let sum = |place: usize| {
        let cells = rest.iter().filter_map(|row| row.get(place));
        cells.fold(Cell::Missing, added)
    };
    html! {
        td.t { (Escaped(labels::rest(rest.len(), language))) }
        @for place in 1..columns {
            @match sum(place) {
                Cell::Missing => { td {} }
                sum => { (value_cell(&sum, "n", (0, place), TableOptions::whole("", language))) }
            }
        }
    }
}

fn added(sum: Cell, cell: &Cell) -> Cell {
    match (sum, cell) {
        (
            Cell::Missing,
            Cell::Count(_) | Cell::Hours(_) | Cell::Money(_) | Cell::Kilowatthours(_),
        ) => cell.clone(),
        (Cell::Count(sum), Cell::Count(more)) => Cell::Count(sum + more),
        (Cell::Hours(sum), Cell::Hours(more)) => Cell::Hours(sum + more),
        (Cell::Money(sum), Cell::Money(more)) => Cell::Money(sum + more),
        (Cell::Kilowatthours(sum), Cell::Kilowatthours(more)) => Cell::Kilowatthours(sum + more),
        (sum, _) => sum,
    }
}
