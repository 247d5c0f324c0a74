//! Tests of the checks of the history path.

use crate::host::disk::Spot;

use super::*;
use crate::doctor::fixture::{assert_check, healthy, json, mount, room};

fn check_path(
    choice: Choice,
    entry: Entry,
    parent: Parent,
    (status, summary): (Status, &str),
    advice: &[&str],
) {
    let mut facts = healthy();
    facts.known.choice = choice;
    facts.spot = Some(Spot {
        entry,
        parent,
        room: None,
    });
    assert_check(&default_db(&facts), status, summary, advice);
}

#[test]
fn the_default_path_may_exist_and_its_directory_need_not() {
    let file = || Entry::File { size: Bytes(4096) };
    let default = Choice::Default;
    let appends = "exists and will be appended to";
    check_path(
        default,
        file(),
        Parent::Writable,
        (Status::Ok, appends),
        &[],
    );
    check_path(
        default,
        file(),
        Parent::ReadOnly,
        (Status::Ok, appends),
        &[],
    );
    let summary = "absent, its directory will be created";
    check_path(
        default,
        Entry::Absent,
        Parent::Missing,
        (Status::Ok, summary),
        &[],
    );
    check_path(
        default,
        Entry::Absent,
        Parent::Writable,
        (Status::Ok, "absent and ready to be created"),
        &[],
    );
}

#[test]
fn it_says_what_will_happen_to_an_existing_file() {
    let check =
        |history: HistoryKind, writer: Option<u32>, status, summary: &str, advice: &[&str]| {
            let mut facts = healthy();
            facts.known.db = "/h/gua.db".into();
            facts.known.history = history;
            facts.known.python_writer = writer;
            facts.spot = Some(Spot {
                entry: Entry::File { size: Bytes(4096) },
                parent: Parent::Writable,
                room: None,
            });
            assert_check(&default_db(&facts), status, summary, advice);
        };
    let imports = "a history of gpu-usage-audit; `gua daemon` imports it into a new file and keeps it as /h/gua.db.gpu-usage-audit-1";
    check(HistoryKind::Old, None, Status::Ok, imports, &[]);
    check(
        HistoryKind::Old,
        Some(7),
        Status::Warning,
        "a history of gpu-usage-audit, which its collector (pid 7) is writing",
        &["advice: Stop that collector"],
    );
    check(
        HistoryKind::OursWithOldRows(12),
        None,
        Status::Warning,
        "exists and will be appended to; gpu-usage-audit has written 12 rows into it",
        &["advice: Stop the old collector"],
    );
    check(
        HistoryKind::Other("not a database".to_owned()),
        None,
        Status::Error,
        "exists and is not a database; `gua daemon` refuses it",
        &["advice: Rename it (`mv /h/gua.db /h/gua.db.old`)"],
    );
}

#[test]
fn a_history_that_commands_read_instead_is_named() {
    let mut facts = healthy();
    facts.known.read_elsewhere = Some("/var/lib/gua/gua.db".into());
    let found = default_db(&facts);
    let advice = &found.advice.last().unwrap().action;
    assert!(advice.contains("/var/lib/gua/gua.db"), "{advice}");
}

#[test]
fn a_custom_path_must_be_free_and_have_a_directory() {
    let custom = Choice::Custom;
    let file = Entry::File { size: Bytes(4096) };
    let summary = "exists, a new history would be refused here";
    check_path(
        custom,
        file,
        Parent::Writable,
        (Status::Warning, summary),
        &["advice: Pass a path that does not exist"],
    );
    let summary = "its directory does not exist";
    check_path(
        custom,
        Entry::Absent,
        Parent::Missing,
        (Status::Error, summary),
        &["blocker: Create its directory"],
    );
    check_path(
        custom,
        Entry::Absent,
        Parent::Writable,
        (Status::Ok, "absent and ready to be created"),
        &[],
    );
}

#[test]
fn any_path_must_be_a_file_in_a_writable_directory() {
    for choice in [Choice::Default, Choice::Custom] {
        let summary = "exists and is not a regular file";
        check_path(
            choice,
            Entry::NoFile,
            Parent::Writable,
            (Status::Error, summary),
            &["blocker: Pass another path"],
        );
        let summary = "absent, and its directory is not writable";
        check_path(
            choice,
            Entry::Absent,
            Parent::ReadOnly,
            (Status::Error, summary),
            &["advice: Pass another path with `--db PATH`"],
        );
        let denied = Entry::Unreadable("Permission denied".into());
        let summary = "cannot be examined: Permission denied";
        check_path(
            choice,
            denied,
            Parent::Missing,
            (Status::Error, summary),
            &["advice: Pass another path with `--db PATH`"],
        );
    }
}

#[test]
fn a_file_system_that_does_not_answer_costs_a_warning() {
    let mut facts = healthy();
    facts.spot = None;
    let summary = "the file system did not respond in time";
    assert_check(
        &default_db(&facts),
        Status::Warning,
        summary,
        &["advice: Pass a path on a local disk"],
    );
    assert_check(&disk_space(&facts), Status::Skipped, "not known", &[]);
}

