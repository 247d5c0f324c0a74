//! Facts about the host that decide whether readings can be trusted: the loaded driver, the visibility of processes,
//! the clock, other collectors.
//!
//! Everything is read from files below a [`HostRoot`]; nothing is written, and no program is started. Each parser takes
//! bytes and accepts any of them, since the contents belong to the kernel and to other users.

pub mod collector;
pub mod device;
pub mod disk;
pub mod driver;
pub mod locks;
pub mod logind;
pub mod memory;
pub mod mount;
pub mod namespace;
pub mod privilege;
pub mod processor;
pub mod time;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use gua_model::Bytes;
use serde::{Deserialize, Serialize};

/// Root directory of the host's files. It is `/`, or a temporary directory in tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRoot(pub PathBuf);

impl Default for HostRoot {
    fn default() -> Self {
        Self(PathBuf::from("/"))
    }
}

impl HostRoot {
    /// Returns the root directory of the running host.
    pub fn real() -> Self {
        Self::default()
    }

    /// Returns a path below the root directory.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// Whether systemd is the service manager of the host (sd_booted(3)). In most containers, it is not.
    pub fn runs_systemd(&self) -> bool {
        self.join("run/systemd/system").is_dir()
    }

    fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        read(&self.join(path), limit)
    }

    fn parsed<T>(&self, path: &str, limit: u64, parse: fn(&[u8]) -> Option<T>) -> Option<T> {
        parse(&self.read(path, limit).ok()?)
    }
}

/// Name and version of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub system: String,
    pub release: String,
    pub machine: String,
}

/// Reads the name and version of the running kernel.
pub fn kernel() -> Kernel {
    let names = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    Kernel {
        system: text(names.sysname()),
        release: text(names.release()),
        machine: text(names.machine()),
    }
}

/// Returns the host name.
pub fn name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}

/// Returns what follows `name` in the first line that begins with it.
pub(crate) fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

/// Parses the number of kilobytes that follows `name`.
pub(crate) fn kilobytes(text: &str, name: &str) -> Option<Bytes> {
    let number = after(text, name)?.split_ascii_whitespace().next()?;
    Some(Bytes(number.parse::<u64>().ok()?.checked_mul(1024)?))
}

/// Reads at most `limit` bytes of a file: files of `/proc` are short.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Room for most of these files, so that they are read in one call.
    let mut bytes = Vec::with_capacity(4096);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernel_has_a_name() {
        assert_eq!(kernel().system, "Linux");
    }

    #[test]
    fn a_long_file_is_read_up_to_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("long");
        std::fs::write(&path, [b'x'; 100]).unwrap();
        assert_eq!(read(&path, 10).unwrap().len(), 10);
        assert!(read(&directory.path().join("none"), 10).is_err());
    }

    proptest! {
        #[test]
        fn no_parser_panics_on_any_bytes(bytes: Vec<u8>, more: Vec<u8>) {
            parse_all(&bytes, &more);
        }

        // Text that resembles the real format reaches further into a parser than noise does.
        #[test]
        fn no_parser_panics_on_text_that_is_nearly_right(
            text in "(NVRM version|btime|CapEff|Groups|Uid|[0-9]{1,22}|hidepid=|gid=|pid:\\[|\\\\[0-7]{0,3}| |/|:|\t|\n|-|,|\0)*",
        ) {
            parse_all(text.as_bytes(), text.as_bytes());
        }
    }

    fn parse_all(bytes: &[u8], more: &[u8]) {
        let _ = driver::parse_module(bytes);
        let _ = driver::parse_version(bytes);
        let mounts = mount::parse_mounts(bytes);
        let _ = mount::hiding(&mounts, Path::new("/proc"));
        let _ = mount::holding(&mounts, Path::new("/home/ada/.gua/gua.db"));
        let _ = namespace::parse_pid_namespace(bytes);
        let _ = privilege::parse_status(bytes);
        let _ = processor::parse_processor_time(bytes);
        let _ = time::parse_boot_time(bytes);
        let _ = collector::recognise(bytes, more);
        let _ = device::is_gpu(&String::from_utf8_lossy(bytes));
    }
}
