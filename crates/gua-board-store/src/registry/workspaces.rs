//! Workspaces and their settings, which their admins change while the board runs.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Change, Role};
use crate::error::Result;
use crate::id::{AccountId, WorkspaceId};

/// Workspaces and their settings.
pub trait Workspaces {
    /// Returns all workspaces by name.
    fn workspaces(&self) -> Result<Vec<Workspace>>;

    /// Returns the workspaces that an account is a member of, by name.
    fn memberships(&self, account: &AccountId) -> Result<Vec<Membership>>;

    /// Adds a workspace.
    fn add_workspace(&self, by: &Change, name: &str) -> Result<Workspace>;

    /// Replaces the settings of a workspace. If nothing changes, no audit entry is written.
    fn set_settings(&self, by: &Change, id: &WorkspaceId, settings: &Settings) -> Result<()>;
}

/// A group of hosts with its own members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Workspace {
    pub id: WorkspaceId,
    /// Name in URLs and commands.
    pub name: String,
    #[serde(skip)]
    #[schemars(skip)]
    pub settings: Settings,
}

/// A workspace of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Membership {
    pub workspace: Workspace,
    pub role: Role,
    pub groups: Vec<String>,
}

impl Membership {
    /// Returns the groups for [`Host::is_for`](super::Host::is_for); `None` for a role that sees all hosts.
    pub fn host_groups(&self) -> Option<&[String]> {
        (self.role < Role::Admin).then_some(&self.groups)
    }
}

/// Settings of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Heading of the pages; `None` uses the same one as every board.
    pub title: Option<String>,
    /// Least role that sees the names of people and processes on GPUs.
    pub names_from: Role,
    /// Lifetime of a session, in days. A member of several workspaces has the shortest.
    pub session_days: u32,
}

impl Settings {
    /// Possible lifetimes of a session, in days.
    pub const SESSION_DAYS: RangeInclusive<u32> = 1..=90;

    /// Lists the differences, for the audit log.
    pub fn changes_to(&self, new: &Settings) -> String {
        let title = |settings: &Settings| settings.title.clone().unwrap_or_default();
        let facts = |settings: &Settings| {
            [
                ("title", title(settings)),
                ("names from", settings.names_from.to_string()),
                ("session days", settings.session_days.to_string()),
            ]
        };
        let pairs = facts(self).into_iter().zip(facts(new));
        let changed = pairs.filter(|(before, after)| before != after);
        let changed =
            changed.map(|((name, before), (_, after))| format!("{name}: {before} -> {after}"));
        changed.collect::<Vec<_>>().join("; ")
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            title: None,
            names_from: Role::Member,
            session_days: 14,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_what_was_changed() {
        let old = Settings::default();
        let new = Settings {
            title: Some("Lab".to_owned()),
            session_days: 7,
            ..old
        };
        assert_eq!(
            old.changes_to(&new),
            "title:  -> Lab; session days: 14 -> 7"
        );
        assert_eq!(old.changes_to(&old), "");
    }
}
