//! The pinned fingerprint of a board's certificate. A host that was enrolled with a pin accepts exactly that certificate, whatever
//! its issuer and name.

use std::fmt;
use std::str::FromStr;

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
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl FromStr for Pin {
    type Err = PinError;

    /// Accepts both cases, and the colons that openssl prints between bytes.
    fn from_str(text: &str) -> Result<Self, PinError> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(PinError)?;
        let digits: Vec<u8> = digits
            .chars()
            .filter(|digit| *digit != ':')
            .map(|digit| digit.to_digit(16).and_then(|digit| digit.try_into().ok()))
            .collect::<Option<_>>()
            .ok_or(PinError)?;
        let bytes: Vec<u8> = digits
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect();
        let is_whole = digits.len().is_multiple_of(2);
        let bytes = bytes.try_into().ok().filter(|_| is_whole);
        bytes.map(Self).ok_or(PinError)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
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
