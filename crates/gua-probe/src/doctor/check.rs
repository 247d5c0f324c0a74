//! A check: a stable ID, a verdict, a summary, and advice.

use gua_model::Bytes;
use gua_model::text::gigabytes;
use serde_json::Value;

/// A verdict. Scripts compare these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Ok,
    Warning,
    Error,
    /// Not judged, because an earlier check failed.
    Skipped,
}

impl Status {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Error => "error",
            Status::Skipped => "skipped",
        }
    }
}

/// Section of the page that contains a check.
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

/// Kind of a check. The ID never changes; the name is for display.
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

    pub(super) fn ok(self, summary: impl Into<String>, details: Value) -> Check {
        self.check(Status::Ok, summary, details)
    }

    pub(super) fn warning(self, summary: impl Into<String>, details: Value) -> Check {
        self.check(Status::Warning, summary, details)
    }

    pub(super) fn error(self, summary: impl Into<String>, details: Value) -> Check {
        self.check(Status::Error, summary, details)
    }

    pub(super) fn skipped(self, summary: impl Into<String>, details: Value) -> Check {
        self.check(Status::Skipped, summary, details)
    }

    /// A warning with this advice; without any advice the check is passed.
    pub(super) fn warning_if_advised(
        self,
        summary: impl Into<String>,
        details: Value,
        advice: Vec<String>,
    ) -> Check {
        let check = match advice.is_empty() {
            true => self.ok(summary, details),
            false => self.warning(summary, details),
        };
        advice.into_iter().fold(check, Check::advise)
    }

    pub(super) fn check(self, status: Status, summary: impl Into<String>, details: Value) -> Check {
        Check {
            kind: self,
            status,
            summary: summary.into(),
            details,
            advice: Vec::new(),
        }
    }
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub kind: Kind,
    pub status: Status,
    pub summary: String,
    /// JSON object with stable keys.
    pub details: Value,
    pub advice: Vec<Advice>,
}

/// Advice: only the action, since the summary contains the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub deed: String,
    pub weight: Weight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Collecting is impossible until this is fixed.
    Blocker,
    /// Collecting works, but with restrictions.
    Other,
}

impl Check {
    /// Adds an action without which nothing can be collected.
    #[must_use]
    pub fn blocked_until(self, deed: impl Into<String>) -> Self {
        self.with(deed.into(), Weight::Blocker)
    }

    /// Adds a recommended action.
    #[must_use]
    pub fn advise(self, deed: impl Into<String>) -> Self {
        self.with(deed.into(), Weight::Other)
    }

    /// Reports whether nothing can be collected until its advice is followed.
    pub(super) fn is_blocking(&self) -> bool {
        let mut advice = self.advice.iter();
        advice.any(|advice| advice.weight == Weight::Blocker)
    }

    fn with(mut self, deed: String, weight: Weight) -> Self {
        self.advice.push(Advice { deed, weight });
        self
    }
}

/// Formats `1 card`, `2 cards`.
#[must_use]
pub fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// Formats a size in a suitable unit, with one decimal from a gigabyte on.
#[must_use]
pub fn size(bytes: Bytes) -> String {
    match bytes.whole_mb() {
        mb @ 0..1024 => format!("{mb} MB"),
        _ => format!("{} GB", gigabytes(bytes)),
    }
}

/// Truncates a text to one line of at most `limit` characters; a truncated text ends with an ellipsis.
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
}
