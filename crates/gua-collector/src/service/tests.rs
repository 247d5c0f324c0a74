//! Checks the units with systemd's own tools.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::board::BoardFacts;
use super::collector::{ALIAS, NAME};
use super::place::Scope;
use super::unit::{Pushing, Readers, UnitFacts, answering, database_of, text};
use crate::location::OF_THE_HOST;

/// Requires that `systemd-analyze verify` prints nothing, as it does for valid units.
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
    // An ordinary user on a machine without systemd cannot verify units of the system.
    if said.contains("Failed to create directory '/run/systemd/'") {
        eprintln!("not verified: systemd-analyze needs /run/systemd or root");
        return;
    }
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("gua")).collect();
    assert!(
        verified.status.success() && ours.is_empty(),
        "{said}\n{units:?}"
    );
}

#[track_caller]
fn check(facts: &UnitFacts) {
    let mut units = vec![(NAME, text(facts))];
    if facts.scope == Scope::System {
        units.extend(answering(facts));
    }
    verify(&units, facts.scope);
}

fn facts(scope: Scope, readers: Readers) -> UnitFacts {
    UnitFacts {
        // Any existing program: systemd checks that it is executable.
        program: PathBuf::from("/bin/true"),
        scope,
        db: (scope == Scope::System).then(|| OF_THE_HOST.into()),
        interval: None,
        readers,
        settings: None,
        cloud: None,
    }
}

/// Enrolment and settings with all characters that must be quoted.
pub(super) fn board() -> BoardFacts {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    BoardFacts {
        enrolment: "/root/.gua/a b.json".into(),
        variables: vec![
            variable("GUA_CLOUD_USERS", "omit"),
            variable("GUA_CA_FILE", "/etc/100% \"ca\"/$x\\y.pem"),
        ],
        files: vec!["/root/.gua/a b.json".into()],
        withheld: Vec::new(),
    }
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
                for archive in [None, Some(false), Some(true)] {
                    let cloud = archive.map(|archive| Pushing {
                        board: board(),
                        archive,
                    });
                    check(&UnitFacts {
                        interval,
                        cloud,
                        ..facts(scope, readers.clone())
                    });
                }
            }
        }
    }
}

#[test]
fn only_the_service_opens_the_hosts_history_and_the_chosen_users_ask() {
    let private = "Group=gua\nUMask=0027\nStateDirectory=gua\nStateDirectoryMode=0750\n";
    for (readers, access) in [
        (
            Readers::Everyone,
            "SocketMode=0666\nService=gua-reader.service\n",
        ),
        (
            Readers::Group("gpu".to_owned()),
            "SocketMode=0660\nSocketGroup=gpu\n",
        ),
        (Readers::Root, "SocketMode=0600\n"),
    ] {
        let facts = facts(Scope::System, readers);
        assert!(text(&facts).contains(private));
        let [(_, socket), (_, reader)] = answering(&facts);
        assert!(socket.contains(access), "{socket}");
        for line in [
            "ExecStart=/bin/true __answers /var/lib/gua/gua.db\n",
            "StandardInput=socket\n",
            "User=gua\nGroup=gua\n",
            "CapabilityBoundingSet=\n",
        ] {
            assert!(reader.contains(line), "{line}{reader}");
        }
        // Either would make every asker look like one user.
        assert!(!reader.contains("PrivateUsers=") && !socket.contains("Accept="));
    }
}

#[test]
fn the_service_never_loses_the_drivers_devices() {
    let unit = text(&facts(Scope::System, Readers::Everyone));
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

#[test]
fn a_collector_that_pushes_can_read_what_it_needs() {
    let cloud = Some(Pushing {
        board: board(),
        archive: true,
    });
    let unit = text(&UnitFacts {
        cloud,
        ..facts(Scope::System, Readers::Everyone)
    });
    for part in [
        " --cloud --archive --config \"/root/.gua/a b.json\"\n",
        "Wants=network-online.target\n",
        "Environment=\"GUA_CLOUD_USERS=omit\"\n",
        "Environment=\"GUA_CA_FILE=/etc/100%% \\\"ca\\\"/$x\\\\y.pem\"\n",
        "ProtectHome=read-only\n",
    ] {
        assert!(unit.contains(part), "{part}{unit}");
    }
    // Also without a board if the settings are in a home directory.
    let home = |settings: Option<&str>| {
        let unit = text(&UnitFacts {
            settings: settings.map(PathBuf::from),
            ..facts(Scope::System, Readers::Everyone)
        });
        unit.contains("ProtectHome=read-only\n")
    };
    assert!(home(Some("/root/.gua/config.toml")));
    assert!(!home(Some("/etc/gua/config.toml")) && !home(None));
}

#[test]
fn who_may_read_is_found_again_in_a_unit() {
    for readers in [
        Readers::Everyone,
        Readers::Group("gpu".to_owned()),
        Readers::Root,
    ] {
        let [(_, socket), _] = answering(&facts(Scope::System, readers.clone()));
        assert_eq!(Readers::of_unit(&socket), Some(readers.clone()));
        assert_eq!(readers.to_string().parse(), Ok(readers));
    }
    // Units of earlier versions, whose readers opened the file.
    let of_old = |text: &str| Readers::of_unit(text);
    assert_eq!(of_old("UMask=0022\n"), Some(Readers::Everyone));
    assert_eq!(
        of_old("Group=gpu\nUMask=0027\n"),
        Some(Readers::Group("gpu".to_owned()))
    );
    assert_eq!(of_old("UMask=0077\n"), Some(Readers::Root));
    let unit = text(&facts(Scope::User, Readers::Root));
    assert_eq!(Readers::of_unit(&unit), None);
}

#[test]
fn a_history_elsewhere_is_written_read_and_found_again() {
    let path = "/srv/100% gpu $x/gua.db";
    let facts = UnitFacts {
        db: Some(path.into()),
        ..facts(Scope::System, Readers::Everyone)
    };
    check(&facts);
    let unit = text(&facts);
    assert!(
        unit.contains("\nReadWritePaths=\"/srv/100%% gpu $x\"\n"),
        "{unit}"
    );
    assert_eq!(database_of(&unit), Some(path.into()));
    let [_, (_, reader)] = answering(&facts);
    assert!(
        reader.contains("__answers \"/srv/100%% gpu $$x/gua.db\"\n"),
        "{reader}"
    );
    let usual = text(&self::facts(Scope::System, Readers::Everyone));
    assert!(!usual.contains("ReadWritePaths="), "{usual}");
}
