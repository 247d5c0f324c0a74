//! Files that other users may have planted. They affect only the user who planted them.

use gua_test::runs_as_root;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_claim::{Answer, ClaimDir, ClaimedBy, LiveClaim, OpenError, Trouble};
use gua_model::Uid;
use gua_model::subuid::SubUids;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::host::{FakeHost, as_user, gpus, request, shared_folder};

const MALLORY: u32 = 20_666;

/// A claim of process 4711 on the first GPU, until one hour after the start of [`FakeHost`]'s clock.
const GOOD: &str = r#"{"version":1,"cards":["GPU-0"],"made":"2026-01-01T00:00:00Z","deadline_us":7200000000,
    "for_process":{"boot":"00000000-0000-0000-0000-00008b1fe9c8","pid":4711,"start":4711}}"#;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

/// Creates a user directory with one file in it, owned by the given users.
fn plant(host: &FakeHost, name: &str, user_dir_of: u32, file_of: u32) -> PathBuf {
    let user_dir = host.path().join(name);
    fs::create_dir(&user_dir).unwrap();
    set_mode(&user_dir, 0o755);
    let file = user_dir.join("claim-0000abcd");
    fs::write(&file, GOOD).unwrap();
    chown(&file, Some(file_of), None).unwrap();
    chown(&user_dir, Some(user_dir_of), None).unwrap();
    user_dir
}

fn troubles(host: &FakeHost) -> Vec<Trouble> {
    let survey = host.dir.survey(&host.observed, &host.kernel).unwrap();
    survey
        .problems
        .iter()
        .map(|problem| problem.trouble)
        .collect()
}

#[test]
fn a_symlink_in_place_of_the_directory_is_refused() {
    let folder = shared_folder();
    let link = folder.path().join("link");
    symlink("/tmp", &link).unwrap();
    assert!(matches!(
        ClaimDir::open(&link),
        Err(OpenError::NoDirectory { .. })
    ));
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    assert!(matches!(
        ClaimDir::open(&fifo),
        Err(OpenError::NoDirectory { .. })
    ));
    assert!(matches!(
        ClaimDir::open(&folder.path().join("none")),
        Err(OpenError::Open { .. })
    ));
}

#[test]
fn a_directory_in_which_others_could_remove_claims_is_refused() {
    let folder = shared_folder();
    set_mode(folder.path(), 0o777);
    assert!(matches!(
        ClaimDir::open(folder.path()),
        Err(OpenError::NotSticky { .. })
    ));
    assert!(matches!(
        ClaimDir::find(&[folder.path()]),
        Err(OpenError::NoPlace { .. })
    ));
    if !runs_as_root("a directory of another user") {
        return;
    }
    set_mode(folder.path(), 0o1777);
    ClaimDir::find(&[folder.path()]).unwrap();
    chown(folder.path(), Some(MALLORY), None).unwrap();
    let refused = ClaimDir::open(folder.path());
    assert!(matches!(
        refused,
        Err(OpenError::Foreign {
            owner: Uid(MALLORY),
            ..
        })
    ));
}

#[test]
fn the_owner_of_a_claim_is_the_owner_of_its_file() {
    if !runs_as_root("claims of another user") {
        return;
    }
    let host = FakeHost::with_gpus(2);
    plant(&host, "gua-claims-a", MALLORY, MALLORY);
    let survey = host.dir.survey(&host.observed, &host.kernel).unwrap();
    assert_eq!(survey.problems, []);
    assert_eq!(survey.claims[0].claim.owner, Uid(MALLORY));
    assert_eq!(survey.claims[0].gpus[0].by, ClaimedBy::Lease);
    assert_eq!(host.granted(10, 1).gpus, gpus([1]));
}

