//! The contract of a registry.

mod accounts;
mod hosts;

use super::{at, by};
use crate::password::PasswordHash;
use crate::registry::{
    Account, Action, Actor, AuditView, Change, FIRST_WORKSPACE, HostClaim, HostEdit, KeyLimits,
    NewAccount, NewEnrolmentKey, NewSession, Registry, Role, Settings,
};
use crate::secret::{Kind, Secret, SecretHash};
use crate::{StoreError, WorkspaceId};

/// Checks that an engine keeps the contract of [`Registry`].
pub fn registry<R: Registry>(open: impl Fn() -> R) {
    a_new_board_has_one_workspace_and_no_account(&open());
    what_belongs_to_one_workspace_cannot_be_changed_from_another(&open());
    every_change_has_an_audit_entry(&open());
    entries_of_the_whole_board_are_for_its_owners_and_the_admins_of_the_account(&open());
    settings_are_those_of_one_workspace(&open());
    accounts::check(&open);
    hosts::check(&open);
}

fn first(registry: &dyn Registry) -> WorkspaceId {
    registry.workspaces().unwrap()[0].id.clone()
}

fn add(registry: &dyn Registry, name: &str, role: Role) -> Result<Account, StoreError> {
    let account = NewAccount {
        name: name.to_owned(),
        password: Some(PasswordHash::stored("hash".to_owned())),
        workspace: first(registry),
        role,
    };
    registry.add_account(&by(0), &account)
}

fn key(registry: &dyn Registry, uses: u32, expires: Option<i64>) -> Secret {
    limited_key(registry, uses, expires, KeyLimits::default())
}

fn limited_key(
    registry: &dyn Registry,
    uses: u32,
    expires: Option<i64>,
    limits: KeyLimits,
) -> Secret {
    let secret = Secret::generate(Kind::Enrolment);
    let key = NewEnrolmentKey {
        hash: secret.hash(),
        prefix: secret.prefix(),
        workspace: first(registry),
        name: None,
        limits,
        uses,
        expires: expires.map(at),
    };
    registry.add_enrolment_key(&by(0), &key).unwrap();
    secret
}

fn claim(key: &Secret, second: i64) -> (HostClaim, SecretHash) {
    let token = Secret::generate(Kind::Agent);
    let claim = HostClaim {
        key: key.hash(),
        token: token.hash(),
        token_prefix: token.prefix(),
        hostname: Some("gpu1".to_owned()),
        agent_version: Some("1.8.0".to_owned()),
        driver_version: None,
        address: None,
        at: at(second),
    };
    (claim, token.hash())
}

fn a_new_board_has_one_workspace_and_no_account(registry: &dyn Registry) {
    let workspaces = registry.workspaces().unwrap();
    let names: Vec<&str> = workspaces.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, [FIRST_WORKSPACE]);
    assert!(!registry.has_accounts().unwrap());
    let again = registry.add_workspace(&by(0), FIRST_WORKSPACE);
    assert!(matches!(again, Err(StoreError::Conflict(_))));
    registry.add_workspace(&by(0), "lab").unwrap();
    assert_eq!(registry.workspaces().unwrap().len(), 2);
}

fn what_belongs_to_one_workspace_cannot_be_changed_from_another(registry: &dyn Registry) {
    let other = registry.add_workspace(&by(0), "other").unwrap().id;
    let host = registry
        .claim(&claim(&key(registry, 1, None), 1).0)
        .unwrap();
    let id = registry.enrolment_keys(&first(registry)).unwrap();
    assert_eq!(id, []);
    for edit in [HostEdit::Revoke, HostEdit::Rename("mine")] {
        let changed = registry.edit_host(&by(1), &other, &host.id, &edit);
        assert!(matches!(changed, Err(StoreError::NotFound(_))));
    }
    assert_eq!(registry.hosts(Some(&other)).unwrap(), []);
    assert_eq!(registry.hosts(None).unwrap(), [host]);
}

