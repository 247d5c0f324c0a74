//! Enrolment keys, and hosts that could not enrol.

use gua_board_store::registry::{Action, AuditEntry, EnrolmentKey, KeyLimits, NewEnrolmentKey};
use gua_board_store::{EnrolmentKeyId, Kind, Secret};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Done, List, MAX_NAME_LENGTH, NAME_PATTERN, WithSecret, checked_list, checked_name, whole,
};
use crate::call::Call;
use crate::error::Problem;

/// Lifetime of an enrolment key by default.
const KEY_HOURS: u32 = 24;
const MAX_KEY_HOURS: u32 = 24 * 366;
const MAX_USES: u32 = 100_000;
/// Time for which refused hosts are shown, and their maximum number.
const REFUSALS_TIME: SignedDuration = SignedDuration::from_hours(24);
const MAX_REFUSALS: u32 = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddKey {
    /// Display name of the host; by default the host's own name.
    #[schemars(length(min = 1, max = MAX_NAME_LENGTH), regex(pattern = NAME_PATTERN))]
    name: Option<String>,
    /// Pattern of host names that may enrol, with `*` for any text; by default all.
    #[schemars(length(min = 1, max = MAX_NAME_LENGTH), regex(pattern = NAME_PATTERN))]
    host_names: Option<String>,
    /// Tags of the hosts, separated by commas. A tag `group:NAME` is a group of members who may use the hosts.
    #[schemars(length(min = 1, max = MAX_NAME_LENGTH), regex(pattern = NAME_PATTERN))]
    tags: Option<String>,
    /// Whether an admin has to approve each host; by default not.
    needs_approval: Option<bool>,
    /// Number of hosts that can enrol; by default one.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = MAX_USES))]
    uses: Option<u32>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = MAX_KEY_HOURS))]
    expires_in_hours: Option<u32>,
}

/// Validates the options of a new key.
pub(crate) fn checked_limits(
    host_names: Option<&str>,
    tags: Option<&str>,
    needs_approval: bool,
) -> Result<KeyLimits, Problem> {
    Ok(KeyLimits {
        host_names: host_names.map(checked_name).transpose()?,
        tags: checked_list(tags)?,
        needs_approval,
    })
}

pub(crate) fn enrolment_keys(call: &Call) -> Result<List<EnrolmentKey>, Problem> {
    let items = call.app.registry.enrolment_keys(call.workspace())?;
    Ok(List { items })
}

pub(crate) fn add_enrolment_key(call: &Call) -> Result<WithSecret<EnrolmentKey>, Problem> {
    let wanted: AddKey = call.input()?;
    let name = wanted.name.as_deref().map(checked_name).transpose()?;
    let limits = checked_limits(
        wanted.host_names.as_deref(),
        wanted.tags.as_deref(),
        wanted.needs_approval.unwrap_or(false),
    )?;
    let uses = wanted.uses.unwrap_or(1);
    let hours = wanted.expires_in_hours.unwrap_or(KEY_HOURS);
    if !(1..=MAX_USES).contains(&uses) || !(1..=MAX_KEY_HOURS).contains(&hours) {
        let message = format!(
            "uses must be 1 to {MAX_USES}, and expiresInHours must be 1 to {MAX_KEY_HOURS}"
        );
        return Err(Problem::Invalid(message));
    }
    let by = call.change();
    let secret = Secret::generate(Kind::Enrolment);
    let lifetime = SignedDuration::from_hours(hours.into());
    let key = NewEnrolmentKey {
        hash: secret.hash(),
        prefix: secret.prefix(),
        workspace: call.workspace().clone(),
        name,
        limits,
        uses,
        expires: by.at.checked_add(lifetime).ok(),
    };
    let object = call.app.registry.add_enrolment_key(&by, &key)?;
    Ok(WithSecret::new(object, &secret))
}

pub(crate) fn revoke_enrolment_key(call: &Call) -> Done {
    let key = EnrolmentKeyId(call.path("key").to_owned());
    call.store(|registry, by, workspace| registry.revoke_enrolment_key(by, workspace, &key))
}

pub(crate) fn enrolment_refusals(call: &Call) -> Result<List<AuditEntry>, Problem> {
    let now = call.app.now();
    let since = now.saturating_sub(REFUSALS_TIME).unwrap_or(now);
    let (registry, action) = (&call.app.registry, Action::EnrolmentRefused);
    let items = registry.events(call.workspace(), action, since, MAX_REFUSALS)?;
    Ok(List { items })
}
