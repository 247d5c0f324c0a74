//! Files that root may trust. If another user can change a configuration, a driver library or a program that root uses, that user
//! can act as root. With `sudo -E`, which keeps the user's HOME, root would find such files by default.
//!
//! Write access comes from the owner, the mode and POSIX access control lists (acl(5)). Other kinds of lists (NFSv4) are not read;
//! for these, the mode is what the file server derives from the list.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::own::{MAX_LINKS, WRITABLE_BY_OTHERS};

/// Error: a file is refused, because another user can change it.
#[derive(Debug, thiserror::Error)]
#[error("`{}` is not trusted: {reason}", path.display())]
pub struct Untrusted {
    pub path: PathBuf,
    /// Part of the path that can be changed, and by whom.
    pub reason: String,
}

impl Untrusted {
    /// Advice for the user.
    pub const HINT: &str = "make it belong to root and writable by root alone, or run without the other user's environment (`sudo -H`, not `sudo -E`)";
}

/// Checks that nobody but root can change a file, any directory on its path, or a symbolic link among them. Only root needs this: for
/// other users, and for root of a container with a user namespace of its own, it succeeds.
pub fn safe_for_root(path: &Path) -> Result<(), Untrusted> {
    safe_for_service(path, 0)
}

/// Checks as [`safe_for_root`] does a file that a service of another user will use. It may belong to that user too.
pub fn safe_for_service(path: &Path, user: u32) -> Result<(), Untrusted> {
    match geteuid().is_root() && !is_in_a_container() {
        true => check(path, user),
        false => Ok(()),
    }
}

/// Checks that nobody but root and the user of this process can change a file or its path. In a container with a user namespace of
/// its own, where files of the host have other owners, it succeeds.
pub fn safe_for_this_user(path: &Path) -> Result<(), Untrusted> {
    match is_in_a_container() {
        true => Ok(()),
        false => check(path, geteuid().as_raw()),
    }
}

fn is_in_a_container() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map");
    map.is_ok_and(|map| is_of_a_container(&map))
}

/// Whether a `uid_map` is that of a user namespace below the first one. Without a readable map, root counts as that of the host.
fn is_of_a_container(map: &str) -> bool {
    // user_namespaces(7): the first namespace maps every ID to itself.
    let whole = ["0", "0", "4294967295"];
    !map.trim().is_empty() && !map.split_whitespace().eq(whole)
}

/// Checks every component of a path: it must belong to root or `owner`, and nobody else may write it.
fn check(path: &Path, owner: u32) -> Result<(), Untrusted> {
    let untrusted = |reason: String| Untrusted {
        path: path.to_owned(),
        reason,
    };
    let cannot = |at: &Path, error: &io::Error| {
        untrusted(format!("cannot examine `{}`: {error}", at.display()))
    };
    let whole = std::path::absolute(path).map_err(|error| cannot(path, &error))?;
    let mut rest: VecDeque<OsString> = names(&whole);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let next = if name == ".." {
            at.parent().unwrap_or(&at).to_owned()
        } else {
            at.join(&name)
        };
        let facts = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Every user with write access to the directory can create it, also if the directory is sticky.
                let directory = fs::symlink_metadata(&at).map_err(|error| cannot(&at, &error))?;
                return match writable(&directory, &at) {
                    Some(why) => Err(untrusted(format!("`{}` {why}", at.display()))),
                    None => Ok(()),
                };
            }
            facts => facts.map_err(|error| cannot(&next, &error))?,
        };
        if let Some(why) = changeable(&facts, &next, owner) {
            return Err(untrusted(format!("`{}` {why}", next.display())));
        }
        if !facts.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(untrusted("it has too many links".to_owned()));
        }
        let target = fs::read_link(&next).map_err(|error| cannot(&next, &error))?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for name in names(&target).into_iter().rev() {
            rest.push_front(name);
        }
    }
    Ok(())
}

fn names(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    names.collect()
}