#[test]
fn a_copied_id_does_not_keep_root_from_releasing_the_claim() {
    if !runs_as_root("claims of two other users") {
        return;
    }
    let host = FakeHost::with_gpus(1);
    plant(&host, "gua-claims-a", 20_001, 20_001);
    plant(&host, "gua-claims-b", MALLORY, MALLORY);
    let id = "0000abcd".parse().unwrap();
    let released = host.dir.release(&id).unwrap();
    let owners: Vec<_> = released.iter().map(|claim| claim.owner.0).collect();
    assert_eq!(owners, [20_001, MALLORY]);
    assert_eq!(host.claimed(), []);
}

#[test]
fn a_file_not_owned_by_the_owner_of_its_user_dir_is_ignored() {
    if !runs_as_root("files of other users, as hard links make them") {
        return;
    }
    let host = FakeHost::with_gpus(1);
    plant(&host, "gua-claims-a", MALLORY, 20_001);
    assert_eq!(troubles(&host), [Trouble::Foreign(Uid(20_001))]);
    let open = plant(&host, "gua-claims-b", 20_001, 20_001);
    set_mode(&open, 0o777);
    assert!(troubles(&host).contains(&Trouble::Shared));
    host.granted(10, 1);
}

#[test]
fn links_fifos_sockets_and_directories_in_a_user_dir_neither_count_nor_block() {
    let host = FakeHost::with_gpus(1);
    let claim = host.granted(10, 1);
    host.dir.release(&claim.id).unwrap();
    let user_dir = host.user_dir();
    let outside = host.path().join("outside");
    fs::write(&outside, GOOD).unwrap();
    symlink(&outside, user_dir.join("claim-00000001")).unwrap();
    make_fifo(&user_dir.join("claim-00000002"));
    fs::create_dir(user_dir.join("claim-00000003")).unwrap();
    fs::write(user_dir.join("claim-00000004"), vec![b' '; 40_000]).unwrap();
    fs::write(user_dir.join("claim-00000005"), "not json").unwrap();
    fs::write(user_dir.join("claim-nonsense"), GOOD).unwrap();
    let _socket = UnixListener::bind(user_dir.join("claim-00000006")).unwrap();
    let found = troubles(&host);
    assert_eq!(found.len(), 7, "{found:?}");
    assert!(found.contains(&Trouble::TooLarge) && found.contains(&Trouble::NoFile));
    host.granted(10, 1);
}

#[test]
fn an_entry_that_only_resembles_a_user_dir_is_ignored() {
    let host = FakeHost::with_gpus(1);
    symlink("/etc", host.path().join("gua-claims-link")).unwrap();
    fs::write(host.path().join("gua-claims-file"), GOOD).unwrap();
    make_fifo(&host.path().join("gua-claims-fifo"));
    symlink("/nowhere", host.path().join("gua-claims-dangling")).unwrap();
    assert_eq!(troubles(&host).len(), 4);
    host.granted(10, 1);
}

#[test]
fn an_unreadable_user_dir_keeps_nobody_from_claiming() {
    if !runs_as_root("modes, as a user who is not above them") {
        return;
    }
    for mode in [0o755, 0o711, 0o644, 0o444, 0o000] {
        let host = FakeHost::with_gpus(2);
        let user_dir = plant(&host, "gua-claims-a", MALLORY, MALLORY);
        set_mode(&user_dir.join("claim-0000abcd"), 0o000);
        set_mode(&user_dir, mode);
        as_user(20_001, || {
            let dir = ClaimDir::open(&host.path()).unwrap();
            let survey = dir.survey(&host.observed, &host.kernel).unwrap();
            let closed = Trouble::Closed(rustix::io::Errno::ACCESS);
            let is_reported = |problem: &gua_claim::Problem| problem.trouble == closed;
            assert!(survey.problems.iter().any(is_reported), "{mode:o}");
            let answer = dir.take(&request(10, 1), &host.observed, &host.kernel);
            assert!(matches!(answer, Ok(Answer::Offered(_))), "{mode:o}");
            dir.join(&request(10, 1), &host.observed, &host.kernel)
                .unwrap();
            assert!(dir.events(&HashSet::new()).is_ok(), "{mode:o}");
        });
    }
}

