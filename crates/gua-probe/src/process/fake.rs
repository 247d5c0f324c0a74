//! A fake `/proc` for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

use super::ProcRoot;

pub(crate) const BOOT: &str = "8b1fe9c8-6d3a-4b4e-9c39-0d6d8ab1c001";

/// Files of one process. `None` leaves a file out.
#[derive(Clone, Debug)]
pub(crate) struct FakeProcess {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) comm: Vec<u8>,
    pub(crate) state: char,
    pub(crate) uid: Option<u32>,
    pub(crate) login: Option<String>,
    pub(crate) session: Option<u32>,
    pub(crate) parent: u32,
    pub(crate) cgroup: Option<String>,
}

/// Returns a Python process of user 1000 with a login of the same user.
pub(crate) fn python(pid: u32, start: u64) -> FakeProcess {
    FakeProcess {
        pid,
        start,
        comm: b"python3".to_vec(),
        state: 'S',
        uid: Some(1000),
        login: Some("1000".to_owned()),
        session: None,
        parent: 1,
        cgroup: Some("0::/user.slice/user-1000.slice/session-3.scope\n".to_owned()),
    }
}

/// A tree with a boot id, in the host's namespaces.
#[derive(Debug)]
pub(crate) struct FakeProc(TempDir);

impl FakeProc {
    pub(crate) fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.write("sys/kernel/random/boot_id", format!("{BOOT}\n"));
        tree.link("self/ns/pid", "pid:[4026531836]");
        tree.link("self/ns/user", "user:[4026531837]");
        tree
    }

    pub(crate) fn root(&self) -> ProcRoot {
        ProcRoot(self.0.path().to_owned())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates the process, in place of any other with its pid.
    pub(crate) fn put(&self, process: &FakeProcess) {
        self.remove(process.pid);
        let FakeProcess {
            pid,
            start,
            state,
            parent,
            ..
        } = process;
        let mut stat = format!("{pid} (").into_bytes();
        stat.extend_from_slice(&process.comm);
        let rest = format!(
            ") {state} {parent} {pid} {pid} 0 -1 4194304 95 0 0 0 0 0 0 0 20 0 1 0 {start} 2973696 441\n"
        );
        stat.extend_from_slice(rest.as_bytes());
        self.write(&format!("{pid}/stat"), stat);
        if let Some(uid) = process.uid {
            let status =
                format!("Name:\tpython3\nUmask:\t0022\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
            self.write(&format!("{pid}/status"), status);
        }
        let session = process.session.map(|session| session.to_string());
        for (name, text) in [
            ("loginuid", &process.login),
            ("sessionid", &session),
            ("cgroup", &process.cgroup),
        ] {
            if let Some(text) = text {
                self.write(&format!("{pid}/{name}"), text);
            }
        }
    }

    pub(crate) fn remove(&self, pid: u32) {
        let path = self.path(&pid.to_string());
        if path.exists() {
            fs::remove_dir_all(path).unwrap();
        }
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn link(&self, name: &str, target: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(target, path).unwrap();
    }
}
