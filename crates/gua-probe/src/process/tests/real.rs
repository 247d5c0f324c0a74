//! Tests against real processes.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gua_model::owner::OwnerSource;
use rustix::fs::StatVfsMountFlags;
use rustix::process::{WaitId, WaitIdOptions, geteuid, waitid};

use super::*;

/// Creates a table over the real `/proc`. Children of the tests are in the same pid namespace.
fn real_table() -> ProcessTable {
    ProcessTable::with(Tree::new(ProcRoot::default()), Names::new(Passwd::System))
}

struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid(self.0.id())
    }

    /// Returns a child that has ended and was not reaped yet.
    fn become_zombie(&mut self) {
        self.0.kill().unwrap();
        let pid = rustix::process::Pid::from_child(&self.0);
        waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sleep() -> Command {
    let mut command = Command::new("sleep");
    command.arg("600");
    command
}

/// Waits until the child has executed its program.
fn resolve_as(table: &mut ProcessTable, child: &Running, comm: &str) -> Identity {
    for _ in 0..2000 {
        let identity = table.resolve(child.pid()).unwrap();
        if identity.comm.as_deref() == Ok(comm) {
            return identity;
        }
        table.end_tick();
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("{:?} never became {comm}", child.0);
}

#[test]
fn numbers_that_are_no_pids_never_reach_the_kernel() {
    let mut table = real_table();
    for pid in [0, 0x8000_0000, u32::MAX] {
        assert_eq!(table.resolve(Pid(pid)), Err(Missing::Denied), "{pid}");
    }
    // The largest pid that can be passed to the kernel; it is never assigned.
    assert_eq!(table.resolve(Pid(0x7fff_ffff)), Err(Missing::Gone));
}

#[test]
fn a_real_child_is_seen_as_the_kernel_has_it() {
    let child = Running::start(&mut sleep());
    let mut table = real_table();
    let identity = resolve_as(&mut table, &child, "sleep");
    assert_eq!(identity.own.as_ref().unwrap().uid, Uid(geteuid().as_raw()));
    // Started after this process, and not in the future (100 ticks per second on every Linux).
    let us = table.resolve(Pid(std::process::id())).unwrap();
    let now = clock::since_boot().as_millis() / 10;
    assert!(us.key.start <= identity.key.start && u128::from(identity.key.start.0) <= now + 1);
    assert_eq!(identity.key.boot, table.boot().unwrap());
    assert_eq!(
        identity.login.map(|user| user.map(|user| user.uid)),
        us.login.map(|user| user.map(|user| user.uid))
    );
}

#[test]
fn a_real_change_of_user_is_noticed_at_the_next_tick() {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: only root can change its user");
        return;
    }
    // Without another exec the name stays, and the directory stays root's.
    let script = "import os, sys, time; sys.stdin.readline(); os.setuid(1234); print('now', flush=True); time.sleep(600)";
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdout(Stdio::piped());
    let Ok(child) = command.stdin(Stdio::piped()).spawn() else {
        eprintln!("SKIPPED: no python3");
        return;
    };
    let mut child = Running(child);
    let mut table = real_table();
    let own = |identity: Identity| identity.own.unwrap().uid;
    let before = resolve_as(&mut table, &child, "python3");
    assert_eq!(own(before), Uid::ROOT);
    drop(child.0.stdin.take());
    let mut answer = [0; 3];
    let said = child.0.stdout.as_mut().unwrap();
    std::io::Read::read_exact(said, &mut answer).unwrap();
    table.end_tick();
    assert_eq!(own(table.resolve(child.pid()).unwrap()), Uid(1234));
}

#[test]
fn a_change_of_user_by_a_set_uid_program_of_the_same_name_is_noticed_at_the_next_tick() {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: only root can make a set-uid program of another user");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    set_mode(directory.path(), 0o755);
    let shell = directory.path().join("job");
    std::fs::copy("/bin/sh", &shell).unwrap();
    let below = directory.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let program = below.join("job");
    std::fs::copy("/bin/cat", &program).unwrap();
    std::os::unix::fs::chown(&program, Some(1235), None).unwrap();
    set_mode(&program, 0o4755);
    // The shell reads one line, and the program gives the next one back.
    let mut command = Command::new(&shell);
    command
        .args(["-c", "read line; exec \"$0\""])
        .arg(&program)
        .uid(1234)
        .gid(1234);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Running(command.spawn().unwrap());
    let mut table = real_table();
    let own = |identity: Identity| identity.own.unwrap().uid;
    let before = resolve_as(&mut table, &child, "job");
    assert_eq!(own(before), Uid(1234));
    let said = child.0.stdin.as_mut().unwrap();
    std::io::Write::write_all(said, b"\nnow").unwrap();
    let mut answer = [0; 3];
    let heard = child.0.stdout.as_mut().unwrap();
    std::io::Read::read_exact(heard, &mut answer).unwrap();
    table.end_tick();
    let after = own(table.resolve(child.pid()).unwrap());
    if rustix::fs::statvfs(directory.path())
        .unwrap()
        .f_flag
        .contains(StatVfsMountFlags::NOSUID)
    {
        eprintln!("SKIPPED: programs of this file system do not change the user");
        return;
    }
    assert_eq!(after, Uid(1235));
}

#[test]
fn a_zombie_is_still_there_and_a_reaped_one_is_gone() {
    let mut child = Running::start(&mut sleep());
    let mut table = real_table();
    let alive = resolve_as(&mut table, &child, "sleep");
    child.become_zombie();
    table.end_tick();
    assert_eq!(table.resolve(child.pid()).unwrap().key, alive.key);
    let pid = child.pid();
    drop(child);
    table.end_tick();
    assert_eq!(table.resolve(pid), Err(Missing::Gone));
}

#[test]
fn a_short_life_is_seen_whole_or_not_at_all() {
    let mut table = real_table();
    let us = table.resolve(Pid(std::process::id())).unwrap();
    for _ in 0..100 {
        let mut child = Running::start(&mut Command::new("true"));
        let pid = child.pid();
        let reaper = std::thread::spawn(move || child.0.wait().unwrap());
        loop {
            table.end_tick();
            match table.resolve(pid) {
                Ok(identity) => {
                    assert_eq!(
                        (&identity.own, &identity.login),
                        (&us.own, &us.login),
                        "{identity:?}"
                    );
                    assert!(identity.comm.is_ok());
                }
                Err(why) => {
                    assert_eq!(why, Missing::Gone);
                    break;
                }
            }
        }
        reaper.join().unwrap();
    }
}

#[test]
fn another_users_child_is_seen_as_theirs_and_a_login_that_it_set_does_not_count() {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: only root can start a process as another user");
        return;
    }
    let mut table = real_table();
    let child = Running::start(sleep().uid(1234).gid(1234));
    let identity = resolve_as(&mut table, &child, "sleep");
    assert_eq!(identity.own.unwrap().uid, Uid(1234));

    // Any user may set a login uid that is not set yet.
    let script = "echo 4321 > /proc/self/loginuid && exec setpriv --reuid 1234 sleep 600";
    let child = Running::start(Command::new("sh").args(["-c", script]));
    let mut ended = false;
    for _ in 0..2000 {
        table.end_tick();
        let identity = table.resolve(child.pid());
        match identity {
            Ok(identity) if identity.comm.as_deref() == Ok("sleep") => {
                assert_eq!(identity.own.as_ref().unwrap().uid, Uid(1234));
                let owner = identity.owner().unwrap();
                assert_eq!(
                    (owner.who.uid(), owner.source),
                    (Some(Uid(1234)), OwnerSource::Process)
                );
                let claimed = identity.claimed_login.map(|user| user.uid);
                assert_eq!(claimed, Some(Uid(4321)));
                return;
            }
            _ => std::thread::park_timeout(Duration::from_millis(5)),
        }
        ended = child_has_ended(&child);
        if ended {
            break;
        }
    }
    assert!(ended, "the child never became sleep");
    eprintln!("SKIPPED IN PART: this kernel or container does not let root set a login uid");
}