fn every_change_has_an_audit_entry(registry: &dyn Registry) {
    let workspace = first(registry);
    let ada = add(registry, "ada", Role::Owner).unwrap();
    let change = Change {
        actor: Actor::Account("bob".to_owned()),
        address: None,
        at: at(7),
    };
    registry
        .set_role(&change, &workspace, &ada.id, Some(Role::Owner))
        .unwrap();
    // A change that fails leaves no entry.
    assert!(
        registry
            .set_role(&change, &workspace, &ada.id, None)
            .is_err()
    );
    let host = registry
        .claim(&claim(&key(registry, 1, None), 1).0)
        .unwrap();
    registry
        .edit_host(&change, &workspace, &host.id, &HostEdit::Revoke)
        .unwrap();
    let log = registry
        .audit_log(AuditView::Board(&workspace), None, 100)
        .unwrap();
    let actions: Vec<Action> = log.iter().rev().map(|entry| entry.action).collect();
    assert_eq!(
        actions,
        [
            Action::AccountAdded,
            Action::RoleSet,
            Action::EnrolmentKeyAdded,
            Action::HostEnrolled,
            Action::HostRevoked,
        ]
    );
    assert_eq!((log[0].actor.as_str(), log[0].at), ("bob", at(7)));
    let older = registry
        .audit_log(AuditView::Board(&workspace), Some(log[1].number), 2)
        .unwrap();
    assert_eq!(older, log[2..4]);
    let other = registry.add_workspace(&by(0), "other").unwrap().id;
    let entries = registry
        .audit_log(AuditView::Board(&other), None, 100)
        .unwrap();
    assert_eq!(entries.len(), 1);
}

fn entries_of_the_whole_board_are_for_its_owners_and_the_admins_of_the_account(
    registry: &dyn Registry,
) {
    let workspace = first(registry);
    let other = registry.add_workspace(&by(0), "other").unwrap().id;
    add(registry, "ada", Role::Member).unwrap();
    for object in ["Ada", "correct horse"] {
        let logged = registry.log(&by(1), None, Action::LogInFailed, object);
        logged.unwrap();
    }
    let failed = |view: AuditView<'_>| {
        let log = registry.audit_log(view, None, 100).unwrap();
        let failed = log
            .into_iter()
            .filter(|one| one.action == Action::LogInFailed);
        failed.map(|one| one.object).collect::<Vec<_>>()
    };
    assert_eq!(
        failed(AuditView::Board(&workspace)),
        ["correct horse", "Ada"]
    );
    assert_eq!(failed(AuditView::Workspace(&workspace)), ["Ada"]);
    assert!(failed(AuditView::Workspace(&other)).is_empty());
}

fn settings_are_those_of_one_workspace(registry: &dyn Registry) {
    let workspace = first(registry);
    let other = registry.add_workspace(&by(0), "other").unwrap().id;
    let settings = |id: &WorkspaceId| {
        let all = registry.workspaces().unwrap();
        let found = all.into_iter().find(|one| one.id == *id);
        found.unwrap().settings
    };
    assert_eq!(settings(&workspace), Settings::default());
    let ada = add(registry, "ada", Role::Owner).unwrap();
    let hash = Secret::generate(Kind::Session).hash();
    let session = NewSession {
        hash,
        account: ada.id.clone(),
        expires: at(30 * 24 * 3600),
    };
    registry.add_session(&by(0), &session).unwrap();
    let wanted = Settings {
        title: Some("Lab".to_owned()),
        names_from: Role::Admin,
        session_days: 1,
    };
    let entries = || {
        registry
            .audit_log(AuditView::Board(&workspace), None, 100)
            .unwrap()
    };
    let before = (registry.revision().unwrap(), entries().len());
    // The second call changes nothing and is not logged.
    for _ in 0..2 {
        let set = registry.set_settings(&by(5), &workspace, &wanted);
        set.unwrap();
    }
    assert_eq!(settings(&workspace), wanted);
    assert_eq!(settings(&other), Settings::default());
    let memberships = registry.memberships(&ada.id).unwrap();
    assert_eq!(memberships[0].workspace.settings, wanted);
    let after = (registry.revision().unwrap(), entries().len());
    assert_eq!(after, (before.0 + 1, before.1 + 1));
    assert_eq!(entries()[0].action, Action::SettingsChanged);
    // Existing sessions do not outlast a new one.
    let is_valid = |second| registry.session(&hash, at(second)).unwrap().is_some();
    assert!(is_valid(24 * 3600) && !is_valid(24 * 3600 + 5));
    let unknown = WorkspaceId("ws_x".to_owned());
    let refused = registry.set_settings(&by(6), &unknown, &wanted);
    assert!(matches!(refused, Err(StoreError::NotFound(_))));
}
