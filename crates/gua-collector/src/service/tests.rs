//! Checks the units with systemd's own tools.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gua_probe::process::user_ids;
use gua_settings::Loaded;

use super::board::BoardFacts;
use super::collector::{ALIAS, NAME};
use super::host_facts::HostFacts;
use super::place::Scope;
use super::reject_changeable_alerts;
use super::unit::{Readers, UnitFacts, answering, database_of, text, without_board};
use crate::location::OF_THE_HOST;

/// Runs systemd-analyze with an empty `/run`, because it reads units and writes files there. Returns `None` if nothing can be mounted.
fn systemd_analyze(arguments: &[&str], files: &[PathBuf]) -> Option<Output> {
    const SCRIPT: &str = "mount -t tmpfs tmpfs /run || exit 77; exec systemd-analyze \"$@\"";
    let runtime = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", SCRIPT, "sh"])
        .args(arguments)
        .args(files)
        .env("XDG_RUNTIME_DIR", runtime.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || said.starts_with("unshare: ") {
        gua_test::not_tested("no mounts here", "units with systemd-analyze");
        return None;
    }
    assert_ne!(
        output.status.code(),
        Some(127),
        "systemd-analyze is needed (Debian: systemd): {said}"
    );
    Some(output)
}

/// Requires that `systemd-analyze verify` prints nothing, as it does for valid units.
#[track_caller]
pub(super) fn verify(units: &[(&str, String)], scope: Scope) {
    let directory = tempfile::tempdir().unwrap();
    let paths = units.iter().map(|(name, text)| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let arguments: &[&str] = match scope {
        Scope::System => &["verify"],
        Scope::User => &["verify", "--user"],
    };
    let Some(verified) = systemd_analyze(arguments, &paths.collect::<Vec<_>>()) else {
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
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

pub(super) fn facts(scope: Scope, readers: Readers) -> UnitFacts {
    UnitFacts {
        // Any existing program: systemd checks that it is executable.
        program: PathBuf::from("/bin/true"),
        scope,
        db: (scope == Scope::System).then(|| OF_THE_HOST.into()),
        interval: None,
        metrics: None,
        readers,
        host: HostFacts::default(),
        board: None,
    }
}

/// Checks that `systemd-analyze security` gives a unit at most this exposure, in tenths.
#[track_caller]
pub(super) fn check_exposure(name: &str, text: &str, most: u32) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    let threshold = format!("--threshold={most}");
    let arguments = ["security", "--offline=true", "--no-pager", &threshold];
    let Some(analysed) = systemd_analyze(&arguments, &[path]) else {
        return;
    };
    let said = String::from_utf8_lossy(&analysed.stdout);
    let overall = said.lines().find(|line| line.contains("Overall exposure"));
    assert!(overall.is_some(), "{analysed:?}");
    assert!(
        analysed.status.success(),
        "{overall:?}, at most {most} / 10\n{text}"
    );
}

/// Highest exposure of a unit of the host, in tenths.
pub(super) const MAX_EXPOSURE: u32 = 19;

/// Facts about hosts in all combinations that change the sandbox.
pub(super) fn hosts() -> impl Iterator<Item = HostFacts> {
    (0..32).map(|bits| HostFacts {
        has_containers: bits & 1 != 0,
        has_network_names: bits & 2 != 0,
        has_alerts: false,
        has_terminals: bits & 16 != 0,
        device_group: (bits & 4 != 0).then_some(44),
        settings: (bits & 8 != 0).then(|| "/root/.gua/config.toml".into()),
    })
}

#[test]
fn the_units_of_the_host_have_a_low_exposure() {
    let plain = facts(Scope::System, Readers::Everyone);
    for host in hosts() {
        for archive in [None, Some(false), Some(true)] {
            // The network and the files of container runtimes expose most, then a group of the devices.
            let is_online = host.has_network_names || archive.is_some();
            let limit = match (host.has_containers, is_online) {
                (false, false) => 9 + u32::from(host.device_group.is_some() || host.has_terminals),
                (true, false) => 11,
                (false, true) => 17 + u32::from(host.device_group.is_some() || host.has_terminals),
                (true, true) => MAX_EXPOSURE,
            };
            let unit = text(&UnitFacts {
                host: host.clone(),
                board: archive.map(board),
                ..plain.clone()
            });
            check_exposure(NAME, &unit, limit);
        }
    }
    let [_, (name, reader)] = answering(&plain);
    check_exposure(name, &reader, 4);
}

/// Combines all that can widen the sandbox: facts about the host, alerts, a board, metrics, and files in home directories.
#[test]
fn the_unit_with_the_least_sandbox_has_a_low_exposure() {
    let widest = HostFacts {
        has_alerts: true,
        ..hosts().last().unwrap()
    };
    for metrics in [None, Some("0.0.0.0:19400".parse().unwrap())] {
        for (program, db) in [
            ("/root/bin/true", OF_THE_HOST),
            ("/bin/true", "/home/100% gpu/gua.db"),
            ("/root/bin/true", "/home/100% gpu/gua.db"),
        ] {
            for board in [None, Some(board(true))] {
                let facts = UnitFacts {
                    program: program.into(),
                    db: Some(db.into()),
                    host: widest.clone(),
                    metrics,
                    board,
                    ..facts(Scope::System, Readers::Everyone)
                };
                let unit = text(&facts);
                check_exposure(NAME, &unit, MAX_EXPOSURE);
                let [_, (name, reader)] = answering(&facts);
                check_exposure(name, &reader, MAX_EXPOSURE);
                // Other home directories are hidden.
                let hidden = "ProtectHome=tmpfs\n";
                assert!(unit.contains(hidden), "{unit}");
                let bound = "BindReadOnlyPaths=\"/root/bin/true\"\n";
                assert_eq!(unit.contains(bound), program != "/bin/true", "{unit}");
                let bound = "BindPaths=\"/home/100%% gpu\"\n";
                assert_eq!(unit.contains(bound), db != OF_THE_HOST, "{unit}");
            }
        }
    }
    let plain = text(&facts(Scope::System, Readers::Everyone));
    assert!(plain.contains("ProtectHome=yes\n"), "{plain}");
}

/// The unit of a collector that pushes to a board and archives there.
fn pushing_unit() -> String {
    text(&UnitFacts {
        board: Some(board(true)),
        ..facts(Scope::System, Readers::Everyone)
    })
}

/// The allowed prefixes and the multicast addresses are all addresses, and none is in both.
#[test]
fn a_unit_that_pushes_reaches_every_address_but_multicast() {
    let unit = pushing_unit();
    let lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix("IPAddressAllow="));
    let prefixes = lines.flat_map(str::split_whitespace).map(|prefix| {
        let (address, length) = prefix.split_once('/').unwrap();
        let first = match address.parse::<IpAddr>().unwrap() {
            IpAddr::V4(address) => address.octets()[0],
            IpAddr::V6(address) => address.octets()[0],
        };
        (address.contains(':'), first, length.parse::<u32>().unwrap())
    });
    let prefixes: Vec<_> = prefixes.collect();
    for (is_six, multicast) in [(false, 0xe0..=0xef_u8), (true, 0xff..=0xff)] {
        for octet in 0..=u8::MAX {
            let holds = |&&(six, first, length): &&(bool, u8, u32)| {
                let shift = 8 - length;
                six == is_six && u32::from(octet) >> shift == u32::from(first) >> shift
            };
            let found = prefixes.iter().filter(holds).count();
            assert_eq!(found, usize::from(!multicast.contains(&octet)), "{octet}");
        }
    }
}

/// Enrolment and settings with all characters that must be quoted.
pub(super) fn board(archive: bool) -> BoardFacts {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    BoardFacts {
        enrolment: "/root/.gua/a b.json".into(),
        archive,
        variables: vec![
            variable("GUA_CLOUD_USERS", "omit"),
            variable("GUA_CA_FILE", "/etc/100% \"ca\"/$x\\y.pem"),
        ],
        credentials: vec![
            ("cloud.json", "/root/.gua/a b.json".into()),
            ("cloud.salt", "/root/.gua/100%.salt".into()),
        ],
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
                    check(&UnitFacts {
                        interval,
                        board: archive.map(board),
                        ..facts(scope, readers.clone())
                    });
                }
            }
        }
    }
}

