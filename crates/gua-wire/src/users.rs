//! Forms in which user names leave the host: plain, as a keyed pseudonym, or not at all.
//!
//! A pseudonym is HMAC-SHA-256 over the name, keyed with a salt that stays at the site, truncated to 64 bits: `user-`
//! and 16 hexadecimal digits. A name always has the same pseudonym under one salt, so that a board can still add up a
//! person's hours over all hosts that share the salt. It cannot be reversed, but anyone who has the salt can test
//! guesses. With 5000 users, the probability that two different names share a pseudonym is about 10^-12.

use std::borrow::Cow;
use std::fmt;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Value sent for a name that is unknown or omitted.
pub const UNKNOWN: &str = "unknown";

/// The setting `cloud.users`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserPolicy {
    /// Names are sent unchanged, as gpu-usage-audit does.
    Plain,
    /// Names are sent as pseudonyms.
    Hash(Salt),
    /// Names are not sent.
    Omit,
}

impl UserPolicy {
    /// Returns the form of a name that may leave the host; `None` if none may.
    pub fn apply<'name>(&self, name: &'name str) -> Option<Cow<'name, str>> {
        match self {
            UserPolicy::Plain => Some(Cow::Borrowed(name)),
            UserPolicy::Hash(salt) => Some(Cow::Owned(salt.pseudonym(name))),
            UserPolicy::Omit => None,
        }
    }
}

/// Whether a name has the form of a pseudonym.
pub fn is_pseudonym(name: &str) -> bool {
    let is_digit = |letter: char| matches!(letter, '0'..='9' | 'a'..='f');
    name.strip_prefix("user-")
        .is_some_and(|digits| digits.len() == 16 && digits.chars().all(is_digit))
}

/// A site's secret key for pseudonyms. Its `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Salt(Vec<u8>);

/// The salt is short enough to be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the salt for user names has fewer than {} bytes", Salt::MIN_LENGTH)]
pub struct ShortSalt;

impl Salt {
    /// Minimum length in bytes: 128 bits.
    pub const MIN_LENGTH: usize = 16;

    /// # Errors
    /// Returns [`ShortSalt`] if there are fewer than 16 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, ShortSalt> {
        if bytes.len() < Self::MIN_LENGTH {
            return Err(ShortSalt);
        }
        Ok(Self(bytes.to_vec()))
    }

    /// Returns the pseudonym of a name.
    pub fn pseudonym(&self, name: &str) -> String {
        let mut code =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        code.update(name.as_bytes());
        let digest = code.finalize().into_bytes();
        format!("user-{}", HEXLOWER.encode(&digest[..8]))
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Salt([hidden])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_sent_hidden_or_not_at_all() {
        let salt = Salt::new(b"0123456789abcdef").unwrap();
        assert_eq!(UserPolicy::Plain.apply("alice").as_deref(), Some("alice"));
        assert_eq!(UserPolicy::Omit.apply("alice"), None);
        // python3 -c "import hmac; print(hmac.new(b'0123456789abcdef', b'alice', 'sha256').hexdigest()[:16])"
        let hidden = UserPolicy::Hash(salt);
        assert_eq!(
            hidden.apply("alice").as_deref(),
            Some("user-fdbf8b1cacd3d578")
        );
        assert_ne!(hidden.apply("bob"), hidden.apply("alice"));
        assert_eq!(format!("{hidden:?}"), "Hash(Salt([hidden]))");
        assert_eq!(Salt::new(b"short"), Err(ShortSalt));
    }
}
