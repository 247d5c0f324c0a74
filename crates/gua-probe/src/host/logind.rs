//! Facts from logind: its records of login sessions, and whether it removes a user's files in `/dev/shm` when their last
//! session ends (`RemoveIPC=` of logind.conf(5)).
//!
//! The configuration files are read as that page says: the first main file that is found, then drop-ins by name over all directories.
//! A name in an earlier directory hides the same name in a later one, and the last assignment wins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gua_model::id::Uid;

use super::{HostRoot, after, read};

/// Directories by priority.
const DIRECTORIES: [&str; 4] = [
    "etc/systemd",
    "run/systemd",
    "usr/local/lib/systemd",
    "usr/lib/systemd",
];
const MAIN: &str = "logind.conf";
const DROP_INS: &str = "logind.conf.d";
const LIMIT: u64 = 1 << 20;

/// State of `RemoveIPC=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoveIpc {
    /// The host does not run systemd.
    NoLogind,
    Set {
        is_on: bool,
        file: PathBuf,
    },
    /// Not set. The main file shows the compiled-in default as a comment; systemd's own default is yes, and some
    /// distributions compile it with no.
    BuiltIn {
        shown: Option<bool>,
    },
}

/// Returns the user of the login session that has this audit session, by logind's record below `run`. logind names a
/// session after its audit session; only root writes the record.
pub fn session_user(run: &Path, audit_session: u32) -> Option<Uid> {
    let file = run.join(format!("systemd/sessions/{audit_session}"));
    let bytes = read(&file, LIMIT).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let value = |key: &str| after(&text, key)?.parse().ok();
    let uid = value("UID=").map(Uid);
    uid.filter(|_| value("AUDIT=") == Some(audit_session))
}

pub fn remove_ipc(root: &HostRoot) -> RemoveIpc {
    if !root.runs_systemd() {
        return RemoveIpc::NoLogind;
    }
    let directories = DIRECTORIES.map(|name| root.join(name));
    let mut main = directories.iter().map(|place| place.join(MAIN));
    let main = main.find(|file| file.exists());
    let mut drop_ins: BTreeMap<_, PathBuf> = BTreeMap::new();
    for place in &directories {
        let entries = std::fs::read_dir(place.join(DROP_INS));
        for entry in entries.into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|end| end == "conf") {
                drop_ins.entry(entry.file_name()).or_insert(entry.path());
            }
        }
    }
    let shown = main.as_deref().and_then(|file| removal_lines(file).shown);
    let files = main.into_iter().chain(drop_ins.into_values());
    let mut set = files.filter_map(|file| removal_lines(&file).set.map(|is_on| (is_on, file)));
    match set.next_back() {
        Some((is_on, file)) => RemoveIpc::Set { is_on, file },
        None => RemoveIpc::BuiltIn { shown },
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RemoveIpcLines {
    set: Option<bool>,
    /// Set in a comment.
    shown: Option<bool>,
}

fn removal_lines(file: &Path) -> RemoveIpcLines {
    let bytes = read(file, LIMIT).unwrap_or_default();
    parse(&String::from_utf8_lossy(&bytes))
}

fn parse(text: &str) -> RemoveIpcLines {
    let mut found = RemoveIpcLines::default();
    let mut is_ours = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_ours = line == "[Login]";
        }
        let (line, is_comment) = match line.strip_prefix(['#', ';']) {
            Some(rest) => (rest.trim_start(), true),
            None => (line, false),
        };
        match line.split_once('=') {
            // logind ignores what it cannot parse.
            Some((key, value)) if key.trim_end() == "RemoveIPC" => match is_comment {
                true => found.shown = boolean(value.trim()).or(found.shown),
                false if is_ours => found.set = boolean(value.trim()).or(found.set),
                false => {}
            },
            _ => {}
        }
    }
    found
}

/// Parses a boolean as systemd.syntax(7) defines it.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    /// Files below the root and the expected result; a file is named by the tail of its path.
    fn check(files: &[(&str, &str)], expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("run/systemd/system")).unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let said = match remove_ipc(&HostRoot(folder.path().to_owned())) {
            RemoveIpc::NoLogind => "no logind".to_owned(),
            RemoveIpc::Set { is_on, file } => {
                let file = file.strip_prefix(folder.path()).unwrap();
                format!("{is_on} by {}", file.display())
            }
            RemoveIpc::BuiltIn { shown } => format!("built in, {shown:?}"),
        };
        assert_eq!(said, expected, "{files:?}");
    }

    const SHIPPED: &str = "[Login]\n#KillUserProcesses=no\n#RemoveIPC=yes\n";

    #[test]
    fn the_last_word_counts_and_a_comment_is_a_hint() {
        check(&[], "built in, None");
        check(
            &[("etc/systemd/logind.conf", SHIPPED)],
            "built in, Some(true)",
        );
        let off = "[Login]\nRemoveIPC = no\n";
        let on = "[Login]\nRemoveIPC=on\n";
        check(
            &[("usr/lib/systemd/logind.conf", off)],
            "false by usr/lib/systemd/logind.conf",
        );
        // Only the first main file is read.
        check(
            &[
                ("etc/systemd/logind.conf", SHIPPED),
                ("usr/lib/systemd/logind.conf", off),
            ],
            "built in, Some(true)",
        );
        check(
            &[
                ("etc/systemd/logind.conf", on),
                ("usr/lib/systemd/logind.conf.d/50-a.conf", off),
            ],
            "false by usr/lib/systemd/logind.conf.d/50-a.conf",
        );
        check(
            &[
                ("usr/lib/systemd/logind.conf.d/50-a.conf", off),
                ("etc/systemd/logind.conf.d/50-a.conf", on),
                ("etc/systemd/logind.conf.d/60-b.txt", off),
            ],
            "true by etc/systemd/logind.conf.d/50-a.conf",
        );
        check(
            &[("etc/systemd/logind.conf", "[Other]\nRemoveIPC=no\n")],
            "built in, None",
        );
        check(
            &[("etc/systemd/logind.conf", "[Login]\nRemoveIPC=perhaps\n")],
            "built in, None",
        );
    }

    #[test]
    fn a_session_is_known_by_its_audit_session() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = folder.path().join("systemd/sessions");
        fs::create_dir_all(&sessions).unwrap();
        let record = "# This is private data. Do not parse.\nUID=1000\nUSER=ada\nACTIVE=1\nAUDIT=3\nLEADER=812\n";
        fs::write(sessions.join("3"), record).unwrap();
        fs::write(sessions.join("4"), record).unwrap();
        let user = |session| session_user(folder.path(), session).map(|uid| uid.0);
        assert_eq!(user(3), Some(1000));
        assert_eq!(user(4), None, "the record of another audit session");
        assert_eq!(user(5), None);
    }

    #[test]
    fn without_systemd_nobody_removes_anything() {
        let folder = tempfile::tempdir().unwrap();
        let root = HostRoot(folder.path().to_owned());
        assert_eq!(remove_ipc(&root), RemoveIpc::NoLogind);
    }

    proptest! {
        #[test]
        fn any_text_has_an_answer(text in ".*") {
            parse(&text);
        }
    }
}