fn child_has_ended(child: &Running) -> bool {
    let pid = rustix::process::Pid::from_child(&child.0);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some())
}

/// Runs twice: root's run mounts a `/proc` that hides processes in its own mount namespace, and starts this same test
/// in it as another user.
#[test]
fn a_process_hidden_by_hidepid_is_denied_and_not_gone() {
    const NAME: &str = "process::tests::real::a_process_hidden_by_hidepid_is_denied_and_not_gone";
    const SEEN: &str = "hidepid was in force";
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let hides = mounts
        .lines()
        .rfind(|line| line.contains(" /proc proc "))
        .is_some_and(|line| line.contains("hidepid=2") || line.contains("hidepid=invisible"));
    if !geteuid().is_root() {
        if !hides {
            eprintln!("SKIPPED: this /proc hides nothing, and only root can mount one that does");
            return;
        }
        let mut table = real_table();
        assert_eq!(table.resolve(Pid(1)), Err(Missing::Denied), "root's");
        assert_eq!(
            table.resolve(Pid(0x7fff_ffff)),
            Err(Missing::Gone),
            "nobody's"
        );
        assert!(table.resolve(Pid(std::process::id())).is_ok(), "our own");
        println!("{SEEN}");
        return;
    }
    let script = "mount -t proc -o hidepid=2 proc /proc || exit 42
        exec setpriv --reuid 1234 --regid 1234 --clear-groups -- \"$0\" --exact \"$1\" --nocapture";
    let test = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(&test)
        .arg(NAME)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains(SEEN) && text.contains("1 passed"), "{text}");
        }
        Ok(output) if output.status.code() == Some(101) => panic!("{output:?}"),
        other => eprintln!("SKIPPED: no private /proc could be mounted here: {other:?}"),
    }
}
