//! Cache of the hosts of each workspace. Every page lists the hosts, and they change rarely, so the list is read again only
//! when the registry's revision has changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gua_board_store::registry::Host;
use gua_board_store::{Registry, StoreError, WorkspaceId};

/// Hosts of a workspace with the revision at which they were read.
type Entry = (u64, Arc<Vec<Host>>);

#[derive(Debug, Default)]
pub(crate) struct HostCache {
    hosts: Mutex<HashMap<WorkspaceId, Entry>>,
}

impl HostCache {
    /// Returns the enrolled hosts of a workspace by display name. Blocks.
    pub(crate) fn hosts(
        &self,
        registry: &dyn Registry,
        workspace: &WorkspaceId,
    ) -> Result<Arc<Vec<Host>>, StoreError> {
        // Read before the hosts: a change in between makes the next call read them again.
        let revision = registry.revision()?;
        let lock = || self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, hosts)) = lock().get(workspace)
            && *known == revision
        {
            return Ok(Arc::clone(hosts));
        }
        let hosts = Arc::new(registry.hosts(Some(workspace))?);
        lock().insert(workspace.clone(), (revision, Arc::clone(&hosts)));
        Ok(hosts)
    }
}
