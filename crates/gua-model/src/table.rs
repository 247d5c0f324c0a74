//! Tables for every output: columns are declared once, and text, CSV, JSON, HTML and the terminal view are rendered
//! from them.
//!
//! A [`Column`] knows its key for programs, its title for people, how it is aligned, how important it is when the
//! screen is narrow, and how to get its [`Cell`] from a row. [`Table::of`] evaluates the columns over rows. A cell
//! holds a number with its unit; each output only decides how many digits it shows.

use std::borrow::Borrow;

use jiff::Timestamp;

use crate::text::{clip, columns, sanitize};
use crate::{Micros, Millijoules};

/// Blanks between two columns of text.
const BETWEEN: &str = "  ";
const GAP: usize = BETWEEN.len();

/// Declaration of one column of a table whose rows are `R`.
#[derive(Debug)]
pub struct Column<R: ?Sized> {
    /// Name in CSV and JSON. It carries the unit.
    pub key: &'static str,
    /// Heading for people.
    pub title: &'static str,
    pub layout: Layout,
    pub cell: fn(&R) -> Cell,
}

/// Layout of a column on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub align: Align,
    /// Columns with a lower priority are dropped first when there is too little room.
    pub priority: u8,
    /// Width down to which the column may be truncated; `None` if it is never truncated.
    pub min_width: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// Text to the left, numbers to the right.
    #[default]
    ByContent,
    Left,
    Right,
}

impl Layout {
    /// Aligned by content, never dropped, never truncated.
    pub const PLAIN: Layout = Layout {
        align: Align::ByContent,
        priority: u8::MAX,
        min_width: None,
    };
}

impl<R: ?Sized> Column<R> {
    /// The heading of this column.
    pub fn header(&self) -> Header {
        Header {
            key: self.key.to_owned(),
            title: self.title.to_owned(),
            layout: self.layout,
        }
    }
}

/// Heading of a column of a [`Table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub key: String,
    pub title: String,
    pub layout: Layout,
}

impl Header {
    /// A column that depends on the data, such as one per person.
    pub fn new(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            title: title.into(),
            layout: Layout::PLAIN,
        }
    }
}

/// Builds a table with one line for each row. A column has a key, a title (by default the key) and a cell. Between key and
/// title, brackets can have its layout: alignment, priority, and the width down to which it may be truncated.
#[macro_export]
macro_rules! table {
    ($row:pat in $rows:expr => $( $key:tt $([$($layout:tt)*])? $(as $title:expr)? => $cell:expr, )*) => {
        $crate::table::Table {
            columns: vec![$( $crate::table::Header {
                layout: $crate::table!(@layout $($($layout)*)?),
                ..$crate::table::Header::new($key, $crate::table!(@title $key $(, $title)?))
            } ),*],
            rows: $rows.into_iter().map(|$row| vec![$( $crate::table::Cell::from($cell) ),*]).collect(),
        }
    };
    (@title $key:tt) => { $key };
    (@title $key:tt, $title:expr) => { $title };
    (@layout) => { $crate::table::Layout::PLAIN };
    (@layout $align:ident) => { $crate::table!(@layout $align, u8::MAX) };
    (@layout $align:ident, $priority:expr $(, $min_width:literal)?) => {
        $crate::table::Layout {
            align: $crate::table::Align::$align,
            priority: $priority,
            min_width: $crate::table!(@width $($min_width)?),
        }
    };
    (@width) => { None };
    (@width $min_width:literal) => { Some($min_width) };
}

/// One value with its unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    Count(u64),
    Integer(i64),
    Flag(bool),
    /// GPU-hours.
    Hours(f64),
    /// A fraction of one.
    Share(f64),
    Percent(f64),
    Kilowatthours(f64),
    /// An amount of money; its currency is in the title.
    Money(f64),
    /// Any other measure; its unit is in the title.
    Number(f64),
    /// Difference between two measures of this kind, shown with its sign. The difference of two shares is in percentage
    /// points.
    Change(Box<Cell>),
    /// Not measured.
    Missing,
}

macro_rules! cells {
    ($($type:ty: $from:ident => $cell:expr;)*) => { $(
        impl From<$type> for Cell {
            fn from($from: $type) -> Self {
                $cell
            }
        }
    )* };
}

