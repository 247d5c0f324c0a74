//! Enrolment keys, and hosts that could not enrol.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use gua_board_store::registry::{Action, AuditEntry, EnrolmentKey, KeyLimits, NewEnrolmentKey};
use gua_board_store::{EnrolmentKeyId, Kind, Secret};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Input, LONGEST_NAME, List, NAME_PATTERN, WithSecret, checked_list, checked_name, whole,
};
use crate::access::MemberCaller;
use crate::app::App;
use crate::error::Problem;

/// Lifetime of an enrolment key by default.
const KEY_HOURS: u32 = 24;
const MOST_KEY_HOURS: u32 = 24 * 366;
const MOST_USES: u32 = 100_000;
/// Time for which refused hosts are shown, and their maximum number.
const REFUSALS_TIME: SignedDuration = SignedDuration::from_hours(24);
const MOST_REFUSALS: u32 = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddKey {
    /// Display name of the host; by default the host's own name.
    #[schemars(length(min = 1, max = LONGEST_NAME), regex(pattern = NAME_PATTERN))]
    name: Option<String>,
    /// Pattern of host names that may enrol, with `*` for any text; by default all.
    #[schemars(length(min = 1, max = LONGEST_NAME), regex(pattern = NAME_PATTERN))]
    host_names: Option<String>,
    /// Tags of the hosts, separated by commas. A tag `group:NAME` is a group of members who may use the hosts.
    #[schemars(length(min = 1, max = LONGEST_NAME), regex(pattern = NAME_PATTERN))]
    tags: Option<String>,
    /// Whether an admin has to approve each host; by default not.
    needs_approval: Option<bool>,
    /// Number of hosts that can enrol; by default one.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = MOST_USES))]
    uses: Option<u32>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = MOST_KEY_HOURS))]
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

pub(crate) async fn enrolment_keys(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
) -> Result<Json<List<EnrolmentKey>>, Problem> {
    let workspace = caller.workspace.id;
    let items = app
        .store(move |app| app.registry.enrolment_keys(&workspace))
        .await?;
    Ok(Json(List { items }))
}

pub(crate) async fn add_enrolment_key(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Input(wanted): Input<AddKey>,
) -> Result<(StatusCode, Json<WithSecret<EnrolmentKey>>), Problem> {
    let name = wanted.name.as_deref().map(checked_name).transpose()?;
    let limits = checked_limits(
        wanted.host_names.as_deref(),
        wanted.tags.as_deref(),
        wanted.needs_approval.unwrap_or(false),
    )?;
    let uses = wanted.uses.unwrap_or(1);
    let hours = wanted.expires_in_hours.unwrap_or(KEY_HOURS);
    if !(1..=MOST_USES).contains(&uses) || !(1..=MOST_KEY_HOURS).contains(&hours) {
        let message =
            format!("uses is 1 to {MOST_USES}, and expiresInHours is 1 to {MOST_KEY_HOURS}");
        return Err(Problem::Invalid(message));
    }
    let change = caller.change(&app);
    let secret = Secret::generate(Kind::Enrolment);
    let key = NewEnrolmentKey {
        hash: secret.hash(),
        prefix: secret.prefix(),
        workspace: caller.workspace.id,
        name,
        limits,
        uses,
        expires: change
            .at
            .checked_add(SignedDuration::from_hours(hours.into()))
            .ok(),
    };
    let object = app
        .store(move |app| app.registry.add_enrolment_key(&change, &key))
        .await?;
    let secret = secret.reveal().to_owned();
    Ok((StatusCode::CREATED, Json(WithSecret { object, secret })))
}

pub(crate) async fn revoke_enrolment_key(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, key)): Path<(String, EnrolmentKeyId)>,
) -> Result<StatusCode, Problem> {
    let change = caller.change(&app);
    let workspace = caller.workspace.id;
    app.store(move |app| app.registry.revoke_enrolment_key(&change, &workspace, &key))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn enrolment_refusals(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
) -> Result<Json<List<AuditEntry>>, Problem> {
    let workspace = caller.workspace.id;
    let now = app.now();
    let since = now.saturating_sub(REFUSALS_TIME).unwrap_or(now);
    let action = Action::EnrolmentRefused;
    let items = app
        .store(move |app| {
            app.registry
                .events(&workspace, action, since, MOST_REFUSALS)
        })
        .await?;
    Ok(Json(List { items }))
}
