//! A history as tables for other programs: CSV, JSON lines and Parquet, row by row, in memory that does not grow with it;
//! with the feature `arrow` as record batches too.
//!
//! One place says what a table's columns are (`columns!`), and every format writes the same values. Rows of one day stand
//! together: a row group of Parquet holds rows of one day alone, and a directory has a file for each. Nothing here asks
//! the time, names a file or talks to anyone.

#[cfg(feature = "arrow")]
pub mod arrow;
mod batch;
mod column;
mod csv;
mod days;
mod error;
mod json_lines;
mod names;
mod parquet;
mod readings;
mod run;
mod tables;
mod turns;

pub use column::{Column, Kind};
pub use days::{Day, days};
pub use error::ExportError;
pub use run::{Ask, Edges, Exported, Format, Outlet, run};
pub use tables::What;
