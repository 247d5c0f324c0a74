//! The words and rules of `gua`, once: what a reading is, what a sample holds, which state a card is in and why.
//!
//! This crate touches nothing. It has no files, no clock, no environment, no log and no async: whoever calls it says
//! what was seen and when.

pub mod classify;
pub mod id;
pub mod owner;
pub mod reading;
pub mod sample;
pub mod state;
pub mod text;
pub mod unit;
pub mod window;

pub use classify::{Division, Part, classify, divide};
pub use id::{
    BootId, ContainerId, GpuUuid, PciId, Pid, PodUid, ProcessKey, SlurmJob, StartTicks, Uid,
};
pub use owner::{Identity, Owner, OwnerSource, User, Workload};
pub use reading::{Missing, Reading};
pub use sample::{Driver, Gpu, Place, Problem, Process, ProcessKind, Sample};
pub use state::{CountGraphics, Evidence, RollUp, State, Thresholds, Verdict};
pub use unit::{Bytes, Celsius, FanSpeed, Megahertz, Millijoules, Milliwatts, Percent};
pub use window::{Histogram, UtilWindow};
