//! The contract of a registry.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{at, by};
use crate::error::StoreError;
use crate::id::WorkspaceId;
use crate::password::PasswordHash;
use crate::registry::{
    Account, Action, Change, FIRST_WORKSPACE, HostClaim, HostUser, Identity, Join, KeyLimits,
    LinkPurpose, Maintenance, NewAccount, NewApiToken, NewEnrolmentKey, NewLink, NewSession,
    Refusal, Registry, Role, Scope,
};
use crate::secret::{Kind, Secret, SecretHash};

/// Checks that an engine keeps the contract of [`Registry`].
pub fn registry<R: Registry>(open: impl Fn() -> R) {
    a_new_board_has_one_workspace_and_no_account(&open());
    names_are_unique_regardless_of_case(&open());
    the_last_owner_stays(&open());
    sessions_expire_and_end_with_a_new_password(&open());
    an_api_token_has_the_current_role_of_its_account(&open());
    a_link_works_once(&open());
    a_reset_link_sets_the_password_once(&open());
    an_identity_is_one_account_whatever_its_name(&open());
    a_user_name_on_a_host_belongs_to_one_member(&open());
    an_enrolment_key_is_used_up(&open());
    a_one_time_key_enrols_one_of_many_hosts_at_once(&open());
    a_revoked_host_is_gone_for_its_token_and_listings(&open());
    a_key_limits_the_hosts_that_it_enrols(&open());
    a_new_token_replaces_the_old_one_at_its_first_use(&open());
    a_host_continues_with_the_agent_that_replaces_it(&open());
    what_belongs_to_one_workspace_cannot_be_changed_from_another(&open());
    every_change_has_an_audit_entry(&open());
}

fn first(registry: &impl Registry) -> WorkspaceId {
    registry.workspaces().unwrap()[0].id.clone()
}

fn add(registry: &impl Registry, name: &str, role: Role) -> Result<Account, StoreError> {
    let account = NewAccount {
        name: name.to_owned(),
        password: Some(PasswordHash::stored("hash".to_owned())),
        workspace: first(registry),
        role,
    };
    registry.add_account(&by(0), &account)
}

fn key(registry: &impl Registry, uses: u32, expires: Option<i64>) -> Secret {
    limited_key(registry, uses, expires, KeyLimits::default())
}

fn limited_key(
    registry: &impl Registry,
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

fn a_new_board_has_one_workspace_and_no_account(registry: &impl Registry) {
    let workspaces = registry.workspaces().unwrap();
    let names: Vec<&str> = workspaces.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, [FIRST_WORKSPACE]);
    assert!(!registry.has_accounts().unwrap());
    let again = registry.add_workspace(&by(0), FIRST_WORKSPACE);
    assert!(matches!(again, Err(StoreError::Conflict(_))));
    registry.add_workspace(&by(0), "lab").unwrap();
    assert_eq!(registry.workspaces().unwrap().len(), 2);
}

fn names_are_unique_regardless_of_case(registry: &impl Registry) {
    let ada = add(registry, "Ada", Role::Owner).unwrap();
    assert!(matches!(
        add(registry, "ada", Role::Viewer),
        Err(StoreError::Conflict(_))
    ));
    assert_eq!(registry.account("ADA").unwrap(), Some(ada.clone()));
    assert_eq!(registry.account("bob").unwrap(), None);
    let memberships = registry.memberships(&ada.id).unwrap();
    assert_eq!(memberships.len(), 1);
    assert_eq!(memberships[0].role, Role::Owner);
}

fn the_last_owner_stays(registry: &impl Registry) {
    let workspace = first(registry);
    let ada = add(registry, "ada", Role::Owner).unwrap();
    let bob = add(registry, "bob", Role::Member).unwrap();
    for role in [None, Some(Role::Admin)] {
        let changed = registry.set_role(&by(1), &workspace, &ada.id, role);
        assert!(matches!(changed, Err(StoreError::Conflict(_))));
    }
    let set = |account: &Account, role| registry.set_role(&by(1), &workspace, &account.id, role);
    set(&bob, Some(Role::Owner)).unwrap();
    set(&ada, Some(Role::Viewer)).unwrap();
    let members = registry.members(&workspace).unwrap();
    let roles: Vec<_> = members
        .iter()
        .map(|one| (one.name.as_str(), one.role))
        .collect();
    assert_eq!(roles, [("ada", Role::Viewer), ("bob", Role::Owner)]);
    set(&ada, None).unwrap();
    assert_eq!(registry.memberships(&ada.id).unwrap(), []);
    assert!(matches!(set(&ada, None), Err(StoreError::NotFound(_))));
}

