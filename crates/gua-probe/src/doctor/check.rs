//! A check: a stable ID, a verdict, a summary, details for programs, and advice.

use gua_model::Bytes;
use gua_model::text::gigabytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::details::Details;

gua_model::words! {
    /// A verdict. Scripts compare these words.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Status {
        Ok = "ok",
        Warning = "warning",
        Error = "error",
        /// Not judged, because an earlier check failed.
        Skipped = "skipped",
    }
}

impl Status {
    /// Returns a finding with this verdict and without advice.
    pub(super) fn finding(self, summary: impl Into<String>, details: Details) -> Finding {
        Finding {
            status: self,
            summary: summary.into(),
            details,
            advice: Vec::new(),
        }
    }
}

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// It never changes.
    pub id: &'static str,
    /// The name on the page.
    pub name: &'static str,
    /// Section of the page that contains the check.
    #[serde(skip)]
    pub section: &'static str,
    #[serde(flatten)]
    pub finding: Finding,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    pub status: Status,
    pub summary: String,
    pub details: Details,
    #[serde(skip)]
    pub advice: Vec<Advice>,
}

/// Advice: only the action, since the summary contains the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub action: String,
    /// Whether collecting is impossible until this is done; otherwise it works with restrictions.
    pub is_blocker: bool,
}

impl Finding {
    /// Returns a warning with this advice; without any advice the check is passed.
    pub(super) fn advised(
        summary: impl Into<String>,
        details: Details,
        advice: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut finding = Status::Ok.finding(summary, details).advise_all(advice);
        if !finding.advice.is_empty() {
            finding.status = Status::Warning;
        }
        finding
    }

    /// Adds recommended actions.
    pub(super) fn advise_all(self, actions: impl IntoIterator<Item = String>) -> Self {
        actions.into_iter().fold(self, Self::advise)
    }

    /// Adds an action without which nothing can be collected.
    pub(super) fn blocked_until(self, action: impl Into<String>) -> Self {
        self.with(action.into(), true)
    }

    /// Adds a recommended action.
    pub(super) fn advise(self, action: impl Into<String>) -> Self {
        self.with(action.into(), false)
    }

    fn with(mut self, action: String, is_blocker: bool) -> Self {
        self.advice.push(Advice { action, is_blocker });
        self
    }

    /// Reports whether nothing can be collected until its advice is followed.
    pub(super) fn is_blocking(&self) -> bool {
        self.advice.iter().any(|advice| advice.is_blocker)
    }
}

/// Formats `1 GPU`, `2 GPUs`.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// Formats a size in a suitable unit, with one decimal from a gigabyte on.
pub(super) fn size(bytes: Bytes) -> String {
    match bytes.whole_mb() {
        mb @ 0..1024 => format!("{mb} MB"),
        _ => format!("{} GB", gigabytes(bytes)),
    }
}

/// Truncates a text to one line of at most `limit` characters; a truncated text ends with an ellipsis.
pub(super) fn shorten(text: &str, limit: usize) -> String {
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
