//! PCI addresses in NVML's format. Nothing here reads the host's PCI bus.

/// Address of a GPU; the function is always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
}

impl Address {
    /// Parses `00000000:41:00.0`, and the shorter `0000:41:00.0` and `41:00.0`, which clients also pass.
    pub(crate) fn parse(text: &str) -> Option<Address> {
        let hex = |digits: &str, most: usize| {
            let fits = !digits.is_empty()
                && digits.len() <= most
                && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            fits.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
        };
        let (address, function) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
        hex(function, 1)?;
        let mut parts = address.rsplit(':');
        let device = hex(parts.next()?, 2)?;
        let bus = hex(parts.next()?, 2)?;
        let domain = parts.next().map_or(Some(0), |digits| hex(digits, 8))?;
        parts.next().is_none().then_some(Address {
            domain,
            bus,
            device,
        })
    }

    pub(crate) fn long(self) -> String {
        format!("{:08X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }

    /// Returns the 16-byte form of older records.
    pub(crate) fn short(self) -> String {
        format!(
            "{:04X}:{:02X}:{:02X}.0",
            self.domain & 0xffff,
            self.bus,
            self.device
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_in_all_lengths_and_nothing_else_is() {
        let gpu = Some(Address {
            domain: 0,
            bus: 0x41,
            device: 0,
        });
        for text in ["00000000:41:00.0", "0000:41:00.0", "41:00.0", "41:00"] {
            assert_eq!(Address::parse(text), gpu, "{text}");
        }
        for text in [
            "",
            "x",
            "41",
            "0:0:41:00.0",
            "41:+0.0",
            "000000000:41:00.0",
            "41:00.zz",
        ] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
