//! Agent tokens that were looked up before. The cache is dropped when the registry's revision changes, which is checked
//! once a second: a revoked token works for at most that long, also when a command revoked it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
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
    /// Returns the host of a token. Blocks if the registry has to be asked.
    pub(crate) fn host(
        &self,
        registry: &dyn Registry,
        token: &SecretHash,
        time: Timestamp,
    ) -> Result<Option<Host>, StoreError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if inner
            .checked
            .is_none_or(|checked| now - checked >= CHECK_PERIOD)
        {
            let revision = registry.revision()?;
            if revision != inner.revision {
                inner.hosts.clear();
            }
            inner.revision = revision;
            inner.checked = Some(now);
        }
        if let Some(host) = inner.hosts.get(token) {
            return Ok(Some(host.clone()));
        }
        // Unknown tokens are not cached: a stranger could fill the memory with them.
        let found = registry.host_by_token(token, time)?;
        if let Some(host) = &found {
            inner.hosts.insert(*token, host.clone());
        }
        Ok(found)
    }

    /// Returns the host if it is cached and the revision was checked recently, without blocking.
    pub(crate) fn recent(&self, token: &SecretHash) -> Option<Host> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = inner.checked?;
        let is_recent = Instant::now() - checked < CHECK_PERIOD;
        inner.hosts.get(token).filter(|_| is_recent).cloned()
    }
}
