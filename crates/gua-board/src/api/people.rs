//! Members and the user names that they have on hosts.
//!
//! A user name is linked to a member in one of two ways. Either an admin confirms it, or the member proves it by running
//! `gua board link CODE` on a host, which sends the code with the user name and the host's token. A host can confirm names on
//! itself only. A user name that equals the member's name is only a suggestion.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use gua_board_store::registry::{
    Action, Event, Host, HostUser, LONGEST_USER_NAME, Member, Role, UserName,
};
use gua_board_store::{AccountId, HostId, Kind, Secret};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::Input;
use super::visibility::hide_names;
use crate::access::MemberCaller;
use crate::app::App;
use crate::availability::Row;
use crate::error::Problem;
use crate::live::holders;

/// Lifetime of a code.
const CODE_TIME: SignedDuration = SignedDuration::from_mins(15);

/// A member with the names and GPUs that are theirs.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Person {
    pub(crate) member: Member,
    pub(crate) names: Vec<UserName>,
    /// Display names of the hosts in `names`.
    pub(crate) hosts: HashMap<HostId, String>,
    /// Names on hosts that equal the member's and are linked to nobody. For admins.
    pub(crate) suggestions: Vec<String>,
    /// GPUs that the member holds now.
    pub(crate) gpus: Vec<Row>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct NameCode {
    pub(crate) code: String,
    pub(crate) expires: Timestamp,
}

pub(crate) async fn person(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, account)): Path<(String, AccountId)>,
) -> Result<Json<Person>, Problem> {
    let is_own = caller.account.id == account;
    // Other callers get the same answer as for a member that does not exist.
    if !is_own && caller.role < Role::Admin {
        return Err(Problem::NotFound("member"));
    }
    let change = caller.change(&app);
    let workspace = caller.workspace.id.clone();
    let (member, names, hosts) = app
        .store(move |app| {
            let mut members = app.registry.members(&workspace)?.into_iter();
            let member = members.find(|one| one.account == account);
            if let Some(member) = member.as_ref().filter(|_| !is_own) {
                let event = Event {
                    workspace: Some(&workspace),
                    action: Action::PersonViewed,
                    object: &member.name,
                };
                app.registry.log(&change, &event)?;
            }
            let names = app.registry.user_names(&workspace)?;
            Ok((member, names, app.registry.hosts(Some(&workspace))?))
        })
        .await?;
    let member = member.ok_or(Problem::NotFound("member"))?;
    // A person sees the hosts of their groups, also where they still hold a GPU elsewhere.
    let mut hosts = hosts;
    hosts.retain(|host| host.is_for(caller.groups.as_deref()));
    let mut gpus = gpus_of(&app, &member, &names, &hosts);
    for row in &mut gpus {
        hide_names(&mut row.gpu, &caller);
    }
    let suggestions = match caller.role >= Role::Admin {
        true => suggestions(&app, &member, &names, &hosts),
        false => Vec::new(),
    };
    let is_theirs = |one: &UserName| one.account == member.account;
    let names: Vec<UserName> = names.into_iter().filter(is_theirs).collect();
    let is_named = |host: &Host| {
        names
            .iter()
            .any(|one| one.user.host.as_ref() == Some(&host.id))
    };
    let hosts = hosts.into_iter().filter(is_named);
    let hosts = hosts.map(|host| (host.id, host.display_name)).collect();
    Ok(Json(Person {
        suggestions,
        gpus,
        names,
        hosts,
        member,
    }))
}

/// Returns the account of a user name: that of the host, else that of all hosts.
fn owner<'a>(names: &'a [UserName], host: &HostId, name: &str) -> Option<&'a AccountId> {
    let of = |host: Option<&HostId>| {
        let mut all = names.iter();
        all.find(|one| one.user.name == name && one.user.host.as_ref() == host)
    };
    of(Some(host)).or_else(|| of(None)).map(|one| &one.account)
}

fn gpus_of(app: &App, member: &Member, names: &[UserName], hosts: &[Host]) -> Vec<Row> {
    let now = app.now();
    let mut rows = Vec::new();
    for host in hosts {
        let Some(live) = app.live.host(&host.id) else {
            continue;
        };
        for gpu in &live.report.gpus {
            let holders = holders(gpu);
            let mut owners = holders
                .iter()
                .filter_map(|name| owner(names, &host.id, name));
            if owners.any(|owner| *owner == member.account) {
                rows.push(Row::new(host, &live, gpu, now));
            }
        }
    }
    rows
}

fn suggestions(app: &App, member: &Member, names: &[UserName], hosts: &[Host]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for host in hosts {
        let live = app.live.host(&host.id);
        for gpu in live.iter().flat_map(|live| &live.report.gpus) {
            let equal = holders(gpu).into_iter().find(|name| {
                name.to_lowercase() == member.name.to_lowercase()
                    && owner(names, &host.id, name).is_none()
            });
            found.extend(equal.map(str::to_owned));
        }
    }
    found.into_iter().collect()
}

pub(crate) async fn link_name(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, account)): Path<(String, AccountId)>,
    Input(user): Input<HostUser>,
) -> Result<StatusCode, Problem> {
    if user.name.is_empty() || user.name.chars().count() > LONGEST_USER_NAME {
        return Err(Problem::Invalid(format!(
            "a user name has 1 to {LONGEST_USER_NAME} characters"
        )));
    }
    let change = caller.change(&app);
    let workspace = caller.workspace.id;
    app.store(move |app| {
        app.registry
            .set_user_name(&change, &workspace, &user, Some(&account))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn unlink_name(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, account)): Path<(String, AccountId)>,
    Input(user): Input<HostUser>,
) -> Result<StatusCode, Problem> {
    let change = caller.change(&app);
    let workspace = caller.workspace.id;
    let removed = app.store(move |app| {
        let names = app.registry.user_names(&workspace)?;
        let is_theirs = |one: &UserName| one.user == user && one.account == account;
        if !names.iter().any(is_theirs) {
            return Err(gua_board_store::StoreError::NotFound("user name"));
        }
        app.registry.set_user_name(&change, &workspace, &user, None)
    });
    removed.await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Adds a code for the caller. The previous one ends.
pub(crate) async fn add_name_code(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
) -> Result<(StatusCode, Json<NameCode>), Problem> {
    let code = Secret::generate(Kind::NameCode);
    let now = app.now();
    let expires = now.saturating_add(CODE_TIME).unwrap_or(now);
    let hash = code.hash();
    app.store(move |app| {
        let (workspace, account) = (&caller.workspace.id, &caller.account.id);
        app.registry
            .add_name_code(&hash, workspace, account, expires)
    })
    .await?;
    let code = code.reveal().to_owned();
    Ok((StatusCode::CREATED, Json(NameCode { code, expires })))
}