cells! {
    String: text => Cell::Text(text);
    &str: text => Cell::Text(text.to_owned());
    bool: flag => Cell::Flag(flag);
    u64: count => Cell::Count(count);
    u32: count => Cell::Count(count.into());
    u8: count => Cell::Count(count.into());
    usize: count => Cell::Count(u64::try_from(count).unwrap_or(u64::MAX));
    i64: number => Cell::Integer(number);
    i32: number => Cell::Integer(number.into());
    Timestamp: at => Cell::Text(at.to_string());
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Missing, Into::into)
    }
}

impl Cell {
    pub fn share(share: Option<f64>) -> Self {
        share.map_or(Cell::Missing, Cell::Share)
    }

    /// Time on GPUs, if it is known.
    pub fn time(time: Option<Micros>) -> Self {
        time.map_or(Cell::Missing, |time| Cell::Hours(time.hours()))
    }

    /// Energy, if it was counted.
    pub fn energy(energy: Option<Millijoules>) -> Self {
        energy.map_or(Cell::Missing, |energy| {
            Cell::Kilowatthours(energy.kilowatthours())
        })
    }

    /// The cell for people, with few digits.
    pub fn shown(&self) -> String {
        match self {
            Cell::Text(text) => sanitize(text),
            Cell::Count(count) => count.to_string(),
            Cell::Integer(number) => number.to_string(),
            Cell::Flag(flag) => flag.to_string(),
            Cell::Hours(number) | Cell::Money(number) => format!("{number:.2}"),
            Cell::Share(share) => format!("{:.1}%", share * 100.0),
            Cell::Percent(percent) => format!("{percent:.1}%"),
            Cell::Kilowatthours(energy) => format!("{energy:.3}"),
            Cell::Number(number) => format!("{number:.1}"),
            Cell::Change(change) => shown_change(change),
            Cell::Missing => "-".to_owned(),
        }
    }

    /// The number of a measure, with up to six decimals; `None` for every other kind of cell.
    pub fn measure(&self) -> Option<f64> {
        match self {
            Cell::Hours(number)
            | Cell::Share(number)
            | Cell::Percent(number)
            | Cell::Kilowatthours(number)
            | Cell::Money(number)
            | Cell::Number(number) => Some(rounded(*number)),
            Cell::Change(change) => change.measure(),
            Cell::Text(_) | Cell::Count(_) | Cell::Integer(_) | Cell::Flag(_) | Cell::Missing => {
                None
            }
        }
    }

    /// The cell for programs: numbers with up to six decimals, nothing if nothing was measured.
    pub fn exact(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Missing => String::new(),
            other => match other.measure() {
                // As JSON prints it: 12.0 and 0.000077, not 12 and 7.7e-5.
                Some(number) if number.fract() == 0.0 => format!("{number:.1}"),
                Some(number) => number.to_string(),
                None => other.shown(),
            },
        }
    }

    pub fn is_text(&self) -> bool {
        matches!(self, Cell::Text(_))
    }
}

/// A difference with its sign. One that is rounded to zero has none.
fn shown_change(change: &Cell) -> String {
    let (number, unit) = match change {
        Cell::Share(share) => (format!("{:.1}", share * 100.0), " points"),
        other => (other.shown(), ""),
    };
    let digits = number.trim_start_matches('-');
    let sign = match (
        digits.contains(|digit: char| ('1'..='9').contains(&digit)),
        digits.len() < number.len(),
    ) {
        (false, _) => "",
        (true, true) => "-",
        (true, false) => "+",
    };
    format!("{sign}{digits}{unit}")
}

