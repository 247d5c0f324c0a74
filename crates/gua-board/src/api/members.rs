//! Members, invitations and the audit log.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use gua_board_store::registry::{
    AuditEntry, AuditView, FIRST_WORKSPACE, LinkPurpose, Member, NewLink, Role,
};
use gua_board_store::{AccountId, Kind, Secret, StoreError, WorkspaceId};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Input, List, Paged, Search, SetGroups, query as checked_query};
use crate::access::{MemberCaller, Via};
use crate::app::App;
use crate::error::Problem;
use crate::set_up::join_url;

/// Lifetime of an invitation.
const INVITATION_TIME: SignedDuration = SignedDuration::from_hours(24 * 7);
/// Lifetime of a link that resets a password.
const RESET_TIME: SignedDuration = SignedDuration::from_hours(24);
/// Number of audit entries in one answer.
const PAGE: u32 = 50;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoleBody {
    role: Role,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Invitation {
    pub(crate) url: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Before {
    pub(crate) before: Option<i64>,
}

pub(crate) async fn members(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    query: Result<Query<Search>, QueryRejection>,
) -> Result<Json<Paged<Member>>, Problem> {
    let search = checked_query(query)?;
    let workspace = caller.workspace.id;
    let all = app
        .store(move |app| app.registry.members(&workspace))
        .await?;
    Ok(Json(Paged::of(all, &search, |member| &member.name)))
}

pub(crate) async fn set_role(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, account)): Path<(String, AccountId)>,
    Input(wanted): Input<RoleBody>,
) -> Result<StatusCode, Problem> {
    change_role(&app, &caller, account, Some(wanted.role)).await
}

pub(crate) async fn set_member_groups(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, account)): Path<(String, AccountId)>,
    Input(wanted): Input<SetGroups>,
) -> Result<StatusCode, Problem> {
    let groups = wanted.checked()?;
    let change = caller.change(&app);
    let workspace = caller.workspace.id;
    app.store(move |app| {
        app.registry
            .set_member_groups(&change, &workspace, &account, &groups)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn remove_member(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, account)): Path<(String, AccountId)>,
) -> Result<StatusCode, Problem> {
    change_role(&app, &caller, account, None).await
}

/// Changes the role of an existing member. Accounts join a workspace by invitation only.
async fn change_role(
    app: &Arc<App>,
    caller: &MemberCaller,
    account: AccountId,
    role: Option<Role>,
) -> Result<StatusCode, Problem> {
    let change = caller.change(app);
    let workspace = caller.workspace.id.clone();
    let members = {
        let workspace = workspace.clone();
        app.store(move |app| app.registry.members(&workspace))
            .await?
    };
    let known = members.iter().find(|member| member.account == account);
    let before = known.ok_or(StoreError::NotFound("member"))?.role;
    check_grant(caller.role, Some(before))?;
    check_grant(caller.role, role)?;
    app.store(move |app| app.registry.set_role(&change, &workspace, &account, role))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Only owners make, change or remove admins and owners.
fn check_grant(own: Role, role: Option<Role>) -> Result<(), Problem> {
    match role {
        Some(Role::Admin | Role::Owner) if own < Role::Owner => Err(Problem::Forbidden(
            "only an owner changes admins and owners",
        )),
        _ => Ok(()),
    }
}

pub(crate) async fn invite(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Input(wanted): Input<RoleBody>,
) -> Result<(StatusCode, Json<Invitation>), Problem> {
    check_grant(caller.role, Some(wanted.role))?;
    let change = caller.change(&app);
    let secret = Secret::generate(Kind::Link);
    let link = NewLink {
        hash: secret.hash(),
        purpose: LinkPurpose::Join {
            workspace: caller.workspace.id,
            role: wanted.role,
        },
        expires: change
            .at
            .saturating_add(INVITATION_TIME)
            .unwrap_or(change.at),
    };
    app.store(move |app| app.registry.add_link(&change, &link))
        .await?;
    let url = join_url(&app.public_url, &secret);
    Ok((StatusCode::CREATED, Json(Invitation { url })))
}

/// Creates a password reset link for a member. The caller must be entitled to it in every workspace of the
/// account, because a person who sets a password can log in as the member everywhere.
pub(crate) async fn reset_member(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, account)): Path<(String, AccountId)>,
) -> Result<(StatusCode, Json<Invitation>), Problem> {
    let change = caller.change(&app);
    let (own, other) = (caller.account.id.clone(), account.clone());
    let workspace = caller.workspace.id.clone();
    let (member, mine, theirs) = app
        .store(move |app| {
            let members = app.registry.members(&workspace)?;
            let member = members.into_iter().find(|one| one.account == other);
            let member = member.ok_or(StoreError::NotFound("member"))?;
            let found = app.registry.account(&member.name)?;
            let mine = app.registry.memberships(&own)?;
            Ok((found, mine, app.registry.memberships(&other)?))
        })
        .await?;
    if member.is_some_and(|member| member.password.is_none()) {
        return Err(Problem::Conflict("this account has no password to reset"));
    }
    for theirs in &theirs {
        let mine = mine.iter().find(|one| one.workspace == theirs.workspace);
        let own = mine
            .map(|mine| mine.role)
            .filter(|_| may_act(&caller, &theirs.workspace.id));
        let own = own.filter(|own| *own >= Role::Admin).ok_or(Problem::Forbidden(
            "this member belongs to a workspace that you do not manage; set the password with `gua board user password`",
        ))?;
        check_grant(own, Some(theirs.role))?;
    }
    let secret = Secret::generate(Kind::Link);
    let link = NewLink {
        hash: secret.hash(),
        purpose: LinkPurpose::Reset { account },
        expires: change.at.saturating_add(RESET_TIME).unwrap_or(change.at),
    };
    app.store(move |app| app.registry.add_link(&change, &link))
        .await?;
    let url = format!("{}/reset#{}", app.public_url, secret.reveal());
    Ok((StatusCode::CREATED, Json(Invitation { url })))
}

/// Whether the caller's credentials are limited to one workspace, as an API token is.
fn may_act(caller: &MemberCaller, workspace: &WorkspaceId) -> bool {
    match &caller.account.via {
        Via::ApiToken { workspace: own, .. } => own == workspace,
        Via::Local | Via::Session(_) | Via::Proxy => true,
    }
}

pub(crate) async fn audit_log(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    query: Result<Query<Before>, QueryRejection>,
) -> Result<Json<List<AuditEntry>>, Problem> {
    let before = checked_query(query)?.before;
    // The owners of the first workspace own the board.
    let is_board_owner = caller.role == Role::Owner && caller.workspace.name == FIRST_WORKSPACE;
    let workspace = caller.workspace.id;
    let items = app
        .store(move |app| {
            let view = match is_board_owner {
                true => AuditView::Board(&workspace),
                false => AuditView::Workspace(&workspace),
            };
            app.registry.audit_log(view, before, PAGE)
        })
        .await?;
    Ok(Json(List { items }))
}