#[test]
fn only_the_service_opens_the_hosts_history_and_the_chosen_users_ask() {
    let private = "UMask=0027\nStateDirectory=gua\nStateDirectoryMode=0750\n";
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
        let unit = text(&facts);
        assert!(unit.contains(private) && unit.contains("User=gua\nGroup=gua\n"));
        assert!(unit.contains("RuntimeDirectory=gua-collector\n"), "{unit}");
        let [(_, socket), (_, reader)] = answering(&facts);
        assert!(socket.contains(access), "{socket}");
        for line in [
            "ExecStart=/bin/true __answers /var/lib/gua/gua.db\n",
            "StandardInput=socket\n",
            "DynamicUser=yes\nGroup=gua\n",
            "Environment=HOME=/\n",
            "CapabilityBoundingSet=\n",
        ] {
            assert!(reader.contains(line), "{line}{reader}");
        }
        // Either would make every requester look like one user.
        assert!(!reader.contains("PrivateUsers=") && !socket.contains("Accept="));
    }
}

#[test]
fn the_service_never_loses_the_drivers_devices() {
    let unit = text(&facts(Scope::System, Readers::Everyone));
    assert!(!unit.contains("PrivateDevices="), "{unit}");
    for line in [
        "DeviceAllow=char-nvidia* rw\n",
        "DeviceAllow=/dev/char/195:0 rw\n",
        "DeviceAllow=/dev/char/195:255 rw\n",
        // It overrides ProtectProc and hidepid.
        "AmbientCapabilities=CAP_SYS_PTRACE\n",
    ] {
        assert!(unit.contains(line), "{line}{unit}");
    }
    assert!(unit.contains(&format!("Alias={ALIAS}\n")));
}

