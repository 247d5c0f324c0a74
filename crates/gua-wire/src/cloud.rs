//! `cloud.json`: the enrolment of a host with its board. gpu-usage-audit and gua read and write the same file.

use serde::Serialize;

use crate::enroll::AnswerError;
use crate::fields::{FieldsError, optional, required};
use crate::pin::{Pin, PinError};
use crate::python::escaped;
use crate::server_url::{ServerUrl, UrlError};
use crate::token::{Token, TokenError};

/// An enrolment: the board, the host's identity and its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudConfig {
    pub server_url: ServerUrl,
    pub host_id: String,
    pub display_name: String,
    pub agent_token: Token,
    /// Prefix of the token, which the board's pages use to distinguish tokens. Display [`CloudConfig::shown_prefix`].
    pub token_prefix: String,
    /// The only certificate to accept from the board. gpu-usage-audit ignores this field.
    pub pin: Option<Pin>,
}

/// Reason why a file is not a valid `cloud.json`. The caller handles a missing file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    #[error("the cloud config cannot be used")]
    Fields(#[from] FieldsError),
    #[error("the cloud config's serverUrl cannot be used")]
    ServerUrl(#[from] UrlError),
    #[error("the cloud config's agentToken cannot be used")]
    Token(#[from] TokenError),
    #[error("the cloud config's pin cannot be used")]
    Pin(#[from] PinError),
}

impl CloudConfig {
    /// Combines the board's URL and certificate with the body of its response to a granted claim.
    ///
    /// # Errors
    /// If one of the four fields is missing, empty or not a string.
    pub fn enrolled(
        server_url: ServerUrl,
        answer: &[u8],
        pin: Option<Pin>,
    ) -> Result<Self, AnswerError> {
        let names = ["hostId", "displayName", "agentToken", "tokenPrefix"];
        let [host_id, display_name, agent_token, token_prefix] = required(answer, names)?;
        Ok(Self {
            server_url,
            host_id,
            display_name,
            agent_token: Token::new(&agent_token)?,
            token_prefix,
            pin,
        })
    }

    /// Returns the enrolment with the new token of the board's response to an agent that replaces its token.
    ///
    /// # Errors
    /// If one of the two fields is missing, empty or not a string.
    pub fn with_new_token(&self, answer: &[u8]) -> Result<Self, AnswerError> {
        let [agent_token, token_prefix] = required(answer, ["agentToken", "tokenPrefix"])?;
        Ok(Self {
            agent_token: Token::new(&agent_token)?,
            token_prefix,
            ..self.clone()
        })
    }

    /// Parses the file. An unencrypted URL is accepted here; [`ServerUrl::check_encrypted`] decides whether it may be
    /// used.
    ///
    /// # Errors
    /// If it is not a JSON object with five non-empty strings, or if the URL, the token or the pin is invalid.
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
        let pin = match optional(bytes, "pin") {
            Some(pin) => Some(pin.as_str().ok_or(PinError)?.parse()?),
            None => None,
        };
        Ok(Self {
            server_url: ServerUrl::parse(&server_url)?,
            host_id,
            display_name,
            agent_token: Token::new(&agent_token)?,
            token_prefix,
            pin,
        })
    }

    /// Serializes the file: sorted keys, two spaces of indentation, ASCII only, a final newline. The result contains
    /// the secret: the file must be readable only by its owner from its first byte.
    pub fn write(&self) -> String {
        // The fields are in alphabetical order.
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct File<'a> {
            agent_token: &'a str,
            display_name: &'a str,
            host_id: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            pin: Option<String>,
            server_url: String,
            token_prefix: &'a str,
        }
        let file = File {
            agent_token: self.agent_token.reveal(),
            display_name: &self.display_name,
            host_id: &self.host_id,
            pin: self.pin.map(|pin| pin.to_string()),
            server_url: self.server_url.to_string(),
            token_prefix: &self.token_prefix,
        };
        let json = serde_json::to_string_pretty(&file).expect("strings are always JSON");
        escaped(&json) + "\n"
    }

    /// The host's name for display. It is hidden if the board put the token there.
    pub fn shown_name(&self) -> String {
        self.agent_token.hide_in(&self.display_name)
    }

    /// The token's prefix for display. It is hidden if the board put the whole token there.
    pub fn shown_prefix(&self) -> String {
        self.agent_token.hide_in(&self.token_prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_needs_all_four_fields() {
        let enrolled = |answer: &[u8]| {
            let board = ServerUrl::parse("https://board.example.com").unwrap();
            CloudConfig::enrolled(board, answer, None)
        };
        let good = br#"{"hostId":"h","displayName":"d","agentToken":"gua_agent_x","tokenPrefix":"gua","more":[]}"#;
        let config = enrolled(good).unwrap();
        assert_eq!(config.host_id, "h");
        let bad = enrolled(br#"{"hostId":"h","displayName":"","agentToken":1}"#);
        let missing = FieldsError::Missing(vec!["displayName", "agentToken", "tokenPrefix"]);
        assert_eq!(bad, Err(missing.into()));
        assert_eq!(enrolled(b"\xff"), Err(FieldsError::NotJson.into()));
        let new = br#"{"agentToken":"gua_agent_y","tokenPrefix":"gua_y"}"#;
        let renewed = config.with_new_token(new).unwrap();
        assert_eq!(
            (renewed.host_id.as_str(), renewed.token_prefix.as_str()),
            ("h", "gua_y")
        );
        assert!(config.with_new_token(b"{}").is_err());
    }

    fn config() -> CloudConfig {
        CloudConfig {
            server_url: ServerUrl::parse("https://board.example.com/").unwrap(),
            host_id: "h1".to_owned(),
            display_name: "lab \u{e9}\u{7f} \u{1f600} \"q\"".to_owned(),
            agent_token: Token::new("gua_agent_secret").unwrap(),
            token_prefix: "gua_agent_se".to_owned(),
            pin: None,
        }
    }

    #[test]
    fn the_file_is_sorted_indented_and_ascii() {
        let expected = [
            r#"{"#,
            r#"  "agentToken": "gua_agent_secret","#,
            r#"  "displayName": "lab \u00e9\u007f \ud83d\ude00 \"q\"","#,
            r#"  "hostId": "h1","#,
            r#"  "serverUrl": "https://board.example.com","#,
            r#"  "tokenPrefix": "gua_agent_se""#,
            "}\n",
        ]
        .join("\n");
        assert_eq!(config().write(), expected);
        assert_eq!(CloudConfig::read(expected.as_bytes()), Ok(config()));
    }

    #[test]
    fn an_invalid_file_is_reported_by_kind_and_without_its_values() {
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
    fn a_pin_is_kept_and_an_invalid_one_is_not_ignored() {
        let config = CloudConfig {
            pin: Some(Pin::of(b"certificate")),
            ..config()
        };
        let written = config.write();
        assert!(written.contains("  \"pin\": \"sha256:"), "{written}");
        assert_eq!(CloudConfig::read(written.as_bytes()), Ok(config));
        for wrong in [
            "\"pin\": 1,\n  \"x\": \"",
            "\"pin\": \"\",\n  \"x\": \"",
            "\"pin\": \"sha256:zz",
        ] {
            let text = written.replace("\"pin\": \"sha256:", wrong);
            let read = CloudConfig::read(text.as_bytes());
            assert_eq!(read, Err(CloudError::Pin(PinError)), "{text}");
        }
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
