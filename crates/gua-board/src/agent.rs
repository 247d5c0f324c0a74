//! The contract with agents: what gpu-usage-audit 1.1 to 1.8 and gua send. Paths, bodies and statuses are frozen.

mod archives;
mod claim;
mod contract;
mod names;
mod observations;
mod stream;

pub(crate) use archives::{list_archives, prune_archives, put_archive};
pub(crate) use claim::{claim, new_token};
pub(crate) use names::prove_name;
pub(crate) use observations::{live, observe};
pub(crate) use stream::stream;
