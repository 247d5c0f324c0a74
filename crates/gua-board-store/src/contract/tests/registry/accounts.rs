//! Accounts, members, sessions, tokens and links.

use super::super::{at, by};
use super::{add, claim, first, key};
use crate::HostId;
use crate::StoreError;
use crate::password::PasswordHash;
use crate::registry::{
    Account, Action, AuditView, HostUser, Identity, Join, LinkPurpose, NewApiToken, NewLink,
    NewSession, Registry, Role, Scope,
};
use crate::secret::{Kind, Secret};

pub(super) fn check<R: Registry>(open: &impl Fn() -> R) {
    names_are_unique_regardless_of_case(&open());
    the_last_owner_stays(&open());
    sessions_expire_and_end_with_a_new_password(&open());
    an_api_token_has_the_current_role_of_its_account(&open());
    a_link_works_once(&open());
    a_reset_link_sets_the_password_once(&open());
    an_identity_is_one_account_whatever_its_name(&open());
    a_user_name_on_a_host_belongs_to_one_member(&open());
}

fn names_are_unique_regardless_of_case(registry: &dyn Registry) {
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

fn the_last_owner_stays(registry: &dyn Registry) {
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

fn sessions_expire_and_end_with_a_new_password(registry: &dyn Registry) {
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

fn an_api_token_has_the_current_role_of_its_account(registry: &dyn Registry) {
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
        let found = registry.api_token(&secret.hash(), at(now)).unwrap()?;
        assert_eq!(found, token);
        let memberships = registry.memberships(&found.account).unwrap();
        Some(memberships[0].role)
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

fn a_link_works_once(registry: &dyn Registry) {
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

fn a_reset_link_sets_the_password_once(registry: &dyn Registry) {
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
    let workspace = registry.workspaces().unwrap()[0].id.clone();
    for view in [
        AuditView::Board(&workspace),
        AuditView::Workspace(&workspace),
    ] {
        let entries = registry.audit_log(view, None, 100).unwrap();
        let added = entries
            .iter()
            .filter(|entry| entry.action == Action::ResetLinkAdded);
        let added: Vec<&str> = added.map(|entry| entry.object.as_str()).collect();
        assert_eq!(added, ["ada", "ada"], "{entries:?}");
    }
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
    let role = Some(Role::Owner);
    registry
        .set_role(&by(3), &workspace, &ada.id, role)
        .unwrap();
    assert!(matches!(reset(&third, 4), Err(StoreError::NotFound(_))));
}

fn an_identity_is_one_account_whatever_its_name(registry: &dyn Registry) {
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
    // The log shows the account, and not what the provider calls the person.
    let log = registry
        .audit_log(AuditView::Board(&workspace), None, 1)
        .unwrap();
    assert_eq!(log[0].actor, "Ada (2)");
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

fn a_user_name_on_a_host_belongs_to_one_member(registry: &dyn Registry) {
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
    assert_eq!(prove(&new, 59, "ada").unwrap(), ada.name);
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
    // An empty id means all hosts too.
    let empty = HostUser {
        host: Some(HostId(String::new())),
        name: "user-00fe".to_owned(),
    };
    let linked = registry.set_user_name(&by(3), &workspace, &empty, Some(&bob.id));
    linked.unwrap();
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
