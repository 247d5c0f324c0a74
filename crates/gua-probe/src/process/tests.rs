//! Tests with processes in a fake `/proc`.

mod layouts;
mod owners;
mod real;

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use gua_model::DriverPids;
use gua_model::owner::OwnerSource;
use rustix::fs::{FileType, Mode};
use rustix::process::geteuid;

use super::fake::{BOOT, FakeProc, FakeProcess, python};
use super::*;

const PID: Pid = Pid(4711);

/// A table over a fake tree, with the names ada (1000) and root.
fn table(tree: &FakeProc) -> ProcessTable {
    tree.write(
        "passwd",
        "root:x:0:0::/:/bin/sh\nada:x:1000:1000::/:/bin/sh\n",
    );
    ProcessTable::of_driver(ProbeOptions {
        proc_root: tree.root(),
        passwd: Passwd::File(tree.path("passwd")),
        state_root: HostRoot(tree.path("host")),
        ..ProbeOptions::default()
    })
}

fn next_tick(table: &mut ProcessTable) -> Reading<Identity> {
    table.end_tick();
    table.resolve(PID)
}

/// Compares the identity of one fake process, as `start own/login comm`.
fn check(process: &FakeProcess, expected: &str) {
    let tree = FakeProc::new();
    tree.put(process);
    assert_eq!(
        words(&table(&tree).resolve(Pid(process.pid))),
        expected,
        "{process:?}"
    );
}

fn words(identity: &Reading<Identity>) -> String {
    let identity = match identity {
        Ok(identity) => identity,
        Err(why) => return why.to_string(),
    };
    let user = |user: &User| user.name.clone().unwrap_or_else(|| user.uid.to_string());
    let own = identity.own.as_ref().map_or_else(ToString::to_string, user);
    let login = identity
        .login
        .as_ref()
        .map_or_else(ToString::to_string, |login| {
            login.as_ref().map_or_else(|| "none".to_owned(), user)
        });
    let comm = identity
        .comm
        .as_ref()
        .map_or_else(ToString::to_string, Clone::clone);
    format!("{} {own}/{login} {comm}", identity.key.start)
}

#[test]
fn a_process_is_its_key_its_users_and_its_name() {
    let tree = FakeProc::new();
    tree.put(&python(4711, 98765));
    let identity = table(&tree).resolve(PID).unwrap();
    let ada = User {
        uid: Uid(1000),
        name: Some("ada".to_owned()),
    };
    assert_eq!(
        identity.key,
        ProcessKey {
            boot: BOOT.parse().unwrap(),
            pid: PID,
            start: StartTicks(98765)
        }
    );
    assert_eq!(
        (identity.login, identity.own),
        (Ok(Some(ada.clone())), Ok(ada))
    );
    assert_eq!(identity.comm.as_deref(), Ok("python3"));
    assert_eq!(identity.workload, Workload::default());
}

#[test]
fn each_hole_has_its_reason() {
    let whole = python(1, 7);
    check(
        &FakeProcess {
            login: Some("4294967295".to_owned()),
            ..whole.clone()
        },
        "7 ada/none python3",
    );
    check(
        &FakeProcess {
            login: Some("1000".to_owned()),
            uid: Some(0),
            ..whole.clone()
        },
        "7 root/ada python3",
    );
    check(
        &FakeProcess {
            login: None,
            ..whole.clone()
        },
        "7 ada/unsupported python3",
    );
    check(
        &FakeProcess {
            login: Some("nonsense".to_owned()),
            ..whole.clone()
        },
        "7 ada/failed python3",
    );
    check(
        &FakeProcess {
            login: Some(String::new()),
            ..whole.clone()
        },
        "7 ada/failed python3",
    );
    check(
        &FakeProcess {
            uid: Some(1234),
            ..whole.clone()
        },
        "7 1234/ada python3",
    );
    check(
        &FakeProcess {
            comm: b"\x1b[2J (evil) ".to_vec(),
            ..whole.clone()
        },
        "7 ada/ada \u{fffd}[2J (evil)",
    );
    check(
        &FakeProcess {
            comm: Vec::new(),
            ..whole.clone()
        },
        "7 ada/ada failed",
    );
    check(
        &FakeProcess {
            cgroup: None,
            ..whole.clone()
        },
        "7 ada/ada python3",
    );
    check(
        &FakeProcess {
            state: 'Z',
            ..whole
        },
        "7 ada/ada python3",
    );
}

