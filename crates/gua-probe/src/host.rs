//! Facts about the host that decide whether a reading can be trusted: which driver is loaded, who may see whom, whether
//! the clock is right, who else collects.
//!
//! Everything is read from files below a [`HostRoot`]; nothing is written, and no other program is started. Each parser
//! takes plain bytes and has an answer to any of them, since the files belong to the kernel and to strangers.

pub mod collector;
pub mod device;
pub mod disk;
pub mod driver;
pub mod logind;
pub mod mount;
pub mod namespace;
pub mod privilege;
pub mod processor;
pub mod time;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Where the host's files are. Production passes the real directories, a test passes temporary ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoot {
    /// The root directory, for the marks that container engines leave there.
    pub root: PathBuf,
    pub proc: PathBuf,
    pub dev: PathBuf,
    pub run: PathBuf,
    pub sys: PathBuf,
}

impl HostRoot {
    /// The host that this program runs on.
    #[must_use]
    pub fn real() -> Self {
        Self::below(Path::new("/"))
    }

    /// A tree of the usual names below `root`.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            proc: root.join("proc"),
            dev: root.join("dev"),
            run: root.join("run"),
            sys: root.join("sys"),
        }
    }
}

/// The kernel's name for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub system: String,
    pub release: String,
    pub machine: String,
}

/// Asks the running kernel for its name.
#[must_use]
pub fn kernel() -> Kernel {
    let names = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    Kernel {
        system: text(names.sysname()),
        release: text(names.release()),
        machine: text(names.machine()),
    }
}

/// What the host calls itself.
#[must_use]
pub fn name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}

/// The first `limit` bytes of a file: files of `/proc` are short, and a long one is not what we came for.
fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
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

        // Text that looks like the real thing reaches further than noise does.
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
