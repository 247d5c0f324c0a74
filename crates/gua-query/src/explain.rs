//! `gua explain`: the state of one GPU, what was observed, and the rule behind it; now, or at a moment of the past.

mod answer;
mod imported;
mod now;
mod past;

pub use answer::{Answer, Found, GapFound, ImportedRow, QuarterFound, Seen, When};
pub use now::explain_sample;
pub use past::explain;
