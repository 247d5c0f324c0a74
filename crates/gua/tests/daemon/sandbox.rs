//! The sandbox of the host's unit: the system calls that a traced daemon makes are among those that the unit permits, and
//! the unit's user sees the processes of everyone with its one capability.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

use gua_test::board::Board;
use gua_test::{TestHost, not_tested, wait_until};
use rustix::process::Signal;

use crate::board::sync_once::enrolled;
use crate::{GUA, TWO_GPUS, host};

/// System calls of a set for `SystemCallFilter=` (systemd.exec(5)), with those of the sets in it.
fn calls_of(set: &str) -> BTreeSet<String> {
    let listed = Command::new("systemd-analyze")
        .args(["--no-pager", "syscall-filter", set])
        .output()
        .expect("systemd-analyze is needed (Debian: systemd)");
    assert!(listed.status.success(), "{listed:?}");
    let text = String::from_utf8(listed.stdout).unwrap();
    let mut calls = BTreeSet::new();
    for word in text.lines().map(str::trim) {
        match word.chars().next() {
            None | Some('#') => {}
            Some('@') if word == set => {}
            Some('@') => calls.extend(calls_of(word)),
            Some(_) => _ = calls.insert(word.to_owned()),
        }
    }
    calls
}

/// System calls that the collector's unit permits.
fn permitted(host: &TestHost) -> BTreeSet<String> {
    let printed = host.fine("service install --system --print --root image");
    let unit = printed.split("# gua.service\n").nth(1).unwrap();
    let filters = unit
        .lines()
        .filter_map(|line| line.strip_prefix("SystemCallFilter="));
    let mut permitted = BTreeSet::new();
    for filter in filters {
        match filter.strip_prefix('~') {
            None => permitted.extend(filter.split_whitespace().flat_map(calls_of)),
            Some(denied) => denied.split_whitespace().for_each(|set| {
                for call in calls_of(set) {
                    permitted.remove(&call);
                }
            }),
        }
    }
    assert!(permitted.contains("openat") && !permitted.contains("fchown"));
    permitted
}

/// Names of the calls in the output of `strace -f`.
fn traced(trace: &str) -> BTreeSet<String> {
    let calls = trace.lines().filter_map(|line| {
        let (_, call) = line.split_once(' ')?;
        let call = call.trim_start();
        let call = call.strip_prefix("<... ").unwrap_or(call);
        let name: String = call
            .chars()
            .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
            .collect();
        (!name.is_empty()).then_some(name)
    });
    calls.collect()
}

/// A command that runs another one as the unit does: as a user who is not root, with one capability. Without root, or without
/// the capability, it runs as the user of the test.
fn as_the_unit(host: &TestHost) -> (Command, bool) {
    const SYS_PTRACE: u64 = 1 << 19;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = u64::from_str_radix(bits.unwrap().trim(), 16).unwrap();
    if !rustix::process::geteuid().is_root() || bits & SYS_PTRACE == 0 {
        not_tested("needs root with CAP_SYS_PTRACE", "the unit's user");
        return (host.command("env"), false);
    }
    let mut command = host.command("setpriv");
    let capabilities = "-all,+sys_ptrace";
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(format!("--inh-caps={capabilities}"))
        .arg(format!("--ambient-caps={capabilities}"))
        .arg(format!("--bounding-set={capabilities}"))
        .arg("--no-new-privs");
    (command, true)
}

fn give_to_nobody(host: &TestHost) {
    let given = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(host.directory())
        .status();
    assert!(given.unwrap().success());
}

#[test]
fn a_traced_daemon_makes_only_calls_that_its_unit_permits() {
    let board = Board::start();
    let host = enrolled(host(TWO_GPUS), &board).variable("GUA_PRIVACY_OTHERS", "pseudonyms");
    let socket = host.path("socket");
    let host = host.variable("GUA_SOCKET", socket);
    let permitted = permitted(&host);
    fs::copy(GUA, host.path("gua")).unwrap();
    let (mut command, is_other) = as_the_unit(&host);
    if is_other {
        give_to_nobody(&host);
    }
    command
        .args(["strace", "-f", "-qq", "-e", "signal=none", "-o"])
        .arg(host.path("trace"))
        .arg(host.path("gua"))
        .args("daemon --foreground --append --interval 100ms --cloud --db".split(' '))
        .arg(host.path("service.db"));
    let mut daemon = host.start(command);
    wait_until("some ticks", || daemon.stdout().contains("Tick 5"));
    // Ends without a request.
    drop(UnixStream::connect(host.path("link.sock")).unwrap());
    let traced_pid = || {
        let trace = host.read("trace");
        let pid = trace.split(' ').next().unwrap().parse().unwrap();
        rustix::process::Pid::from_raw(pid).unwrap()
    };
    rustix::process::kill_process(traced_pid(), Signal::HUP).unwrap();
    wait_until("ticks after a reload", || {
        daemon.stdout().contains("Tick 9")
    });
    rustix::process::kill_process(traced_pid(), Signal::TERM).unwrap();
    daemon.child.wait().unwrap();
    // Files that the reader opens through its group.
    for name in ["service.db", "pseudonyms.salt"] {
        let mode = fs::metadata(host.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{name}");
    }
    let calls = traced(&host.read("trace"));
    assert!(calls.len() > 40, "the daemon was traced: {calls:?}");
    let refused: Vec<&String> = calls.difference(&permitted).collect();
    assert!(refused.is_empty(), "not permitted: {refused:?}");
}

#[test]
fn the_units_user_sees_the_owners_of_all_processes() {
    let sleeper = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = sleeper.id();
    let host = host(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\n[[gpu.process]]\npid = {pid}\nmemory_mib = 900\n"
    ));
    fs::copy(GUA, host.path("gua")).unwrap();
    let (mut command, is_other) = as_the_unit(&host);
    if !is_other {
        end(sleeper);
        return;
    }
    give_to_nobody(&host);
    // A mount of its own of /proc, as ProtectProc= makes.
    let hidden = host.path("hidden");
    fs::create_dir(&hidden).unwrap();
    let mut words = vec!["-m".to_owned(), "sh".to_owned(), "-c".to_owned()];
    let script =
        "mount -t proc -o hidepid=invisible,nosuid,nodev,noexec proc /proc || exit 77; exec \"$@\"";
    words.extend([script.to_owned(), "sh".to_owned()]);
    command.arg(host.path("gua")).args(["list", "--json"]);
    let mut whole = host.command("unshare");
    whole
        .args(words)
        .arg(command.get_program())
        .args(command.get_args());
    let output = whole.output().unwrap();
    end(sleeper);
    if output.status.code() == Some(77) {
        not_tested("no mounts here", "/proc that hides others");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"root\""), "{text}");
}

fn end(mut child: std::process::Child) {
    let _ = child.kill();
    let _ = child.wait();
}
