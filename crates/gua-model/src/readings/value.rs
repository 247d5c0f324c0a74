//! The three forms of a reading's value: the number that is stored, the number that is exported, and what JSON shows.

use serde::Serialize;

use crate::id::PciId;
use crate::sample::{ComputeMode, MemoryRepairs, PerformanceState, Switch, ThrottleReasons};
use crate::unit::{Bytes, Celsius, FanSpeed, Megahertz, Millijoules, Milliwatts, Percent};

/// A value that a GPU's reading can have.
pub trait ReadingValue: Copy {
    /// Returns the value as it is stored. Part of the stored format.
    fn to_stored(self) -> u64;

    /// Returns the value of a stored number; `None` for a number that no value has.
    fn from_stored(stored: u64) -> Option<Self>;

    /// Returns the value as a number, in its unit. Larger values saturate at the largest number.
    fn number(self) -> i64 {
        i64::try_from(self.to_stored()).unwrap_or(i64::MAX)
    }

    /// Returns the value as JSON documents show it.
    fn shown(self) -> Shown {
        Shown::Count(self.to_stored())
    }
}

/// A reading's value in a JSON document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Shown {
    Count(u64),
    Signed(i64),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
}

/// Implements [`ReadingValue`] for units over an unsigned number.
macro_rules! counts {
    ($($name:ident($inner:ty),)*) => {
        $(impl ReadingValue for $name {
            fn to_stored(self) -> u64 {
                self.0.into()
            }

            fn from_stored(stored: u64) -> Option<Self> {
                <$inner>::try_from(stored).ok().map(Self)
            }
        })*
    };
}

counts! {
    Bytes(u64),
    Milliwatts(u64),
    Millijoules(u64),
    Megahertz(u32),
    FanSpeed(u16),
    PerformanceState(u8),
}

impl ReadingValue for u64 {
    fn to_stored(self) -> u64 {
        self
    }

    fn from_stored(stored: u64) -> Option<Self> {
        Some(stored)
    }
}

impl ReadingValue for Percent {
    fn to_stored(self) -> u64 {
        self.get().into()
    }

    fn from_stored(stored: u64) -> Option<Self> {
        Percent::new(u32::try_from(stored).ok()?)
    }
}

impl ReadingValue for Celsius {
    /// Zigzag encoding, so that small numbers stay small: 0, -1, 1, -2 become 0, 1, 2, 3.
    fn to_stored(self) -> u64 {
        let value = i64::from(self.0);
        (value.wrapping_shl(1) ^ (value >> 63)).cast_unsigned()
    }

    fn from_stored(stored: u64) -> Option<Self> {
        let value = (stored >> 1).cast_signed() ^ -((stored & 1).cast_signed());
        i32::try_from(value).ok().map(Self)
    }

    fn number(self) -> i64 {
        self.0.into()
    }

    fn shown(self) -> Shown {
        Shown::Signed(self.0.into())
    }
}

/// Implements [`ReadingValue`] for bit sets, which JSON shows as names.
macro_rules! bit_sets {
    ($($name:ident,)*) => {
        $(impl ReadingValue for $name {
            fn to_stored(self) -> u64 {
                self.0
            }

            fn from_stored(stored: u64) -> Option<Self> {
                Some(Self(stored))
            }

            fn shown(self) -> Shown {
                Shown::Texts(self.names())
            }
        })*
    };
}

bit_sets! {
    ThrottleReasons,
    MemoryRepairs,
}

impl ReadingValue for Switch {
    fn to_stored(self) -> u64 {
        match self {
            Switch::Off => 0,
            Switch::On => 1,
        }
    }

    fn from_stored(stored: u64) -> Option<Self> {
        match stored {
            0 => Some(Switch::Off),
            1 => Some(Switch::On),
            _ => None,
        }
    }

    fn shown(self) -> Shown {
        Shown::Text(self.as_str().to_owned())
    }
}

impl ReadingValue for ComputeMode {
    fn to_stored(self) -> u64 {
        match self {
            ComputeMode::Default => 0,
            ComputeMode::ExclusiveThread => 1,
            ComputeMode::Prohibited => 2,
            ComputeMode::ExclusiveProcess => 3,
            ComputeMode::Other(number) => 4 + u64::from(number),
        }
    }

    fn from_stored(stored: u64) -> Option<Self> {
        Some(match stored {
            0 => ComputeMode::Default,
            1 => ComputeMode::ExclusiveThread,
            2 => ComputeMode::Prohibited,
            3 => ComputeMode::ExclusiveProcess,
            other => ComputeMode::Other(u32::try_from(other - 4).ok()?),
        })
    }

    fn shown(self) -> Shown {
        Shown::Text(self.to_string())
    }
}

impl ReadingValue for PciId {
    fn to_stored(self) -> u64 {
        (u64::from(self.domain) << 16) | (u64::from(self.bus) << 8) | u64::from(self.device)
    }

    fn from_stored(stored: u64) -> Option<Self> {
        let [_, _, _, _, _, _, bus, device] = stored.to_be_bytes();
        Some(Self {
            domain: u32::try_from(stored >> 16).ok()?,
            bus,
            device,
        })
    }

    fn shown(self) -> Shown {
        Shown::Text(self.to_string())
    }
}

/// Something that was done, such as reading a list of processes.
impl ReadingValue for () {
    fn to_stored(self) -> u64 {
        0
    }

    /// Accepts any number, as the first version of the format did.
    fn from_stored(_: u64) -> Option<Self> {
        Some(())
    }

    fn shown(self) -> Shown {
        Shown::Flag(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_no_value_has_is_refused() {
        assert_eq!(Percent::from_stored(101), None);
        assert_eq!(FanSpeed::from_stored(1 << 16), None);
        assert_eq!(PerformanceState::from_stored(256), None);
        assert_eq!(Megahertz::from_stored(1 << 32), None);
        assert_eq!(Celsius::from_stored(u64::MAX), None);
        assert_eq!(Switch::from_stored(2), None);
        assert_eq!(ComputeMode::from_stored(u64::MAX), None);
        assert_eq!(PciId::from_stored(u64::MAX), None);
    }

    #[test]
    fn a_temperature_below_zero_keeps_its_sign() {
        let cold = Celsius(-3);
        assert_eq!(cold.to_stored(), 5);
        assert_eq!(Celsius::from_stored(5), Some(cold));
        assert_eq!(cold.number(), -3);
        assert_eq!(cold.shown(), Shown::Signed(-3));
    }

    #[test]
    fn modes_are_shown_by_name() {
        let shown = |mode: ComputeMode| mode.shown();
        let text = |text: &str| Shown::Text(text.to_owned());
        assert_eq!(
            shown(ComputeMode::ExclusiveProcess),
            text("exclusive-process")
        );
        assert_eq!(shown(ComputeMode::Other(9)), text("unknown 9"));
        assert_eq!(Switch::On.shown(), text("on"));
        assert_eq!(().shown(), Shown::Flag(true));
        assert_eq!(
            ThrottleReasons(4).shown(),
            Shown::Texts(vec!["sw-power-cap".to_owned()])
        );
    }
}