#[test]
fn an_unreadable_status_falls_back_to_the_directorys_owner_unless_that_is_root() {
    use std::os::unix::fs::MetadataExt;
    let tree = FakeProc::new();
    tree.put(&FakeProcess {
        uid: None,
        ..python(4711, 7)
    });
    let owner = std::fs::metadata(tree.path("4711")).unwrap().uid();
    let own = table(&tree).resolve(PID).unwrap().own.map(|user| user.uid);
    assert_eq!(
        own,
        if owner == 0 {
            Err(Missing::Denied)
        } else {
            Ok(Uid(owner))
        }
    );
    if geteuid().is_root() {
        std::os::unix::fs::chown(tree.path("4711"), Some(1000), None).unwrap();
        assert_eq!(
            table(&tree).resolve(PID).unwrap().own.map(|user| user.uid),
            Ok(Uid(1000))
        );
    } else {
        eprintln!("SKIPPED IN PART: only root can give a directory to another user");
    }
}

#[test]
fn a_status_of_garbage_is_no_user() {
    let tree = FakeProc::new();
    tree.put(&python(4711, 7));
    tree.write("4711/status", "Uid: root\n");
    assert_eq!(words(&table(&tree).resolve(PID)), "7 failed/ada python3");
}

#[test]
fn roots_process_in_a_slurm_job_belongs_to_the_jobs_user() {
    let tree = FakeProc::new();
    let cgroup = Some(
        "9:memory:/slurm/uid_1000/job_42/step_0\n1:name=systemd:/system.slice/slurmd.service\n"
            .to_owned(),
    );
    tree.put(&FakeProcess {
        uid: Some(0),
        login: Some("4294967295".to_owned()),
        cgroup,
        ..python(4711, 7)
    });
    let identity = table(&tree).resolve(PID).unwrap();
    let owner = identity.owner().unwrap();
    assert_eq!(
        (owner.shown().as_str(), owner.source),
        ("ada", OwnerSource::Job)
    );
    assert_eq!(identity.workload.job.unwrap().as_str(), "42");
}

#[test]
fn a_missing_process_is_gone_only_in_the_hosts_pid_namespace() {
    let tree = FakeProc::new();
    assert_eq!(table(&tree).resolve(PID), Err(Missing::Gone));
    std::fs::remove_file(tree.path("self/ns/pid")).unwrap();
    assert_eq!(table(&tree).resolve(PID), Err(Missing::Denied));
    tree.link("self/ns/pid", "pid:[4026532999]");
    assert_eq!(table(&tree).resolve(PID), Err(Missing::Denied));
}

#[test]
fn the_setting_here_looks_pids_up_in_the_own_pid_namespace() {
    let tree = FakeProc::new();
    tree.put(&python(4711, 7));
    std::fs::remove_file(tree.path("self/ns/pid")).unwrap();
    tree.link("self/ns/pid", "pid:[4026532999]");
    let mut here = table(&tree);
    here.tree.driver_pids = DriverPids::Here;
    assert_eq!(words(&here.resolve(PID)), "7 ada/ada python3");
    assert_eq!(here.resolve(Pid(4712)), Err(Missing::Gone));
}

