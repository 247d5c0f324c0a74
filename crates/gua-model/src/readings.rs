//! The table of a GPU's readings: every value that a driver can report about a GPU as one number.
//!
//! The `readings!` table declares each reading once: its field in [`Gpu`] and its unit, its slot in stored ticks, its
//! key in JSON, its column in exports and its label in messages. The store's codec, `gua doctor --json` and `gua
//! export` iterate over [`READINGS`] and name individual readings only where one needs a special rule (the export
//! replaces the energy counter by the energy of the span, for example).
//!
//! A new reading in an existing unit changes three files of the program:
//!
//! 1. this table,
//! 2. `crates/gua-probe/src/nvml/sensors.rs`, which reads it: at every tick, or more rarely if it is a setting (Xid errors are
//!    read in `kernel_log.rs`),
//! 3. `crates/gua-probe/src/nvml/library.rs`, if it needs a function of NVML that is not called yet. Queries are declared
//!    there because calls of C functions are unsafe, and unsafe code is confined to that file and `lists.rs`.
//!
//! Slots are in `crates/gua-store/src/codec/slots.rs`, where one is free; its constant `SLOTS` can grow. Tests print the
//! row for `docs/export.md` and write the golden document of `gua doctor --sample`.
//!
//! A unit that does not exist yet is added to `unit.rs` and implements [`ReadingValue`].

mod value;

use serde::{Deserialize, Serialize};

use crate::id::{GpuUuid, PciId};
use crate::reading::{Missing, Reading};
use crate::sample::{
    ComputeMode, MemoryRepairs, PerformanceState, Place, Process, Switch, ThrottleReasons,
};
use crate::unit::{Bytes, Celsius, FanSpeed, Megahertz, Millijoules, Milliwatts, Percent};
use crate::window::UtilWindow;
use crate::xid::Xid;

pub use value::{ReadingValue, Shown};

/// One row of the table of readings.
#[derive(Clone, Copy, Debug)]
pub struct ReadingKind {
    /// Name of the field in [`Gpu`].
    pub field: &'static str,
    /// Place in the row of numbers that a stored tick has for each GPU. Part of the stored format: it never changes.
    pub slot: usize,
    /// Name in messages.
    pub label: &'static str,
    /// Key in JSON documents; it carries the unit.
    pub json: &'static str,
    /// Column of the exported table `samples`.
    pub column: Option<ReadingColumn>,
    /// Returns the reading in its stored form.
    pub stored: fn(&Gpu) -> Reading<u64>,
    /// Sets the reading from its stored form.
    pub restore: fn(&mut Gpu, Reading<u64>) -> Result<(), OutOfRange>,
    /// Returns the reading as a number, in its unit.
    pub number: fn(&Gpu) -> Reading<i64>,
    /// Returns the reading as JSON documents show it.
    pub shown: fn(&Gpu) -> Reading<Shown>,
}

/// A column of an exported table that holds a reading.
#[derive(Clone, Copy, Debug)]
pub struct ReadingColumn {
    /// Name of the column; it carries the unit.
    pub name: &'static str,
    /// Description in `docs/export.md`.
    pub about: &'static str,
}

/// Error for a stored number that is not a value of its reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl ReadingKind {
    /// Returns the row of a field. A field that does not exist fails the build where this is evaluated in a constant.
    pub const fn of(field: &str) -> &'static Self {
        let mut row = 0;
        while row < READINGS.len() {
            if READINGS[row].is_for(field) {
                return &READINGS[row];
            }
            row += 1;
        }
        panic!("no reading has this name")
    }

    /// Reports whether this is the row of a field.
    pub const fn is_for(&self, field: &str) -> bool {
        let (one, other) = (self.field.as_bytes(), field.as_bytes());
        if one.len() != other.len() {
            return false;
        }
        let mut place = 0;
        while place < one.len() {
            if one[place] != other[place] {
                return false;
            }
            place += 1;
        }
        true
    }
}