/// The number with six decimals, which is a few milliseconds of an hour.
pub fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// Cells under headings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Header>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table with these headings.
    pub fn new<const N: usize>(columns: [(&str, &str); N]) -> Self {
        Self {
            columns: columns.map(|(key, title)| Header::new(key, title)).into(),
            rows: Vec::new(),
        }
    }

    /// The table of these columns over these rows.
    pub fn of<R, I: Borrow<R>>(columns: &[Column<R>], rows: impl IntoIterator<Item = I>) -> Self {
        let cells = |row: I| {
            let cells = columns.iter().map(|column| (column.cell)(row.borrow()));
            cells.collect()
        };
        Self {
            columns: columns.iter().map(Column::header).collect(),
            rows: rows.into_iter().map(cells).collect(),
        }
    }

    /// Tables with the same rows, one beside the other.
    #[must_use]
    pub fn beside(mut self, right: Self) -> Self {
        self.columns.extend(right.columns);
        for (row, more) in self.rows.iter_mut().zip(right.rows) {
            row.extend(more);
        }
        self
    }

    /// Some of its columns, by position.
    pub fn only(&self, places: &[usize]) -> Self {
        let row = |row: &Vec<Cell>| {
            let cell = |place: &usize| row.get(*place).cloned().unwrap_or(Cell::Missing);
            places.iter().map(cell).collect()
        };
        let columns = places.iter().filter_map(|place| self.columns.get(*place));
        Self {
            columns: columns.cloned().collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }

    /// Its columns with these keys.
    pub fn only_keys(&self, is_wanted: impl Fn(&str) -> bool) -> Self {
        let columns = self.columns.iter().enumerate();
        let wanted = columns.filter(|(_, column)| is_wanted(&column.key));
        self.only(&wanted.map(|(place, _)| place).collect::<Vec<_>>())
    }

    /// The table as text, two blanks between columns, numbers to the right.
    pub fn text(&self, indent: usize) -> String {
        let indent = " ".repeat(indent);
        let lines = self.lines(None);
        let lines = lines.map(|line| format!("{indent}{line}").trim_end().to_owned() + "\n");
        lines.collect()
    }

    /// The heading line and one line per row. With a `width`, columns are dropped and truncated until they fit.
    pub fn lines(&self, width: Option<usize>) -> impl Iterator<Item = String> {
        self.painted(width, |_, cell| cell.to_owned()).into_iter()
    }

    /// The same lines. `paint` gets the row and the column of a cell, and the cell as it is shown; it may add sequences
    /// that take no space. Headings are in no row. A line that does not fit is shortened and not painted.
    pub fn painted(
        &self,
        width: Option<usize>,
        paint: impl Fn((Option<usize>, usize), &str) -> String,
    ) -> Vec<String> {
        let shown: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::shown).collect())
            .collect();
        let to_left: Vec<bool> = (0..self.columns.len())
            .map(|place| match self.columns[place].layout.align {
                Align::Left => true,
                Align::Right => false,
                Align::ByContent => {
                    let mut cells = self.rows.iter().filter_map(|row| row.get(place));
                    cells.any(Cell::is_text)
                }
            })
            .collect();
        let natural: Vec<usize> = (0..self.columns.len())
            .map(|place| {
                let cells = shown.iter().filter_map(|row| row.get(place));
                let cells = cells.map(|cell| columns(cell));
                let title = columns(&self.columns[place].title);
                cells.chain([title]).max().unwrap_or(0)
            })
            .collect();
        let layouts: Vec<Layout> = self.columns.iter().map(|column| column.layout).collect();
        let widths = match width {
            None => natural.into_iter().map(Some).collect(),
            Some(width) => fitted(&layouts, &natural, width),
        };
        let titles = self.columns.iter().map(|column| column.title.clone());
        let head = std::iter::once((None, titles.collect()));
        let body = (0..).map(Some).zip(shown);
        head.chain(body)
            .map(|(row, cells)| {
                let parts = parts(&cells, &to_left, &widths);
                let plain = parts.iter().map(|(_, part)| part.as_str());
                let plain = plain.collect::<Vec<_>>().join(BETWEEN);
                match width {
                    Some(width) if columns(&plain) > width => clip(&plain, width),
                    _ => {
                        let painted = parts.iter().map(|(place, part)| paint((row, *place), part));
                        painted.collect::<Vec<_>>().join(BETWEEN)
                    }
                }
            })
            .collect()
    }
}

