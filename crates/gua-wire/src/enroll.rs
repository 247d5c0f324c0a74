//! The enrolment request: a host presents a one-time token and receives its identity and the secret for later
//! requests.

use serde::{Serialize, Serializer};

use crate::fields::FieldsError;
use crate::token::{Token, TokenError};

/// Maximum length of the host name in a claim, in characters.
pub const MAX_HOSTNAME_LENGTH: usize = 255;
/// Maximum length of the version in a claim, in characters.
pub const MAX_VERSION_LENGTH: usize = 64;

/// Request with which a host enrols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRequest {
    #[serde(serialize_with = "revealed")]
    enrollment_token: Token,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver_version: Option<String>,
}

/// Optional fields of a claim. A blank text counts as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AboutHost<'a> {
    pub hostname: &'a str,
    pub agent_version: &'a str,
    pub driver_version: &'a str,
}

/// A text that the board would reject. It is detected before the one-time token is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is longer than the {longest} characters that a board accepts")]
pub struct TooLong {
    pub field: &'static str,
    pub longest: usize,
}

impl ClaimRequest {
    /// Creates a request. Texts are trimmed.
    ///
    /// # Errors
    /// If one of them is longer than the contract allows.
    pub fn new(enrollment_token: Token, about: AboutHost<'_>) -> Result<Self, TooLong> {
        Ok(Self {
            enrollment_token,
            hostname: bounded("hostname", about.hostname, MAX_HOSTNAME_LENGTH)?,
            agent_version: bounded("agentVersion", about.agent_version, MAX_VERSION_LENGTH)?,
            driver_version: bounded("driverVersion", about.driver_version, MAX_VERSION_LENGTH)?,
        })
    }

    /// Serializes the request body, which contains the one-time token.
    pub fn body(&self) -> String {
        serde_json::to_string(self).expect("strings are always JSON")
    }
}

fn revealed<S: Serializer>(token: &Token, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(token.reveal())
}

fn bounded(field: &'static str, text: &str, longest: usize) -> Result<Option<String>, TooLong> {
    let text = text.trim();
    if text.chars().count() > longest {
        return Err(TooLong { field, longest });
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Reason why a response cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("the board's answer to the claim cannot be used")]
    Fields(#[from] FieldsError),
    #[error("the board's answer to the claim has an unusable agentToken")]
    Token(#[from] TokenError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(about: AboutHost<'_>) -> Result<ClaimRequest, TooLong> {
        ClaimRequest::new(Token::new("gua_enroll_secret").unwrap(), about)
    }

    #[test]
    fn a_claim_leaves_out_what_is_blank() {
        let body = |hostname, driver_version| {
            let about = AboutHost {
                hostname,
                agent_version: "0.1.0",
                driver_version,
            };
            claim(about).unwrap().body()
        };
        assert_eq!(
            body(" a ", "  "),
            r#"{"enrollmentToken":"gua_enroll_secret","hostname":"a","agentVersion":"0.1.0"}"#
        );
        assert_eq!(
            body("", "560"),
            r#"{"enrollmentToken":"gua_enroll_secret","agentVersion":"0.1.0","driverVersion":"560"}"#
        );
        let shown = format!("{:?}", claim(AboutHost::default()).unwrap());
        assert!(!shown.contains("secret"));
    }

    #[test]
    fn what_the_board_would_refuse_is_not_sent() {
        let long = "\u{e9}".repeat(256);
        let about = AboutHost {
            hostname: &long[2..],
            ..AboutHost::default()
        };
        assert!(claim(about).is_ok());
        let about = AboutHost {
            hostname: &long,
            ..AboutHost::default()
        };
        let refused = claim(about).unwrap_err();
        assert_eq!((refused.field, refused.longest), ("hostname", 255));
        let about = AboutHost {
            driver_version: &long[..130],
            ..AboutHost::default()
        };
        assert_eq!(claim(about).unwrap_err().field, "driverVersion");
    }
}
