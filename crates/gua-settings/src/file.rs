//! Parses the bytes of a configuration file into settings and a list of every mistake in it. This module opens no
//! files.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::array::{Layer, Mistakes};
use crate::kind::{Home, Raw};
use crate::name::{instead, shown};
use crate::{ARRAYS, ArrayEntry, ENTRIES, Position, Problem, Settings, Source};

/// Applies a user's file to `settings` and returns all mistakes in it, in order of position.
pub fn apply(settings: &mut Settings, bytes: &[u8], path: &Path, home: &Home) -> Vec<Problem> {
    apply_as(Layer::User, settings, bytes, path, home)
}

/// Applies a file of either layer.
pub(crate) fn apply_as(
    layer: Layer,
    settings: &mut Settings,
    bytes: &[u8],
    path: &Path,
    home: &Home,
) -> Vec<Problem> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let position = Position::of(&String::from_utf8_lossy(valid), valid.len());
            let message = "this byte is not UTF-8 text";
            return vec![Problem::of_file(path, Some(position), message)];
        }
    };

    let (table, syntax) = DeTable::parse_recoverable(text);
    let mut found: Vec<(Position, String)> = syntax
        .iter()
        .map(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            bare_word(text, offset)
                .unwrap_or_else(|| (Position::of(text, offset), one_line(error.message())))
        })
        .collect();
    let broken: Vec<usize> = found.iter().map(|(position, _)| position.line).collect();

    let mut walk = Walk {
        settings,
        text,
        path,
        home,
        layer,
        found: Vec::new(),
    };
    walk.file(table.get_ref());
    // Drop errors on lines that already have a syntax error: they are consequences of it.
    found.extend(
        walk.found
            .into_iter()
            .filter(|(position, _)| !broken.contains(&position.line)),
    );

    found.sort();
    found.dedup();
    found
        .into_iter()
        .map(|(position, message)| Problem::of_file(path, Some(position), message))
        .collect()
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join("; ")
}

/// Explains a syntax error at `offset` if its line assigns a bare word to a known key, as in `count_graphics = yes`.
fn bare_word(text: &str, offset: usize) -> Option<(Position, String)> {
    let offset = text.floor_char_boundary(offset);
    let line_start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next()?;
    let (key, value) = line.split_once('=')?;
    let word = value.split('#').next().unwrap_or_default().trim();
    let is_bare = !word.is_empty() && !word.contains(['"', '\'', '[', ']', '{', '}', '=']);
    let key = key.trim();
    let (section, key) = key.split_once('.').map_or_else(
        || Some((section_at(&text[..line_start])?, key)),
        |(section, key)| Some((section.trim(), key.trim())),
    )?;
    let entry = ENTRIES
        .iter()
        .find(|entry| is_bare && entry.section == section && entry.key == key)?;
    let quotes = if (entry.default_toml)().starts_with('"') {
        " without quotes"
    } else {
        ""
    };
    let message = format!(
        "{section}.{key}: expected {}, found `{}`{quotes}",
        entry.what,
        shown(word)
    );
    let value_start = line.len() - value.trim_start().len();
    Some((Position::of(text, line_start + value_start), message))
}

/// Returns the section that is open at the end of `text`.
fn section_at(text: &str) -> Option<&str> {
    text.lines().rev().find_map(|line| {
        let (name, _) = line.trim().strip_prefix('[')?.split_once(']')?;
        Some(name.trim())
    })
}

struct Walk<'a> {
    settings: &'a mut Settings,
    text: &'a str,
    path: &'a Path,
    home: &'a Home,
    layer: Layer,
    found: Vec<(Position, String)>,
}

impl Walk<'_> {
    fn file(&mut self, table: &DeTable<'_>) {
        for (name, value) in table.iter() {
            let section: &str = name.get_ref();
            if let Some(array) = ARRAYS.iter().find(|array| array.table == section) {
                self.array(array, name, value);
                continue;
            }
            let known = ENTRIES.iter().any(|entry| entry.section == section);
            match value.get_ref().as_table() {
                Some(keys) if known => self.section(section, keys),
                Some(_) => self.report(name, unknown_section(section)),
                None if known => {
                    self.report(name, format!("`{section}` is a section: write [{section}]"));
                }
                None => self.report(name, stray_key(section)),
            }
        }
    }

    fn array(
        &mut self,
        array: &ArrayEntry,
        name: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let ArrayEntry { table, noun, .. } = array;
        let mut mistakes = Mistakes::default();
        let (text, path, layer) = (self.text, self.path, self.layer);
        let origin = |start| (source(text, path, start), layer);
        let appended = self
            .settings
            .append(table, value, self.home, &mut mistakes, &origin);
        if appended.is_none() {
            self.report(
                name,
                format!("`{table}` is a list of {noun}s: write [[{table}]]"),
            );
        }
        for (at, message) in mistakes.0 {
            self.found.push((Position::of(text, at), message));
        }
    }

    fn section(&mut self, section: &str, keys: &DeTable<'_>) {
        for (name, value) in keys.iter() {
            let key: &str = name.get_ref();
            let source = source(self.text, self.path, name.span().start);
            let raw = Raw::Toml(value.get_ref());
            match self.settings.set(section, key, raw, self.home, source) {
                Some(Ok(())) => {}
                Some(Err(message)) => self.report(value, format!("{section}.{key}: {message}")),
                None => self.report(name, unknown_key(section, key)),
            }
        }
    }

    fn report<T>(&mut self, spanned: &Spanned<T>, message: String) {
        self.found
            .push((Position::of(self.text, spanned.span().start), message));
    }
}

/// The place of a setting in a file.
fn source(text: &str, path: &Path, start: usize) -> Source {
    Source::File {
        path: path.to_owned(),
        line: Position::of(text, start).line,
    }
}

fn unknown_section(section: &str) -> String {
    let sections = ENTRIES.iter().map(|entry| entry.section);
    let hint = instead(section, sections, ["[", "]"]);
    format!("unknown section [{}]; {hint}", shown(section))
}

fn unknown_key(section: &str, key: &str) -> String {
    let keys = ENTRIES.iter().filter(|entry| entry.section == section);
    let hint = match ENTRIES.iter().find(|entry| entry.key == key) {
        Some(elsewhere) => format!("it belongs to [{}]", elsewhere.section),
        None => instead(key, keys.map(|entry| entry.key), ["`"; 2]),
    };
    format!("unknown key `{}` in [{section}]; {hint}", shown(key))
}

fn stray_key(key: &str) -> String {
    match ENTRIES.iter().find(|entry| entry.key == key) {
        Some(entry) => format!(
            "`{key}` belongs to [{}]: write [{}] above it",
            entry.section, entry.section
        ),
        None => format!("`{}` is not in a section", shown(key)),
    }
}
