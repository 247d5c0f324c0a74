//! Members and the user names that they have on hosts.
//!
//! A user name is linked to a member in one of two ways. Either an admin confirms it, or the member proves it by running
//! `gua board link CODE` on a host, which sends the code with the user name and the host's token. A host can confirm names on
//! itself only. A user name that equals the member's name is only a suggestion.

use std::collections::{BTreeSet, HashMap};

use gua_board_store::registry::{
    Action, Host, HostUser, MAX_USER_NAME_LENGTH, Member, Role, UserName,
};
use gua_board_store::{AccountId, HostId, Kind, Secret};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::Done;
use super::members::member;
use super::visibility::hide_names;
use crate::app::App;
use crate::availability::Row;
use crate::call::Call;
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

pub(crate) fn person(call: &Call) -> Result<Person, Problem> {
    find_person(call, &call.account())
}

/// Describes a member as the caller may see them. A view of another member is logged.
pub(crate) fn find_person(call: &Call, account: &AccountId) -> Result<Person, Problem> {
    let (app, caller, workspace) = (&call.app, call.caller(), call.workspace());
    let is_own = caller.account.id == *account;
    // Other callers get the same answer as for a member that does not exist.
    if !is_own && caller.role < Role::Admin {
        return Err(Problem::NotFound("member"));
    }
    let member = member(call, account)?;
    if !is_own {
        let action = Action::PersonViewed;
        call.store(|registry, by, own| registry.log(by, Some(own), action, &member.name))?;
    }
    let names = app.registry.user_names(workspace)?;
    // A person sees the hosts of their groups, also where they still hold a GPU elsewhere.
    let hosts = call.hosts()?;
    let mut gpus = gpus_of(app, &member, &names, &hosts);
    for row in &mut gpus {
        hide_names(&mut row.gpu, caller);
    }
    let suggestions = match caller.role >= Role::Admin {
        true => suggestions(app, &member, &names, &hosts),
        false => Vec::new(),
    };
    let is_theirs = |one: &UserName| one.account == member.account;
    let names: Vec<UserName> = names.into_iter().filter(is_theirs).collect();
    let is_named = |host: &Host| {
        names
            .iter()
            .any(|one| one.user.host.as_ref() == Some(&host.id))
    };
    let hosts = hosts.iter().filter(|host| is_named(host));
    let hosts = hosts.map(|host| (host.id.clone(), host.display_name.clone()));
    Ok(Person {
        suggestions,
        gpus,
        hosts: hosts.collect(),
        names,
        member,
    })
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

pub(crate) fn link_name(call: &Call) -> Done {
    let user: HostUser = call.input()?;
    if user.name.is_empty() || user.name.chars().count() > MAX_USER_NAME_LENGTH {
        return Err(Problem::Invalid(format!(
            "a user name has 1 to {MAX_USER_NAME_LENGTH} characters"
        )));
    }
    let account = Some(call.account());
    call.store(|registry, by, workspace| {
        registry.set_user_name(by, workspace, &user, account.as_ref())
    })
}

pub(crate) fn unlink_name(call: &Call) -> Done {
    let user: HostUser = call.input()?;
    let account = call.account();
    let names = call.app.registry.user_names(call.workspace())?;
    let is_theirs = |one: &UserName| one.user == user && one.account == account;
    if !names.iter().any(is_theirs) {
        return Err(Problem::NotFound("user name"));
    }
    call.store(|registry, by, workspace| registry.set_user_name(by, workspace, &user, None))
}

/// Adds a code for the caller. The previous one ends.
pub(crate) fn add_name_code(call: &Call) -> Result<NameCode, Problem> {
    let secret = Secret::generate(Kind::NameCode);
    let now = call.app.now();
    let expires = now.saturating_add(CODE_TIME).unwrap_or(now);
    let (registry, account) = (&call.app.registry, &call.caller().account.id);
    registry.add_name_code(&secret.hash(), call.workspace(), account, expires)?;
    let code = secret.reveal().to_owned();
    Ok(NameCode { code, expires })
}
