//! Where the history would be written: what stands there, and how much room there is.

use gua_model::Bytes;
use gua_probe::host::disk::{Entry, Mounted, Parent, Room};
use serde_json::json;

use super::check::{Check, Group, Kind, Status, harmless};
use super::facts::{Choice, Facts, Reach};

const DEFAULT_DB: Kind = Kind::new(Group::Database, "default_db", "default DB path");
const DISK_SPACE: Kind = Kind::new(Group::Database, "disk_space", "disk space");

const TOO_LITTLE: Bytes = Bytes::from_mb(50);
const LITTLE: Bytes = Bytes::from_mb(1024);
/// SQLite needs a handful of files beside the history.
const FEW_INODES: u64 = 100;

pub(super) fn default_db(facts: &Facts) -> Check {
    let history = &facts.history;
    let path = history.path.to_string_lossy();
    let shown = harmless(&path);
    let is_default = history.choice == Choice::Default;
    let Some(spot) = &history.spot else {
        let details = json!({
            "path": path, "is_default": is_default, "exists": null, "is_file": null, "parent_exists": null,
            "parent_writable": null, "size_bytes": null, "error": "the file system did not answer in time",
        });
        return Check::new(
            DEFAULT_DB,
            Status::Warning,
            "the file system did not answer in time",
            details,
        )
        .note(format!(
            "Use a local disk with `--db PATH`: the file system of {shown} does not answer."
        ));
    };
    let details = json!({
        "path": path,
        "is_default": is_default,
        "exists": !matches!(spot.entry, Entry::Absent),
        "is_file": matches!(spot.entry, Entry::File { .. }),
        "parent_exists": spot.parent != Parent::Missing,
        "parent_writable": spot.parent == Parent::Writable,
        "size_bytes": match spot.entry { Entry::File { size } => Some(size.0), _ => None },
        "error": match &spot.entry { Entry::Unreadable(error) => Some(error), _ => None },
    });
    let check = |status, summary: &str| Check::new(DEFAULT_DB, status, summary, details.clone());
    match (&spot.entry, history.choice, spot.parent) {
        (Entry::Unreadable(error), ..) => check(Status::Error, &format!("cannot be looked at: {}", harmless(error)))
            .note(format!("Ask for access to {shown}, or choose another path with `--db PATH`: {}.", harmless(error))),
        (Entry::NoFile, ..) => check(Status::Error, "exists and is not a regular file")
            .fix(format!("Choose another path with `--db PATH`: {shown} exists and is not a regular file.")),
        (Entry::File { .. }, Choice::Default, _) => check(Status::Ok, "exists, gua daemon will append to it"),
        (Entry::File { .. }, Choice::Custom, _) => check(Status::Warning, "exists, gua daemon will refuse it").note(
            format!("Choose a path that does not exist yet to collect into: {shown} exists, and gua daemon refuses it."),
        ),
        (Entry::Absent, Choice::Default, Parent::Missing) => {
            check(Status::Ok, "absent, its directory will be created")
        }
        (Entry::Absent, Choice::Custom, Parent::Missing) => check(Status::Error, "its directory does not exist")
            .fix(format!("Create the directory of {shown}, or choose another path: it does not exist.")),
        (Entry::Absent, _, Parent::ReadOnly) => check(Status::Warning, "absent, and its directory is not writable")
            .note(format!("Ask for write access to the directory of {shown}, or choose another path with `--db PATH`.")),
        (Entry::Absent, _, Parent::Writable) => check(Status::Ok, "absent and ready to be created"),
    }
}

pub(super) fn disk_space(facts: &Facts) -> Check {
    let history = &facts.history;
    let file_system = history.file_system.as_ref();
    let is_network = file_system.is_some_and(|found| found.reach == Reach::Network);
    let room = history.spot.as_ref().and_then(|spot| spot.room.as_ref());
    let details = json!({
        "directory": room.map(|room| room.directory.to_string_lossy()),
        "free_bytes": room.map(|room| room.free.0),
        "total_bytes": room.map(|room| room.total.0),
        "free_inodes": room.and_then(|room| room.free_inodes),
        "file_system": file_system.map(|found| found.name.as_str()),
        "is_network": file_system.map(|found| found.reach == Reach::Network),
        "is_read_only": room.map(|room| room.mounted == Mounted::ReadOnly),
    });
    let (status, mut summary, advice) = match room {
        None => (Status::Skipped, "not known".to_owned(), None),
        Some(room) => judge(room, history.spot.as_ref().map(|spot| spot.parent)),
    };
    let name = file_system.map_or("a network file system", |found| found.name.as_str());
    if is_network {
        summary.push_str(&format!(", on a network ({name})"));
    }
    let status = match status {
        Status::Ok | Status::Skipped if is_network => Status::Warning,
        other => other,
    };
    let mut check = Check::new(DISK_SPACE, status, summary, details);
    if let Some(advice) = advice {
        check = check.note(advice);
    }
    if is_network {
        check = check.note(format!(
            "Keep the history on a local disk (`--db PATH`): it would be on {name}, and SQLite's write-ahead log does \
             not work over a network.",
        ));
    }
    check
}

fn judge(room: &Room, parent: Option<Parent>) -> (Status, String, Option<String>) {
    let place = harmless(&room.directory.to_string_lossy());
    let free = format!("{} free", size(room.free));
    if room.mounted == Mounted::ReadOnly {
        let advice = format!(
            "Choose a path with `--db PATH` that can be written: {place} is mounted read-only."
        );
        return (Status::Error, "mounted read-only".to_owned(), Some(advice));
    }
    if room.free < TOO_LITTLE || room.free_inodes == Some(0) {
        let what = if room.free < TOO_LITTLE {
            free
        } else {
            "no inodes left".to_owned()
        };
        let advice =
            format!("Make room at {place}, or choose another disk with `--db PATH`: {what}.");
        return (Status::Error, what, Some(advice));
    }
    if room.free < LITTLE {
        let advice =
            format!("Make room at {place}: {free}, and a history grows with its cards and years.");
        return (Status::Warning, free, Some(advice));
    }
    if let Some(inodes @ ..FEW_INODES) = room.free_inodes {
        let advice =
            format!("Make room at {place}: only {inodes} more files can be created there.");
        return (
            Status::Warning,
            format!("{free}, only {inodes} inodes left"),
            Some(advice),
        );
    }
    // Where the directory itself exists, the path's own check says so.
    if parent == Some(Parent::Missing) && room.directory_access != Parent::Writable {
        let advice =
            format!("Ask for write access to {place}, or choose another path with `--db PATH`.");
        return (
            Status::Warning,
            format!("{free}, and {place} is not writable"),
            Some(advice),
        );
    }
    (Status::Ok, free, None)
}

/// In the unit that reads best, with one decimal from a gigabyte on.
fn size(bytes: Bytes) -> String {
    let mb = bytes.whole_mb();
    match mb {
        0..1024 => format!("{mb} MB"),
        _ => format!("{}.{} GB", mb / 1024, mb % 1024 * 10 / 1024),
    }
}

#[cfg(test)]
mod tests;
