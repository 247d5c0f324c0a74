//! A one-time token appears nowhere: not in usage errors, and not on the terminal where it is typed.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};

use crate::{GUA, without_driver};
use gua_test::Pty;
use gua_test::board::{Behaviour, Board, TOKEN};
use gua_test::http::CLAIM_ANSWER;
use gua_test::{TestHost, wait_for};

/// A secret that does not look like a token.
const ODD: &str = "s3cret";
const ONCE: &str = "gua_enroll_once";

#[test]
fn a_token_in_the_wrong_place_is_not_repeated() {
    let host = without_driver();
    let check = |line: &str, expected: &str| {
        let ended = host.gua(line);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        assert_eq!(ended.stdout, "", "{line}");
        for secret in [ODD, ONCE] {
            assert!(!ended.stderr.contains(secret), "{line}: {ended:?}");
        }
        assert!(ended.stderr.contains(expected), "{line}: {ended:?}");
    };
    let hidden = "unexpected argument '[hidden]' found";
    for token in [ODD, ONCE] {
        check(&format!("enroll --server-url https://b {token}"), hidden);
        check(&format!("enroll {token} --server-url https://b"), hidden);
        check(&format!("enroll -- {token}"), hidden);
        check(&format!("enroll --force={token}"), "value '[hidden]'");
        check(&format!("enroll --color {token}"), "value '[hidden]'");
        check(&format!("{token} enroll"), "subcommand '[hidden]'");
        // The name of a flag is shown, its value is not.
        check(
            &format!("enroll --enrolment-tokn={token}"),
            "'--enrolment-tokn'",
        );
        check(
            &format!("enroll --enrolment-tokn {token}"),
            "'--enrolment-tokn'",
        );
        let line = format!("enroll --server-url {token} --enrollment-token x");
        check(&line, "absolute http(s) URL");
        let line = format!("enroll --server-url https://{token}@b --enrollment-token x");
        check(&line, "--server-url");
    }
    // Elsewhere a token is recognised by its prefix.
    for line in ["unenroll", "sync-once", "daemon", "", "help"] {
        check(&format!("{line} {ONCE}"), "[hidden]");
    }
    check(&format!("sync-archive --retention-days {ONCE}"), "[hidden]");
}

#[test]
fn a_token_on_the_command_line_causes_a_warning() {
    let board = Board::start();
    let host = without_driver();
    let url = board.url();
    let ended = host.gua(&format!(
        "enroll --server-url {url} --enrollment-token {ONCE}"
    ));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(
        ended.stderr,
        "gua enroll: every user of this host can see this token on the command line; use `--enrollment-token -` or GUA_ENROLLMENT_TOKEN instead\n"
    );
    let host = without_driver().variable("GUA_ENROLLMENT_TOKEN", ONCE);
    let ended = host.gua(&format!("enroll --server-url {url}"));
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
}

#[test]
fn secrets_that_a_board_returns_as_names_are_not_shown() {
    let board = Board::start();
    let host = without_driver().variable("GUA_ENROLLMENT_TOKEN", ONCE);
    let names = CLAIM_ANSWER
        .replace("lab 1", &format!("lab {TOKEN}"))
        .replace("h1", &format!("h {ONCE}"))
        .replace("gua_agent_se\"", &format!("{TOKEN}\""));
    board.behaves(Behaviour::Responds(201, names));
    let mut output = host.fine(&format!("enroll --server-url {}", board.url()));
    board.behaves(Behaviour::Accepts);
    output += &host.fine("sync-once --fake --db fake.db");
    output += &host.fine("unenroll");
    assert!(
        !output.contains(TOKEN) && !output.contains(ONCE),
        "{output}"
    );
    assert_eq!(output.matches("lab [hidden]").count(), 3, "{output}");
}

/// An enrolment that waits for its token on a terminal.
fn waiting(host: &TestHost, board: &Board) -> (Pty, Child) {
    let pty = Pty::new();
    let url = board.url();
    let line = ["enroll", "--server-url", &url, "--enrollment-token", "-"];
    assert!(echoes(&pty));
    let mut command = host.command("setsid");
    command.args(["--ctty", GUA]);
    let child = pty.start(command.args(line));
    pty.until("not displayed): ");
    assert!(!echoes(&pty));
    (pty, child)
}

fn echoes(pty: &Pty) -> bool {
    let modes = tcgetattr(&pty.seen).unwrap().local_modes;
    modes.contains(LocalModes::ECHO)
}

fn end(child: &mut Child) -> ExitStatus {
    wait_for("the end", || child.try_wait().unwrap())
}

#[test]
fn a_token_typed_on_a_terminal_is_not_echoed() {
    let board = Board::start();
    let host = without_driver();
    let (pty, mut child) = waiting(&host, &board);
    (&pty.seen)
        .write_all(format!("{ONCE}\n").as_bytes())
        .unwrap();
    let status = end(&mut child);
    assert!(echoes(&pty));
    let shown = pty.rest();
    assert!(status.success(), "{shown}");
    assert!(
        shown.starts_with("\r\ngua enroll: connected host"),
        "{shown:?}"
    );
    assert!(!shown.contains(ONCE), "{shown}");
    let [request] = board.take().try_into().unwrap();
    assert!(request.text().contains(ONCE), "{}", request.text());
}

#[test]
fn echo_is_restored_however_the_command_ends() {
    let board = Board::start();
    let check = |end_it: &dyn Fn(&Pty, Pid), signal: Option<Signal>| {
        let host = without_driver();
        let (pty, mut child) = waiting(&host, &board);
        (&pty.seen).write_all(ONCE.as_bytes()).unwrap();
        end_it(&pty, Pid::from_child(&child));
        let status = end(&mut child);
        assert_eq!(status.signal(), signal.map(Signal::as_raw));
        assert!(echoes(&pty), "{signal:?}");
        assert!(!pty.rest().contains(ONCE), "{signal:?}");
        assert!(board.take().is_empty());
    };
    let press = |key: u8| move |pty: &Pty, _: Pid| (&pty.seen).write_all(&[key]).unwrap();
    check(&press(3), Some(Signal::INT));
    check(&press(28), Some(Signal::QUIT));
    let kill = |_: &Pty, pid: Pid| kill_process(pid, Signal::TERM).unwrap();
    check(&kill, Some(Signal::TERM));
}