fn sessions_expire_and_end_with_a_new_password(registry: &impl Registry) {
    let ada = add(registry, "ada", Role::Owner).unwrap();
    let session = |expires| {
        let hash = Secret::generate(Kind::Session).hash();
        let new = NewSession {
            hash,
            account: ada.id.clone(),
            expires: at(expires),
        };
        registry.add_session(&by(0), &new).unwrap();
        hash
    };
    let [short, long, ended] = [10, 100, 100].map(session);
    let is_valid = |hash, now| registry.session(hash, at(now)).unwrap().is_some();
    assert!(is_valid(&short, 9) && !is_valid(&short, 10) && is_valid(&long, 10));
    registry.end_session(&ended).unwrap();
    assert!(!is_valid(&ended, 1) && is_valid(&long, 1));
    let before = registry.revision().unwrap();
    let password = PasswordHash::stored("other".to_owned());
    registry.set_password(&by(5), &ada.id, &password).unwrap();
    assert!(!is_valid(&long, 6));
    assert!(registry.revision().unwrap() > before);
    assert_eq!(
        registry.account("ada").unwrap().unwrap().password,
        Some(password)
    );
}

fn an_api_token_has_the_current_role_of_its_account(registry: &impl Registry) {
    let workspace = first(registry);
    add(registry, "ada", Role::Owner).unwrap();
    let bob = add(registry, "bob", Role::Admin).unwrap();
    let secret = Secret::generate(Kind::Api);
    let new = NewApiToken {
        hash: secret.hash(),
        prefix: secret.prefix(),
        workspace: workspace.clone(),
        account: bob.id.clone(),
        scope: Scope::Read,
        expires: Some(at(50)),
    };
    let token = registry.add_api_token(&by(0), &new).unwrap();
    assert_eq!(token.account_name, "bob");
    let role = |now| {
        let found = registry.api_token(&secret.hash(), at(now)).unwrap();
        found.map(|(found, role)| {
            assert_eq!(found, token);
            role
        })
    };
    assert_eq!((role(49), role(50)), (Some(Role::Admin), None));
    let before = registry.revision().unwrap();
    registry
        .set_role(&by(1), &workspace, &bob.id, Some(Role::Viewer))
        .unwrap();
    assert_eq!(role(1), Some(Role::Viewer));
    assert!(registry.revision().unwrap() > before);
    registry
        .set_role(&by(1), &workspace, &bob.id, None)
        .unwrap();
    assert_eq!(role(1), None);
    assert_eq!(registry.api_tokens(&workspace).unwrap().len(), 1);
    registry
        .revoke_api_token(&by(2), &workspace, &token.id)
        .unwrap();
    assert_eq!(registry.api_tokens(&workspace).unwrap(), []);
}

fn a_link_works_once(registry: &impl Registry) {
    let workspace = first(registry);
    let secret = Secret::generate(Kind::Link);
    let purpose = LinkPurpose::Join {
        workspace: workspace.clone(),
        role: Role::Owner,
    };
    let new = NewLink {
        hash: secret.hash(),
        purpose: purpose.clone(),
        expires: at(60),
    };
    registry.add_link(&by(0), &new).unwrap();
    assert_eq!(
        registry.link(&secret.hash(), at(59)).unwrap(),
        Some(purpose)
    );
    assert_eq!(registry.link(&secret.hash(), at(60)).unwrap(), None);
    let password = PasswordHash::stored("hash".to_owned());
    let accept = |second, name| registry.accept_link(&by(second), &secret.hash(), name, &password);
    assert!(matches!(accept(60, "ada"), Err(StoreError::NotFound(_))));
    assert_eq!(accept(59, "ada").unwrap().name, "ada");
    assert!(matches!(accept(59, "bob"), Err(StoreError::NotFound(_))));
    assert_eq!(registry.members(&workspace).unwrap()[0].role, Role::Owner);
}

