//! Mounts: whether `/proc` hides other users' processes, and whether a path is on a network file system.
//!
//! The mount table is read instead of querying the file system, because a server that is down never answers.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::HostRoot;

/// Maximum size of the mount table: hosts with thousands of containers have thousands of mounts.
const LIMIT: u64 = 16 * 1024 * 1024;

/// File systems whose files are on another machine, or behind a protocol without reliable locks.
const NETWORK: &str = "9p afs beegfs ceph cifs fuse.beegfs fuse.ceph fuse.glusterfs fuse.juicefs fuse.rclone fuse.s3fs \
    fuse.sshfs glusterfs gpfs lustre ncpfs nfs nfs4 orangefs panfs smb3 wekafs";

/// Virtual file systems of the kernel, which cannot hold a history.
const VIRTUAL: &str = "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts efivarfs fusectl mqueue nsfs proc \
    pstore rpc_pipefs securityfs sysfs tracefs";

/// One line of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub point: PathBuf,
    /// Type of the file system, for example `ext4`.
    pub kind: String,
    /// Options of the mount and of its file system, in that order.
    pub options: Vec<String>,
}

impl Mount {
    pub fn is_network(&self) -> bool {
        NETWORK.split(' ').any(|kind| kind == self.kind)
    }

    /// Reports whether no file can be created there, whatever the permissions.
    pub fn is_virtual(&self) -> bool {
        VIRTUAL.split(' ').any(|kind| kind == self.kind)
    }
}

/// Restriction of `/proc` (proc(5), mount option `hidepid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hiding {
    pub level: HideLevel,
    /// Members of this group see everything.
    pub gid: Option<u32>,
}

gua_model::words! {
    /// Level at which `/proc` hides processes, with the kernel's name for it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HideLevel {
        /// All processes are visible.
        Off = "off",
        /// Other users' processes are listed, but cannot be inspected.
        NoAccess = "noaccess",
        /// Other users' processes are not listed.
        Invisible = "invisible",
        /// Only processes that the user may trace are listed, whatever the group.
        Ptraceable = "ptraceable",
    }
}

/// Returns the mount table of this process; empty if it cannot be read.
pub fn mounts(root: &HostRoot) -> Vec<Mount> {
    root.read("proc/self/mountinfo", LIMIT)
        .map_or_else(|_| Vec::new(), |text| parse_mounts(&text))
}

/// Parses `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`). Malformed lines are skipped.
pub fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let point = words.nth(4)?;
    let own = words.next()?;
    words.by_ref().find(|word| *word == b"-")?;
    let kind = words.next()?;
    let shared = words.nth(1).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let options = [own, shared]
        .into_iter()
        .flat_map(|list| list.split(|byte| *byte == b','))
        .map(text)
        .collect();
    Some(Mount {
        point: PathBuf::from(OsString::from_vec(unescape(point))),
        kind: text(kind),
        options,
    })
}

/// Decodes a path: the kernel writes blanks, tabs, newlines and backslashes as `\` and three octal digits.
fn unescape(escaped: &[u8]) -> Vec<u8> {
    let mut parts = escaped.split(|byte| *byte == b'\\');
    let mut plain = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let digits = part
            .first_chunk::<3>()
            .and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                plain.extend(&part[3..]);
            }
            None => {
                plain.push(b'\\');
                plain.extend(part);
            }
        }
    }
    plain
}

/// Returns what the process file system at `proc` hides; `None` if none is mounted there.
pub fn hiding(mounts: &[Mount], proc: &Path) -> Option<Hiding> {
    // The last mount on a mount point covers the ones before it.
    let mount = mounts
        .iter()
        .rev()
        .find(|mount| mount.point == proc && mount.kind == "proc")?;
    let value = |name: &str| {
        let mut options = mount.options.iter().rev();
        options.find_map(|option| option.strip_prefix(name))
    };
    let level = match value("hidepid=") {
        None | Some("0" | "off") => HideLevel::Off,
        Some("1" | "noaccess") => HideLevel::NoAccess,
        Some("4" | "ptraceable") => HideLevel::Ptraceable,
        // An unknown level is treated as the strictest.
        Some(_) => HideLevel::Invisible,
    };
    Some(Hiding {
        level,
        gid: value("gid=").and_then(|gid| gid.parse().ok()),
    })
}

