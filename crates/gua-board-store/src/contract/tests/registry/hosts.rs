//! Hosts and enrolment keys.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::{at, by};
use super::{claim, first, key, limited_key};
use crate::StoreError;
use crate::registry::{Action, HostClaim, HostEdit, KeyLimits, Maintenance, Refusal, Registry};
use crate::secret::{Kind, Secret};

pub(super) fn check<R: Registry>(open: &impl Fn() -> R) {
    an_enrolment_key_is_used_up(&open());
    a_one_time_key_enrols_one_of_many_hosts_at_once(&open());
    a_revoked_host_is_gone_for_its_token_and_listings(&open());
    a_key_limits_the_hosts_that_it_enrols(&open());
    a_new_token_replaces_the_old_one_at_its_first_use(&open());
    a_host_continues_with_the_agent_that_replaces_it(&open());
}

fn an_enrolment_key_is_used_up(registry: &dyn Registry) {
    let workspace = first(registry);
    let twice = key(registry, 2, Some(100));
    let enrol = |key: &Secret, second| registry.claim(&claim(key, second).0);
    let is_refused = |claimed| matches!(claimed, Err(StoreError::Refused(_)));
    assert!(is_refused(enrol(&twice, 100)));
    let host = enrol(&twice, 99).unwrap();
    assert_eq!(host.display_name, "gpu1");
    assert_eq!(registry.enrolment_keys(&workspace).unwrap()[0].uses_left, 1);
    enrol(&twice, 99).unwrap();
    assert!(is_refused(enrol(&twice, 1)));
    assert_eq!(registry.enrolment_keys(&workspace).unwrap(), []);
    let revoked = key(registry, 1, None);
    let id = registry.enrolment_keys(&workspace).unwrap()[0].id.clone();
    registry
        .revoke_enrolment_key(&by(1), &workspace, &id)
        .unwrap();
    assert!(matches!(enrol(&revoked, 1), Err(StoreError::NotFound(_))));
    assert_eq!(registry.hosts(Some(&workspace)).unwrap().len(), 2);
}

fn a_one_time_key_enrols_one_of_many_hosts_at_once(registry: &dyn Registry) {
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

fn a_revoked_host_is_gone_for_its_token_and_listings(registry: &dyn Registry) {
    let workspace = first(registry);
    let (claim, token) = claim(&key(registry, 1, None), 1);
    let host = registry.claim(&claim).unwrap();
    let by_token = || registry.host_by_token(&token, at(5)).unwrap();
    assert_eq!(by_token(), Some(host.clone()));
    let edit = |by, edit| registry.edit_host(&by, &workspace, &host.id, &edit);
    edit(by(2), HostEdit::Rename("lab 1")).unwrap();
    assert_eq!(by_token().unwrap().display_name, "lab 1");
    let maintenance = Maintenance {
        note: "new cooler".to_owned(),
        until: Some(at(9)),
    };
    for wanted in [Some(&maintenance), None, Some(&maintenance)] {
        edit(by(2), HostEdit::SetMaintenance(wanted)).unwrap();
        let found = registry.hosts(Some(&workspace)).unwrap();
        assert_eq!(found[0].maintenance.as_ref(), wanted);
    }
    let found = by_token().unwrap();
    assert_eq!(found.maintenance(at(8)), Some(&maintenance));
    assert_eq!(found.maintenance(at(9)), None);
    let before = registry.revision().unwrap();
    edit(by(3), HostEdit::Revoke).unwrap();
    assert!(registry.revision().unwrap() > before);
    assert_eq!(by_token(), None);
    assert_eq!(registry.hosts(None).unwrap(), []);
    let again = edit(by(3), HostEdit::Revoke);
    assert!(matches!(again, Err(StoreError::NotFound(_))));
}

fn a_key_limits_the_hosts_that_it_enrols(registry: &dyn Registry) {
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
    let refusal = |claim: &HostClaim| match registry.claim(claim) {
        Err(StoreError::Refused(refusal)) => Some(refusal),
        Err(StoreError::NotFound(_)) => None,
        other => panic!("{other:?}"),
    };
    let (mut named, _) = claim(&key, 1);
    named.hostname = Some("lab-gpu".to_owned());
    let expected = Refusal::HostName("gpu*".to_owned());
    assert_eq!(refusal(&named), Some(expected));
    assert_eq!(refusal(&claim(&key, 100).0), Some(Refusal::Expired));
    let (good, token) = claim(&key, 1);
    let host = registry.claim(&good).unwrap();
    assert_eq!((host.tags.clone(), host.is_approved), (limits.tags, false));
    assert_eq!(refusal(&claim(&key, 2).0), Some(Refusal::Used));
    let unknown = claim(&Secret::generate(Kind::Enrolment), 1).0;
    assert_eq!(refusal(&unknown), None);
    let entries = registry.events(&workspace, Action::EnrolmentRefused, at(0), 9);
    let entries: Vec<String> = entries.unwrap().into_iter().map(|one| one.object).collect();
    assert_eq!(
        entries,
        [
            "gpu1: the enrolment token has been used already",
            "gpu1: the enrolment token has expired",
            "lab-gpu: the enrolment token is for hosts named gpu*",
        ]
    );
    for second in [3, 9] {
        let by = by(second);
        registry
            .edit_host(&by, &workspace, &host.id, &HostEdit::Approve)
            .unwrap();
        let found = registry.host_by_token(&token, at(second)).unwrap().unwrap();
        // Its token is valid from the first approval on.
        assert_eq!((found.is_approved, found.token_since), (true, at(3)));
    }
}

fn a_new_token_replaces_the_old_one_at_its_first_use(registry: &dyn Registry) {
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
        .edit_host(&by(5), &host.workspace, &host.id, &HostEdit::Revoke)
        .unwrap();
    assert!(!is_valid(&new, 6) && !is_valid(&old, 6));
}

fn a_host_continues_with_the_agent_that_replaces_it(registry: &dyn Registry) {
    let workspace = first(registry);
    let enrol = |name: &str| {
        let (mut claim, token) = claim(&key(registry, 1, None), 1);
        claim.hostname = Some(name.to_owned());
        (registry.claim(&claim).unwrap(), token)
    };
    let ((old, old_token), (new, new_token)) = (enrol("old"), enrol("new"));
    let replace = |workspace, old, new| {
        registry.edit_host(&by(2), workspace, old, &HostEdit::ContinueAs(new))
    };
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
