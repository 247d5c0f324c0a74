//! Writes to a terminal: no more than needed, and none while the other end is not read, as behind a hung connection.

use std::fs::File;
use std::io::Write as _;
use std::process::Child;
use std::time::Duration;

use gua_probe::clock;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{TWO_GPUS, host};
use crate::GUA;
use gua_test::Pty;
use gua_test::TestHost;

/// Time within which it must exit.
const SOON: Duration = Duration::from_secs(4);

/// For conditions that depend on how busy the machine is.
const AT_LAST: Duration = Duration::from_secs(30);

/// Both ends of a terminal: the one that people see, and the one that programs write to, which is non-blocking here.
struct Both {
    pty: Pty,
    written: File,
}

impl Both {
    fn new() -> Self {
        let pty = Pty::new();
        let size = Winsize {
            ws_col: 100,
            ws_row: 30,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&pty.seen, size).unwrap();
        let written = File::from(pty.open(OFlags::NONBLOCK));
        Self { pty, written }
    }

    fn top(&self, host: &TestHost, arguments: &[&str]) -> Child {
        let mut command = host.command("setsid");
        command.args(["--ctty", GUA, "top"]);
        self.pty.start(command.args(arguments))
    }

    /// Writes until there is no room for another byte. The kernel moves written data to the reading side in its own
    /// time.
    fn fill(&self) {
        let is_full = || (&self.written).write(b"x").is_err();
        let mut turns = 0;
        while turns < 50 {
            turns = if is_full() { turns + 1 } else { 0 };
            std::thread::yield_now();
        }
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.written).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON)
    }

    fn until(&self, text: &str) {
        self.pty.until(text);
    }

    fn rest(self) -> String {
        let Self { pty, written } = self;
        drop(written);
        pty.rest()
    }
}

#[track_caller]
fn wait_for(what: &str, patience: Duration, mut is_so: impl FnMut() -> bool) {
    let limit = clock::monotonic() + patience;
    while !is_so() {
        assert!(clock::monotonic() < limit, "waited for {what}");
        std::thread::yield_now();
    }
}

/// Ends it while its terminal accepts nothing, and checks that the terminal is restored.
#[track_caller]
fn check(when: &str, end: impl Fn(&Both, Pid)) {
    let host = host(TWO_GPUS);
    let pty = Both::new();
    if when == "from the start" {
        pty.fill();
    }
    let mut top = pty.top(&host, &[]);
    wait_for("raw mode", AT_LAST, || pty.is_raw());
    if when == "later" {
        pty.until("q quit");
        pty.fill();
    }
    end(&pty, Pid::from_child(&top));
    let mut code = None;
    wait_for("the end", SOON, || {
        code = top.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(0), "{when}");
    assert!(!pty.is_raw(), "{when}");
    // Unread output was discarded, so that the final messages have room.
    let rest = pty.rest();
    assert!(
        rest.contains("\u{1b}[?1049l") && rest.ends_with("\u{1b}[?25h"),
        "{when}: {:?}",
        rest.get(rest.len().saturating_sub(200)..)
    );
}

#[test]
fn signals_end_it_though_the_terminal_accepts_nothing() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        for when in ["from the start", "later"] {
            check(when, |_, pid| kill_process(pid, signal).unwrap());
        }
    }
}

#[test]
fn q_ends_it_though_the_terminal_accepts_nothing() {
    check("later", |pty, _| (&pty.pty.seen).write_all(b"q").unwrap());
}

#[test]
fn one_sample_is_one_frame() {
    let host = host(TWO_GPUS);
    let pty = Both::new();
    let mut top = pty.top(&host, &["--interval", "1h"]);
    pty.until("q quit");
    // Only the clock changes, and it is drawn about once per second.
    let began = clock::monotonic();
    for _ in 0..3 {
        pty.until("\u{1b}[?2026l");
    }
    let passed = clock::monotonic() - began;
    kill_process(Pid::from_child(&top), Signal::TERM).unwrap();
    pty.until("\u{1b}[?1049l");
    assert!(top.wait().unwrap().success());
    assert!(passed > Duration::from_secs(2), "{passed:?}");
}
