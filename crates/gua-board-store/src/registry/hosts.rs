//! Hosts and the keys with which they enrol.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::Change;
use crate::error::Result;
use crate::id::{EnrolmentKeyId, HostId, WorkspaceId};
use crate::secret::SecretHash;

/// Hosts and enrolment keys.
pub trait Hosts {
    /// Adds an enrolment key.
    fn add_enrolment_key(&self, by: &Change, new: &NewEnrolmentKey) -> Result<EnrolmentKey>;

    /// Returns the usable keys of a workspace.
    fn enrolment_keys(&self, workspace: &WorkspaceId) -> Result<Vec<EnrolmentKey>>;

    /// Revokes an enrolment key.
    fn revoke_enrolment_key(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        key: &EnrolmentKeyId,
    ) -> Result<()>;

    /// Enrols a host: uses up one use of the key and adds the host in one transaction. `NotFound` if no key has this hash, and
    /// `Refused` if the key does not enrol this host, which is recorded for the admins of the key's workspace. Two claims with
    /// a one-time key cannot both succeed.
    fn claim(&self, claim: &HostClaim) -> Result<Host>;

    /// Returns the enrolled hosts of a workspace, or of all, by display name.
    fn hosts(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<Host>>;

    /// Returns the host whose agent has this token. The first use of a token of [`Hosts::rotate_token`] invalidates the
    /// previous one.
    fn host_by_token(&self, token: &SecretHash, now: Timestamp) -> Result<Option<Host>>;

    /// Adds the next token of a host. The present one stays valid until the agent uses the next one, so that an agent that
    /// cannot save it is not locked out.
    fn rotate_token(&self, host: &HostId, next: &SecretHash, prefix: &str) -> Result<()>;

    /// Changes an enrolled host.
    fn edit_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        edit: &HostEdit<'_>,
    ) -> Result<()>;
}

/// A key that enrols hosts, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrolmentKey {
    pub id: EnrolmentKeyId,
    pub workspace: WorkspaceId,
    /// Display name of the host that enrols; `None` uses the host's own name.
    pub name: Option<String>,
    pub prefix: String,
    #[serde(flatten)]
    pub limits: KeyLimits,
    pub uses_left: u32,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
}

/// Limits and options of an enrolment key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyLimits {
    /// Pattern of host names that may enrol, with `*` for any text; `None` for all.
    pub host_names: Option<String>,
    /// Tags that the hosts receive. A tag `group:NAME` is a group of members who may use them.
    pub tags: Vec<String>,
    /// Whether an admin has to approve each host before it may report.
    pub needs_approval: bool,
}

/// Reason an existing key does not enrol a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the enrolment token has been used already")]
    Used,
    #[error("the enrolment token has expired")]
    Expired,
    #[error("the enrolment token is for hosts named {0}")]
    HostName(String),
}

/// Returns whether a name matches a pattern, in which `*` matches any text. Host names have no case.
pub fn is_name_match(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// An enrolment key to add.
#[derive(Clone, Debug)]
pub struct NewEnrolmentKey {
    pub hash: SecretHash,
    pub prefix: String,
    pub workspace: WorkspaceId,
    pub name: Option<String>,
    pub limits: KeyLimits,
    pub uses: u32,
    pub expires: Option<Timestamp>,
}

/// A host that enrols.
#[derive(Clone, Debug)]
pub struct HostClaim {
    pub key: SecretHash,
    pub token: SecretHash,
    pub token_prefix: String,
    pub hostname: Option<String>,
    pub agent_version: Option<String>,
    pub driver_version: Option<String>,
    pub address: Option<String>,
    pub at: Timestamp,
}

/// An enrolled host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    pub id: HostId,
    pub workspace: WorkspaceId,
    pub display_name: String,
    /// Facts that the host stated when it enrolled.
    pub hostname: Option<String>,
    pub agent_version: Option<String>,
    pub driver_version: Option<String>,
    pub tags: Vec<String>,
    /// Groups of members who may use the host, in lower case; empty if everyone may.
    pub groups: Vec<String>,
    /// Whether the host may report, or still needs approval.
    pub is_approved: bool,
    pub token_prefix: String,
    /// Time at which the current agent token became valid. If the host needs approval, the token is valid
    /// from the approval on.
    pub token_since: Timestamp,
    pub enrolled: Timestamp,
    pub maintenance: Option<Maintenance>,
}

impl Host {
    /// Whether a person may use the host: a member of these groups, or anyone who sees all hosts (`None`).
    pub fn is_for(&self, groups: Option<&[String]>) -> bool {
        let is_member = |groups: &[String]| groups.iter().any(|group| self.groups.contains(group));
        self.groups.is_empty() || groups.is_none_or(is_member)
    }

    /// Returns the maintenance that is in force.
    pub fn maintenance(&self, now: Timestamp) -> Option<&Maintenance> {
        let maintenance = self.maintenance.as_ref();
        maintenance.filter(|one| one.until.is_none_or(|until| until > now))
    }
}

/// Change of an enrolled host.
#[derive(Clone, Copy, Debug)]
pub enum HostEdit<'a> {
    /// Approves a host that enrolled with a key that needs approval. Its token is valid from then on.
    Approve,
    /// Changes the display name.
    Rename(&'a str),
    /// Replaces the groups of members who may use the host.
    SetGroups(&'a [String]),
    /// Begins maintenance, during which people must not use the host, or ends it (`None`).
    SetMaintenance(Option<&'a Maintenance>),
    /// Continues the host with the agent of another one, which is the same machine enrolled again. The host keeps its name
    /// and records, and the other one is removed.
    ContinueAs(&'a HostId),
    /// Revokes the token and removes the host from listings. Its reports stay in the ledger.
    Revoke,
}

/// Maintenance of a host: the note for people who want to use it, and its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Maintenance {
    pub note: String,
    /// `None` if it lasts until an admin ends it.
    pub until: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_host_names_is_matched_as_a_whole() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(is_name_match(pattern, name), expected, "{pattern} {name}");
        };
        check("gpu1", "GPU1", true);
        check("gpu1", "gpu12", false);
        check("gpu*", "gpu12", true);
        check("gpu*", "lab-gpu", false);
        check("*.lab.example.com", "a.lab.example.com", true);
        check("*.lab.example.com", "a.lab.example.com.evil", false);
        check("a*b*a", "aba", true);
        check("a*b*a", "aa", false);
        check("ab*ba", "aba", false);
        check("*", "", true);
        check("", "x", false);
    }
}
