//! Tables with box-drawing lines, aligned by terminal width: a Korean letter takes two columns.

use unicode_width::UnicodeWidthStr as _;

/// Alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    /// For numbers; the title is centred.
    Right,
}

#[derive(Debug)]
pub(super) struct Boxed<const N: usize> {
    columns: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Boxed<N> {
    pub(super) fn new(columns: &[(&'static str, Align); N]) -> Self {
        Self {
            columns: *columns,
            rows: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    pub(super) fn text(&self) -> String {
        let widths: [usize; N] = std::array::from_fn(|place| {
            let cells = self.rows.iter().map(|row| row[place].width());
            cells
                .chain([self.columns[place].0.width()])
                .max()
                .unwrap_or(0)
        });
        let rule = |left: &str, middle: &str, right: &str| {
            let parts = widths.map(|width| "─".repeat(width + 2));
            format!("  {left}{}{right}\n", parts.join(middle))
        };
        let line = |cells: [String; N]| {
            format!("  │{}│\n", cells.map(|cell| format!(" {cell} ")).join("│"))
        };
        let titles = std::array::from_fn(|place| {
            let (title, align) = self.columns[place];
            let room = widths[place] - title.width();
            let before = match align {
                Align::Left => 0,
                Align::Right => room / 2,
            };
            format!("{}{title}{}", " ".repeat(before), " ".repeat(room - before))
        });
        let mut text = rule("┌", "┬", "┐");
        text.push_str(&line(titles));
        text.push_str(&rule("├", "┼", "┤"));
        for row in &self.rows {
            text.push_str(&line(std::array::from_fn(|place| {
                let pad = " ".repeat(widths[place] - row[place].width());
                match self.columns[place].1 {
                    Align::Left => format!("{}{pad}", row[place]),
                    Align::Right => format!("{pad}{}", row[place]),
                }
            })));
        }
        text.push_str(&rule("└", "┴", "┘"));
        text
    }
}
