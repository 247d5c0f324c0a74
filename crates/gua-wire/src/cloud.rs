//! `cloud.json`: what an enrolled host remembers of its board. The same file serves gpu-usage-audit, in both directions.

use serde::Serialize;

use crate::enroll::ClaimAnswer;
use crate::fields::{FieldsError, required};
use crate::server_url::{ServerUrl, UrlError};
use crate::token::{Token, TokenError};

/// An enrolment: which board, as which host, with which secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudConfig {
    pub server_url: ServerUrl,
    pub host_id: String,
    pub display_name: String,
    pub agent_token: Token,
    /// The beginning of the token, by which the board's pages tell tokens apart. Show [`CloudConfig::shown_prefix`].
    pub token_prefix: String,
}

/// Why a file is no `cloud.json`. A file that is missing is the caller's matter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    #[error("the cloud config cannot be used")]
    Fields(#[from] FieldsError),
    #[error("the cloud config's serverUrl cannot be used")]
    ServerUrl(#[from] UrlError),
    #[error("the cloud config's agentToken cannot be used")]
    Token(#[from] TokenError),
}

impl CloudConfig {
    /// Joins the board's address with its answer to a claim.
    #[must_use]
    pub fn enrolled(server_url: ServerUrl, answer: ClaimAnswer) -> Self {
        Self {
            server_url,
            host_id: answer.host_id,
            display_name: answer.display_name,
            agent_token: answer.agent_token,
            token_prefix: answer.token_prefix,
        }
    }

    /// Reads the file's bytes. An unencrypted address is read too; [`ServerUrl::check_encrypted`] judges it.
    ///
    /// # Errors
    /// When it is not a JSON object with five non-empty strings, or address or token cannot be used.
    pub fn read(bytes: &[u8]) -> Result<Self, CloudError> {
        let names = [
            "serverUrl",
            "hostId",
            "displayName",
            "agentToken",
            "tokenPrefix",
        ];
        let [server_url, host_id, display_name, agent_token, token_prefix] =
            required(bytes, names)?;
        Ok(Self {
            server_url: ServerUrl::parse(&server_url)?,
            host_id,
            display_name,
            agent_token: Token::new(&agent_token)?,
            token_prefix,
        })
    }

    /// The file's bytes: sorted keys, two blanks of indentation, ASCII only, a newline at the end. They hold the secret:
    /// the file must be its owner's alone from its first byte.
    #[must_use]
    pub fn write(&self) -> String {
        // The order of the fields is the alphabet's.
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct File<'a> {
            agent_token: &'a str,
            display_name: &'a str,
            host_id: &'a str,
            server_url: String,
            token_prefix: &'a str,
        }
        let file = File {
            agent_token: self.agent_token.reveal(),
            display_name: &self.display_name,
            host_id: &self.host_id,
            server_url: self.server_url.to_string(),
            token_prefix: &self.token_prefix,
        };
        let json = serde_json::to_string_pretty(&file).expect("five strings are always JSON");
        ascii(&json) + "\n"
    }

    /// The host's name for people, hidden where a board has put the token there.
    #[must_use]
    pub fn shown_name(&self) -> String {
        self.agent_token.hide_in(&self.display_name)
    }

    /// The token's beginning for people, hidden where a board has put the whole token there.
    #[must_use]
    pub fn shown_prefix(&self) -> String {
        self.agent_token.hide_in(&self.token_prefix)
    }
}

/// The JSON with escapes for all that is not printable ASCII. Such characters stand only in its strings.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if matches!(letter, ' '..='~' | '\n') {
            text.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> CloudConfig {
        CloudConfig {
            server_url: ServerUrl::parse("https://board.example.com/").unwrap(),
            host_id: "h1".to_owned(),
            display_name: "lab \u{e9}\u{7f} \u{1f600} \"q\"".to_owned(),
            agent_token: Token::new("gua_agent_secret").unwrap(),
            token_prefix: "gua_agent_se".to_owned(),
        }
    }

    #[test]
    fn the_file_is_sorted_indented_and_ascii() {
        let expected = r#"{
  "agentToken": "gua_agent_secret",
  "displayName": "lab \u00e9\u007f \ud83d\ude00 \"q\"",
  "hostId": "h1",
  "serverUrl": "https://board.example.com",
  "tokenPrefix": "gua_agent_se"
}
"#;
        assert_eq!(config().write(), expected);
        assert_eq!(CloudConfig::read(expected.as_bytes()), Ok(config()));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_by_kind_and_without_its_values() {
        let check = |text: &str, expected: CloudError| {
            assert_eq!(CloudConfig::read(text.as_bytes()), Err(expected), "{text}");
        };
        check("nope", FieldsError::NotJson.into());
        check("[1]", FieldsError::NotAnObject.into());
        check(
            r#"{"agentToken":"t","displayName":"","hostId":5,"serverUrl":"ftp://x","tokenPrefix":null}"#,
            FieldsError::Missing(vec!["hostId", "displayName", "tokenPrefix"]).into(),
        );
        let file = |url: &str, token: &str| {
            format!(
                r#"{{"agentToken":"{token}","displayName":"d","hostId":"h","serverUrl":"{url}","tokenPrefix":"p","other":1}}"#
            )
        };
        check(&file("ftp://x", "t"), UrlError::NotAbsolute.into());
        check(&file("http://x", "t t"), TokenError::Unprintable.into());
        let read = CloudConfig::read(file(" http://x/a/ ", " t ").as_bytes()).unwrap();
        assert_eq!(read.server_url.to_string(), "http://x/a");
        assert_eq!(read.agent_token.reveal(), "t");
    }

    #[test]
    fn an_enrolment_does_not_show_its_token() {
        let mut config = config();
        assert!(!format!("{config:#?}").contains("secret"));
        assert_eq!(config.shown_prefix(), "gua_agent_se");
        config.token_prefix = "gua_agent_secret".to_owned();
        assert_eq!(config.shown_prefix(), "[hidden]");
        config.display_name = "lab gua_agent_secret".to_owned();
        assert_eq!(config.shown_name(), "lab [hidden]");
    }
}
