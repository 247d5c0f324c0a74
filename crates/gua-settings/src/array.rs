//! Arrays of tables: sections such as `[[quota]]` that a file may contain any number of times.
//!
//! An array is declared in [`crate::table`] beside the settings: the keys of its tables, each with the [`Kind`] of its value, and
//! the type of a row. Reading, messages about mistakes, `config default` and `config show` follow from that declaration;
//! [`crate::edit`] changes rows in a file. What is left to write by hand is [`Row`]: how the values of one table become rows.
//!
//! Unlike a setting, a row never overrides another one. The rows of both files are kept, each with its [`Layer`].
//!
//! [`Kind`]: crate::kind::Kind

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Source;
use crate::kind::{Home, Raw};
use crate::name::{instead, shown};

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

/// The value of one key of a table.
#[derive(Clone, Debug)]
pub struct Field<T> {
    /// Parsed value; `None` if the key is absent, or if its value is invalid, which has been reported.
    pub value: Option<T>,
    /// Byte offset of the value in the file; `None` if the key is absent.
    pub at: Option<usize>,
}

impl<T> Default for Field<T> {
    fn default() -> Self {
        let (value, at) = (None, None);
        Self { value, at }
    }
}

impl<T> Field<T> {
    /// Keeps a parsed value, or returns why it is invalid.
    pub(crate) fn set(&mut self, parsed: Result<T, String>, at: usize) -> Result<(), String> {
        self.at = Some(at);
        self.value = Some(parsed?);
        Ok(())
    }
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
    /// Ending of the message about two equal rows.
    const IF_TWICE: &'static str = "";

    /// Turns a table that starts at offset `start` into rows. Rows of a table with mistakes are discarded.
    fn of_table(fields: &Self::Fields, start: usize, mistakes: &mut Mistakes) -> Vec<Self>;

    /// Whether another row has the same subject. A file must not contain both.
    fn is_same(&self, other: &Self) -> bool;

    /// Keys and values of a table with this row alone, in the order in which they are written.
    fn pairs(&self) -> Vec<Pair>;

    /// This row as the keys and values of a file.
    fn to_table(&self) -> Vec<(&'static str, toml_edit::Value)> {
        let pairs = self.pairs().into_iter();
        let written = pairs.filter(|pair| pair.is_in_files);
        written
            .filter_map(|pair| Some((pair.key, toml_value(&pair.value)?)))
            .collect()
    }

    /// This row in `gua config show --json`.
    fn json(&self) -> serde_json::Map<String, Value> {
        let pairs = self.pairs().into_iter();
        let shown = pairs.filter(|pair| pair.is_in_json);
        shown
            .map(|pair| (pair.key.to_owned(), pair.value))
            .collect()
    }
}

/// One key of a row. A value that is null is absent in a file.
#[derive(Clone, Debug)]
pub struct Pair {
    key: &'static str,
    value: Value,
    is_in_files: bool,
    is_in_json: bool,
}

impl Pair {
    pub(crate) fn new(key: &'static str, value: impl Into<Value>) -> Self {
        Self {
            key,
            value: value.into(),
            is_in_files: true,
            is_in_json: true,
        }
    }

    /// Leaves the pair out of files if its value is the default.
    pub(crate) fn unless(mut self, is_default: bool) -> Self {
        self.is_in_files = !is_default;
        self
    }

    /// Leaves the pair out of files.
    pub(crate) fn in_json_only(self) -> Self {
        self.unless(true)
    }

    /// Leaves the pair out of JSON.
    pub(crate) fn in_files_only(mut self) -> Self {
        self.is_in_json = false;
        self
    }
}

/// A text, a whole number or a list of texts as TOML; `None` for null.
fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Number(number) => Some(number.as_i64()?.into()),
        Value::Array(list) => {
            let texts = list.iter().filter_map(Value::as_str);
            Some(texts.collect::<toml_edit::Array>().into())
        }
        _ => None,
    }
}

/// Mistakes in one table, each with its byte offset.
#[derive(Debug, Default)]
pub struct Mistakes(pub Vec<(usize, String)>);

impl Mistakes {
    pub fn push(&mut self, at: usize, message: impl Into<String>) {
        self.0.push((at, message.into()));
    }

    /// Reports required keys that are absent. Each key has its offset in the file, if it is present, and an example.
    pub(crate) fn require<F: Fields>(
        &mut self,
        start: usize,
        keys: &[(&str, Option<usize>, &str)],
    ) {
        for (key, _, example) in keys.iter().filter(|(_, at, _)| at.is_none()) {
            let table = F::TABLE;
            let message = format!("{table}: {key} is missing; write {key} = {example}");
            self.push(start, message);
        }
    }

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
    pub json: serde_json::Map<String, Value>,
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
                let (table, noun, hint) = (R::Fields::TABLE, R::NOUN, R::IF_TWICE);
                own.push(
                    start,
                    format!("{table}: this {noun} is set twice in this file{hint}"),
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
    let hint = instead(key, F::KEYS.iter().copied(), ["`"; 2]);
    format!("unknown key `{}` in [[{}]]; {hint}", shown(key), F::TABLE)
}
