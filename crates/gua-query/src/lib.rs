//! Questions about recorded GPU use, and their answers.
//!
//! A command builds a question ([`Question`], [`ExplainQuestion`], ...) and asks a [`Source`]. A source that can read the
//! records answers with the functions of this crate, which read through [`Records`]: a history file of one host implements
//! it today, the stores of a board implement it next. The answers are plain types; `gua-render` turns them into text, JSON,
//! CSV and HTML.
//!
//! Rules about states, sums and sessions are in `gua-model`. This crate decides which records to read, in which order, and
//! how to combine them. It reads no files, no clock and no environment, and it prints nothing.

mod cost;
mod error;
pub mod explain;
pub mod gpu;
pub mod idle;
pub mod protocol;
mod question;
mod quota;
pub mod records;
mod report;
pub mod runs;
pub mod since;
mod statement;
mod view;
pub mod words;

pub use cost::costs;
pub use error::{QueryError, RecordsError};
pub use protocol::{RecordsSource, Source};
pub use question::{
    AccountsQuestion, Detail, ExplainQuestion, IdleQuestion, LastUseQuestion, PersonQuestion,
    Question, RecordedRunsQuestion, RunsQuestion, SampleQuestion, SinceQuestion, StatementQuestion,
    TicksQuestion, UsageQuestion, WindowEnd,
};
pub use records::{GpuInfo, Records, WatchedRun};
pub use report::{accounts, report};
pub use statement::{MonthAnswer, statement};
pub use view::{Others, View, Viewer};
