//! Use of this host's quotas in live reports, for the alerts of a board.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use gua_model::failure_log::FailureLog;
use gua_model::quota::Standing;
use gua_probe::clock;
use gua_settings::{FlagValue, Loaded};
use gua_wire::live::{LiveQuota, MAX_QUOTAS};
use gua_wire::users::UserPolicy;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::{info, warn};

use crate::lock;
use crate::quota::standings_of;

/// Minimum time between two reads of the use, the same as for the daemon's alerts.
const READ_PERIOD: Duration = Duration::from_secs(300);

/// Reads the use of quotas. Only the thread of a push calls it, so it never delays a tick.
#[derive(Debug)]
pub struct QuotaReporter {
    history: PathBuf,
    flags: Vec<FlagValue>,
    users: UserPolicy,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    loaded: Loaded,
    next_read: Duration,
    quotas: Vec<LiveQuota>,
    failures: FailureLog,
}

impl QuotaReporter {
    /// Creates a reporter of the use that a history has.
    pub fn new(loaded: &Loaded, flags: &[FlagValue], history: &Path, users: &UserPolicy) -> Self {
        Self {
            history: history.to_owned(),
            flags: flags.to_vec(),
            users: users.clone(),
            state: Mutex::new(State {
                loaded: loaded.clone(),
                next_read: Duration::ZERO,
                quotas: Vec::new(),
                failures: FailureLog::default(),
            }),
        }
    }

    /// Returns the latest use. It is read again after [`READ_PERIOD`], and so are the configured quotas.
    pub(super) fn quotas(&self, now: Timestamp) -> Vec<LiveQuota> {
        let mut state = lock(&self.state);
        let monotonic = clock::monotonic();
        if monotonic >= state.next_read {
            state.next_read = monotonic.saturating_add(READ_PERIOD);
            self.read(&mut state, now);
        }
        state.quotas.clone()
    }

    fn read(&self, state: &mut State, now: Timestamp) {
        let loaded = Loaded::from(&state.loaded.inputs, &self.flags);
        // If the settings have a mistake, the previous ones stay in force, as in the daemon's loop.
        if loaded.checked().is_ok() {
            state.loaded = loaded;
        }
        let read = standings_of(&state.loaded, &self.history, &TimeZone::system(), now);
        match state.failures.change(&read) {
            Some(Ok(failures)) => info!(failures, "the quota usage is read for the board again"),
            Some(Err(error)) => warn!(%error, "cannot read the quota usage for the board"),
            None => {}
        }
        state.quotas = self.report(read.unwrap_or_default());
    }

    /// Returns the quotas that may leave the host; if there are too many, those with the largest share of their limit.
    fn report(&self, mut standings: Vec<Standing>) -> Vec<LiveQuota> {
        let share = |one: &Standing| {
            let limit = u128::from(one.limit.most.max(1));
            u128::from(one.at_least) * 1_000_000 / limit
        };
        standings.sort_by_cached_key(|one| Reverse(share(one)));
        let quotas = standings.iter();
        let quotas = quotas.filter_map(|standing| LiveQuota::new(&self.users, standing));
        quotas.take(MAX_QUOTAS).collect()
    }
}