#[test]
fn in_another_pid_namespace_the_drivers_pid_would_name_a_stranger() {
    let tree = FakeProc::new();
    tree.put(&python(4711, 7));
    tree.link("self/ns/pid", "pid:[4026532999]");
    assert_eq!(table(&tree).resolve(PID), Err(Missing::Denied));
    std::fs::remove_file(tree.path("self/ns/pid")).unwrap();
    assert_eq!(
        words(&table(&tree).resolve(PID)),
        "7 ada/ada python3",
        "a kernel without namespaces has one numbering"
    );
}

#[test]
fn in_another_user_namespace_nobody_and_no_login_are_unknown() {
    let tree = FakeProc::new();
    tree.link("self/ns/user", "user:[4026532999]");
    tree.put(&FakeProcess {
        uid: Some(65534),
        login: Some("4294967295".to_owned()),
        ..python(4711, 7)
    });
    assert_eq!(words(&table(&tree).resolve(PID)), "7 denied/denied python3");
    tree.put(&python(4711, 7));
    assert_eq!(words(&table(&tree).resolve(PID)), "7 ada/ada python3");
}

#[test]
fn a_process_that_ends_while_it_is_read_is_gone_and_not_half_there() {
    // Its directory is still listed, and some of its files no longer open.
    let tree = FakeProc::new();
    tree.put(&python(4711, 7));
    std::fs::remove_file(tree.path("4711/stat")).unwrap();
    assert_eq!(table(&tree).resolve(PID), Err(Missing::Gone));
}

/// Resolves a process that changes after its users were read and before its cgroup is read.
fn check_change_while_reading(change: impl FnOnce(&FakeProc) + Send, expected: &str) {
    let tree = FakeProc::new();
    tree.put(&FakeProcess {
        login: None,
        cgroup: None,
        ..python(4711, 7)
    });
    let pipe = tree.path("4711/cgroup");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Opening blocks until the reader opens the pipe; closing it lets the reader continue.
            let _open = std::fs::File::options().write(true).open(&pipe).unwrap();
            change(&tree);
        });
        assert_eq!(words(&table(&tree).resolve(PID)), expected);
    });
}

#[test]
fn what_happens_between_two_reads_leaves_no_half_identity() {
    check_change_while_reading(|_| {}, "7 ada/unsupported python3");
    check_change_while_reading(|tree| tree.remove(4711), "gone");
    // Expect the next process with the PID, without any data of the previous one.
    let next = FakeProcess {
        uid: Some(0),
        login: Some("0".to_owned()),
        ..python(4711, 9)
    };
    check_change_while_reading(|tree| tree.put(&next), "9 root/root python3");
}

#[test]
fn a_reused_pid_is_another_process() {
    let tree = FakeProc::new();
    let mut table = table(&tree);
    tree.put(&python(4711, 7));
    assert_eq!(words(&table.resolve(PID)), "7 ada/ada python3");
    tree.put(&FakeProcess {
        uid: Some(0),
        login: Some("0".to_owned()),
        ..python(4711, 9)
    });
    assert_eq!(words(&next_tick(&mut table)), "9 root/root python3");
    tree.remove(4711);
    assert_eq!(next_tick(&mut table), Err(Missing::Gone));
    tree.put(&python(4711, 11));
    assert_eq!(words(&next_tick(&mut table)), "11 ada/ada python3");
}

#[test]
fn an_exec_is_noticed_by_the_name() {
    let tree = FakeProc::new();
    let mut table = table(&tree);
    tree.put(&FakeProcess {
        comm: b"bash".to_vec(),
        ..python(4711, 7)
    });
    assert_eq!(words(&table.resolve(PID)), "7 ada/ada bash");
    tree.put(&FakeProcess {
        uid: Some(0),
        ..python(4711, 7)
    });
    assert_eq!(words(&next_tick(&mut table)), "7 root/ada python3");
}

