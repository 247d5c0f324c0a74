//! Our numbers as text, JSON, CSV, HTML, SVG and PNG. What is drawn or written here is computed elsewhere: no file is
//! read, no clock asked, nothing looked up in the environment.

pub mod chart;
pub mod document;
pub mod listing;
mod natural;
pub mod quota;
pub mod report;
pub mod schemas;
pub mod statement;
mod svg;
pub mod table;
