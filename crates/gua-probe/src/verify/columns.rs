//! The columns of `nvidia-smi` that have a counterpart among gua's readings, and how far the two may be apart.

use gua_model::id::PciId;
use gua_model::readings::{READINGS, ReadingKind, ReadingValue};
use gua_model::sample::MemoryRepairs;
use gua_model::{Gpu, Reading};

/// A query of nvidia-smi about GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Query {
    Gpu,
    RemappedRows,
}

impl Query {
    /// Returns the option, with the property that is the UUID of the GPU.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Gpu => "--query-gpu=uuid",
            Self::RemappedRows => "--query-remapped-rows=gpu_uuid",
        }
    }
}

/// A column and the reading that it is compared with.
#[derive(Debug)]
pub(super) struct Column {
    /// Name of the property in its query.
    pub(super) query: &'static str,
    pub(super) asked_by: Query,
    pub(super) reading: &'static ReadingKind,
    /// Bit of the reading that the column shows. `None` if it shows the whole reading.
    pub(super) bit: Option<u64>,
    /// Number of gua's units in one unit of nvidia-smi.
    pub(super) scale: i64,
    /// Tolerance of a reading that changes by itself: in units of nvidia-smi, and in percent of the value.
    pub(super) moves: Option<(i64, i64)>,
}

impl Column {
    /// Returns the tolerance for a value, in gua's units.
    pub(super) fn slack(&self, value: i64) -> i64 {
        let (absolute, percent) = self.moves.unwrap_or_default();
        let relative = value.saturating_abs() / 100 * percent;
        absolute
            .saturating_mul(self.scale)
            .saturating_add(relative)
            .max(rounding(self.scale))
    }

    /// Returns what the column shows of a GPU, in gua's units.
    pub(super) fn number(&self, gpu: &Gpu) -> Reading<i64> {
        match self.bit {
            None => (self.reading.number)(gpu),
            Some(bit) => (self.reading.stored)(gpu).map(|bits| i64::from(bits & bit != 0)),
        }
    }

    /// Returns a value as nvidia-smi shows it.
    pub(super) fn shown(&self, value: i64) -> String {
        let stored = u64::try_from(value).ok();
        let stored = stored.filter(|_| self.reading.is_for("pci"));
        if let Some(address) = stored.and_then(PciId::from_stored) {
            return address.to_string();
        }
        let (whole, rest) = (value / self.scale, value % self.scale);
        match rest.saturating_abs() * 10 / self.scale {
            0 => whole.to_string(),
            tenths => format!("{whole}.{tenths}"),
        }
    }

    /// Returns the tolerance in words.
    pub(super) fn tolerance(&self) -> String {
        match self.moves.unwrap_or_default() {
            (0, 0) if self.scale > 1 => "rounding".to_owned(),
            (0, 0) => "none".to_owned(),
            (absolute, 0) => format!("{absolute}"),
            (absolute, percent) => format!("{absolute} + {percent} %"),
        }
    }
}

/// nvidia-smi prints two decimals of a watt, and whole numbers of everything else.
const fn rounding(scale: i64) -> i64 {
    match scale {
        WATTS => 10,
        1 => 0,
        _ => scale,
    }
}

const WATTS: i64 = 1000;
const MIB: i64 = 1 << 20;

const fn column(query: &'static str, field: &str, scale: i64, moves: Option<(i64, i64)>) -> Column {
    Column {
        query,
        asked_by: Query::Gpu,
        reading: ReadingKind::of(field),
        bit: None,
        scale,
        moves,
    }
}

const fn repair(query: &'static str, asked_by: Query, bit: u64) -> Column {
    Column {
        asked_by,
        bit: Some(bit),
        ..column(query, "memory_repairs", 1, None)
    }
}