/// After setuid(2) the directory of a process is root's, and nothing but its status shows the change.
#[test]
fn a_change_of_user_is_noticed_at_the_next_tick() {
    let tree = FakeProc::new();
    let mut table = table(&tree);
    tree.put(&FakeProcess {
        uid: Some(0),
        ..python(4711, 7)
    });
    assert_eq!(words(&table.resolve(PID)), "7 root/ada python3");
    tree.write("4711/status", "Uid:\t1000\t1000\t1000\t1000\n");
    assert_eq!(words(&next_tick(&mut table)), "7 ada/ada python3");
}

#[test]
fn within_a_tick_the_answer_stays_the_same_and_costs_one_read() {
    let tree = FakeProc::new();
    let mut table = table(&tree);
    tree.put(&python(4711, 7));
    let first = table.resolve(PID);
    tree.remove(4711);
    assert_eq!(table.resolve(PID), first);
    assert_eq!(next_tick(&mut table), Err(Missing::Gone));
    tree.put(&python(4711, 8));
    assert_eq!(table.resolve(PID), Err(Missing::Gone));
    assert_eq!(words(&next_tick(&mut table)), "8 ada/ada python3");
}

#[test]
fn an_unchanged_process_is_not_read_again_for_a_while() {
    let tree = FakeProc::new();
    let mut table = table(&tree);
    tree.put(&python(4711, 7));
    table.resolve_at(PID, Duration::ZERO).unwrap();
    tree.write(
        "4711/cgroup",
        "0::/system.slice/slurmstepd.scope/job_42/step_0\n",
    );
    table.end_tick();
    let job = |identity: Reading<Identity>| identity.unwrap().workload.job.map(String::from);
    assert_eq!(
        job(table.resolve_at(PID, READ_AGAIN - Duration::from_secs(1))),
        None
    );
    table.end_tick();
    assert_eq!(
        job(table.resolve_at(PID, READ_AGAIN)).as_deref(),
        Some("42")
    );
}

#[test]
fn a_process_that_nobody_asked_for_in_a_tick_is_forgotten() {
    let tree = FakeProc::new();
    let mut table = table(&tree);
    for pid in 1..=32 {
        tree.put(&python(pid, 7));
        table.resolve(Pid(pid)).unwrap();
    }
    table.end_tick();
    assert_eq!(table.processes.len(), 32);
    table.resolve(Pid(1)).unwrap();
    table.end_tick();
    assert_eq!(table.processes.len(), 1);
}

#[test]
fn without_a_boot_id_there_is_no_identity() {
    let tree = FakeProc::new();
    tree.put(&python(4711, 7));
    tree.write("sys/kernel/random/boot_id", "nonsense");
    assert_eq!(table(&tree).boot(), Err(Missing::Failed));
    assert_eq!(table(&tree).resolve(PID), Err(Missing::Failed));
    std::fs::remove_file(tree.path("sys/kernel/random/boot_id")).unwrap();
    assert_eq!(table(&tree).boot(), Err(Missing::Unsupported));
    let nowhere = ProcessTable::new(ProcRoot(tree.path("nowhere")), Passwd::System);
    assert_eq!(nowhere.boot(), Err(Missing::Unsupported));
}

#[test]
fn a_cached_identity_gets_its_name_when_the_directory_answers() {
    let tree = FakeProc::new();
    tree.put(&python(4711, 7));
    let (say, said) = mpsc::channel::<String>();
    let said = Mutex::new(said);
    let lookup: names::Lookup = Arc::new(move |_| said.lock().unwrap().recv().ok());
    let mut table = ProcessTable::with(
        Tree::new(tree.root()),
        Names::with_lookup(lookup, Duration::from_millis(1)),
    );
    assert_eq!(words(&table.resolve(PID)), "7 1000/1000 python3");
    assert_eq!(words(&next_tick(&mut table)), "7 1000/1000 python3");
    say.send("ada".to_owned()).unwrap();
    for _ in 0..2000 {
        if words(&next_tick(&mut table)) == "7 ada/ada python3" {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("the name never came");
}
