//! A secret that must never be displayed. It has no `Display`, its `Debug` hides it, and no error contains it. Its text
//! is only accessible through [`Token::reveal`], which is easy to search for.

use std::borrow::Cow;
use std::fmt;

/// Prefixes of the secrets of boards.
const BEGINNINGS: [&str; 6] = [
    "gua_enroll_",
    "gua_agent_",
    "gua_api_",
    "gua_session_",
    "gua_link_",
    "gua_name_",
];

fn is_of_a_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.~+/=".contains(letter)
}

/// The one-time secret with which a host enrols, or the secret with which an enrolled host authenticates.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Parses a token. Surrounding whitespace is removed.
    ///
    /// # Errors
    /// If the token is empty, or contains a character that is not valid in an HTTP header.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TokenError::Blank);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Unprintable);
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the secret, for the request or the file that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the value of the `Authorization` header, which contains the secret.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Replaces every occurrence of this secret in a text, such as a server's response.
    pub fn hide_in(&self, text: &str) -> String {
        text.replace(&self.0, Self::HIDDEN)
    }

    /// Replaces everything that looks like a token of any board, in texts of unknown origin such as arguments.
    pub fn hide_all_in(text: &str) -> Cow<'_, str> {
        let begins = |text: &str| {
            let places = BEGINNINGS
                .iter()
                .filter_map(|word| Some((text.find(word)?, word.len())));
            places.min()
        };
        let mut rest = text;
        let mut hidden = String::new();
        while let Some((place, length)) = begins(rest) {
            hidden.push_str(&rest[..place]);
            hidden.push_str(Self::HIDDEN);
            rest = rest[place + length..].trim_start_matches(is_of_a_token);
        }
        match hidden.is_empty() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(hidden + rest),
        }
    }

    /// Replacement for a secret.
    pub const HIDDEN: &str = "[hidden]";
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Token({})", Self::HIDDEN)
    }
}

/// Reason why a text is not a valid token. It does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("a token must not be blank")]
    Blank,
    #[error("a token has only printable ASCII characters and no blanks inside")]
    Unprintable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_trimmed_and_must_fit_a_header() {
        assert_eq!(Token::new(" gua_x \n").unwrap().bearer(), "Bearer gua_x");
        assert_eq!(Token::new(" \t"), Err(TokenError::Blank));
        for bad in ["a b", "a\r\nX-Other: 1", "ä"] {
            assert_eq!(Token::new(bad), Err(TokenError::Unprintable), "{bad:?}");
        }
    }

    #[test]
    fn what_looks_like_a_token_is_hidden_in_any_position() {
        let check = |text: &str, expected: &str| assert_eq!(Token::hide_all_in(text), expected);
        check(
            "unexpected 'gua_enroll_aB-1' found",
            "unexpected '[hidden]' found",
        );
        check("gua_agent_x gua_enroll_y", "[hidden] [hidden]");
        check("http://x/?t=gua_agent_x\n", "http://x/?t=[hidden]\n");
        check("gua enroll: no token", "gua enroll: no token");
    }

    #[test]
    fn a_token_does_not_show_itself() {
        let token = Token::new("gua_agent_secret").unwrap();
        assert_eq!(format!("{token:?}"), "Token([hidden])");
        assert_eq!(format!("{token:#?}"), "Token([hidden])");
        assert_eq!(token.hide_in("no gua_agent_secret!"), "no [hidden]!");
    }
}
