//! Mistakes in the configuration, with their locations.

use std::fmt;
use std::path::{Path, PathBuf};

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub place: Place,
    pub message: String,
}

/// Location of a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File {
        path: PathBuf,
        position: Option<Position>,
    },
    Environment(&'static str),
    Flag(String),
    /// No home directory could be found.
    Home,
}

/// Position in a file. Both numbers count from one; columns are in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// Returns the position of a byte in `text`.
    pub fn of(text: &str, offset: usize) -> Self {
        let offset = text.floor_char_boundary(offset);
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl Problem {
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Self {
            place,
            message: message.into(),
        }
    }

    /// Creates a problem with a file, or with a position in it.
    pub fn of_file(path: &Path, position: Option<Position>, message: impl Into<String>) -> Self {
        let path = path.to_owned();
        Self::new(Place::File { path, position }, message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File { path, position } => {
                write!(out, "{}:", path.display())?;
                if let Some(Position { line, column }) = position {
                    write!(out, "{line}:{column}:")?;
                }
                out.write_str(" ")?;
            }
            Place::Environment(name) => write!(out, "{name}: ")?,
            Place::Flag(flag) => write!(out, "{flag}: ")?,
            Place::Home => {}
        }
        out.write_str(&self.message)
    }
}
