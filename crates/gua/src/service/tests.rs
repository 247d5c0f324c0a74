//! The units as systemd itself judges them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::unit::{Readers, UnitFacts, text};
use super::{ALIAS, NAME};
use crate::service::place::Scope;

/// `systemd-analyze verify` says nothing about units that it likes.
#[track_caller]
pub(super) fn verify(units: &[(&str, String)], scope: Scope) {
    let directory = tempfile::tempdir().unwrap();
    let paths = units.iter().map(|(name, text)| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .args((scope == Scope::User).then_some("--user"))
        .args(paths)
        .env("XDG_RUNTIME_DIR", directory.path())
        .output()
        .expect("systemd-analyze is needed (Debian: systemd)");
    let said = String::from_utf8_lossy(&verified.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("gua")).collect();
    assert!(
        verified.status.success() && ours.is_empty(),
        "{said}\n{units:?}"
    );
}

#[track_caller]
fn check(facts: &UnitFacts) {
    verify(&[(NAME, text(facts))], facts.scope);
}

fn program() -> PathBuf {
    // Any program that exists: systemd looks whether it can be executed.
    PathBuf::from("/bin/true")
}

#[test]
fn systemd_finds_nothing_wrong_with_any_unit() {
    for scope in [Scope::System, Scope::User] {
        for readers in [
            Readers::Everyone,
            Readers::Group("root".to_owned()),
            Readers::Root,
        ] {
            for interval in [None, Some(std::time::Duration::from_millis(1500))] {
                check(&UnitFacts {
                    program: program(),
                    scope,
                    interval,
                    readers: readers.clone(),
                });
            }
        }
    }
}

#[test]
fn the_hosts_history_is_readable_by_whom_it_should_be() {
    let unit = |readers| {
        text(&UnitFacts {
            program: program(),
            scope: Scope::System,
            interval: None,
            readers,
        })
    };
    assert!(
        unit(Readers::Everyone)
            .contains("UMask=0022\nStateDirectory=gua\nStateDirectoryMode=0755\n")
    );
    assert!(
        unit(Readers::Root).contains("UMask=0077\nStateDirectory=gua\nStateDirectoryMode=0700\n")
    );
    assert!(unit(Readers::Group("gpu".to_owned())).contains("Group=gpu\nUMask=0027\n"));
}

#[test]
fn the_service_never_loses_the_drivers_devices() {
    let unit = text(&UnitFacts {
        program: program(),
        scope: Scope::System,
        interval: None,
        readers: Readers::Everyone,
    });
    for line in unit.lines() {
        for taker in [
            "PrivateDevices=",
            "ProtectClock=",
            "DevicePolicy=",
            "DeviceAllow=",
            "ProtectProc=",
        ] {
            assert!(!line.starts_with(taker), "{line}");
        }
    }
    assert!(unit.contains(&format!("Alias={ALIAS}\n")));
}