fn a_reset_link_sets_the_password_once(registry: &impl Registry) {
    let ada = add(registry, "ada", Role::Owner).unwrap();
    let link = || {
        let secret = Secret::generate(Kind::Link);
        let new = NewLink {
            hash: secret.hash(),
            purpose: LinkPurpose::Reset {
                account: ada.id.clone(),
            },
            expires: at(60),
        };
        registry.add_link(&by(0), &new).unwrap();
        secret.hash()
    };
    let (first, second) = (link(), link());
    let password = PasswordHash::stored("new".to_owned());
    let reset = |hash, second| registry.reset_password(&by(second), hash, &password);
    assert!(matches!(reset(&first, 60), Err(StoreError::NotFound(_))));
    // It is not an invitation.
    let joined = registry.accept_link(&by(1), &first, "bob", &password);
    assert!(matches!(joined, Err(StoreError::NotFound(_))));
    assert_eq!(reset(&first, 1).unwrap().id, ada.id);
    let found = registry.account("ada").unwrap().unwrap();
    assert_eq!(found.password, Some(password.clone()));
    for used in [&first, &second] {
        assert!(matches!(reset(used, 2), Err(StoreError::NotFound(_))));
    }
    // An admin who made it for a member must not be able to use it for an owner.
    let third = link();
    let workspace = registry.workspaces().unwrap()[0].id.clone();
    let role = Some(Role::Owner);
    registry
        .set_role(&by(3), &workspace, &ada.id, role)
        .unwrap();
    assert!(matches!(reset(&third, 4), Err(StoreError::NotFound(_))));
}

fn an_identity_is_one_account_whatever_its_name(registry: &impl Registry) {
    let workspace = first(registry);
    let ada = add(registry, "ada", Role::Owner).unwrap();
    let identity = |issuer: &str, subject: &str| Identity {
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
    };
    let everyone = Join::Role {
        workspace: workspace.clone(),
        role: Role::Viewer,
    };
    let join = |identity: &Identity, join: &Join| registry.join(&by(1), identity, "Ada", join);
    let one = identity("https://a", "1");
    assert_eq!(registry.account_by_identity(&one).unwrap(), None);
    let joined = join(&one, &everyone).unwrap();
    // An equal name is not the same person.
    assert_ne!(joined.id, ada.id);
    assert_eq!((joined.name.as_str(), &joined.password), ("Ada (2)", &None));
    assert_eq!(join(&one, &everyone).unwrap(), joined);
    assert_eq!(
        registry.account_by_identity(&one).unwrap(),
        Some(joined.clone())
    );
    for other in [identity("https://b", "1"), identity("https://a", "2")] {
        assert_ne!(join(&other, &everyone).unwrap().id, joined.id);
    }
    let other = registry.add_workspace(&by(0), "other").unwrap().id;
    let secret = Secret::generate(Kind::Link);
    let new = NewLink {
        hash: secret.hash(),
        purpose: LinkPurpose::Join {
            workspace: other.clone(),
            role: Role::Member,
        },
        expires: at(60),
    };
    registry.add_link(&by(0), &new).unwrap();
    let link = Join::Link(secret.hash());
    assert_eq!(join(&one, &link).unwrap(), joined);
    assert!(matches!(join(&one, &link), Err(StoreError::NotFound(_))));
    assert_eq!(registry.members(&other).unwrap()[0].role, Role::Member);
    // The role that everyone has does not replace one that was given.
    let set = registry.set_role(&by(2), &workspace, &joined.id, Some(Role::Admin));
    set.unwrap();
    join(&one, &everyone).unwrap();
    let roles = registry.memberships(&joined.id).unwrap();
    assert_eq!(roles[0].role, Role::Admin);
}

