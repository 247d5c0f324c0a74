//! Exports a history as tables for other programs: CSV, JSON lines and Parquet, in memory that does not grow with the
//! history; with the feature `arrow` also as record batches.
//!
//! The `columns!` macro declares the columns of a table, and every format writes the same values. Rows are grouped by
//! day: a row group of Parquet has rows of one day only, and a directory has a file per day. This crate reads no clock
//! and opens no files.

#[cfg(feature = "arrow")]
pub mod arrow;
mod ask;
mod batch;
mod column;
mod csv;
mod days;
mod error;
mod json_lines;
mod names;
mod page;
mod parquet;
mod readings;
mod rows;
mod run;
mod tables;

pub use ask::Words;
pub use batch::Batch;
pub use column::{Column, Kind};
pub use days::{Day, days};
pub use error::ExportError;
pub use json_lines::json_lines;
pub use page::{Page, PageQuestion, PagedRows, Place, page};
pub use rows::{EachBatch, OpenRecords, RecordRows, Rows};
pub use run::{Ask, Edges, Exported, Format, Outlet, run, write_groups};
pub use tables::What;
pub use tables::groups::GroupDay;
