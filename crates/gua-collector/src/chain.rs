//! An error and what is behind it, in one line and without what is said twice.

use std::error::Error;

/// The messages from the error down to its first cause. SQLite has a sentence for a failure and another for its code:
/// of the second only the code is news.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        let code = said
            .strip_prefix("Error code ")
            .and_then(|rest| rest.split_once(':'))
            .filter(|_| error.source().is_none());
        match code {
            _ if text.ends_with(&said) => {}
            Some((code, _)) => text.push_str(&format!(" (code {code})")),
            None => text.push_str(&format!(": {said}")),
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Said(&'static str, #[source] Option<Box<Said>>);

    #[test]
    fn nothing_is_said_twice() {
        let check = |messages: &[&'static str], expected: &str| {
            let error = messages
                .iter()
                .rev()
                .fold(None, |cause, message| Some(Box::new(Said(message, cause))));
            assert_eq!(chain(&*error.unwrap()), expected);
        };
        check(&["cannot write", "no room"], "cannot write: no room");
        check(
            &["cannot write", "no room", "no room"],
            "cannot write: no room",
        );
        check(
            &[
                "the disk is full",
                "database or disk is full",
                "Error code 13: Insertion failed",
            ],
            "the disk is full: database or disk is full (code 13)",
        );
        check(
            &["a", "Error code 13: full", "Error code 13: full"],
            "a: Error code 13: full",
        );
    }
}
