//! Which GPUs a caller wants, and how it wants to hear about them: `gua available` fills it from its flags, `gua run --claim`
//! from its own.

use std::time::Duration;

use gua_model::pick::Order;
use gua_model::{Bytes, Percent};

use crate::cli::{AvailableArgs, RuleName, TableFormat};

/// A request for free GPUs.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// The command that messages are prefixed with.
    pub(crate) speaker: &'static str,
    pub(crate) rule: RuleName,
    pub(crate) limit: Option<usize>,
    pub(crate) count: Option<u32>,
    pub(crate) max_used_percent: Percent,
    pub(crate) min_free_memory: Option<Bytes>,
    pub(crate) max_util: Option<Percent>,
    pub(crate) gpu_model: Vec<String>,
    /// Name GPUs by UUID, and offer MIG instances.
    pub(crate) uuid: bool,
    pub(crate) order: Option<Order>,
    pub(crate) account_as_free: Vec<String>,
    pub(crate) free_for: Duration,
    /// Length of the lease.
    pub(crate) claim: Option<Duration>,
    /// Process that the lease is for; the parent process if it is not named.
    pub(crate) for_pid: Option<u32>,
    /// Whether to wait, and the timeout.
    pub(crate) wait: Option<Option<Duration>>,
    /// Format of the answer on standard output; `None` prints no answer.
    pub(crate) format: Option<TableFormat>,
    pub(crate) quiet: bool,
}

impl Query {
    /// A query with the defaults of `gua available`.
    pub(crate) fn new(speaker: &'static str) -> Self {
        Self {
            speaker,
            rule: RuleName::default(),
            limit: None,
            count: None,
            max_used_percent: Percent::new(20).expect("20 is a percentage"),
            min_free_memory: None,
            max_util: None,
            gpu_model: Vec::new(),
            uuid: false,
            order: None,
            account_as_free: Vec::new(),
            free_for: Duration::from_secs(60),
            claim: None,
            for_pid: None,
            wait: None,
            format: None,
            quiet: false,
        }
    }
}

impl From<&AvailableArgs> for Query {
    fn from(args: &AvailableArgs) -> Self {
        Self {
            speaker: AvailableArgs::NAME,
            rule: args.rule,
            limit: args.limit,
            count: args.count,
            max_used_percent: args.max_used_percent,
            min_free_memory: args.min_free_memory,
            max_util: args.max_util,
            gpu_model: args.gpu_model.clone(),
            uuid: args.uuid,
            order: args.order.clone(),
            account_as_free: args.account_as_free.clone(),
            free_for: args.free_for,
            claim: args.claim,
            for_pid: args.for_pid,
            wait: args.wait,
            format: Some(args.format.wanted()),
            quiet: args.quiet,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: AvailableArgs,
    }

    #[test]
    fn the_defaults_are_those_of_the_flags() {
        let line = Line::try_parse_from(["gua"]).unwrap();
        let own = Query {
            format: Some(TableFormat::default()),
            ..Query::new(AvailableArgs::NAME)
        };
        assert_eq!(format!("{own:?}"), format!("{:?}", Query::from(&line.args)));
    }
}
