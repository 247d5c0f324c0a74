//! The owner of the host's history: the system user `gua`. Earlier versions of the service ran as root.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};

use gua_model::failure::Failure;

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
        for path in entries(directory)? {
            if is_default(db) || belongs(&path, db) {
                give_tree(&path, ids)?;
            }
        }
        give_one(directory, ids)
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
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.as_encoded_bytes().to_vec())
    };
    match (name(path), name(db)) {
        (Some(name), Some(db)) => name.starts_with(&db),
        _ => false,
    }
}

fn give_tree(path: &Path, ids: Ids) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for path in entries(path)? {
            give_tree(&path, ids)?;
        }
    }
    give_one(path, ids)
}

/// Changes the owner of root's files. Files of other users and files with several hard links are left unchanged.
fn give_one(path: &Path, (uid, gid): Ids) -> io::Result<()> {
    let facts = path.symlink_metadata()?;
    let is_shared = facts.is_file() && facts.nlink() > 1;
    match facts.uid() == rustix::process::geteuid().as_raw() && !is_shared {
        true => lchown(path, Some(uid), Some(gid)),
        false => Ok(()),
    }
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
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
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
    }
}