#[test]
fn the_details_of_the_path_have_the_keys_that_scripts_know() {
    let keys = [
        "error",
        "exists",
        "is_default",
        "is_file",
        "parent_exists",
        "parent_writable",
        "path",
        "size_bytes",
    ];
    let mut facts = healthy();
    assert_eq!(
        json(&default_db(&facts))
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        keys
    );
    facts.spot = None;
    assert_eq!(
        json(&default_db(&facts))
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        keys
    );
}

fn check_room(change: impl FnOnce(&mut Room), (status, summary): (Status, &str), advice: &[&str]) {
    let mut facts = healthy();
    let mut room = room();
    change(&mut room);
    facts.spot = Some(Spot {
        entry: Entry::Absent,
        parent: Parent::Missing,
        room: Some(room),
    });
    assert_check(&disk_space(&facts), status, summary, advice);
}

#[test]
fn a_full_disk_is_found_before_the_daemon_finds_it() {
    let advice = &["advice: Make room at /home/ada"];
    check_room(|_| {}, (Status::Ok, "120.5 GB free"), &[]);
    check_room(
        |room| room.free = Bytes::from_mb(1024),
        (Status::Ok, "1.0 GB free"),
        &[],
    );
    check_room(
        |room| room.free = Bytes::from_mb(1023),
        (
            Status::Warning,
            "1023 MB free, and a history grows with its GPUs and years",
        ),
        advice,
    );
    check_room(
        |room| room.free = Bytes::from_mb(50),
        (
            Status::Warning,
            "50 MB free, and a history grows with its GPUs and years",
        ),
        advice,
    );
    check_room(
        |room| room.free = Bytes::from_mb(49),
        (Status::Error, "49 MB free"),
        advice,
    );
    check_room(
        |room| room.free_inodes = Some(0),
        (Status::Error, "no inodes left"),
        advice,
    );
    let summary = "120.5 GB free, only 99 inodes left";
    check_room(
        |room| room.free_inodes = Some(99),
        (Status::Warning, summary),
        advice,
    );
    check_room(
        |room| room.free_inodes = None,
        (Status::Ok, "120.5 GB free"),
        &[],
    );
}

/// Checks the default path in a home directory prepared by `change`.
fn check_home(
    entry: Entry,
    parent: Parent,
    change: impl FnOnce(&mut Room),
    (status, summary): (Status, &str),
) {
    let mut facts = healthy();
    let mut room = room();
    change(&mut room);
    facts.spot = Some(Spot {
        entry,
        parent,
        room: Some(room),
    });
    let advice: &[&str] = match status {
        Status::Error => &["advice: Pass another path with `--db PATH`, or set HOME."],
        _ => &[],
    };
    assert_check(&default_db(&facts), status, summary, advice);
    assert_check(&disk_space(&facts), Status::Ok, "120.5 GB free", &[]);
}

#[test]
fn a_home_that_cannot_be_written_is_one_error_at_the_path() {
    let fine = "absent, its directory will be created";
    check_home(Entry::Absent, Parent::Missing, |_| {}, (Status::Ok, fine));
    check_home(
        Entry::Absent,
        Parent::Missing,
        |room| room.directory = "/".into(),
        (Status::Error, "the home directory /home/ada does not exist"),
    );
    check_home(
        Entry::Absent,
        Parent::Missing,
        |room| room.directory_access = Parent::ReadOnly,
        (
            Status::Error,
            "the home directory /home/ada is not writable",
        ),
    );
    let read_only = (Status::Error, "on a file system that is mounted read-only");
    let mounted = |room: &mut Room| room.is_read_only = true;
    check_home(Entry::Absent, Parent::ReadOnly, mounted, read_only);
    let file = Entry::File { size: Bytes(1) };
    check_home(file, Parent::ReadOnly, mounted, read_only);
}

#[test]
fn the_kernels_own_file_systems_take_no_history() {
    let mut facts = healthy();
    facts.known.choice = Choice::Custom;
    facts.mount = Some(mount("sysfs"));
    assert_check(
        &default_db(&facts),
        Status::Error,
        "on sysfs, where no file can be created",
        &["advice: Pass another path with `--db PATH`."],
    );
    assert_check(&disk_space(&facts), Status::Skipped, "not known", &[]);
}

#[test]
fn a_history_on_a_network_gets_a_warning() {
    let mut facts = healthy();
    facts.mount = Some(mount("nfs4"));
    let advice = &["advice: Keep the history on a local disk"];
    assert_check(
        &disk_space(&facts),
        Status::Warning,
        "120.5 GB free, on a network (nfs4), where SQLite's write-ahead log does not work",
        advice,
    );
    facts.spot = None;
    assert_check(
        &disk_space(&facts),
        Status::Warning,
        "not known, on a network (nfs4), where SQLite's write-ahead log does not work",
        advice,
    );
}
