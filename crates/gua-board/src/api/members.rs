//! Members, invitations and the audit log.

use gua_board_store::registry::{
    AuditEntry, AuditView, FIRST_WORKSPACE, LinkPurpose, Member, NewLink, Role,
};
use gua_board_store::{AccountId, Kind, Secret};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, List, Paged, Search, SetGroups};
use crate::call::Call;
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

pub(crate) fn members(call: &Call) -> Result<Paged<Member>, Problem> {
    page_of_members(call, &call.query()?)
}

/// Returns one page of the members.
pub(crate) fn page_of_members(call: &Call, search: &Search) -> Result<Paged<Member>, Problem> {
    let all = call.app.registry.members(call.workspace())?;
    Ok(Paged::of(all, search, |member| &member.name))
}

/// Returns a member of the workspace. An account of another workspace looks like one that does not exist.
pub(super) fn member(call: &Call, account: &AccountId) -> Result<Member, Problem> {
    let mut all = call.app.registry.members(call.workspace())?.into_iter();
    let found = all.find(|member| member.account == *account);
    found.ok_or(Problem::NotFound("member"))
}

pub(crate) fn set_role(call: &Call) -> Done {
    let wanted: RoleBody = call.input()?;
    change_role(call, Some(wanted.role))
}

pub(crate) fn set_member_groups(call: &Call) -> Done {
    let groups = call.input::<SetGroups>()?.checked()?;
    let account = call.account();
    call.store(|registry, by, workspace| {
        registry.set_member_groups(by, workspace, &account, &groups)
    })
}

pub(crate) fn remove_member(call: &Call) -> Done {
    change_role(call, None)
}

/// Changes the role of an existing member. Accounts join a workspace by invitation only.
fn change_role(call: &Call, role: Option<Role>) -> Done {
    let member = member(call, &call.account())?;
    check_grant(call.caller().role, Some(member.role))?;
    check_grant(call.caller().role, role)?;
    call.store(|registry, by, workspace| registry.set_role(by, workspace, &member.account, role))
}

/// Only owners make, change or remove admins and owners.
pub(crate) fn may_grant(own: Role, role: Role) -> bool {
    own == Role::Owner || role < Role::Admin
}

fn check_grant(own: Role, role: Option<Role>) -> Done {
    match role.is_none_or(|role| may_grant(own, role)) {
        true => Ok(()),
        false => Err(Problem::Forbidden(
            "only an owner can change admins and owners",
        )),
    }
}

pub(crate) fn invite(call: &Call) -> Result<Invitation, Problem> {
    let RoleBody { role } = call.input()?;
    check_grant(call.caller().role, Some(role))?;
    let workspace = call.workspace().clone();
    let purpose = LinkPurpose::Join { workspace, role };
    let secret = add_link(call, purpose, INVITATION_TIME)?;
    let url = join_url(&call.app.options.public_url, &secret);
    Ok(Invitation { url })
}

fn add_link(
    call: &Call,
    purpose: LinkPurpose,
    lifetime: SignedDuration,
) -> Result<Secret, Problem> {
    let by = call.change();
    let secret = Secret::generate(Kind::Link);
    let link = NewLink {
        hash: secret.hash(),
        purpose,
        expires: by.at.saturating_add(lifetime).unwrap_or(by.at),
    };
    call.app.registry.add_link(&by, &link)?;
    Ok(secret)
}

/// Creates a password reset link for a member. The caller must be entitled to it in every workspace of the
/// account, because a person who sets a password can log in as the member everywhere.
pub(crate) fn reset_member(call: &Call) -> Result<Invitation, Problem> {
    let (registry, caller) = (&call.app.registry, &call.caller().account);
    let member = member(call, &call.account())?;
    let found = registry.account(&member.name)?;
    if found.is_some_and(|account| account.password.is_none()) {
        return Err(Problem::Conflict("this account has no password to reset"));
    }
    let mine = registry.memberships(&caller.id)?;
    for theirs in registry.memberships(&member.account)? {
        let mine = mine.iter().find(|one| one.workspace == theirs.workspace);
        // An API token is limited to its workspace.
        let own = mine
            .map(|mine| mine.role)
            .filter(|_| caller.via.reaches(&theirs.workspace.id));
        let own = own.filter(|own| *own >= Role::Admin).ok_or(Problem::Forbidden(
            "this member belongs to a workspace that you do not manage; set the password with `gua board user password`",
        ))?;
        check_grant(own, Some(theirs.role))?;
    }
    let account = member.account;
    let secret = add_link(call, LinkPurpose::Reset { account }, RESET_TIME)?;
    let url = format!("{}/reset#{}", call.app.options.public_url, secret.reveal());
    Ok(Invitation { url })
}

pub(crate) fn audit_log(call: &Call) -> Result<List<AuditEntry>, Problem> {
    let items = find_entries(call, call.query::<Before>()?.before)?;
    Ok(List { items })
}

/// Returns the entries of the audit log that the caller may read, older than `before`.
pub(crate) fn find_entries(call: &Call, before: Option<i64>) -> Result<Vec<AuditEntry>, Problem> {
    let caller = call.caller();
    // The owners of the first workspace own the board.
    let is_board_owner = caller.role == Role::Owner && caller.workspace.name == FIRST_WORKSPACE;
    let view = match is_board_owner {
        true => AuditView::Board(call.workspace()),
        false => AuditView::Workspace(call.workspace()),
    };
    Ok(call.app.registry.audit_log(view, before, PAGE)?)
}
