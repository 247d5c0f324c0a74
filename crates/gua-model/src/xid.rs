//! Xid errors: the driver's numbered messages about faults of a GPU in the kernel log. NVML has no query for past ones.
//!
//! Many Xids are caused by a bug in a program and say nothing about the GPU. [`Xid::is_fault`] is the only list of those
//! that do.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::readings::{ReadingValue, Shown};

/// One Xid error of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Xid {
    #[serde(with = "jiff::fmt::serde::timestamp::second::required")]
    pub at: Timestamp,
    pub code: u16,
}

impl Xid {
    /// Number with which newer drivers report that the GPU needs another action to recover, or none any more.
    pub const RECOVERY: u16 = 154;

    /// Codes for which NVIDIA's catalogue asks for a reset of the GPU, a restart of the host, an inspection of the hardware, or
    /// the workflows for memory and NVLink errors:
    /// <https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html>, column "Immediate Action". It asks for no more
    /// than a restart of the program for 13, 31, 43, 45 and 94, and for nothing for 63 and 92; the readings show
    /// what the GPU repairs after those. 155 is left out, because links that are switched off on purpose cause it.
    const FAULTS: [u16; 17] = [
        46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 156, 158,
    ];

    /// Reports whether a code means trouble with the GPU. [`Xid::RECOVERY`] does if it names an action.
    pub fn is_fault(code: u16) -> bool {
        Self::FAULTS.contains(&code)
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Xid {} at {}", self.code, self.at)
    }
}

/// The last Xid error that means trouble, if there was one.
impl ReadingValue for Option<Xid> {
    /// The second and the code; 0 for no error.
    fn to_stored(self) -> u64 {
        self.map_or(0, |xid| {
            let second = u64::try_from(xid.at.as_second()).unwrap_or(0);
            (second << 16) | u64::from(xid.code)
        })
    }

    fn from_stored(stored: u64) -> Option<Self> {
        if stored == 0 {
            return Some(None);
        }
        let [_, _, _, _, _, _, high, low] = stored.to_be_bytes();
        Some(Some(Xid {
            at: Timestamp::from_second(i64::try_from(stored >> 16).ok()?).ok()?,
            code: u16::from_be_bytes([high, low]),
        }))
    }

    fn number(self) -> i64 {
        self.map_or(0, |xid| xid.code.into())
    }

    fn shown(self) -> Shown {
        Shown::Text(self.map_or_else(|| "none".to_owned(), |xid| xid.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_stored_with_its_second_and_no_error_as_zero() {
        let xid = Xid {
            at: "2026-11-18T09:00:12Z".parse().unwrap(),
            code: 79,
        };
        for value in [Some(xid), None] {
            assert_eq!(<Option<Xid>>::from_stored(value.to_stored()), Some(value));
        }
        assert_eq!(None::<Xid>.to_stored(), 0);
        assert_eq!(<Option<Xid>>::from_stored(u64::MAX), None);
        assert_eq!(Some(xid).number(), 79);
        let shown = Shown::Text("Xid 79 at 2026-11-18T09:00:12Z".to_owned());
        assert_eq!(Some(xid).shown(), shown);
    }

    #[test]
    fn errors_of_programs_are_no_faults_of_the_gpu() {
        for code in [13, 31, 43, 45, 63, 69, 92, 94, 155] {
            assert!(!Xid::is_fault(code), "{code}");
        }
        for code in [48, 62, 64, 74, 79, 95, 119, 120] {
            assert!(Xid::is_fault(code), "{code}");
        }
    }
}
