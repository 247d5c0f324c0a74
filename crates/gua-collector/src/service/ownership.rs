//! The owner of the host's history: the system user `gua`. Earlier versions of the service ran as root.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gua_model::failure::Failure;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::board::salt;
use crate::location::OF_THE_HOST;

/// A system user and its group.
pub(super) type Ids = (u32, u32);

/// Rejects a directory that cannot be given to the service's user, because it has other content. Changes nothing.
pub(super) fn admit(db: &Path, user: Option<Ids>) -> Result<(), Failure> {
    let directory = gua_files::directory(db);
    let Ok(facts) = fs::metadata(directory) else {
        return Ok(());
    };
    if is_default(db) || user.is_some_and(|(uid, _)| facts.uid() == uid) {
        return Ok(());
    }
    let foreign = entries(directory)
        .map_err(Failure::cannot("read", directory))?
        .into_iter()
        .find(|path| !belongs(path, db));
    match foreign {
        None => Ok(()),
        Some(foreign) => Err(Failure::usage(format!(
            "the directory `{}` cannot be given to the service's user `gua`: it also has `{}`",
            directory.display(),
            foreign.display()
        ))
        .hint("give the history a directory of its own")),
    }
}

/// Gives the directory of the history, and the files of the history in it, to the service's user.
pub(super) fn give(db: &Path, ids: Ids) -> Result<(), Failure> {
    let directory = gua_files::directory(db);
    if !directory.is_dir() {
        // systemd creates the default one (`StateDirectory=`).
        return Ok(());
    }
    let give = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, directory, flags, Mode::empty())?;
        for name in names(&opened)? {
            let path = directory.join(OsStr::from_bytes(name.to_bytes()));
            if is_default(db) || belongs(&path, db) {
                give_tree(&opened, &name, ids)?;
            }
        }
        give_one(&opened, ids)
    };
    give().map_err(Failure::cannot(
        "give to the service's user `gua`",
        directory,
    ))
}

fn is_default(db: &Path) -> bool {
    db.parent() == Path::new(OF_THE_HOST).parent()
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Whether a file is the history, or belongs to it: their names begin with its name, except that of the salt.
fn belongs(path: &Path, db: &Path) -> bool {
    if path == salt::of_history(db) {
        return true;
    }
    let names = path.file_name().zip(db.file_name());
    names.is_some_and(|(name, db)| name.as_encoded_bytes().starts_with(db.as_encoded_bytes()))
}

/// Names of the entries of an open directory.
fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if ![&b"."[..], b".."].contains(&entry.file_name().to_bytes()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Gives an entry of a directory, and everything below it. Files are opened before they are examined and links are not
/// followed: the service's user may own the directory, and could replace an entry at any time.
fn give_tree(directory: &OwnedFd, name: &CStr, ids: Ids) -> io::Result<()> {
    let open = |flags| {
        openat(
            directory,
            name,
            flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
    };
    let file = match open(OFlags::PATH) {
        // A file of SQLite that was removed since the directory was read.
        Err(Errno::NOENT) => return Ok(()),
        file => file?,
    };
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Directory {
        return give_one(&file, ids);
    }
    let opened = open(OFlags::RDONLY | OFlags::DIRECTORY)?;
    for name in names(&opened)? {
        give_tree(&opened, &name, ids)?;
    }
    give_one(&opened, ids)
}

/// Changes the owner of root's files. Files of other users and files with several hard links are left unchanged.
fn give_one(file: &OwnedFd, (uid, gid): Ids) -> io::Result<()> {
    let facts = fstat(file)?;
    let is_file = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
    let is_shared = is_file && facts.st_nlink > 1;
    if facts.st_uid != geteuid().as_raw() || is_shared {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    Ok(chownat(
        file,
        c"",
        Some(uid),
        Some(gid),
        AtFlags::EMPTY_PATH,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Ids = (65534, 65534);

    #[test]
    fn a_directory_with_other_content_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let db = directory.path().join("gua.db");
        admit(&db, None).unwrap();
        for name in [
            "gua.db",
            "gua.db-wal",
            "gua.db.gpu-usage-audit-1",
            "pseudonyms.salt",
        ] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        admit(&db, None).unwrap();
        fs::write(directory.path().join("thesis.tex"), "").unwrap();
        let refused = admit(&db, None).unwrap_err();
        assert!(refused.message.contains("thesis.tex"), "{refused:?}");
        let own = (fs::metadata(&directory).unwrap().uid(), 0);
        admit(&db, Some(own)).unwrap();
    }

    /// Only root can change the owner of a file.
    #[test]
    fn the_history_of_an_earlier_version_is_given_to_the_services_user() {
        if !gua_test::runs_as_root("the owner of a history") {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("gua.db-spool")).unwrap();
        for name in ["gua.db", "gua.db-lock", "gua.db-spool/push", "other"] {
            fs::write(at(name), "").unwrap();
        }
        fs::write(at("linked"), "").unwrap();
        fs::hard_link(at("linked"), at("gua.db-linked")).unwrap();
        std::os::unix::fs::symlink(at("other"), at("gua.db-link")).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let foreign = elsewhere.path().join("passwd");
        fs::write(&foreign, "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), at("gua.db-directory")).unwrap();
        give(&at("gua.db"), NOBODY).unwrap();
        let owner = |name: &str| at(name).symlink_metadata().unwrap().uid();
        for name in [
            "",
            "gua.db",
            "gua.db-lock",
            "gua.db-spool/push",
            "gua.db-link",
        ] {
            assert_eq!(owner(name), 65534, "{name}");
        }
        for name in ["other", "linked"] {
            assert_eq!(owner(name), 0, "{name}");
        }
        for path in [elsewhere.path(), &foreign] {
            assert_eq!(fs::metadata(path).unwrap().uid(), 0, "{}", path.display());
        }
    }
}
