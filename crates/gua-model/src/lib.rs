//! Types and rules of `gua`: what a reading is, what a sample contains, which state a GPU is in and why.
//!
//! This crate has no side effects: no files, no clock, no environment, no log and no async. The caller passes the
//! readings and their times.

pub mod account;
pub mod alert;
pub mod cadence;
pub mod calendar;
pub mod chain;
pub mod claim;
pub mod classify;
pub mod coverage;
pub mod csv;
pub mod demo;
pub mod driver_pids;
pub mod duration;
pub mod energy;
pub mod failure;
pub mod failure_log;
pub mod floor;
pub mod gap;
pub mod health;
#[cfg(test)]
mod history;
pub mod id;
pub mod idle;
pub mod legacy;
mod lookup;
pub mod nvgpu;
pub mod owner;
pub mod palette;
pub mod period;
pub mod period_set;
pub mod pick;
pub mod price;
pub mod quota;
pub mod reading;
pub mod readings;
pub mod refusal;
pub mod report;
pub mod run;
pub mod run_variables;
pub mod sample;
pub mod sane;
pub mod scrub;
pub mod server_url;
pub mod session;
pub mod since;
pub mod slices;
pub mod span;
pub mod spans;
pub mod state;
pub mod statement;
pub mod subuid;
pub mod table;
pub mod text;
pub mod tick;
pub mod total;
pub mod unit;
pub mod usage_state;
pub mod vec_map;
pub mod visible;
pub mod window;
mod words;
pub mod xid;

pub use cadence::Cadence;
pub use calendar::{CalendarUnit, Slot, slots};
pub use classify::{Basis, classify, divide};
pub use coverage::{Coverage, KnownGpu, Ledger};
pub use driver_pids::DriverPids;
pub use energy::EnergySource;
pub use floor::{FloorRow, IdleFloor, UtcDay};
pub use gap::{Gap, GapReason, Outage};
pub use health::{Fault, FaultKind, faults};
pub use id::{
    BootId, ContainerId, GpuUuid, PciId, Pid, PodUid, ProcessKey, SlurmJob, StartTicks, Uid,
};
pub use legacy::{
    ImportedFold, ImportedPart, ImportedSession, LegacyGpuTick, LegacyMoment, LegacyProcess,
    LegacyRun, LegacyTool, OpenSessions, OwnCoverage,
};
pub use owner::{
    ContainerOwners, Identity, Owner, OwnerKey, OwnerPolicy, OwnerRule, OwnerSource, User, Workload,
};
pub use palette::Tone;
pub use period::{Period, Quarter};
pub use reading::{Missing, Reading};
pub use readings::{Gpu, READINGS, ReadingKind};
pub use sample::{Driver, Place, Problem, Process, ProcessKind, Sample, Slice};
pub use session::{Session, SessionKey, SessionOutline, Sessions, UtilSource, UtilSum};
pub use slices::Slices;
pub use span::{Holder, OwnerPart, Share, SharePart, Span};
pub use spans::{Floors, Spans, accounted};
pub use state::{CountGraphics, Evidence, RollUp, State, Thresholds, Verdict};
pub use tick::Tick;
pub use total::{
    DayTotals, GpuDay, GpuQuarter, GpuTotal, ImportedTicks, NamedTotal, OwnerTotal, QuarterTotal,
    QuarterUse, StateTotal, Totals, weigh_instances,
};
pub use unit::{
    Bytes, Celsius, Centipercent, FanSpeed, Megahertz, Micros, Millijoules, Milliwatts, Percent,
};
pub use vec_map::VecMap;
pub use visible::VisibleDevices;
pub use window::{Histogram, UtilWindow};
pub use words::UnknownWord;
pub use xid::Xid;