fn a_user_name_on_a_host_belongs_to_one_member(registry: &impl Registry) {
    let workspace = first(registry);
    let ada = add(registry, "ada", Role::Owner).unwrap();
    let bob = add(registry, "bob", Role::Member).unwrap();
    let host = registry
        .claim(&claim(&key(registry, 1, None), 1).0)
        .unwrap();
    let code = |account: &Account| {
        let code = Secret::generate(Kind::Link).hash();
        let added = registry.add_name_code(&code, &workspace, &account.id, at(60));
        added.unwrap();
        code
    };
    let prove = |code, second, name| registry.prove_name(&by(second), code, &host, name);
    let (old, new) = (code(&ada), code(&ada));
    assert!(matches!(
        prove(&old, 1, "ada"),
        Err(StoreError::NotFound(_))
    ));
    assert!(matches!(
        prove(&new, 60, "ada"),
        Err(StoreError::NotFound(_))
    ));
    assert_eq!(prove(&new, 59, "ada").unwrap().id, ada.id);
    assert!(matches!(
        prove(&new, 59, "eve"),
        Err(StoreError::NotFound(_))
    ));
    let stolen = prove(&code(&bob), 2, "ada");
    assert!(matches!(stolen, Err(StoreError::Conflict(_))));
    let everywhere = HostUser {
        host: None,
        name: "user-00ff".to_owned(),
    };
    let set = |account| registry.set_user_name(&by(3), &workspace, &everywhere, account);
    set(Some(&bob.id)).unwrap();
    assert!(matches!(set(Some(&ada.id)), Err(StoreError::Conflict(_))));
    let names = registry.user_names(&workspace).unwrap();
    let mut names: Vec<_> = names
        .into_iter()
        .map(|one| {
            (
                one.account == ada.id,
                one.user.name,
                one.user.host.is_some(),
            )
        })
        .collect();
    names.sort_by_key(|(_, name, _)| name.clone());
    let expected = [
        (true, "ada".to_owned(), true),
        (false, "user-00ff".to_owned(), false),
    ];
    assert_eq!(names, expected);
    set(None).unwrap();
    assert!(matches!(set(None), Err(StoreError::NotFound(_))));
    // A member who was removed and returns has no names and no code.
    set(Some(&bob.id)).unwrap();
    let left = code(&bob);
    let role = |role| registry.set_role(&by(4), &workspace, &bob.id, role);
    role(None).unwrap();
    role(Some(Role::Member)).unwrap();
    let names = registry.user_names(&workspace).unwrap();
    assert!(names.iter().all(|one| one.account == ada.id), "{names:?}");
    let proved = registry.prove_name(&by(5), &left, &host, "bob");
    assert!(matches!(proved, Err(StoreError::NotFound(_))));
    let other = registry.add_workspace(&by(0), "other").unwrap().id;
    let stranger = registry.set_user_name(&by(3), &other, &everywhere, Some(&ada.id));
    assert!(matches!(stranger, Err(StoreError::NotFound(_))));
}

fn an_enrolment_key_is_used_up(registry: &impl Registry) {
    let workspace = first(registry);
    let twice = key(registry, 2, Some(100));
    let enrol = |key: &Secret, second| registry.claim(&claim(key, second).0);
    assert!(matches!(enrol(&twice, 100), Err(StoreError::NotFound(_))));
    let host = enrol(&twice, 99).unwrap();
    assert_eq!(host.display_name, "gpu1");
    assert_eq!(registry.enrolment_keys(&workspace).unwrap()[0].uses_left, 1);
    enrol(&twice, 99).unwrap();
    assert!(matches!(enrol(&twice, 1), Err(StoreError::NotFound(_))));
    assert_eq!(registry.enrolment_keys(&workspace).unwrap(), []);
    let revoked = key(registry, 1, None);
    let id = registry.enrolment_keys(&workspace).unwrap()[0].id.clone();
    registry
        .revoke_enrolment_key(&by(1), &workspace, &id)
        .unwrap();
    assert!(matches!(enrol(&revoked, 1), Err(StoreError::NotFound(_))));
    assert_eq!(registry.hosts(Some(&workspace)).unwrap().len(), 2);
}

