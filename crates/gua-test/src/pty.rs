//! A pseudoterminal whose other end the test holds.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::Winsize;

/// The end that a person would see and type into, and the name of the program's end.
#[derive(Debug)]
pub struct Pty {
    pub seen: File,
    pub name: String,
}

impl Pty {
    pub fn new() -> Self {
        let seen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&seen).unwrap();
        unlockpt(&seen).unwrap();
        let name = ptsname(&seen, Vec::new()).unwrap().into_string().unwrap();
        Self {
            seen: File::from(seen),
            name,
        }
    }

    /// A terminal of this size.
    pub fn sized(columns: u16, rows: u16) -> Self {
        let pty = Self::new();
        let size = Winsize {
            ws_col: columns,
            ws_row: rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&pty.seen, size).unwrap();
        pty
    }

    /// Opens the program's end.
    pub fn open(&self, flags: OFlags) -> OwnedFd {
        let flags = OFlags::RDWR | OFlags::NOCTTY | flags;
        rustix::fs::open(&self.name, flags, Mode::empty()).unwrap()
    }

    /// Starts a command whose input and output are this terminal. `setsid --ctty` in front of it makes it the controlling one.
    pub fn start(&self, command: &mut Command) -> Child {
        let end = || Stdio::from(self.open(OFlags::empty()));
        command.stdin(end()).stdout(end()).stderr(end());
        command.spawn().unwrap()
    }

    /// Reads until a text was written, and returns everything that was read.
    pub fn until(&self, text: &str) -> String {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let mut some = [0; 4096];
            let length = (&self.seen).read(&mut some).unwrap();
            seen.extend_from_slice(&some[..length]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// Reads the rest, after the program has closed its end.
    pub fn rest(&self) -> String {
        let mut rest = Vec::new();
        // Reading from a pseudoterminal whose other end is closed fails with EIO.
        let _ = (&self.seen).read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

impl Default for Pty {
    fn default() -> Self {
        Self::new()
    }
}
