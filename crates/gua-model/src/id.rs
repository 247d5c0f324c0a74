//! Identifiers. A GPU is identified by its UUID, a process by its PID, start time and boot (so that a reused PID is a
//! different process), and a user by the uid on a host. Text from a driver or the kernel is validated here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum length of a name from a driver or a cgroup path; real ones have at most 64 characters.
const MAX_LENGTH: usize = 96;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<Self, BadName> {
                if is_plain(text) { Ok(Self(text.to_owned())) } else { Err(BadName) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(text: String) -> Result<Self, BadName> {
                if is_plain(&text) { Ok(Self(text)) } else { Err(BadName) }
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    };
}

name!(
    /// UUID of a GPU or a MIG instance, as reported by the driver (`GPU-…`, `MIG-…`).
    GpuUuid
);
name!(
    /// ID of a container, from its cgroup path.
    ContainerId
);
name!(
    /// UID of a Kubernetes pod.
    PodUid
);
name!(
    /// ID of a Slurm job, from its cgroup path (`4711`, or `4711_3` if the site names array tasks that way).
    SlurmJob
);

/// Reports whether the text is printable ASCII without spaces, not empty and not too long: safe in a table, a column
/// and a file name.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_LENGTH && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Error for a text that is not a valid name: empty, too long, or with spaces or control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name must be 1 to {MAX_LENGTH} printable ASCII characters without blanks")]
pub struct BadName;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

number!(
    /// A process ID in the host's PID namespace.
    Pid(u32)
);
number!(
    /// Start time of a process, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    StartTicks(u64)
);
number!(
    /// A user ID on this host.
    Uid(u32)
);

impl Uid {
    pub const ROOT: Self = Self(0);
}

/// The kernel's random boot ID: identifies one boot of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootId(pub u128);

impl FromStr for BootId {
    type Err = BadName;

    /// Parses the form of `/proc/sys/kernel/random/boot_id`: 32 hexadecimal digits, with or without dashes.
    fn from_str(text: &str) -> Result<Self, BadName> {
        let digits: String = text
            .trim()
            .chars()
            .filter(|letter| *letter != '-')
            .collect();
        if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(BadName);
        }
        u128::from_str_radix(&digits, 16)
            .map(Self)
            .map_err(|_| BadName)
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        write!(
            out,
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

/// Identity of a process. A later process that reuses the PID has a different key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessKey {
    pub boot: BootId,
    pub pid: Pid,
    pub start: StartTicks,
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Running,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// No such process, a later one with the same pid, or a zombie.
    Ended,
    /// A process with that pid exists but is hidden.
    Unknown,
}

/// Address of a GPU on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PciId {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
}

impl PciId {
    /// Parses an address such as `0000:3b:00` or `00000000:3B:00.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split([':', '.']);
        let domain = u32::from_str_radix(parts.next()?, 16).ok()?;
        let mut byte = || u8::from_str_radix(parts.next()?, 16).ok();
        Some(Self {
            domain,
            bus: byte()?,
            device: byte()?,
        })
    }
}

impl fmt::Display for PciId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:08X}:{:02X}:{:02X}.0",
            self.domain, self.bus, self.device
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_reads_what_the_kernel_writes_and_prints_it_again() {
        let text = "8b1fe9c8-6d3a-4b4e-9c39-0d6d8ab1c001";
        let boot: BootId = format!("{text}\n").parse().unwrap();
        assert_eq!(boot.to_string(), text);
        for bad in [
            "",
            "8b1fe9c8",
            "+b1fe9c86d3a4b4e9c390d6d8ab1c001",
            "zb1fe9c86d3a4b4e9c390d6d8ab1c001",
        ] {
            assert_eq!(bad.parse::<BootId>(), Err(BadName), "{bad:?}");
        }
    }

    #[test]
    fn a_uuid_with_control_characters_is_refused() {
        assert!("GPU-8f6c1b0e".parse::<GpuUuid>().is_ok());
        for bad in ["", "GPU 1", "GPU-\u{1b}[31m", "GPU-\n", "GPU-ü"] {
            assert_eq!(bad.parse::<GpuUuid>(), Err(BadName), "{bad:?}");
        }
        assert_eq!("x".repeat(MAX_LENGTH + 1).parse::<GpuUuid>(), Err(BadName));
    }

    #[test]
    fn a_pci_id_prints_as_the_driver_prints_it_and_is_parsed() {
        let id = PciId {
            domain: 0,
            bus: 0x3b,
            device: 0,
        };
        assert_eq!(id.to_string(), "00000000:3B:00.0");
        for text in ["00000000:3B:00.0", "0000:3b:00"] {
            assert_eq!(PciId::parse(text), Some(id), "{text}");
        }
        for bad in ["", "0000:3b", "0000:3g:00", "0000:13b:00"] {
            assert_eq!(PciId::parse(bad), None, "{bad}");
        }
    }
}
