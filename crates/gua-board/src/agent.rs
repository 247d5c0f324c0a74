//! The contract with agents: what gpu-usage-audit 1.1 to 1.8 and gua send. Paths, bodies and statuses are frozen.

pub(crate) mod archives;
pub(crate) mod claim;
mod contract;
pub(crate) mod names;
pub(crate) mod observations;
pub(crate) mod stream;