/// Columns in the order in which they are asked for: those of `--query-gpu`, then those of `--query-remapped-rows`.
///
/// Utilisation is the share of a short time that ended before the call, so two calls see different times.
pub(super) const COLUMNS: &[Column] = &[
    column("pci.bus_id", "pci", 1, None),
    column("utilization.gpu", "util", 1, Some((15, 0))),
    column("utilization.memory", "memory_util", 1, Some((15, 0))),
    column("memory.total", "memory_total", MIB, None),
    column("memory.used", "memory_used", MIB, Some((2, 1))),
    column("memory.reserved", "memory_reserved", MIB, None),
    column("temperature.gpu", "temperature", 1, Some((2, 0))),
    column("power.draw", "power", WATTS, Some((5, 5))),
    column("enforced.power.limit", "power_limit", WATTS, None),
    column("clocks.sm", "sm_clock", 1, Some((30, 5))),
    column("clocks.mem", "memory_clock", 1, Some((30, 5))),
    column("fan.speed", "fan", 1, Some((3, 0))),
    column("pstate", "performance_state", 1, Some((0, 0))),
    column(
        "clocks_throttle_reasons.active",
        "throttle",
        1,
        Some((0, 0)),
    ),
    column("ecc.mode.current", "ecc_mode", 1, None),
    column(ECC_CORRECTED, "ecc_corrected", 1, None),
    column(ECC_UNCORRECTED, "ecc_uncorrected", 1, None),
    column("mig.mode.current", "mig", 1, None),
    column("compute_mode", "compute_mode", 1, None),
    column("persistence_mode", "persistence", 1, None),
    repair(
        "retired_pages.pending",
        Query::Gpu,
        MemoryRepairs::RETIREMENT_PENDING,
    ),
    repair(
        "remapped_rows.pending",
        Query::RemappedRows,
        MemoryRepairs::REMAP_PENDING,
    ),
    repair(
        "remapped_rows.failure",
        Query::RemappedRows,
        MemoryRepairs::REMAP_FAILED,
    ),
];
const ECC_CORRECTED: &str = "ecc.errors.corrected.volatile.total";
const ECC_UNCORRECTED: &str = "ecc.errors.uncorrected.volatile.total";

/// Returns the labels of the readings without a column.
pub(super) fn not_compared() -> Vec<&'static str> {
    let is_compared = |reading: &&ReadingKind| {
        // The list of compute processes is compared process by process.
        reading.is_for("compute_list")
            || COLUMNS
                .iter()
                .any(|column| column.reading.is_for(reading.field))
    };
    let others = READINGS.iter().filter(|reading| !is_compared(reading));
    others.map(|reading| reading.label).collect()
}

/// The memory of a process is compared like the used memory of a GPU.
pub(super) const PROCESS_MEMORY: Column = column(
    "used_gpu_memory (of each process)",
    "memory_used",
    MIB,
    Some((2, 1)),
);

/// Words of nvidia-smi for the numbers of the driver.
const WORDS: [(&str, i64); 8] = [
    ("Disabled", 0),
    ("Enabled", 1),
    ("No", 0),
    ("Yes", 1),
    ("Default", 0),
    ("Exclusive_Thread", 1),
    ("Prohibited", 2),
    ("Exclusive_Process", 3),
];

/// Parses a cell of nvidia-smi in gua's units; `None` for `[N/A]`, `[Not Supported]` and errors.
pub(super) fn parse(cell: &str, scale: i64) -> Option<i64> {
    let word = WORDS.iter().find(|(word, _)| *word == cell);
    if let Some((_, number)) = word {
        return Some(*number);
    }
    if let Some(hexadecimal) = cell.strip_prefix("0x") {
        return i64::from_str_radix(hexadecimal, 16).ok();
    }
    if cell.contains(':') {
        return PciId::parse(cell).map(ReadingValue::number);
    }
    let digits = cell.strip_prefix('P').unwrap_or(cell);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: i64 = whole.parse().ok()?;
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    let thousandths: i64 = part.parse().ok()?;
    let part = thousandths.checked_mul(scale)? / 1000;
    whole.checked_mul(scale)?.checked_add(part)
}
