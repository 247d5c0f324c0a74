//! From the bytes of a configuration file to settings and a list of every mistake in it. Pure: no file is opened here.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::kind::{Home, Raw};
use crate::quota::{self, Quota};
use crate::{ENTRIES, Place, Position, Problem, Settings, Source};

/// Two names are alike from here on, on a scale where equal is 1.
const ALIKE: f64 = 0.7;

/// Lays a file's values over `settings` and returns all that is wrong with it, in order of position.
pub fn apply(settings: &mut Settings, bytes: &[u8], path: &Path, home: &Home) -> Vec<Problem> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let position = Position::of(&String::from_utf8_lossy(valid), valid.len());
            return vec![at(path, position, "this byte is not UTF-8 text")];
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
        found: Vec::new(),
    };
    walk.file(table.get_ref());
    // What follows from a line that could not be read is no news.
    found.extend(
        walk.found
            .into_iter()
            .filter(|(position, _)| !broken.contains(&position.line)),
    );

    found.sort();
    found.dedup();
    found
        .into_iter()
        .map(|(position, message)| at(path, position, message))
        .collect()
}

fn at(path: &Path, position: Position, message: impl Into<String>) -> Problem {
    Problem::new(
        Place::File {
            path: path.to_owned(),
            position: Some(position),
        },
        message,
    )
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join("; ")
}

/// What a syntax error at `offset` comes to where its line gives a known key a word that is no TOML: `count_graphics = yes`.
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

/// The section that stands open at the end of `text`.
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
    found: Vec<(Position, String)>,
}

impl Walk<'_> {
    fn file(&mut self, table: &DeTable<'_>) {
        for (name, value) in table.iter() {
            let section: &str = name.get_ref();
            if section == quota::TABLE {
                self.quotas(name, value);
                continue;
            }
            let known = ENTRIES.iter().any(|entry| entry.section == section);
            match value.get_ref().as_table() {
                Some(keys) if known => self.section(section, keys),
                Some(_) => self.tell(name, unknown_section(section)),
                None if known => {
                    self.tell(name, format!("`{section}` is a section: write [{section}]"));
                }
                None => self.tell(name, stray_key(section)),
            }
        }
    }

    /// Limits take no other file's place; see [`quota::SetBy`].
    fn quotas(&mut self, name: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue<'_>>) {
        let Some(tables) = quota::tables(value) else {
            let table = quota::TABLE;
            self.tell(
                name,
                format!("`{table}` is a list of limits: write [[{table}]]"),
            );
            return;
        };
        let mut of_file: Vec<Quota> = Vec::new();
        for (table, at) in tables {
            let found = &mut self.found;
            let text = self.text;
            let mut tell = |at, message| found.push((Position::of(text, at), message));
            for limit in quota::limits(table, at, &mut tell) {
                if of_file.iter().any(|known| known.is_same(&limit)) {
                    let message = format!("{}: this limit is set twice in this file", quota::TABLE);
                    tell(at, message);
                    continue;
                }
                let line = Position::of(text, at).line;
                let path = self.path.to_owned();
                let source = Source::File { path, line };
                let set_by = quota::SetBy::User;
                of_file.push(Quota {
                    limit,
                    source,
                    set_by,
                });
            }
        }
        self.settings.quotas.append(&mut of_file);
    }

    fn section(&mut self, section: &str, keys: &DeTable<'_>) {
        for (name, value) in keys.iter() {
            let key: &str = name.get_ref();
            let line = Position::of(self.text, name.span().start).line;
            let source = Source::File {
                path: self.path.to_owned(),
                line,
            };
            match self.set(section, key, value.get_ref(), source) {
                Some(Ok(())) => {}
                Some(Err(message)) => self.tell(value, format!("{section}.{key}: {message}")),
                None => self.tell(name, unknown_key(section, key)),
            }
        }
    }

    fn set(
        &mut self,
        section: &str,
        key: &str,
        value: &DeValue<'_>,
        source: Source,
    ) -> Option<Result<(), String>> {
        self.settings
            .set(section, key, Raw::Toml(value), self.home, source)
    }

    fn tell<T>(&mut self, spanned: &Spanned<T>, message: String) {
        self.found
            .push((Position::of(self.text, spanned.span().start), message));
    }
}

fn unknown_section(section: &str) -> String {
    let sections = ENTRIES.iter().map(|entry| entry.section);
    match nearest(section, sections) {
        Some(near) => format!(
            "unknown section [{}]; did you mean [{near}]?",
            shown(section)
        ),
        None => format!(
            "unknown section [{}]; there are {}",
            shown(section),
            listed(ENTRIES.iter().map(|entry| entry.section))
        ),
    }
}

fn unknown_key(section: &str, key: &str) -> String {
    let keys = || {
        ENTRIES
            .iter()
            .filter(|entry| entry.section == section)
            .map(|entry| entry.key)
    };
    let elsewhere = ENTRIES.iter().find(|entry| entry.key == key);
    let key_shown = shown(key);
    match (elsewhere, nearest(key, keys())) {
        (Some(entry), _) => format!(
            "unknown key `{key_shown}` in [{section}]; it belongs to [{}]",
            entry.section
        ),
        (None, Some(near)) => {
            format!("unknown key `{key_shown}` in [{section}]; did you mean `{near}`?")
        }
        (None, None) => format!(
            "unknown key `{key_shown}` in [{section}]; there are {}",
            listed(keys())
        ),
    }
}

fn stray_key(key: &str) -> String {
    match ENTRIES.iter().find(|entry| entry.key == key) {
        Some(entry) => format!(
            "`{key}` belongs to [{}]: write [{}] above it",
            entry.section, entry.section
        ),
        None => format!("`{}` stands in no section", shown(key)),
    }
}

pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // The distance is quadratic in length, and nobody mistypes a name that long.
    if name.len() > 100 {
        return None;
    }
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    names.join(", ")
}

/// A stranger's name, safe for a terminal and never a screenful.
pub(crate) fn shown(name: &str) -> String {
    const SHOWN: usize = 40;
    let shown: String = name
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if name.chars().count() > SHOWN {
        format!("{shown}...")
    } else {
        shown
    }
}
