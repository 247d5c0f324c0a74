//! Parts that tests skip because the machine lacks something.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;

use crate::variable;

/// Reasons that installing a package cannot remove: an ordinary user, a container, an older distribution.
const ACCEPTED: [&str; 7] = [
    "needs root",
    "needs root with CAP_SYS_PTRACE",
    "no mounts here",
    "no access control lists here",
    "in a container, owners are not checked",
    "no Python 3.12",
    "no apt-get",
];

/// Reports that a part is not tested, and why. `GUA_TEST_SKIPPED` names a file that collects these lines, because the output
/// of a passing test is not shown. With `GUA_TEST_COMPLETE`, the test fails unless the reason is in `ACCEPTED`.
#[track_caller]
pub fn not_tested(why: &str, what: &str) {
    let is_accepted = ACCEPTED.contains(&why) || variable("GUA_TEST_COMPLETE").is_none();
    assert!(is_accepted, "not tested here ({why}): {what}");
    let line = format!("NOT TESTED ({why}): {what}\n");
    eprint!("{line}");
    let Some(list) = variable("GUA_TEST_SKIPPED") else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(&list);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", list.to_string_lossy()));
}

/// Whether the tests run as root, which a part needs. Otherwise says that the part is not tested.
pub fn runs_as_root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        not_tested("needs root", what);
    }
    root
}

/// Whether the tests can mount in a namespace of their own, which a part needs. Otherwise reports that the part is not tested.
pub fn can_mount(what: &str) -> bool {
    if !runs_as_root(what) {
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "mount", "--bind", "/proc", "/proc"]);
    let is_mounted = command.output().is_ok_and(|output| output.status.success());
    if !is_mounted {
        not_tested("no mounts here", what);
    }
    is_mounted
}
