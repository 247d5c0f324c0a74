//! A batch of rows, stored by column: at most one row group.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::column::{Column, Kind};

/// A row that can be added to a batch.
pub(crate) trait Row {
    fn add_to(&self, batch: &mut Batch);
}

/// Rows of one table, stored by column.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) columns: Vec<Cells>,
    pub(crate) rows: usize,
}

/// Values of one column: a definition level per row (1 if there is a value), and the values.
#[derive(Debug)]
pub(crate) struct Cells {
    pub(crate) levels: Vec<i16>,
    pub(crate) values: Values,
}

#[derive(Debug)]
pub(crate) enum Values {
    /// Integers, and times in microseconds.
    Int(Vec<i64>),
    Float(Vec<f64>),
    Bool(Vec<bool>),
    Text(Texts),
}

/// Interned texts: a column repeats few of them many times.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) places: Vec<u32>,
    pub(crate) known: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Number of the last text, which often repeats.
    last: Option<u32>,
}

impl Batch {
    pub(crate) fn new(columns: &[Column]) -> Self {
        let cells = |column: &Column| Cells {
            levels: Vec::new(),
            values: match column.kind {
                Kind::Time | Kind::Int => Values::Int(Vec::new()),
                Kind::Float => Values::Float(Vec::new()),
                Kind::Bool => Values::Bool(Vec::new()),
                Kind::Text => Values::Text(Texts::default()),
            },
        };
        Self {
            columns: columns.iter().map(cells).collect(),
            rows: 0,
        }
    }

    /// Creates an empty batch with the same capacities: consecutive days have similar sizes.
    pub(crate) fn of_the_same_size(&self, columns: &[Column]) -> Self {
        let mut batch = Self::new(columns);
        for (mine, theirs) in batch.columns.iter_mut().zip(&self.columns) {
            mine.levels.reserve_exact(theirs.levels.len());
            match (&mut mine.values, &theirs.values) {
                (Values::Int(mine), Values::Int(theirs)) => mine.reserve_exact(theirs.len()),
                (Values::Float(mine), Values::Float(theirs)) => mine.reserve_exact(theirs.len()),
                (Values::Bool(mine), Values::Bool(theirs)) => mine.reserve_exact(theirs.len()),
                (Values::Text(mine), Values::Text(theirs)) => {
                    mine.places.reserve_exact(theirs.places.len());
                }
                _ => {}
            }
        }
        batch
    }

    /// Begins a row. Its cells are filled from the first column to the last.
    pub(crate) fn row(&mut self) -> Places<'_> {
        self.rows += 1;
        Places {
            columns: self.columns.iter_mut(),
        }
    }
}

/// Cells of one row.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    columns: std::slice::IterMut<'a, Cells>,
}

impl Places<'_> {
    pub(crate) fn int(&mut self, value: Option<i64>) {
        let cells = self.next(value.is_some());
        if let (Some(value), Values::Int(values)) = (value, &mut cells.values) {
            values.push(value);
        }
    }

    pub(crate) fn time(&mut self, value: Option<Timestamp>) {
        self.int(value.map(|at| at.as_microsecond()));
    }

    pub(crate) fn float(&mut self, value: Option<f64>) {
        let cells = self.next(value.is_some());
        if let (Some(value), Values::Float(values)) = (value, &mut cells.values) {
            values.push(value);
        }
    }

    pub(crate) fn bool(&mut self, value: Option<bool>) {
        let cells = self.next(value.is_some());
        if let (Some(value), Values::Bool(values)) = (value, &mut cells.values) {
            values.push(value);
        }
    }

    pub(crate) fn text(&mut self, value: Option<&str>) {
        let cells = self.next(value.is_some());
        if let (Some(value), Values::Text(texts)) = (value, &mut cells.values) {
            texts.push(value);
        }
    }

    pub(crate) fn done(mut self) {
        debug_assert!(self.columns.next().is_none(), "a row fills every column");
    }

    fn next(&mut self, is_there: bool) -> &mut Cells {
        let cells = self
            .columns
            .next()
            .expect("a row has as many places as its table has columns");
        cells.levels.push(i16::from(is_there));
        cells
    }
}

impl Texts {
    fn push(&mut self, text: &str) {
        let is_it = |number: &u32| self.get(*number) == text;
        let number = match self.last.filter(is_it) {
            Some(number) => number,
            None => self.number(text),
        };
        self.last = Some(number);
        self.places.push(number);
    }

    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.known.len()).expect("a batch has fewer rows than that");
        self.known.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &str {
        &self.known[number as usize]
    }
}

/// One value, for formats that write row by row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Missing,
    Time(i64),
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(&'a str),
}

impl Batch {
    /// Calls a function with the values of each row, in the order of the columns.
    pub(crate) fn each_row<E>(
        &self,
        columns: &[Column],
        mut each: impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = vec![0usize; self.columns.len()];
        let mut row = Vec::with_capacity(columns.len());
        for place in 0..self.rows {
            row.clear();
            for ((cells, column), next) in self.columns.iter().zip(columns).zip(&mut next) {
                if cells.levels[place] == 0 {
                    row.push(Value::Missing);
                    continue;
                }
                row.push(match &cells.values {
                    Values::Int(values) if column.kind == Kind::Time => Value::Time(values[*next]),
                    Values::Int(values) => Value::Int(values[*next]),
                    Values::Float(values) => Value::Float(values[*next]),
                    Values::Bool(values) => Value::Bool(values[*next]),
                    Values::Text(texts) => Value::Text(texts.get(texts.places[*next])),
                });
                *next += 1;
            }
            each(&row)?;
        }
        Ok(())
    }
}
