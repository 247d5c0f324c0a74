//! A batch of rows, stored by column: at most one row group.

use std::borrow::Cow;
use std::collections::HashMap;

use gua_model::{Bytes, Micros, Millijoules};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::column::{Column, Kind};
use crate::names::Names;

/// A row of a table.
pub(crate) trait Row {
    /// Fills the cells, from the first column to the last.
    fn put(&self, names: &Names, cells: &mut RowCells<'_>);
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// Not measured.
    Missing,
    /// In microseconds since 1970.
    Time(i64),
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(Cow<'a, str>),
}

macro_rules! values {
    ($($type:ty: $from:ident => $value:expr;)*) => { $(
        impl<'a> From<$type> for Value<'a> {
            fn from($from: $type) -> Self {
                $value
            }
        }
    )* };
}

values! {
    Timestamp: at => Value::Time(at.as_microsecond());
    i64: number => Value::Int(number);
    u8: number => Value::Int(number.into());
    u32: number => Value::Int(number.into());
    u64: number => Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    usize: number => Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    Micros: time => time.0.into();
    Millijoules: energy => energy.0.into();
    Bytes: memory => memory.0.into();
    f64: number => Value::Float(number);
    bool: flag => Value::Bool(flag);
    &'a str: text => Value::Text(Cow::Borrowed(text));
    Cow<'a, str>: text => Value::Text(text);
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Missing, Into::into)
    }
}

/// Rows of one table, stored by column.
#[derive(Debug, Serialize, Deserialize)]
pub struct Batch {
    pub(crate) columns: Vec<Cells>,
    pub(crate) rows: usize,
}

/// Values of one column: a definition level per row (1 if there is a value), and the values.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cells {
    pub(crate) levels: Vec<i16>,
    pub(crate) values: Values,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Values {
    Time(Vec<i64>),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Bool(Vec<bool>),
    Text(Texts),
}

/// Interned texts: a column repeats few of them many times.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Texts {
    pub(crate) places: Vec<u32>,
    pub(crate) known: Vec<String>,
    #[serde(skip)]
    numbers: HashMap<String, u32>,
    /// Number of the last text, which often repeats.
    #[serde(skip)]
    last: Option<u32>,
}

impl Batch {
    /// Creates an empty batch with room for this many rows.
    pub(crate) fn new(columns: &[Column], room: usize) -> Self {
        let cells = |column: &Column| Cells {
            levels: Vec::with_capacity(room),
            values: match column.kind {
                Kind::Time => Values::Time(Vec::with_capacity(room)),
                Kind::Int => Values::Int(Vec::with_capacity(room)),
                Kind::Float => Values::Float(Vec::with_capacity(room)),
                Kind::Bool => Values::Bool(Vec::with_capacity(room)),
                Kind::Text => Values::Text(Texts::default()),
            },
        };
        Self {
            columns: columns.iter().map(cells).collect(),
            rows: 0,
        }
    }

    pub(crate) fn push(&mut self, names: &Names, row: &impl Row) {
        self.rows += 1;
        let mut cells = RowCells(self.columns.iter_mut());
        row.put(names, &mut cells);
        debug_assert!(cells.0.next().is_none(), "a row fills every column");
    }

    /// Whether a batch from another process has the columns of a table, and a value in each place that says so.
    pub(crate) fn fits(&self, columns: &[Column]) -> bool {
        let fits = |(cells, column): (&Cells, &Column)| {
            let number = match (&cells.values, column.kind) {
                (Values::Time(values), Kind::Time) | (Values::Int(values), Kind::Int) => {
                    values.len()
                }
                (Values::Float(values), Kind::Float) => values.len(),
                (Values::Bool(values), Kind::Bool) => values.len(),
                (Values::Text(texts), Kind::Text) => {
                    let is_known = |place: &u32| texts.known.len() > *place as usize;
                    match texts.places.iter().all(is_known) {
                        true => texts.places.len(),
                        false => return false,
                    }
                }
                _ => return false,
            };
            let is_level = |level: &i16| (0..=1).contains(level);
            let set = cells.levels.iter().filter(|level| **level == 1).count();
            cells.levels.len() == self.rows && cells.levels.iter().all(is_level) && set == number
        };
        self.columns.len() == columns.len() && self.columns.iter().zip(columns).all(fits)
    }

    /// Calls a function with the values of each row, in the order of the columns.
    pub(crate) fn each_row<E>(
        &self,
        mut each: impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = vec![0usize; self.columns.len()];
        let mut row = Vec::with_capacity(self.columns.len());
        for place in 0..self.rows {
            row.clear();
            for (cells, next) in self.columns.iter().zip(&mut next) {
                if cells.levels[place] == 0 {
                    row.push(Value::Missing);
                    continue;
                }
                row.push(match &cells.values {
                    Values::Time(values) => Value::Time(values[*next]),
                    Values::Int(values) => Value::Int(values[*next]),
                    Values::Float(values) => Value::Float(values[*next]),
                    Values::Bool(values) => Value::Bool(values[*next]),
                    Values::Text(texts) => texts.get(texts.places[*next]).into(),
                });
                *next += 1;
            }
            each(&row)?;
        }
        Ok(())
    }
}

/// The cells of a row that are not filled yet.
#[derive(Debug)]
pub(crate) struct RowCells<'a>(std::slice::IterMut<'a, Cells>);

impl RowCells<'_> {
    pub(crate) fn put<'v>(&mut self, value: impl Into<Value<'v>>) {
        let cells = self.0.next();
        let cells = cells.expect("a row has as many cells as its table has columns");
        let value = value.into();
        cells.levels.push(i16::from(value != Value::Missing));
        match (&mut cells.values, value) {
            (_, Value::Missing) => {}
            (Values::Time(values), Value::Time(value))
            | (Values::Int(values), Value::Int(value)) => values.push(value),
            (Values::Float(values), Value::Float(value)) => values.push(value),
            (Values::Bool(values), Value::Bool(value)) => values.push(value),
            (Values::Text(texts), Value::Text(text)) => texts.push(&text),
            (values, value) => unreachable!("a column has one type: {value:?} in {values:?}"),
        }
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
