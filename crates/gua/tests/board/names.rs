//! `gua board link` as an ordinary user of a host whose collector pushes to the real board.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use gua_test::{Ended, Running, TestHost, python, runs_as_root, wait_until};
use serde_json::Value;

use super::served::Served;
use crate::{TWO_GPUS, host};

/// Users that every Debian system has.
const DAEMON: u32 = 1;
const NOBODY: u32 = 65534;

/// Sends a request for the name of another user, which the message has no place for.
const FORGED: &str = "import socket, struct, sys
code, name = sys.argv[2].encode(), sys.argv[3].encode()
body = bytes([len(code)]) + code + bytes([len(name)]) + name
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(struct.pack('<II', int(sys.argv[4]), len(body)) + body)
print(client.recv(65536))";

/// A host that is enrolled at a board, and its collector.
struct Lab {
    board: Served,
    host: TestHost,
    daemon: Running,
}

fn collector(host: &TestHost, flags: &str) -> Running {
    let mut command = host.gua_command("daemon --foreground --append --interval 200ms");
    command.args(flags.split_whitespace());
    let daemon = host.start({
        command.arg("--db").arg(host.path("service.db"));
        command
    });
    wait_until("the socket", || host.path("link.sock").exists());
    daemon
}

impl Lab {
    fn new(users: &str) -> Self {
        let board = Served::start();
        let host = board.enrol(host(TWO_GPUS), "lab-1");
        let socket = host.path("gua.sock");
        let host = host
            .variable("GUA_SOCKET", socket)
            .variable("GUA_CLOUD_USERS", users);
        host.open_to_users();
        let daemon = collector(&host, "--cloud");
        Self {
            board,
            host,
            daemon,
        }
    }

    /// A new code of the board's owner.
    fn code(&self) -> String {
        let (status, body) = self.call("POST /api/v1/workspaces/default/name-codes");
        assert_eq!(status, 201, "{body}");
        body["code"].as_str().unwrap().to_owned()
    }

    fn call(&self, line: &str) -> (u16, Value) {
        let bearer = self.board.bearer();
        self.board.request(line, &[("Authorization", &bearer)], b"")
    }

    /// User names that the board has linked to its owner.
    fn linked(&self) -> Vec<String> {
        let (_, members) = self.call("GET /api/v1/workspaces/default/members");
        let account = members["items"][0]["account"].as_str().unwrap();
        let (status, person) =
            self.call(&format!("GET /api/v1/workspaces/default/members/{account}"));
        assert_eq!(status, 200, "{person}");
        let names = person["names"].as_array().unwrap().iter();
        let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
        names.map(name).collect()
    }

    /// Runs a program as a user without the enrolment: another one if the tests run as root, else one with another home.
    fn command_as(&self, user: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.host.command(program);
        command.env("HOME", self.host.path("tmp"));
        if rustix::process::geteuid().is_root() {
            command.uid(user).gid(user);
        }
        command
    }

    fn link_as(&self, user: u32, words: &[&str]) -> Ended {
        let mut command = self.command_as(user, self.host.path("gua"));
        command.args(["board", "link"]).args(words);
        command.output().unwrap().into()
    }
}

#[track_caller]
fn check(ended: &Ended, code: i32, text: &str) {
    assert_eq!(ended.code, code, "{ended:?}");
    assert!(
        ended.stdout.contains(text) || ended.stderr.contains(text),
        "{text}: {ended:?}"
    );
}

#[test]
fn a_user_links_their_name_through_the_collector() {
    let mut lab = Lab::new("plain");
    let code = lab.code();
    let linked = lab.link_as(DAEMON, &[&code]);
    check(&linked, 0, " on this host is ada on the board\n");
    let user = linked.stdout.split_whitespace().nth(3).unwrap();
    assert_eq!(lab.linked(), [user]);
    // The collector accepts the next code of a person after a pause.
    wait_until("the refusal of the board", || {
        let again = lab.link_as(DAEMON, &[&code]);
        assert_eq!(again.code, 1, "{again:?}");
        again.stderr.contains("the board does not know this code")
    });
    let code = lab.code();
    lab.daemon.stop();
    let stopped = lab.link_as(DAEMON, &[&code]);
    check(&stopped, 1, "no collector is running");
    check(
        &stopped,
        1,
        &format!("`sudo gua board link CODE --user {user}`"),
    );
    let mut silent = collector(&lab.host, "");
    check(
        &lab.link_as(DAEMON, &[&code]),
        2,
        "the collector of this host does not push to a board",
    );
    silent.stop();
    assert_eq!(lab.linked(), [user]);
}

#[test]
fn no_user_links_the_name_of_another() {
    if !runs_as_root("names of two users") {
        return;
    }
    let lab = Lab::new("plain");
    let code = lab.code();
    let other = lab.link_as(DAEMON, &[&code, "--user", "nobody"]);
    check(&other, 2, "only root can link `nobody`");
    let mut forged = lab.command_as(DAEMON, python::system());
    forged.args(["-c", FORGED]).arg(lab.host.path("link.sock"));
    forged.args([&code, "nobody"]);
    forged.arg(gua_query::protocol::VERSION.to_string());
    let forged = forged.output().unwrap();
    assert!(forged.status.success(), "{forged:?}");
    assert_eq!(lab.linked(), ["daemon"]);
    // One person does not keep out another.
    let code = lab.code();
    check(
        &lab.link_as(NOBODY, &[&code]),
        0,
        "nobody on this host is ada on the board",
    );
    assert_eq!(lab.linked(), ["daemon", "nobody"]);
}

#[test]
fn a_host_that_sends_no_names_links_none() {
    let lab = Lab::new("omit");
    let code = lab.code();
    check(
        &lab.link_as(DAEMON, &[&code]),
        2,
        "this host sends no user names to the board",
    );
    assert!(lab.linked().is_empty());
}
