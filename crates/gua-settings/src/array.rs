//! Arrays of tables: sections such as `[[quota]]` that a file may contain any number of times.
//!
//! An array is declared in [`crate::table`] beside the settings: the keys of its tables, each with the [`Kind`] of its value, and
//! the type of a row. Reading, messages about mistakes, `config default` and `config show` follow from that declaration;
//! [`crate::edit`] changes rows in a file. What is left to write by hand is [`Row`]: how the values of one table become rows.
//!
//! Unlike a setting, a row never overrides another one. The rows of both files are kept, each with its [`Layer`].
//!
//! [`Kind`]: crate::kind::Kind

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Source;
use crate::kind::{Home, Raw};
use crate::name::{nearest, shown};

/// A row of an array, with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<R> {
    pub value: R,
    pub source: Source,
    pub layer: Layer,
}

/// The file that a row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The host's file, `/etc/gua/config.toml`.
    Host,
    /// The user's file, or the one that `GUA_CONFIG` names.
    User,
}

impl Layer {
    pub const ALL: [Self; 2] = [Layer::Host, Layer::User];
}

/// Source of a table's rows.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) source: Source,
    pub(crate) layer: Layer,
}

/// The value of one key of a table.
#[derive(Clone, Debug)]
pub struct Field<T> {
    /// `None` if the value is invalid, which has been reported.
    pub value: Option<T>,
    /// Byte offset of the value in the file.
    pub at: usize,
}

/// The keys of one array's tables. `settings!` implements it.
pub trait Fields: Default {
    /// Name of the array in a file.
    const TABLE: &'static str;
    const KEYS: &'static [&'static str];

    /// Sets the value of a key, or returns why it is invalid; `None` if there is no such key.
    fn set(
        &mut self,
        key: &str,
        raw: Raw<'_>,
        home: &Home,
        at: usize,
    ) -> Option<Result<(), String>>;
}

/// One row of an array, parsed from the values of a table. One table can contain several rows.
pub trait Row: Sized + Clone {
    type Fields: Fields;
    /// One row in messages, such as "limit".
    const NOUN: &'static str;

    /// Turns a table that starts at offset `start` into rows. Rows of a table with mistakes are discarded.
    fn of_table(fields: &Self::Fields, start: usize, mistakes: &mut Mistakes) -> Vec<Self>;

    /// Whether another row has the same subject. A file must not contain both.
    fn is_same(&self, other: &Self) -> bool;

    /// Keys and values of a table with this row alone, in the order in which they are written.
    fn to_table(&self) -> Vec<(&'static str, toml_edit::Value)>;

    /// This row in `gua config show --json`.
    fn json(&self) -> serde_json::Map<String, serde_json::Value>;
}

/// Mistakes in one table, each with its byte offset.
#[derive(Debug, Default)]
pub struct Mistakes(pub Vec<(usize, String)>);

impl Mistakes {
    pub fn push(&mut self, at: usize, message: impl Into<String>) {
        self.0.push((at, message.into()));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A row as `config show` prints it.
#[derive(Clone, Debug)]
pub struct ShownRow<'a> {
    /// Key of the array in JSON.
    pub list: &'static str,
    pub toml: String,
    pub json: serde_json::Map<String, serde_json::Value>,
    pub source: &'a Source,
}

impl<'a> ShownRow<'a> {
    pub(crate) fn of<R: Row>(list: &'static str, row: &'a Listed<R>) -> Self {
        let mut toml = format!("[[{}]]\n", R::Fields::TABLE);
        for (key, value) in row.value.to_table() {
            toml.push_str(&format!("{key} = {value}\n"));
        }
        Self {
            list,
            toml,
            json: row.value.json(),
            source: &row.source,
        }
    }
}

/// Reads the values of one table.
pub(crate) fn fields<F: Fields>(table: &DeTable<'_>, home: &Home, mistakes: &mut Mistakes) -> F {
    let mut fields = F::default();
    for (name, value) in table.iter() {
        let key: &str = name.get_ref();
        let at = value.span().start;
        match fields.set(key, Raw::Toml(value.get_ref()), home, at) {
            Some(Ok(())) => {}
            Some(Err(message)) => mistakes.push(at, format!("{}.{key}: {message}", F::TABLE)),
            None => mistakes.push(name.span().start, unknown_key::<F>(key)),
        }
    }
    fields
}

/// Reads all rows of an array, each with the byte offset of its table. `None` if the value is not an array of tables.
pub(crate) fn rows<R: Row>(
    value: &Spanned<DeValue<'_>>,
    home: &Home,
    mistakes: &mut Mistakes,
) -> Option<Vec<(R, usize)>> {
    let DeValue::Array(tables) = value.get_ref() else {
        return None;
    };
    let mut rows: Vec<(R, usize)> = Vec::new();
    for table in tables.iter() {
        let start = table.span().start;
        let mut own = Mistakes::default();
        let fields: R::Fields = fields(table.get_ref().as_table()?, home, &mut own);
        let found = R::of_table(&fields, start, &mut own);
        let found = if own.is_empty() { found } else { Vec::new() };
        for row in found {
            if rows.iter().any(|(known, _)| known.is_same(&row)) {
                let (table, noun) = (R::Fields::TABLE, R::NOUN);
                own.push(
                    start,
                    format!("{table}: this {noun} is set twice in this file"),
                );
            } else {
                rows.push((row, start));
            }
        }
        mistakes.0.append(&mut own.0);
    }
    Some(rows)
}

fn unknown_key<F: Fields>(key: &str) -> String {
    let hint = match nearest(key, F::KEYS.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", F::KEYS.join(", ")),
    };
    format!("unknown key `{}` in [[{}]]; {hint}", shown(key), F::TABLE)
}