/// Returns who can change a file or a directory; `None` if only root and `owner` can.
fn changeable(facts: &Metadata, path: &Path, owner: u32) -> Option<String> {
    if ![0, owner].contains(&facts.uid()) {
        return Some(format!("belongs to user {}", facts.uid()));
    }
    // Links have no permissions. In a sticky directory (inode(7)) nobody can replace what belongs to root, which is checked next.
    let is_sticky = facts.is_dir() && Mode::from_raw_mode(facts.mode()).contains(Mode::SVTX);
    match facts.is_symlink() || is_sticky {
        true => None,
        false => writable(facts, path),
    }
}

/// Returns who else than the owner can write a file, or create files in a directory.
fn writable(facts: &Metadata, path: &Path) -> Option<String> {
    match facts.mode() & WRITABLE_BY_OTHERS {
        // With an access control list, the group permissions are the upper bound of what any entry grants.
        0 => None,
        mode if mode & 0o002 != 0 => Some("can be written by everyone".to_owned()),
        // Members of root's group are root.
        _ if facts.gid() == 0 => writable_by_list(path),
        _ => Some(format!("can be written by group {}", facts.gid())),
    }
}

/// Returns who can write a file by its access control list, if that is not root.
fn writable_by_list(path: &Path) -> Option<String> {
    // Enough for 500 entries. A longer list is an error, so the file is not trusted.
    let mut list = [0; 4096];
    match rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut list[..]) {
        Ok(length) => writer_in(&list[..length]),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => None,
        Err(error) => Some(format!(
            "has an access control list that cannot be read: {error}"
        )),
    }
}

