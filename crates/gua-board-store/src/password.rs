//! Password hashes: argon2id with the parameters that OWASP recommends (19 MiB, two passes).

use std::fmt;

use argon2::password_hash::phc::PasswordHash as Phc;
use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};

use crate::secret::random;

/// Minimum length of a password, in characters (NIST SP 800-63B asks for at least 8).
pub const MIN_LENGTH: usize = 10;
/// Maximum length in bytes: hashing must not become work without limit.
pub const MAX_LENGTH: usize = 1024;

/// A hashed password in PHC text form, with its salt and parameters.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(String);

/// Reason a password is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    #[error("the password has fewer than {MIN_LENGTH} characters")]
    TooShort,
    #[error("the password has more than {MAX_LENGTH} bytes")]
    TooLong,
}

impl PasswordHash {
    /// Hashes a new password. Takes tens of milliseconds on purpose.
    ///
    /// # Errors
    /// If the password is too short or too long.
    pub fn of(password: &str) -> Result<Self, PasswordError> {
        if password.chars().count() < MIN_LENGTH {
            return Err(PasswordError::TooShort);
        }
        if password.len() > MAX_LENGTH {
            return Err(PasswordError::TooLong);
        }
        let hash = Argon2::default()
            .hash_password_with_salt(password.as_bytes(), &random::<16>())
            .expect("the parameters and the length of the salt are valid");
        Ok(Self(hash.to_string()))
    }

    /// Wraps a stored hash.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the text to store.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the password is the hashed one.
    pub fn matches(&self, password: &str) -> bool {
        password.len() <= MAX_LENGTH
            && Phc::new(&self.0).is_ok_and(|hash| {
                Argon2::default()
                    .verify_password(password.as_bytes(), &hash)
                    .is_ok()
            })
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PasswordHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hashed_password_matches() {
        let hash = PasswordHash::of("correct horse").unwrap();
        assert!(hash.as_str().starts_with("$argon2id$"));
        assert!(hash.matches("correct horse"));
        assert!(!hash.matches("correct horsf"));
        assert!(!PasswordHash::stored("no hash".to_owned()).matches("correct horse"));
        assert_eq!(PasswordHash::of("short"), Err(PasswordError::TooShort));
        let long = "x".repeat(MAX_LENGTH + 1);
        assert_eq!(PasswordHash::of(&long), Err(PasswordError::TooLong));
    }
}
