//! What a check is: a stable id, a verdict, a sentence, and what to do about it.

use serde_json::Value;

/// A verdict, in the words that scripts compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Ok,
    Warning,
    Error,
    /// It could not be judged, because something before it failed.
    Skipped,
}

impl Status {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Error => "error",
            Status::Skipped => "skipped",
        }
    }
}

/// The section of the page in which a check stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    Host,
    Gpu,
    Setup,
    Database,
}

impl Group {
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Group::Host => "Host",
            Group::Gpu => "Host GPU",
            Group::Setup => "Setup",
            Group::Database => "Database",
        }
    }
}

/// Which check it is. The id never changes; the name is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    pub id: &'static str,
    pub name: &'static str,
    pub group: Group,
}

impl Kind {
    #[must_use]
    pub const fn new(group: Group, id: &'static str, name: &'static str) -> Self {
        Self { id, name, group }
    }
}

/// What one check found.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub kind: Kind,
    pub status: Status,
    pub summary: String,
    /// An object with keys that stay.
    pub details: Value,
    pub advice: Vec<Advice>,
}

/// What to do. A sentence begins with the deed and goes on with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing can be collected before this is done.
    Fix(String),
    /// Collecting works, and would work better.
    Note(String),
}

impl Check {
    #[must_use]
    pub fn new(kind: Kind, status: Status, summary: impl Into<String>, details: Value) -> Self {
        Self {
            kind,
            status,
            summary: summary.into(),
            details,
            advice: Vec::new(),
        }
    }

    #[must_use]
    pub fn fix(mut self, sentence: impl Into<String>) -> Self {
        self.advice.push(Advice::Fix(sentence.into()));
        self
    }

    #[must_use]
    pub fn note(mut self, sentence: impl Into<String>) -> Self {
        self.advice.push(Advice::Note(sentence.into()));
        self
    }
}

/// `1 card`, `2 cards`.
#[must_use]
pub fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// Makes text from a driver or a program harmless on a terminal: control characters are spelled out.
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            plain.extend(letter.escape_default());
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// At most `limit` characters on one line, with an ellipsis where something was cut.
#[must_use]
pub fn shorten(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= limit {
        return line;
    }
    let kept: String = line.chars().take(limit.saturating_sub(3)).collect();
    format!("{kept}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_to_the_limit() {
        assert_eq!(shorten("a  b\n c", 10), "a b c");
        let cut = shorten(&"ü".repeat(200), 160);
        assert_eq!(cut.chars().count(), 160);
        assert!(cut.ends_with("..."));
    }

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(harmless("a\u{1b}[31mü\n"), "a\\u{1b}[31mü\\n");
    }
}
