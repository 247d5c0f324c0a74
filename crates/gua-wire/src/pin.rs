//! The pinned fingerprint of a board's certificate. A host that was enrolled with a pin accepts exactly that certificate, whatever
//! its issuer and name.

use std::fmt;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";

/// SHA-256 of a certificate in DER form, as `openssl x509 -fingerprint -sha256` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin([u8; 32]);

/// The text is not a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pin is `sha256:` and 64 hexadecimal digits")]
pub struct PinError;

impl Pin {
    /// Returns the pin of a certificate in DER form.
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl FromStr for Pin {
    type Err = PinError;

    /// Accepts both cases, and the colons that openssl prints between bytes.
    fn from_str(text: &str) -> Result<Self, PinError> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(PinError)?;
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.replace(':', "").as_bytes());
        let bytes = bytes.map_err(|_| PinError)?;
        bytes.try_into().map(Self).map_err(|_| PinError)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PREFIX}{}", HEXLOWER.encode(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_written_as_it_is_read() {
        let pin = Pin::of(b"certificate");
        let text = pin.to_string();
        assert_eq!(text.len(), PREFIX.len() + 64);
        assert_eq!(text.parse(), Ok(pin));
        let (prefix, digits) = text.split_at(PREFIX.len());
        let pairs: Vec<&str> = (0..32).map(|byte| &digits[2 * byte..][..2]).collect();
        let openssl = format!(" {prefix}{} ", pairs.join(":").to_uppercase());
        assert_eq!(openssl.parse(), Ok(pin));
        for wrong in [
            "",
            digits,
            &text[..text.len() - 1],
            &text[..text.len() - 2],
            &format!("{text}00"),
            &text.replace("sha256", "sha1"),
            &text.replace(&digits[..2], "zz"),
        ] {
            assert_eq!(wrong.parse::<Pin>(), Err(PinError), "{wrong}");
        }
    }
}
