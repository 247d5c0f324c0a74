//! Error messages from a board's response: one sentence that is safe to display. It is limited in length and contains
//! neither terminal control characters nor the secret of the request.

use gua_model::text::sanitize;
use serde_json::Value;

use crate::token::Token;

/// Maximum size of a response that is parsed.
const MAX_BODY: usize = 64 * 1024;
/// Maximum number of characters of the board's message that are displayed.
const MAX_DETAIL_LENGTH: usize = 500;

/// Returns the message for an error response. The board's text is appended if the body is a JSON object whose `detail`
/// is a string. A list, which boards send for a body that failed validation, is not displayed.
pub fn sentence(status: u16, body: &[u8], secret: &Token) -> String {
    let message = format!("GUA Board request failed with HTTP {status}");
    match detail(body, secret) {
        Some(detail) => format!("{message}: {detail}"),
        None => message,
    }
}

fn detail(body: &[u8], secret: &Token) -> Option<String> {
    if body.len() > MAX_BODY {
        return None;
    }
    let value: Value = serde_json::from_slice(body).ok()?;
    let detail = value.as_object()?.get("detail")?.as_str()?;
    // Hide the secret before truncating, so that no part of it remains at the end.
    let shown = sanitize(&secret.hide_in(detail));
    Some(match shown.char_indices().nth(MAX_DETAIL_LENGTH) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    })
    .filter(|shown| !shown.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: &str = "GUA Board request failed with HTTP 422";

    fn message(body: &[u8]) -> String {
        sentence(422, body, &Token::new("gua_agent_secret").unwrap())
    }

    #[test]
    fn only_a_detail_that_is_a_text_is_shown() {
        assert_eq!(
            message(br#"{"detail":"no such host"}"#),
            format!("{PLAIN}: no such host")
        );
        let silent: [&[u8]; 8] = [
            br#"{"detail":[{"msg":"x"}]}"#,
            br#"{"detail":null}"#,
            br#"{"detail":" "}"#,
            br#"{"error":"x"}"#,
            br#""detail""#,
            b"<html>",
            b"",
            b"{\"detail\":\"\xff\"}",
        ];
        for body in silent {
            assert_eq!(message(body), PLAIN, "{:?}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn a_detail_is_bounded_harmless_and_without_the_secret() {
        let escape = br#"{"detail":"\u001b[31m gua_agent_secret\n"}"#;
        assert_eq!(
            message(escape),
            format!("{PLAIN}: \u{fffd}[31m [hidden]\u{fffd}")
        );
        let long = format!(r#"{{"detail":"{}gua_agent_secret"}}"#, "é".repeat(495));
        let shown = message(long.as_bytes());
        assert!(shown.ends_with("é[hidd…"), "{shown}");
        let huge = format!(r#"{{"detail":"{}"}}"#, "x".repeat(MAX_BODY));
        assert_eq!(message(huge.as_bytes()), PLAIN);
        let deep = format!(r#"{{"detail":{}"#, "[".repeat(MAX_BODY - 20));
        assert_eq!(message(deep.as_bytes()), PLAIN);
    }

    proptest! {
        #[test]
        fn garbage_is_never_shown_at_length(
            status: u16,
            garbage in proptest::collection::vec(any::<u8>(), 0..200),
            text in ".{0,700}",
        ) {
            let secret = Token::new("gua_agent_secret").unwrap();
            prop_assert!(sentence(status, &garbage, &secret).chars().count() <= 600);
            let body = serde_json::json!({ "detail": text }).to_string();
            let shown = sentence(status, body.as_bytes(), &secret);
            prop_assert!(shown.chars().count() <= 600);
            prop_assert!(!shown.chars().any(gua_model::text::is_harmful));
        }
    }
}
