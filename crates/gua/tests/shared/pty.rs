//! A terminal for tests, without anybody in front of it.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The end that people look at and type into, and the name of the other one.
pub(crate) struct Pty {
    pub(crate) seen: File,
    pub(crate) name: String,
}

impl Pty {
    pub(crate) fn new() -> Self {
        let seen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&seen).unwrap();
        unlockpt(&seen).unwrap();
        let name = ptsname(&seen, Vec::new()).unwrap().into_string().unwrap();
        Self {
            seen: File::from(seen),
            name,
        }
    }

    /// The end of programs.
    pub(crate) fn open(&self, flags: OFlags) -> OwnedFd {
        let flags = OFlags::RDWR | OFlags::NOCTTY | flags;
        rustix::fs::open(&self.name, flags, Mode::empty()).unwrap()
    }

    /// Starts `gua` with this as the terminal that it is controlled by. `setsid` is what is to run it.
    pub(crate) fn start(&self, mut setsid: Command, arguments: &[&str]) -> Child {
        let end = || Stdio::from(self.open(OFlags::empty()));
        setsid
            .args(["--ctty", env!("CARGO_BIN_EXE_gua")])
            .args(arguments)
            .stdin(end())
            .stdout(end())
            .stderr(end());
        setsid.spawn().unwrap()
    }

    /// Reads on until something was seen, and tells all that was.
    pub(crate) fn until(&self, text: &str) -> String {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let mut some = [0; 4096];
            let length = (&self.seen).read(&mut some).unwrap();
            seen.extend_from_slice(&some[..length]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// What waits to be read; nobody writes any more.
    pub(crate) fn rest(&self) -> String {
        let mut rest = Vec::new();
        // The end of a terminal that nobody has open is an error of reading.
        let _ = (&self.seen).read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}