/// Returns who other than root is given write permission by an access control list. It has a version in four bytes, then entries:
/// kind and permissions in two bytes each, and an id in four (`linux/posix_acl_xattr.h`).
fn writer_in(list: &[u8]) -> Option<String> {
    const USER: u16 = 2;
    const GROUP: u16 = 8;
    const WRITE: u16 = 2;
    list.get(4..)?.chunks_exact(8).find_map(|entry| {
        let number = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let whose = match number(0) {
            USER => "user",
            GROUP => "group",
            _ => return None,
        };
        (number(2) & WRITE != 0 && id != 0)
            .then(|| format!("can be written by {whose} {id} (access control list)"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Reason for which a path below the directory is refused; the test's user takes the place of root.
    fn reason(path: &Path) -> Option<String> {
        let checked = check(path, geteuid().as_raw());
        checked.err().map(|untrusted| untrusted.to_string())
    }

    #[test]
    fn a_file_that_another_user_can_change_is_refused_with_the_part_of_its_path() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let mode = |name: &str, mode: u32| {
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        };
        fs::create_dir_all(at("safe/open")).unwrap();
        fs::write(at("safe/file"), "").unwrap();
        fs::write(at("safe/open/file"), "").unwrap();
        symlink("open/../file", at("safe/link")).unwrap();
        symlink(at("safe/open/file"), at("safe/out")).unwrap();
        symlink("loop", at("safe/loop")).unwrap();
        for name in ["safe", "safe/open"] {
            mode(name, 0o755);
        }
        mode("safe/file", 0o644);
        mode("safe/open/file", 0o644);
        for name in [
            "safe/file",
            "safe/link",
            "safe/out",
            "safe/none",
            "safe/open",
        ] {
            assert_eq!(reason(&at(name)), None, "{name}");
        }
        assert!(reason(&at("safe/loop")).unwrap().contains("too many links"));

        mode("safe/file", 0o666);
        let whole = at("safe/file").display().to_string();
        let expected = format!("`{whole}` is not trusted: `{whole}` can be written by everyone");
        assert_eq!(reason(&at("safe/file")), Some(expected));
        assert!(reason(&at("safe/link")).is_some());
        mode("safe/open", 0o777);
        let open = format!("`{}` can be written by everyone", at("safe/open").display());
        for name in ["safe/open/file", "safe/out", "safe/open"] {
            let reason = reason(&at(name)).unwrap();
            assert!(reason.ends_with(&open), "{name}: {reason}");
        }
        mode("safe/open", 0o1777);
        assert_eq!(reason(&at("safe/open/file")), None);
        // Everyone can create a file that is missing there.
        for name in ["safe/open/none", "safe/open/none/file"] {
            let reason = reason(&at(name)).unwrap();
            assert!(reason.ends_with(&open), "{name}: {reason}");
        }
    }

    #[test]
    fn only_a_map_of_other_ids_is_that_of_a_container() {
        for (map, expected) in [
            ("         0          0 4294967295\n", false),
            ("         0     100000      65536\n", true),
            ("", false),
        ] {
            assert_eq!(is_of_a_container(map), expected, "{map}");
        }
    }

    #[test]
    fn a_list_that_gives_another_user_write_permission_is_found() {
        let list = |entries: &[(u16, u16, u32)]| {
            let mut bytes = 2_u32.to_le_bytes().to_vec();
            for (kind, permissions, id) in entries {
                bytes.extend(kind.to_le_bytes());
                bytes.extend(permissions.to_le_bytes());
                bytes.extend(id.to_le_bytes());
            }
            bytes
        };
        let none = u32::MAX;
        // As `setfacl -m u:1000:r,g:0:rw` and `setfacl -m u:1000:rw` make them.
        let harmless = [
            (1, 6, none),
            (2, 4, 1000),
            (4, 4, none),
            (8, 6, 0),
            (16, 6, none),
            (32, 4, none),
        ];
        let of_user = [
            (1, 6, none),
            (2, 6, 1000),
            (4, 4, none),
            (16, 6, none),
            (32, 4, none),
        ];
        let of_group = [
            (1, 6, none),
            (4, 4, none),
            (8, 2, 1000),
            (16, 6, none),
            (32, 4, none),
        ];
        assert_eq!(writer_in(&list(&harmless)), None);
        assert_eq!(writer_in(b""), None);
        let by = |who: &str| {
            Some(format!(
                "can be written by {who} 1000 (access control list)"
            ))
        };
        assert_eq!(writer_in(&list(&of_user)), by("user"));
        assert_eq!(writer_in(&list(&of_group)), by("group"));

        if !gua_test::runs_as_root("access control lists of root's files") {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config.toml");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(reason(&file), None);
        let set = |entries: &[(u16, u16, u32)]| {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&file, "system.posix_acl_access", &list(entries), flags)
        };
        if set(&harmless).is_err() {
            gua_test::not_tested("no access control lists here", "files with such a list");
            return;
        }
        assert_eq!(reason(&file), None);
        set(&of_user).unwrap();
        assert!(reason(&file).unwrap().contains("by user 1000"));
    }

    #[test]
    fn a_service_trusts_its_own_files_and_those_of_root() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("command");
        fs::write(&file, "").unwrap();
        let mode = |mode: u32| fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        safe_for_this_user(&file).unwrap();
        safe_for_this_user(Path::new("/bin/sh")).unwrap();
        mode(0o757);
        if is_in_a_container() {
            gua_test::not_tested("in a container, owners are not checked", "files of others");
            return;
        }
        let error = safe_for_this_user(&file).unwrap_err().to_string();
        assert!(error.ends_with("can be written by everyone"), "{error}");
        if !gua_test::runs_as_root("files of another user") {
            return;
        }
        mode(0o755);
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        safe_for_service(&file, 65534).unwrap();
        safe_for_service(&file, 65533).unwrap_err();
        safe_for_this_user(&file).unwrap_err();
    }

    /// Only root can give files to another user.
    #[test]
    fn a_file_of_another_user_or_in_their_directory_is_refused() {
        if !gua_test::runs_as_root("files and directories of another user") {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let theirs = home.path().join("ada");
        fs::create_dir(&theirs).unwrap();
        let file = theirs.join("config.toml");
        fs::write(&file, "").unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        let reason = safe_for_root(&file).unwrap_err().reason;
        assert_eq!(
            reason,
            format!("`{}` belongs to user 65534", theirs.display())
        );
        // A group other than root's may write.
        std::os::unix::fs::chown(&theirs, Some(0), Some(65534)).unwrap();
        fs::set_permissions(&theirs, Permissions::from_mode(0o775)).unwrap();
        let reason = safe_for_root(&file).unwrap_err().reason;
        assert!(
            reason.ends_with("can be written by group 65534"),
            "{reason}"
        );
        fs::set_permissions(&theirs, Permissions::from_mode(0o755)).unwrap();
        safe_for_root(&file).unwrap();
        // A link in a directory for everyone belongs to the user who made it.
        let link = home.path().join("link");
        symlink(&file, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        safe_for_root(&link).unwrap_err();
    }
}
