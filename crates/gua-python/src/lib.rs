//! The native half of the Python package `gua`. Its Python half (names, defaults, docstrings) is in `python/gua`; this
//! crate contains only what needs the other crates, and no rules about GPUs.
//!
//! The driver is read in this process, by one thread that never holds the interpreter's lock.
#![expect(
    clippy::needless_pass_by_value,
    reason = "an argument from Python is converted, and so owned"
)]

mod driver;
mod failure;
mod gpus;
mod history;
mod marks;
mod monitor;
mod report;
mod run_log;
mod summary;

use pyo3::pymodule;

/// The native half of the package `gua`.
#[pymodule]
mod _gua {
    #[pymodule_export]
    use crate::gpus::{available_gpus, gpu_info, snapshot};
    #[pymodule_export]
    use crate::history::{
        Lines, arrow_stream, history_facts, history_outages, history_path, table_columns,
    };
    #[pymodule_export]
    use crate::marks::{mark_event, mark_phase, mark_values};
    #[pymodule_export]
    use crate::monitor::{Monitor, names_gpus};
    #[pymodule_export]
    use crate::report::report;
    #[pymodule_export]
    use crate::run_log::Log;
    #[pymodule_export]
    use crate::summary::{summarize, summary_entries};
    /// Version of the program and of the package, which are equal.
    #[pymodule_export]
    const VERSION: &str = gua_collector::VERSION;
}