/// Returns the mount that a path is on. Links are not followed.
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let on_path = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    // Of equal mount points the last one counts, and `max_by_key` returns the last of equals.
    on_path.max_by_key(|mount| mount.point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw,gid=27,hidepid=invisible
27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
40 27 0:40 / /home rw,relatime - nfs4 server:/home rw,vers=4.2
41 40 0:41 / /home/ada\\040l rw - tmpfs tmpfs rw
no mount at all
";

    fn check_hiding(options: &str, level: HideLevel, gid: Option<u32>) {
        let mounts =
            parse_mounts(format!("22 27 0:21 / /proc rw - proc proc {options}").as_bytes());
        assert_eq!(
            hiding(&mounts, Path::new("/proc")),
            Some(Hiding { level, gid }),
            "{options}"
        );
    }

    #[test]
    fn every_spelling_of_hidepid_is_understood() {
        check_hiding("rw", HideLevel::Off, None);
        check_hiding("rw,hidepid=0", HideLevel::Off, None);
        check_hiding("rw,hidepid=1", HideLevel::NoAccess, None);
        check_hiding("rw,gid=27,hidepid=2", HideLevel::Invisible, Some(27));
        check_hiding("rw,hidepid=noaccess,gid=x", HideLevel::NoAccess, None);
        check_hiding("rw,hidepid=ptraceable", HideLevel::Ptraceable, None);
        check_hiding("rw,hidepid=9", HideLevel::Invisible, None);
    }

    #[test]
    fn the_last_process_file_system_on_a_point_counts() {
        let text =
            "1 2 0:1 / /proc rw - proc proc rw,hidepid=2\n3 1 0:2 / /proc rw - proc proc rw\n";
        let level =
            hiding(&parse_mounts(text.as_bytes()), Path::new("/proc")).map(|hiding| hiding.level);
        assert_eq!(level, Some(HideLevel::Off));
        assert_eq!(
            hiding(&parse_mounts(text.as_bytes()), Path::new("/elsewhere")),
            None
        );
    }

    fn check_holding(path: &str, kind: &str, network: bool) {
        let mounts = parse_mounts(TABLE.as_bytes());
        let mount = holding(&mounts, Path::new(path)).unwrap();
        assert_eq!(
            (mount.kind.as_str(), mount.is_network()),
            (kind, network),
            "{path}"
        );
    }

    #[test]
    fn a_path_is_on_the_deepest_mount_above_it() {
        check_holding("/var/lib/gua/gua.db", "ext4", false);
        check_holding("/home/bob/.gua/gua.db", "nfs4", true);
        check_holding("/home/ada l/.gua/gua.db", "tmpfs", false);
        check_holding("/homes/bob", "ext4", false);
    }

    #[test]
    fn virtual_file_systems_are_distinguished_from_disks() {
        let check = |kind: &str, expected| {
            let line = format!("22 1 0:21 / /x rw - {kind} none rw\n");
            let mounts = parse_mounts(line.as_bytes());
            assert_eq!(mounts[0].is_virtual(), expected, "{kind}");
        };
        check("sysfs", true);
        check("proc", true);
        check("ext4", false);
        check("tmpfs", false);
    }

    #[test]
    fn a_path_may_hold_escaped_blanks_and_lone_backslashes() {
        assert_eq!(unescape(b"a\\040b\\134c\\"), b"a b\\c\\");
        assert_eq!(unescape(b"\\777\\08x"), b"\\777\\08x");
    }
}