/// Widths of the columns that fit into `width`; `None` for a dropped column. The columns with the lowest priority are
/// dropped until the narrowest form of the others fits; then the widest are truncated until all do.
pub fn fitted(layouts: &[Layout], natural: &[usize], width: usize) -> Vec<Option<usize>> {
    let narrowest = |place: usize| match layouts[place].min_width {
        None => natural[place],
        Some(least) => natural[place].min(least),
    };
    let mut kept: Vec<usize> = (0..natural.len()).collect();
    let total = |kept: &[usize], width_of: &dyn Fn(usize) -> usize| {
        kept.iter().map(|place| width_of(*place)).sum::<usize>()
            + GAP * kept.len().saturating_sub(1)
    };
    while kept.len() > 2 && total(&kept, &narrowest) > width {
        let least = kept.iter().copied();
        let least = least.min_by_key(|place| layouts[*place].priority);
        kept.retain(|place| Some(*place) != least);
    }
    let mut widths: Vec<usize> = natural.to_vec();
    loop {
        let excess = total(&kept, &|place| widths[place]).saturating_sub(width);
        let can_shrink = |place: &usize| widths[*place] > narrowest(*place);
        let widest = kept
            .iter()
            .copied()
            .filter(can_shrink)
            .max_by_key(|place| widths[*place]);
        match widest {
            Some(place) if excess > 0 => widths[place] -= 1,
            _ => break,
        }
    }
    let of = |place: usize| kept.contains(&place).then_some(widths[place]);
    (0..natural.len()).map(of).collect()
}

/// Returns the cells that are shown, with their columns, as wide as these; a line ends without blanks.
fn parts(cells: &[String], to_left: &[bool], widths: &[Option<usize>]) -> Vec<(usize, String)> {
    let mut parts = Vec::new();
    for (place, ((cell, to_left), width)) in cells.iter().zip(to_left).zip(widths).enumerate() {
        let Some(width) = *width else { continue };
        let cell = clip(cell, width);
        let padding = " ".repeat(width.saturating_sub(columns(&cell)));
        let part = match to_left {
            true => format!("{cell}{padding}"),
            false => format!("{padding}{cell}"),
        };
        parts.push((place, part));
    }
    while let Some((_, last)) = parts.last_mut() {
        last.truncate(last.trim_end().len());
        if !last.is_empty() {
            break;
        }
        parts.pop();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Person {
        name: &'static str,
        hours: f64,
        idle: Option<f64>,
    }

    fn table() -> Table {
        let person = |name, hours, idle| Person { name, hours, idle };
        let people = [
            person("ada", 1.234_567_89, Some(0.5)),
            person("김", 12.0, None),
        ];
        table!(person in people =>
            "user" => person.name,
            "held_hours" as "held h" => Cell::Hours(person.hours),
            "idle_share" as "idle" => Cell::share(person.idle),
        )
    }

    #[test]
    fn text_is_aligned_by_display_width() {
        assert_eq!(
            table().text(2),
            "  user  held h   idle\n  ada     1.23  50.0%\n  김     12.00      -\n"
        );
    }

    #[test]
    fn exact_cells_have_six_decimals_and_nothing_for_a_missing_value() {
        let table = table();
        let exact = |row: usize| {
            let cells = table.rows[row].iter().map(Cell::exact);
            cells.collect::<Vec<_>>().join(",")
        };
        assert_eq!(exact(0), "ada,1.234568,0.5");
        assert_eq!(exact(1), "김,12.0,");
        assert_eq!(Cell::Hours(0.000_077).exact(), "0.000077");
    }

    #[test]
    fn paint_takes_no_space_and_lines_end_without_blanks() {
        let table = table();
        let paint = |(row, column): (Option<usize>, usize), cell: &str| match (row, column) {
            (Some(0), 0) => format!("<{cell}>"),
            (None, 2) => format!("[{cell}]"),
            _ => cell.to_owned(),
        };
        assert_eq!(
            table.painted(None, paint),
            [
                "user  held h  [ idle]",
                "<ada >    1.23  50.0%",
                "김     12.00      -"
            ]
        );
        let narrow = table.painted(Some(5), paint);
        let is_plain = |line: &String| columns(line) <= 5 && !line.contains(['<', '[']);
        assert!(narrow.iter().all(is_plain), "{narrow:?}");
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        let check = |user: &str, most, expected: &str| {
            let cells = ["0", "[~]", user, "7 %"].map(str::to_owned);
            let widths = [Some(1), Some(6), Some(7), Some(5)];
            let parts = parts(&cells, &[false, true, true, false], &widths);
            let line = parts.into_iter().map(|(_, part)| part);
            let line = line.collect::<Vec<_>>().join(BETWEEN);
            let line = Option::map_or(most, line.clone(), |most| clip(&line, most));
            assert_eq!(line, expected, "{user}");
        };
        check("ada", None, "0  [~]     ada        7 %");
        check("김철수", None, "0  [~]     김철수     7 %");
        check("김수한무", None, "0  [~]     김수한…    7 %");
        check("김철수", Some(16), "0  [~]     김철…");
    }
}
