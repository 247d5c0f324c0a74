//! Random secrets and the hashes that are stored of them.
//!
//! A secret has 256 random bits, so a plain SHA-256 is enough: there is nothing to guess, and a look-up by hash takes the
//! same time for every secret that does not exist.

use std::fmt;

use rusqlite::types::{ToSql, ToSqlOutput};
use sha2::{Digest as _, Sha256};

gua_model::words! {
    /// Purpose of a secret, and the prefix that identifies a leaked one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// Enrols hosts.
        Enrolment = "gua_enroll_",
        /// Authenticates the agent of one host.
        Agent = "gua_agent_",
        /// Authenticates a program that uses the API.
        Api = "gua_api_",
        /// Opens the page of a wall screen.
        Screen = "gua_screen_",
        /// Identifies a browser session.
        Session = "gua_session_",
        /// Proves a user name on a host.
        NameCode = "gua_name_",
        /// Part of a link that works once: set-up, invitation, password reset.
        Link = "gua_link_",
    }
}

/// Minimum number of characters of a secret that was not generated here, after its prefix.
pub const PRESET_LENGTH: usize = 32;

/// A secret that was just generated. It is shown to its owner once and never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    kind: Kind,
    text: String,
}

impl Secret {
    pub fn generate(kind: Kind) -> Self {
        let text = data_encoding::BASE64URL_NOPAD.encode(&random::<32>());
        let text = format!("{}{text}", kind.as_str());
        Self { kind, text }
    }

    /// Wraps a secret that exists already. It has the prefix of its kind, and at least [`PRESET_LENGTH`] characters after it.
    pub fn preset(kind: Kind, text: &str) -> Option<Self> {
        let text = text.trim().to_owned();
        let rest = text.strip_prefix(kind.as_str())?;
        let is_safe =
            rest.len() >= PRESET_LENGTH && rest.bytes().all(|byte| byte.is_ascii_graphic());
        is_safe.then_some(Self { kind, text })
    }

    /// Returns the secret, for the one answer that contains it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.text)
    }

    /// Beginning of the secret, by which people tell secrets apart. It has too few characters to guess the rest.
    pub fn prefix(&self) -> String {
        let shown = self.kind.as_str().len() + 4;
        self.text.chars().take(shown).collect()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret([hidden])")
    }
}

/// SHA-256 of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash(pub [u8; 32]);

impl SecretHash {
    /// Hashes a secret that a client presented.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }
}

impl ToSql for SecretHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretHash(..)")
    }
}

/// Returns random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("Linux provides random numbers once it has booted");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_has_its_kind_and_is_never_displayed() {
        let secret = Secret::generate(Kind::Agent);
        assert_eq!(secret.reveal().len(), "gua_agent_".len() + 43);
        assert_eq!(secret.prefix().len(), "gua_agent_".len() + 4);
        assert!(secret.reveal().starts_with(&secret.prefix()));
        assert_eq!(format!("{secret:?}"), "Secret([hidden])");
        assert_ne!(secret, Secret::generate(Kind::Agent));
        assert_eq!(secret.hash(), SecretHash::of(secret.reveal()));
        let preset = |text: &str| Secret::preset(Kind::Enrolment, text);
        let random = "x".repeat(PRESET_LENGTH);
        let text = format!("gua_enroll_{random}\n");
        assert_eq!(preset(&text).unwrap().reveal(), text.trim());
        assert_eq!(preset(&random), None);
        assert_eq!(preset(&text[1..]), None);
        assert_eq!(preset("gua_enroll_short"), None);
    }
}
