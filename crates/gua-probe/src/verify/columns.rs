//! The columns of `nvidia-smi` that have a counterpart among gua's readings, and how far the two may be apart.

use std::fmt;

use gua_model::readings::ReadingKind;

/// A column and the reading that it is compared with.
#[derive(Debug)]
pub(super) struct Column {
    /// Name for `--query-gpu`.
    pub(super) query: &'static str,
    pub(super) reading: &'static ReadingKind,
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
        reading: ReadingKind::of(field),
        scale,
        moves,
    }
}

/// Utilisation is the share of a short time that ended before the call, so two calls see different times.
pub(super) const COLUMNS: &[Column] = &[
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
];
const ECC_CORRECTED: &str = "ecc.errors.corrected.volatile.total";
const ECC_UNCORRECTED: &str = "ecc.errors.uncorrected.volatile.total";

/// The memory of a process is compared like the used memory of a GPU.
pub(super) const PROCESS_MEMORY: Column = column(
    "used_gpu_memory (of each process)",
    "memory_used",
    MIB,
    Some((2, 1)),
);

/// Words of nvidia-smi for the numbers of the driver.
const WORDS: [(&str, i64); 6] = [
    ("Disabled", 0),
    ("Enabled", 1),
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
    let digits = cell.strip_prefix('P').unwrap_or(cell);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: i64 = whole.parse().ok()?;
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    let thousandths: i64 = part.parse().ok()?;
    let part = thousandths.checked_mul(scale)? / 1000;
    whole.checked_mul(scale)?.checked_add(part)
}

/// A value in units of nvidia-smi.
pub(super) struct Value(pub(super) i64, pub(super) i64);

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value, scale) = *self;
        let tenths = (value % scale).saturating_abs() * 10 / scale;
        match tenths {
            0 => write!(out, "{}", value / scale),
            _ => write!(out, "{}.{tenths}", value / scale),
        }
    }
}
