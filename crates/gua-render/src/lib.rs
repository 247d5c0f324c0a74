//! Output formats: text, JSON, CSV, HTML, SVG and PNG. This crate only formats numbers that other crates compute. It
//! reads no files, clock or environment variables.

pub mod alert;
pub mod chart;
pub mod document;
pub mod explain;
mod language;
pub mod listing;
mod markup;
pub mod me;
pub mod metrics;
mod natural;
pub mod paint;
pub mod quota;
pub mod report;
pub mod runs;
pub mod sample;
pub mod schemas;
pub mod statement;
pub mod table;