#[test]
fn one_users_flood_does_not_displace_anothers_claim() {
    if !runs_as_root("a flood of user directories and files of another user") {
        return;
    }
    let host = FakeHost::with_gpus(2);
    for number in 0..10 {
        // These sort before the honest user directory by name.
        let user_dir = plant(&host, &format!("gua-claims--{number}"), MALLORY, MALLORY);
        for file in 0..300 {
            let path = user_dir.join(format!("claim-{file:08x}"));
            fs::write(&path, "{}").unwrap();
            chown(&path, Some(MALLORY), None).unwrap();
        }
    }
    plant(&host, "gua-claims-zzz", 20_001, 20_001);
    assert_eq!(host.claimed(), gpus([0]), "the honest user's claim");
    assert_eq!(of_kind(&host, Trouble::TooMany), 1, "reported once");
}

#[test]
fn too_many_entries_of_a_user_are_reported_once() {
    let host = FakeHost::with_gpus(1);
    let user_dir = host.path().join("gua-claims-many");
    fs::create_dir(&user_dir).unwrap();
    for number in 0..300 {
        for kind in ["claim", "wait"] {
            fs::write(user_dir.join(format!("{kind}-{number:08x}")), "{}").unwrap();
        }
    }
    assert_eq!(of_kind(&host, Trouble::TooMany), 1);
}

fn of_kind(host: &FakeHost, trouble: Trouble) -> usize {
    troubles(host).iter().filter(|one| **one == trouble).count()
}

/// Peak memory of this process, in KB.
fn most_memory() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_ascii_whitespace().nth(1);
    number.unwrap().parse().unwrap()
}

#[test]
fn the_cost_of_a_flood_to_others_is_bounded() {
    if !runs_as_root("a flood of user directories and files of another user") {
        return;
    }
    const MANY: usize = 10_000;
    let host = FakeHost::with_gpus(2);
    let large = vec![b'['; 32 << 10];
    // Links, empty directories, one with very many files, and some with large files.
    for number in 0..MANY {
        let place = host.path().join(format!("gua-claims-0{number:06}"));
        match number % 2 {
            0 => symlink("/nowhere", &place).unwrap(),
            _ => fs::create_dir(&place).unwrap(),
        }
        std::os::unix::fs::lchown(&place, Some(MALLORY), None).unwrap();
    }
    for (number, files) in [(0, MANY), (1, 300), (2, 300)] {
        let user = MALLORY + 1 + number;
        let user_dir = plant(&host, &format!("gua-claims-1{number}"), user, user);
        for file in 0..files {
            let kind = ["claim", "wait", "event", "new"][file % 4];
            let path = user_dir.join(format!("{kind}-{file:08x}"));
            let text: &[u8] = if number == 0 { b"{}" } else { &large };
            fs::write(&path, text).unwrap();
            chown(&path, Some(user), None).unwrap();
        }
    }
    plant(&host, "gua-claims-zzz", 20_001, 20_001);
    let before = most_memory();
    as_user(20_002, || {
        let dir = ClaimDir::open(&host.path()).unwrap();
        let survey = dir.survey(&host.observed, &host.kernel).unwrap();
        assert_eq!(survey.claimed().into_iter().collect::<Vec<_>>(), gpus([0]));
        let problems = survey.problems.len();
        assert!(problems < 1000, "{problems} problems for {MANY} entries");
        let events = dir.events(&HashSet::new()).unwrap();
        assert!(
            events.passed_over.len() <= 64 * 4,
            "{}",
            events.passed_over.len()
        );
        let answer = dir.take(&request(10, 1), &host.observed, &host.kernel);
        assert!(matches!(answer, Ok(Answer::Offered(_))), "{answer:?}");
    });
    let more = most_memory().saturating_sub(before);
    assert!(more < 8 << 10, "{more} KB more");
}

