//! An error with its causes in one line, without repetitions.

use std::error::Error;

/// Joins the messages of an error and its causes. SQLite has one message for the failure and another for its code; of
/// the second only the code is added.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        let code = message
            .strip_prefix("Error code ")
            .and_then(|rest| rest.split_once(':'))
            .filter(|_| error.source().is_none());
        match code {
            _ if text.ends_with(&message) => {}
            Some((code, _)) => text.push_str(&format!(" (code {code})")),
            None => text.push_str(&format!(": {message}")),
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
    struct Failed(&'static str, #[source] Option<Box<Failed>>);

    #[test]
    fn no_message_is_repeated() {
        let check = |messages: &[&'static str], expected: &str| {
            let error = messages.iter().rev().fold(None, |cause, message| {
                Some(Box::new(Failed(message, cause)))
            });
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
