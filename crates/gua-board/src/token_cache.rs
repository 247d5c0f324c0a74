//! Cache of agent tokens that were looked up. It is dropped when the registry's revision changes, which is checked
//! once a second: a revoked token works for at most that long, also when a command revoked it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gua_board_store::registry::Host;
use gua_board_store::{Registry, SecretHash, StoreError};
use jiff::Timestamp;
use tokio::time::Instant;

/// Maximum age of the revision.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct TokenCache {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    hosts: HashMap<SecretHash, Host>,
    revision: u64,
    checked: Option<Instant>,
}

impl TokenCache {
    /// Returns the host of a token. Blocks if the token is not cached.
    pub(crate) fn host(
        &self,
        registry: &dyn Registry,
        token: &SecretHash,
        time: Timestamp,
    ) -> Result<Option<Host>, StoreError> {
        // The registry may wait for a disk; the lock is not held meanwhile, because `recent` takes it on async threads.
        let now = Instant::now();
        let is_checked =
            { self.inner().checked }.is_some_and(|checked| now - checked < CHECK_PERIOD);
        if !is_checked {
            let revision = registry.revision()?;
            let mut inner = self.inner();
            if revision != inner.revision {
                inner.hosts.clear();
            }
            inner.revision = revision;
            inner.checked = Some(now);
        }
        let revision = {
            let inner = self.inner();
            if let Some(host) = inner.hosts.get(token) {
                return Ok(Some(host.clone()));
            }
            inner.revision
        };
        // Unknown tokens are not cached: a stranger could fill the memory with them.
        let found = registry.host_by_token(token, time)?;
        if let Some(host) = &found {
            let mut inner = self.inner();
            // If another thread found a change meanwhile, this host may be outdated.
            if inner.revision == revision {
                inner.hosts.insert(*token, host.clone());
            }
        }
        Ok(found)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the host if it is cached and the revision was checked recently, without blocking.
    pub(crate) fn recent(&self, token: &SecretHash) -> Option<Host> {
        let inner = self.inner();
        let checked = inner.checked?;
        let is_recent = Instant::now() - checked < CHECK_PERIOD;
        inner.hosts.get(token).filter(|_| is_recent).cloned()
    }
}