#[test]
fn a_collector_that_pushes_can_read_what_it_needs() {
    let unit = pushing_unit();
    for part in [
        " --cloud --archive\n",
        "LoadCredential=cloud.json:/root/.gua/a b.json\n",
        "LoadCredential=cloud.salt:/root/.gua/100%%.salt\n",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n",
        "Wants=network-online.target\n",
        "Environment=\"GUA_CLOUD_USERS=omit\"\n",
        "Environment=\"GUA_CA_FILE=/etc/100%% \\\"ca\\\"/$x\\\\y.pem\"\n",
        "ProtectHome=yes\n",
    ] {
        assert!(unit.contains(part), "{part}{unit}");
    }
}

#[test]
fn a_collector_gets_what_the_host_needs_and_nothing_else() {
    let of = |host: HostFacts| {
        text(&UnitFacts {
            host,
            ..facts(Scope::System, Readers::Everyone)
        })
    };
    let plain = of(HostFacts::default());
    let lonely = ["RestrictAddressFamilies=AF_UNIX\n", "PrivateNetwork=yes\n"];
    assert!(!plain.contains("IPAddressAllow="), "{plain}");
    assert!(lonely.iter().all(|line| plain.contains(line)), "{plain}");
    for line in ["LoadCredential=", "SupplementaryGroups=", "CAP_DAC"] {
        assert!(!plain.contains(line), "{line}{plain}");
    }
    let needy = of(HostFacts {
        has_containers: true,
        has_network_names: true,
        has_alerts: false,
        has_terminals: true,
        device_group: Some(44),
        settings: Some("/root/.gua/config.toml".into()),
    });
    for line in [
        "CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH\n",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n",
        "SupplementaryGroups=44\n",
        "SupplementaryGroups=tty\n",
        "DeviceAllow=char-pts w\n",
        "LoadCredential=config.toml:/root/.gua/config.toml\n",
    ] {
        assert!(needy.contains(line), "{line}{needy}");
    }
    assert!(!lonely.iter().any(|line| needy.contains(line)), "{needy}");
    let alerting = of(HostFacts {
        has_alerts: true,
        ..HostFacts::default()
    });
    let is_lonely = lonely.iter().any(|line| alerting.contains(line));
    assert!(!is_lonely, "{alerting}");
}