fn a_one_time_key_enrols_one_of_many_hosts_at_once(registry: &impl Registry) {
    let key = key(registry, 1, None);
    let enrolled = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                if registry.claim(&claim(&key, 1).0).is_ok() {
                    enrolled.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(enrolled.into_inner(), 1);
    assert_eq!(registry.hosts(None).unwrap().len(), 1);
}

fn a_revoked_host_is_gone_for_its_token_and_listings(registry: &impl Registry) {
    let workspace = first(registry);
    let (claim, token) = claim(&key(registry, 1, None), 1);
    let host = registry.claim(&claim).unwrap();
    let by_token = || registry.host_by_token(&token, at(5)).unwrap();
    assert_eq!(by_token(), Some(host.clone()));
    registry
        .rename_host(&by(2), &workspace, &host.id, "lab 1")
        .unwrap();
    assert_eq!(by_token().unwrap().display_name, "lab 1");
    let maintenance = Maintenance {
        note: "new cooler".to_owned(),
        until: Some(at(9)),
    };
    for wanted in [Some(&maintenance), None, Some(&maintenance)] {
        registry
            .set_maintenance(&by(2), &workspace, &host.id, wanted)
            .unwrap();
        let found = registry.hosts(Some(&workspace)).unwrap();
        assert_eq!(found[0].maintenance.as_ref(), wanted);
    }
    let found = by_token().unwrap();
    assert_eq!(found.maintenance(at(8)), Some(&maintenance));
    assert_eq!(found.maintenance(at(9)), None);
    let before = registry.revision().unwrap();
    registry.revoke_host(&by(3), &workspace, &host.id).unwrap();
    assert!(registry.revision().unwrap() > before);
    assert_eq!(by_token(), None);
    assert_eq!(registry.hosts(None).unwrap(), []);
    let again = registry.revoke_host(&by(3), &workspace, &host.id);
    assert!(matches!(again, Err(StoreError::NotFound(_))));
}

fn a_key_limits_the_hosts_that_it_enrols(registry: &impl Registry) {
    let workspace = first(registry);
    let limits = KeyLimits {
        host_names: Some("gpu*".to_owned()),
        tags: vec!["a100".to_owned(), "lab 1".to_owned()],
        needs_approval: true,
    };
    let key = limited_key(registry, 1, Some(100), limits.clone());
    assert_eq!(
        registry.enrolment_keys(&workspace).unwrap()[0].limits,
        limits
    );
    let refusal = |claim: &HostClaim| {
        assert!(matches!(
            registry.claim(claim),
            Err(StoreError::NotFound(_))
        ));
        registry.refusal(claim).unwrap()
    };
    let (mut named, _) = claim(&key, 1);
    named.hostname = Some("lab-gpu".to_owned());
    let expected = Refusal::HostName("gpu*".to_owned());
    assert_eq!(refusal(&named), Some((workspace.clone(), expected)));
    let expected = Some((workspace.clone(), Refusal::Expired));
    assert_eq!(refusal(&claim(&key, 100).0), expected);
    let (good, token) = claim(&key, 1);
    assert_eq!(registry.refusal(&good).unwrap(), None);
    let host = registry.claim(&good).unwrap();
    assert_eq!((host.tags.clone(), host.is_approved), (limits.tags, false));
    let expected = Some((workspace.clone(), Refusal::Used));
    assert_eq!(refusal(&claim(&key, 2).0), expected);
    let unknown = claim(&Secret::generate(Kind::Enrolment), 1).0;
    assert_eq!(refusal(&unknown), None);
    registry.approve_host(&by(3), &workspace, &host.id).unwrap();
    let found = registry.host_by_token(&token, at(3)).unwrap().unwrap();
    assert!(found.is_approved);
}

fn a_new_token_replaces_the_old_one_at_its_first_use(registry: &impl Registry) {
    let (claim, old) = claim(&key(registry, 1, None), 1);
    let host = registry.claim(&claim).unwrap();
    let is_valid = |token, second| registry.host_by_token(token, at(second)).unwrap().is_some();
    let next = || Secret::generate(Kind::Agent).hash();
    let (lost, new) = (next(), next());
    registry.rotate_token(&host.id, &lost, "lost").unwrap();
    // The agent could not save it, and asks again.
    registry.rotate_token(&host.id, &new, "new").unwrap();
    assert!(is_valid(&old, 2) && !is_valid(&lost, 2) && is_valid(&old, 3));
    let before = registry.revision().unwrap();
    assert!(is_valid(&new, 4) && !is_valid(&old, 4));
    assert!(registry.revision().unwrap() > before);
    let found = registry.host_by_token(&new, at(9)).unwrap().unwrap();
    assert_eq!(
        (found.token_prefix.as_str(), found.token_since),
        ("new", at(4))
    );
    registry.rotate_token(&host.id, &old, "x").unwrap();
    registry
        .revoke_host(&by(5), &host.workspace, &host.id)
        .unwrap();
    assert!(!is_valid(&new, 6) && !is_valid(&old, 6));
}

fn a_host_continues_with_the_agent_that_replaces_it(registry: &impl Registry) {
    let workspace = first(registry);
    let enrol = |name: &str| {
        let (mut claim, token) = claim(&key(registry, 1, None), 1);
        claim.hostname = Some(name.to_owned());
        (registry.claim(&claim).unwrap(), token)
    };
    let ((old, old_token), (new, new_token)) = (enrol("old"), enrol("new"));
    let replace = |workspace, old, new| registry.replace_host(&by(2), workspace, old, new);
    assert!(matches!(
        replace(&workspace, &old.id, &old.id),
        Err(StoreError::Conflict(_))
    ));
    let other = registry.add_workspace(&by(0), "other").unwrap().id;
    assert!(matches!(
        replace(&other, &old.id, &new.id),
        Err(StoreError::NotFound(_))
    ));
    assert!(registry.host_by_token(&new_token, at(2)).unwrap().is_some());
    let next = Secret::generate(Kind::Agent).hash();
    registry.rotate_token(&new.id, &next, "next").unwrap();
    replace(&workspace, &old.id, &new.id).unwrap();
    assert_eq!(registry.host_by_token(&old_token, at(3)).unwrap(), None);
    let found = registry.host_by_token(&new_token, at(3)).unwrap().unwrap();
    assert_eq!((&found.id, found.display_name.as_str()), (&old.id, "old"));
    assert_eq!(found.hostname.as_deref(), Some("new"));
    assert_eq!(registry.hosts(None).unwrap(), [found]);
    // The agent may have saved its next token already.
    let found = registry.host_by_token(&next, at(4)).unwrap().unwrap();
    assert_eq!((&found.id, found.token_prefix.as_str()), (&old.id, "next"));
}

fn what_belongs_to_one_workspace_cannot_be_changed_from_another(registry: &impl Registry) {
    let other = registry.add_workspace(&by(0), "other").unwrap().id;
    let host = registry
        .claim(&claim(&key(registry, 1, None), 1).0)
        .unwrap();
    let id = registry.enrolment_keys(&first(registry)).unwrap();
    assert_eq!(id, []);
    for changed in [
        registry.revoke_host(&by(1), &other, &host.id),
        registry.rename_host(&by(1), &other, &host.id, "mine"),
    ] {
        assert!(matches!(changed, Err(StoreError::NotFound(_))));
    }
    assert_eq!(registry.hosts(Some(&other)).unwrap(), []);
    assert_eq!(registry.hosts(None).unwrap(), [host]);
}

fn every_change_has_an_audit_entry(registry: &impl Registry) {
    let workspace = first(registry);
    let ada = add(registry, "ada", Role::Owner).unwrap();
    let change = Change {
        actor: "bob".to_owned(),
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
    registry.revoke_host(&change, &workspace, &host.id).unwrap();
    let log = registry.audit_log(&workspace, None, 100).unwrap();
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
        .audit_log(&workspace, Some(log[1].number), 2)
        .unwrap();
    assert_eq!(older, log[2..4]);
    let other = registry.add_workspace(&by(0), "other").unwrap().id;
    let entries = registry.audit_log(&other, None, 100).unwrap();
    assert_eq!(entries.len(), 1);
}