/// Writes a ticket for all GPUs into a user directory.
fn forge_ticket(user_dir: &Path, pid: u32, more: &str) {
    let ticket = format!(
        r#"{{"version":1,"wanted":1,"arrived_us":18446744073709551615,"acceptable":["GPU-0"],
            "waiter":{{"boot":"00000000-0000-0000-0000-00008b1fe9c8","pid":{pid},"start":{pid}{more}}}}}"#
    );
    fs::write(user_dir.join("wait-0000abcd"), ticket).unwrap();
}

#[test]
fn a_ticket_that_names_another_users_process_reserves_nothing() {
    let mut host = FakeHost::with_gpus(1);
    host.dir.release(&host.granted(10, 1).id).unwrap();
    let own = host.dir.me();
    // PID 1 lives as long as the host.
    forge_ticket(&host.user_dir(), 1, "");
    host.kernel.users.insert(1, Uid(own.0 + 1));
    let survey = host.dir.survey(&host.observed, &host.kernel).unwrap();
    assert_eq!(survey.queue, []);
    host.dir.release(&host.granted(11, 1).id).unwrap();
    // A process of the owner counts.
    forge_ticket(&host.user_dir(), 12, "");
    assert_eq!(host.refused(13, 1).ahead.len(), 1);
}

#[test]
fn a_ticket_that_cannot_be_checked_reserves_nothing_unless_it_is_renewed() {
    for (pid, more) in [(12, r#","pid_namespace":7"#), (13, "")] {
        let mut host = FakeHost::with_gpus(1);
        host.kernel.hidden.insert(13);
        host.dir.release(&host.granted(10, 1).id).unwrap();
        forge_ticket(&host.user_dir(), pid, more);
        assert_eq!(host.refused(14, 1).ahead.len(), 1, "{pid}");
        // Nothing in the file, but only a change of it, keeps it alive.
        host.later(Duration::from_mins(3));
        host.granted(14, 1);
    }
}

#[test]
fn limits_apply_to_a_person_and_not_to_each_uid_of_their_containers() {
    if !runs_as_root("files of many uids") {
        return;
    }
    let host = FakeHost::with_gpus(1);
    for uid in 100_000..100_100 {
        let user_dir = plant(&host, &format!("gua-claims-{uid}"), uid, uid);
        for number in 0..10 {
            let event = user_dir.join(format!("event-{number}"));
            fs::write(&event, r#"{"version":9,"kind":"later","body":{}}"#).unwrap();
            chown(&event, Some(uid), None).unwrap();
        }
    }
    let read = |dir: &ClaimDir| {
        let survey = dir.survey(&host.observed, &host.kernel).unwrap();
        let events = dir.events(&HashSet::new()).unwrap();
        (survey.claims.len(), events.passed_over.len())
    };
    assert_eq!(read(&host.dir), (100, 1000));
    let subuids = SubUids::parse("mallory:100000:65536", |_| Some(Uid(MALLORY)));
    let dir = ClaimDir::open(&host.path()).unwrap().with_subuids(subuids);
    assert_eq!(read(&dir), (64, 64));
    // The person's own directory counts with them, and another person's does not.
    plant(&host, "gua-claims-own", MALLORY, MALLORY);
    plant(&host, "gua-claims-zzz", 20_001, 20_001);
    let survey = dir.survey(&host.observed, &host.kernel).unwrap();
    let of_ada = |live: &&LiveClaim| live.claim.owner == Uid(20_001);
    assert_eq!(survey.claims.iter().filter(of_ada).count(), 1);
    assert_eq!(survey.claims.len(), 65);
    let troubles: Vec<_> = survey.problems.iter().map(|one| one.trouble).collect();
    assert_eq!(troubles, [Trouble::TooMany]);
}

#[test]
fn a_live_claim_counts_in_any_user_dir_of_its_owner() {
    let host = FakeHost::with_gpus(1);
    let me = host.dir.me().0;
    for number in 0..9 {
        let user_dir = plant(&host, &format!("gua-claims-{number}"), me, me);
        if number < 8 {
            fs::remove_file(user_dir.join("claim-0000abcd")).unwrap();
        }
    }
    assert_eq!(host.claimed(), gpus([0]));
    assert_eq!(troubles(&host), []);
}

#[test]
fn an_unlimited_claim_is_ignored() {
    let host = FakeHost::with_gpus(1);
    host.dir.release(&host.granted(10, 1).id).unwrap();
    let endless = GOOD.replace("7200000000", &u64::MAX.to_string());
    fs::write(host.user_dir().join("claim-0000abcd"), endless).unwrap();
    assert_eq!(troubles(&host), [Trouble::TooLong]);
    host.granted(10, 1);
}

#[test]
fn a_claim_of_a_later_version_still_counts() {
    let host = FakeHost::with_gpus(1);
    host.dir.release(&host.granted(10, 1).id).unwrap();
    let later = GOOD.replace("\"version\":1", "\"version\":7,\"novelty\":[1]");
    fs::write(host.user_dir().join("claim-0000abcd"), later).unwrap();
    host.refused(10, 1);
}

#[test]
fn a_user_dir_closed_by_a_umask_is_made_readable_again() {
    let host = FakeHost::with_gpus(2);
    host.granted(10, 1);
    set_mode(&host.user_dir(), 0o700);
    host.granted(11, 1);
    let mode = fs::metadata(host.user_dir()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn a_file_system_mounted_on_a_user_dir_is_not_entered() {
    if !runs_as_root("a mount on a user directory") {
        return;
    }
    let host = FakeHost::with_gpus(1);
    let user_dir = plant(&host, "gua-claims-m", MALLORY, MALLORY);
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "tmpfs"])
        .arg(&user_dir)
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        eprintln!("SKIPPED: this host does not let root mount");
        return;
    }
    let found = troubles(&host);
    let status = std::process::Command::new("umount").arg(&user_dir).status();
    assert!(status.unwrap().success());
    assert_eq!(found, [Trouble::Closed(rustix::io::Errno::XDEV)]);
}

#[test]
fn files_of_a_killed_writer_are_removed_after_a_while() {
    let mut host = FakeHost::with_gpus(1);
    host.dir.release(&host.granted(10, 1).id).unwrap();
    fs::write(host.user_dir().join("new-00000000"), "{").unwrap();
    fs::write(host.user_dir().join("wait-00000000"), "").unwrap();
    host.granted(10, 1);
    assert_eq!(
        host.files().len(),
        2,
        "the ticket without a process is gone, the unfinished file not yet"
    );
    host.later(Duration::from_hours(2));
    host.granted(11, 1);
    assert_eq!(host.files().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 0..GOOD.len(), at in 0..GOOD.len()) {
        let host = FakeHost::with_gpus(1);
        host.dir.release(&host.granted(10, 1).id).unwrap();
        let user_dir = host.user_dir();
        let mut spoilt = GOOD.as_bytes().to_vec();
        spoilt[at] = bytes.first().copied().unwrap_or(b'9');
        for (number, text) in [&bytes[..], &GOOD.as_bytes()[..cut], &spoilt].into_iter().enumerate() {
            for kind in ["claim-0000000", "wait-", "event-"] {
                fs::write(user_dir.join(format!("{kind}{number}")), text).unwrap();
            }
        }
        host.dir.survey(&host.observed, &host.kernel).unwrap();
        host.dir.events(&HashSet::new()).unwrap();
        host.take(11, 1);
    }

    #[test]
    fn extreme_numbers_never_panic(arrived in prop::sample::select(vec![0, 1, 3_600_000_000, u64::MAX]), wanted in prop::sample::select(vec![0, 1, u64::MAX])) {
        let host = FakeHost::with_gpus(1);
        host.dir.release(&host.granted(10, 1).id).unwrap();
        let ticket = format!(
            r#"{{"version":1,"wanted":{wanted},"arrived_us":{arrived},"acceptable":["GPU-0"],
                "waiter":{{"boot":"00000000-0000-0000-0000-00008b1fe9c8","pid":4294967295,"start":{arrived}}}}}"#
        );
        fs::write(host.user_dir().join("wait-1"), ticket).unwrap();
        host.take(11, 1);
    }
}