#[test]
fn a_collector_with_metrics_gets_the_address_family_that_it_needs() {
    let of = |address: &str, host: HostFacts| {
        let facts = UnitFacts {
            metrics: Some(address.parse().unwrap()),
            host,
            ..facts(Scope::System, Readers::Everyone)
        };
        check(&facts);
        text(&facts)
    };
    let local = of("127.0.0.1:19400", HostFacts::default());
    for part in [
        " --metrics 127.0.0.1:19400\n",
        "RestrictAddressFamilies=AF_UNIX AF_INET\n",
        "IPAddressDeny=any\nIPAddressAllow=localhost\n",
    ] {
        assert!(local.contains(part), "{part}{local}");
    }
    // In a network of its own, nobody could ask.
    assert!(!local.contains("PrivateNetwork"), "{local}");
    check_exposure(NAME, &local, MAX_EXPOSURE);
    let six = of("[::1]:19400", HostFacts::default());
    assert!(
        six.contains("RestrictAddressFamilies=AF_UNIX AF_INET6\n"),
        "{six}"
    );
    let open = of("0.0.0.0:19400", HostFacts::default());
    assert!(!open.contains("IPAddressAllow=localhost"), "{open}");
    check_exposure(NAME, &open, MAX_EXPOSURE);
    let names = HostFacts {
        has_network_names: true,
        ..HostFacts::default()
    };
    // A directory service may be anywhere.
    let both = of("127.0.0.1:19400", names);
    assert!(both.contains("AF_INET AF_INET6\n"), "{both}");
    assert!(!both.contains("IPAddressAllow=localhost"), "{both}");
}

#[test]
fn a_collector_without_its_board_collects_as_before() {
    for archive in [false, true] {
        let unit = text(&UnitFacts {
            board: Some(board(archive)),
            interval: Some(std::time::Duration::from_secs(10)),
            ..facts(Scope::System, Readers::Everyone)
        });
        let without = without_board(&unit);
        assert!(without.contains(" --interval 10s\n"), "{without}");
        for gone in ["--cloud", "--archive", "LoadCredential="] {
            assert!(unit.contains(gone) || gone == "--archive", "{unit}");
            assert!(!without.contains(gone), "{without}");
        }
        verify(&[(NAME, without)], Scope::System);
    }
}

#[test]
fn an_alert_whose_program_or_secret_another_user_can_change_is_not_installed() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    if !gua_test::runs_as_root("files of another user") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let config = home.path().join("config.toml");
    let inputs = gua_settings::Inputs {
        variables: std::collections::BTreeMap::new(),
        home: None,
        system_file: config.clone(),
    };
    let mail = "smtp = \"mail:587\"\nfrom = \"a@b\"\nrecipient = \"a@b\"\nsmtp_user = \"gua\"";
    for lines in [
        "to = \"command\"\ncommand = [\"FILE\"]",
        "to = \"slack\"\nurl_file = \"FILE\"",
        &format!("to = \"email\"\n{mail}\npassword_file = \"FILE\""),
    ] {
        let lines = lines.replace("FILE", file.to_str().unwrap());
        fs::write(&config, format!("[[alert]]\nwhen = [\"lost\"]\n{lines}\n")).unwrap();
        let loaded = Loaded::from(&inputs, &[]);
        assert_eq!(loaded.settings.alerts.len(), 1, "{:?}", loaded.problems);
        let set = |owner: u32, mode: u32| {
            chown(&file, Some(owner), None).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            reject_changeable_alerts(&loaded, "nobody").map_err(|failure| failure.message)
        };
        let nobody = user_ids("nobody").unwrap().0;
        assert_eq!((set(0, 0o640), set(nobody, 0o640)), (Ok(()), Ok(())));
        let theirs = set(1, 0o640).unwrap_err();
        assert!(theirs.ends_with("belongs to user 1"), "{theirs}");
        let open = set(0, 0o646).unwrap_err();
        assert!(open.ends_with("can be written by everyone"), "{open}");
    }
}

#[test]
fn a_command_of_an_alert_that_takes_all_memory_does_not_stop_the_collector() {
    let unit = text(&facts(Scope::System, Readers::Everyone));
    assert!(unit.contains("MemoryMax=1G\n") && unit.contains("OOMPolicy=continue\n"));
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
        unit.contains("\nReadWritePaths=\"/srv/100%% gpu $x\"\n")
            && unit.contains("\nEnvironment=\"GUA_SERVICE_DB=/srv/100%% gpu $x/gua.db\"\n"),
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

#[test]
fn a_unit_with_a_copy_of_the_enrolment_is_found() {
    let units = tempfile::tempdir().unwrap();
    let has_copy = |path: &str| super::has_copy_in(units.path(), Path::new(path));
    assert!(!has_copy("/root/.gua/a b.json"));
    let credential = "[Service]\nLoadCredential=cloud.json:/root/.gua/a b.json\n";
    fs::write(units.path().join("gua-sync.service"), credential).unwrap();
    assert!(has_copy("/root/.gua/a b.json"));
    assert!(!has_copy("/home/ada/.gua/a b.json"));
}
