//! Cache of the hosts that people see. Every page lists the hosts, and they change rarely, so the list is read again only when
//! the registry's revision has changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gua_board_store::registry::Host;
use gua_board_store::{Registry, StoreError, WorkspaceId};

/// Maximum number of lists. There is one for each combination of groups that members have.
const MAX_LISTS: usize = 256;

/// A workspace and the groups of a caller; `None` for all hosts of the workspace.
type Key = (WorkspaceId, Option<Vec<String>>);
/// Hosts with the revision at which they were read.
type Entry = (u64, Arc<Vec<Host>>);

#[derive(Debug, Default)]
pub(crate) struct HostCache {
    hosts: Mutex<HashMap<Key, Entry>>,
}

impl HostCache {
    /// Returns the enrolled hosts of a workspace that members of these groups may use, by display name. Blocks.
    pub(crate) fn hosts(
        &self,
        registry: &dyn Registry,
        workspace: WorkspaceId,
        groups: Option<Vec<String>>,
    ) -> Result<Arc<Vec<Host>>, StoreError> {
        // Read before the hosts: a change in between makes the next call read them again.
        let revision = registry.revision()?;
        let lock = || self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (workspace, groups);
        if let Some((known, hosts)) = lock().get(&key)
            && *known == revision
        {
            return Ok(Arc::clone(hosts));
        }
        let hosts = match &key.1 {
            None => Arc::new(registry.hosts(Some(&key.0))?),
            Some(groups) => {
                let all = self.hosts(registry, key.0.clone(), None)?;
                let is_seen = |host: &&Host| host.is_for(Some(groups));
                match all.iter().all(|host| is_seen(&host)) {
                    true => all,
                    false => Arc::new(all.iter().filter(is_seen).cloned().collect()),
                }
            }
        };
        let mut lists = lock();
        if lists.len() >= MAX_LISTS {
            lists.clear();
        }
        lists.insert(key, (revision, Arc::clone(&hosts)));
        Ok(hosts)
    }
}