/// Declares [`Gpu`] and [`READINGS`].
macro_rules! readings {
    ($(
        $(#[$doc:meta])*
        $field:ident: $type:ty {
            slot: $slot:literal,
            label: $label:literal,
            json: $json:literal,
            $(column: $column:literal = $about:literal,)?
        }
    )*) => {
        /// One GPU at one tick. A MIG instance is a GPU with a parent.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Gpu {
            pub uuid: GpuUuid,
            /// Number that the driver gives the GPU (an instance has its parent's). For display only.
            pub index: u32,
            pub place: Place,
            pub name: Reading<String>,
            /// Utilisation since the last tick, from the driver's buffer of samples.
            pub window: Reading<UtilWindow>,
            $($(#[$doc])* pub $field: Reading<$type>,)*
            pub processes: Vec<Process>,
        }

        impl Gpu {
            /// Returns a GPU of which no reading could be taken, all for the same reason.
            pub fn without_readings(uuid: GpuUuid, index: u32, why: Missing) -> Self {
                Self {
                    uuid,
                    index,
                    place: Place::Whole,
                    name: Err(why),
                    window: Err(why),
                    $($field: Err(why),)*
                    processes: Vec::new(),
                }
            }
        }

        /// All readings. Exports have their columns in this order.
        pub const READINGS: &[ReadingKind] = &[$(ReadingKind {
            field: stringify!($field),
            slot: $slot,
            label: $label,
            json: $json,
            column: readings!(@column $($column $about)?),
            stored: |gpu| gpu.$field.map(ReadingValue::to_stored),
            restore: |gpu, stored| {
                gpu.$field = match stored {
                    Ok(stored) => Ok(<$type>::from_stored(stored).ok_or(OutOfRange)?),
                    Err(why) => Err(why),
                };
                Ok(())
            },
            number: |gpu| gpu.$field.map(ReadingValue::number),
            shown: |gpu| gpu.$field.map(ReadingValue::shown),
        },)*];
    };
    (@column) => { None };
    (@column $name:literal $about:literal) => {
        Some(ReadingColumn { name: $name, about: $about })
    };
}

// Slots 22, 23 and 25 to 30 belong to the store's codec: index, name and place of the GPU. 33 is free. Older files
// have no reading in slots after 31, and the codec reads that as unsupported. Slots after 33 need a larger `SLOTS` there.
readings! {
    pci: PciId {
        slot: 24,
        label: "PCI address",
        json: "pci_bus_id",
    }
    /// Utilisation over the driver's last sample period (a second or less). The export has its own columns for it, with
    /// the mean and the reason where it is missing.
    util: Percent {
        slot: 2,
        label: "utilisation",
        json: "util_percent",
    }
    memory_util: Percent {
        slot: 3,
        label: "memory utilisation",
        json: "memory_util_percent",
        column: "memory_util_percent" = "Utilisation of the memory's interface.",
    }
    memory_used: Bytes {
        slot: 6,
        label: "used memory",
        json: "memory_used_bytes",
        column: "memory_used_bytes" = "Memory in use.",
    }
    /// Memory that the driver keeps for itself. Where the driver does not report it separately (`Unsupported`),
    /// `memory_used` includes it.
    memory_reserved: Bytes {
        slot: 12,
        label: "reserved memory",
        json: "memory_reserved_bytes",
        column: "memory_reserved_bytes" = "Memory that the driver keeps for itself.",
    }
    memory_total: Bytes {
        slot: 13,
        label: "total memory",
        json: "memory_total_bytes",
        column: "memory_total_bytes" = "All memory.",
    }
    temperature: Celsius {
        slot: 4,
        label: "temperature",
        json: "temperature_celsius",
        column: "temperature_celsius" = "Temperature.",
    }
    power: Milliwatts {
        slot: 0,
        label: "power",
        json: "power_milliwatts",
        column: "power_milliwatts" = "Power at the tick.",
    }
    power_limit: Milliwatts {
        slot: 11,
        label: "power limit",
        json: "power_limit_milliwatts",
        column: "power_limit_milliwatts" = "The limit that is enforced.",
    }
    /// Counter since the driver was loaded. The export writes the energy of the tick's span in its place.
    energy: Millijoules {
        slot: 1,
        label: "energy",
        json: "energy_millijoules",
        column: "energy_millijoules" = "Energy over the time that the tick covers, by the driver's counter.",
    }
    sm_clock: Megahertz {
        slot: 5,
        label: "SM clock",
        json: "sm_clock_megahertz",
        column: "sm_clock_mhz" = "Clock of the multiprocessors.",
    }
    memory_clock: Megahertz {
        slot: 9,
        label: "memory clock",
        json: "memory_clock_megahertz",
        column: "memory_clock_mhz" = "Clock of the memory.",
    }
    fan: FanSpeed {
        slot: 7,
        label: "fan speed",
        json: "fan_percent",
        column: "fan_percent" = "Speed of the fan.",
    }
    performance_state: PerformanceState {
        slot: 10,
        label: "performance state",
        json: "performance_state",
        column: "performance_state" = "0 (fastest) to 15.",
    }
    throttle: ThrottleReasons {
        slot: 8,
        label: "throttle reasons",
        json: "throttle_reasons",
        column: "throttle_reasons" = "The driver's bits for why clocks are not at their highest.",
    }
    /// Whether memory errors are detected and corrected.
    ecc_mode: Switch {
        slot: 14,
        label: "ECC mode",
        json: "ecc_mode",
    }
    /// Counter since the driver was loaded; missing for the reason for which `ecc_mode` is.
    ecc_corrected: u64 {
        slot: 15,
        label: "corrected memory errors",
        json: "ecc_corrected_errors",
        column: "ecc_corrected" = "Memory errors that were corrected since the driver was loaded.",
    }
    /// Counter since the driver was loaded; missing for the reason for which `ecc_mode` is.
    ecc_uncorrected: u64 {
        slot: 16,
        label: "uncorrected memory errors",
        json: "ecc_uncorrected_errors",
        column: "ecc_uncorrected" = "Memory errors that were not.",
    }
    /// Repairs of the memory that wait for a reset, and those that failed.
    memory_repairs: MemoryRepairs {
        slot: 31,
        label: "memory repairs",
        json: "memory_repairs",
        column: "memory_repairs" = "Bits: 1 row remapping pending, 2 row remapping failed, 4 page retirement pending.",
    }
    /// Last Xid error in the kernel log that means trouble with the GPU; `Ok(None)` if the log has none.
    xid: Option<Xid> {
        slot: 32,
        label: "Xid error",
        json: "last_xid",
    }
    mig: Switch {
        slot: 19,
        label: "MIG mode",
        json: "mig_mode",
    }
    compute_mode: ComputeMode {
        slot: 20,
        label: "compute mode",
        json: "compute_mode",
    }
    persistence: Switch {
        slot: 21,
        label: "persistence mode",
        json: "persistence_mode",
    }
    /// Whether the list of compute processes could be read.
    compute_list: () {
        slot: 17,
        label: "list of compute processes",
        json: "compute_processes_listed",
    }
    /// Whether the list of graphics processes could be read.
    graphics_list: () {
        slot: 18,
        label: "list of graphics processes",
        json: "graphics_processes_listed",
    }
}

impl Gpu {
    /// Returns the used memory including what the driver keeps for itself, as `nvmlDeviceGetMemoryInfo` (version 1) and
    /// the tools that read it count.
    pub fn memory_used_with_reserved(&self) -> Reading<Bytes> {
        Ok(self.memory_used? + self.memory_held_back()?)
    }

    /// Returns the memory that the driver keeps for itself on top of the used memory. A driver that does not report it
    /// separately has counted it as used, so nothing comes on top; a reading that failed is unknown.
    pub fn memory_held_back(&self) -> Reading<Bytes> {
        match self.memory_reserved {
            Err(Missing::Unsupported) => Ok(Bytes(0)),
            reserved => reserved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_slots_keys_and_columns_are_unique() {
        fn check<T: Ord + std::fmt::Debug>(what: &str, mut all: Vec<T>) {
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "{what}: {all:?}");
        }
        check("slots", READINGS.iter().map(|row| row.slot).collect());
        check("fields", READINGS.iter().map(|row| row.field).collect());
        check("labels", READINGS.iter().map(|row| row.label).collect());
        check("JSON keys", READINGS.iter().map(|row| row.json).collect());
        let columns = READINGS.iter().filter_map(|row| row.column);
        check("columns", columns.map(|column| column.name).collect());
    }

    #[test]
    fn a_row_is_found_by_its_field() {
        assert_eq!(ReadingKind::of("power").slot, 0);
        for row in READINGS {
            assert_eq!(ReadingKind::of(row.field).slot, row.slot);
        }
    }

    #[test]
    fn every_row_reads_and_writes_its_own_field() {
        let uuid: GpuUuid = "GPU-a".parse().unwrap();
        let nothing = Gpu::without_readings(uuid, 0, Missing::Failed);
        for row in READINGS {
            let mut gpu = nothing.clone();
            assert_eq!((row.restore)(&mut gpu, Ok(0)), Ok(()), "{}", row.field);
            for other in READINGS {
                let expected = match other.field == row.field {
                    true => Ok(0),
                    false => Err(Missing::Failed),
                };
                assert_eq!((other.stored)(&gpu), expected, "{}", other.field);
            }
            assert_eq!((row.number)(&gpu), Ok(0), "{}", row.field);
            assert!((row.shown)(&gpu).is_ok());
            assert_eq!(
                (row.restore)(&mut gpu, Err(Missing::Denied)),
                Ok(()),
                "{}",
                row.field
            );
            assert_eq!((row.stored)(&gpu), Err(Missing::Denied));
        }
    }

    #[test]
    fn memory_with_what_is_held_back_is_unknown_where_either_reading_failed() {
        let check = |used, reserved, expected| {
            let uuid = "GPU-a".parse().unwrap();
            let gpu = Gpu {
                memory_used: used,
                memory_reserved: reserved,
                ..Gpu::without_readings(uuid, 0, Missing::Failed)
            };
            assert_eq!(gpu.memory_used_with_reserved(), expected);
        };
        check(Ok(Bytes(7)), Ok(Bytes(2)), Ok(Bytes(9)));
        // The driver does not report reserved memory separately: it is part of the used memory.
        check(Ok(Bytes(7)), Err(Missing::Unsupported), Ok(Bytes(7)));
        check(Ok(Bytes(7)), Err(Missing::Failed), Err(Missing::Failed));
        check(Ok(Bytes(7)), Err(Missing::Gone), Err(Missing::Gone));
        check(Err(Missing::Failed), Ok(Bytes(2)), Err(Missing::Failed));
        check(
            Err(Missing::Unsupported),
            Err(Missing::Unsupported),
            Err(Missing::Unsupported),
        );
    }
}
