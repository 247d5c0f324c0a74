//! Edits arrays of tables in the text of a configuration file. Everything else is preserved, including comments. The
//! result is validated like a handwritten file. A reader sees the old file or the new one, and concurrent changes wait for
//! each other.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use gua_files::{FileError, Over};
use toml::de::DeTable;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value};

use crate::array::{Fields, Layer, Mistakes, fields};
use crate::inputs::MAX_BYTES;
use crate::kind::Home;
use crate::{Problem, Settings, file};

/// Reason why a file was not edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("`{}` is not TOML and was not changed", path.display())]
    Syntax {
        path: PathBuf,
        source: toml_edit::TomlError,
    },
    #[error("`{table}` is an inline array; write each row as [[{table}]]")]
    InlineArray { table: &'static str },
    #[error("the file was not changed: {0}")]
    Invalid(Problem),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Applies `change` to a file of this layer and writes it if it is still valid. A new directory of the user's file is
/// private. The host's file must be readable by every user, regardless of root's umask.
///
/// # Errors
/// If the file cannot be read or written, and as for [`edit`].
pub fn change(
    path: &Path,
    layer: Layer,
    home: &Home,
    change: impl FnOnce(&mut Document) -> Result<(), EditError>,
) -> Result<(), EditError> {
    // A link to a file elsewhere stays a link.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let cannot = |what| FileError::cannot(what, path);
    if let Some(directory) = path.parent() {
        let mode = if layer == Layer::Host { 0o755 } else { 0o700 };
        gua_files::make_directory(directory, mode).map_err(cannot("create the directory of"))?;
    }
    let _lock = lock(path).map_err(cannot("write"))?;
    let is_new_of_host = layer == Layer::Host && !path.exists();
    let bytes = match gua_files::read_regular(path, MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        bytes => bytes.map_err(cannot("read"))?,
    };
    let text = String::from_utf8(bytes)
        .map_err(|error| cannot("read")(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    let Some(changed) = edit(&text, path, home, change)? else {
        return Ok(());
    };
    gua_files::write(path, changed.as_bytes(), Over::Write).map_err(cannot("write"))?;
    if is_new_of_host {
        fs::set_permissions(path, Permissions::from_mode(0o644)).map_err(cannot("write"))?;
    }
    Ok(())
}

/// Locks a file against other changes. The lock is a file of its own, because each change replaces the file itself.
fn lock(path: &Path) -> io::Result<fs::File> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = path.with_file_name(format!(".{name}.lock"));
    let file = gua_files::open_own(&name, fs::OpenOptions::new().write(true).mode(0o600))?;
    file.lock()?;
    Ok(file)
}

/// Applies `change` to the text of a file. Returns the new text, or `None` if nothing changed.
///
/// # Errors
/// If the text is not TOML, or if `change` makes it an invalid configuration.
pub fn edit(
    text: &str,
    path: &Path,
    home: &Home,
    change: impl FnOnce(&mut Document) -> Result<(), EditError>,
) -> Result<Option<String>, EditError> {
    let path = path.to_owned();
    let parsed = text.parse();
    let mut document = Document {
        toml: parsed.map_err(|source| EditError::Syntax {
            path: path.clone(),
            source,
        })?,
        home: home.clone(),
    };
    change(&mut document)?;
    let changed = document.toml.to_string();
    if changed == text {
        return Ok(None);
    }
    let mut settings = Settings::defaults(home);
    let problems = file::apply(&mut settings, changed.as_bytes(), &path, home);
    match problems.into_iter().next() {
        Some(problem) => Err(EditError::Invalid(problem)),
        None => Ok(Some(changed)),
    }
}

/// A configuration file being edited.
#[derive(Debug)]
pub struct Document {
    toml: DocumentMut,
    home: Home,
}

impl Document {
    /// Sets `values` in the table that `is_it` accepts. If there is no such table, appends the table `new`.
    ///
    /// # Errors
    /// If the array is written inline as `name = [{...}]`.
    pub fn set_row<F: Fields>(
        &mut self,
        is_it: impl Fn(&F) -> bool,
        values: &[(&'static str, Value)],
        new: &[(&'static str, Value)],
    ) -> Result<(), EditError> {
        let empty = || Item::ArrayOfTables(ArrayOfTables::new());
        let item = self.toml.entry(F::TABLE).or_insert_with(empty);
        let tables = item
            .as_array_of_tables_mut()
            .ok_or(EditError::InlineArray { table: F::TABLE })?;
        let home = &self.home;
        if let Some(table) = tables.iter_mut().find(|table| is_it(&read(table, home))) {
            put_all(table, values);
            return Ok(());
        }
        let mut table = Table::new();
        put_all(&mut table, new);
        tables.push(table);
        Ok(())
    }

    /// Removes `keys` from every table that `is_it` accepts, and then the tables that `is_empty` accepts. Returns the number
    /// of removed values.
    pub fn remove<F: Fields>(
        &mut self,
        is_it: impl Fn(&F) -> bool,
        keys: &[&str],
        is_empty: impl Fn(&F) -> bool,
    ) -> usize {
        let home = &self.home;
        let Some(tables) = self
            .toml
            .get_mut(F::TABLE)
            .and_then(Item::as_array_of_tables_mut)
        else {
            return 0;
        };
        let mut removed = 0;
        for table in tables.iter_mut().filter(|table| is_it(&read(table, home))) {
            let found = keys.iter().filter(|key| table.remove(key).is_some());
            removed += found.count();
        }
        tables.retain(|table| !is_empty(&read(table, home)));
        if tables.is_empty() {
            self.toml.remove(F::TABLE);
        }
        removed
    }
}

/// Reads the values of a table and skips invalid ones.
fn read<F: Fields>(table: &Table, home: &Home) -> F {
    let text = table.to_string();
    let (parsed, _) = DeTable::parse_recoverable(&text);
    fields(parsed.get_ref(), home, &mut Mistakes::default())
}

/// Sets values and preserves the comment after an existing value.
fn put_all(table: &mut Table, values: &[(&'static str, Value)]) {
    for (key, value) in values {
        let mut value = value.clone();
        if let Some(old) = table.get(key).and_then(Item::as_value) {
            *value.decor_mut() = old.decor().clone();
        }
        table.insert(key, Item::Value(value));
    }
}
