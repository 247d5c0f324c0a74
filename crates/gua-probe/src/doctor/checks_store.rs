//! Checks of the history path: what exists there, and how much space is free.

use std::path::Path;

use crate::host::disk::{Entry, Mounted, Parent, Room};
use gua_model::Bytes;
use serde_json::json;

use gua_model::text::sanitize;

use super::check::{Check, Group, Kind, Status, size};
use super::facts::{Choice, Facts, Reach};

const DEFAULT_DB: Kind = Kind::new(Group::Database, "default_db", "default DB path");
const DISK_SPACE: Kind = Kind::new(Group::Database, "disk_space", "disk space");

const TOO_LITTLE: Bytes = Bytes::from_mb(50);
const LITTLE: Bytes = Bytes::from_mb(1024);
/// Minimum number of free inodes: SQLite creates a few files next to the history.
const FEW_INODES: u64 = 100;

pub(super) fn default_db(facts: &Facts) -> Check {
    let history = &facts.history;
    let path = history.path.to_string_lossy();
    let is_default = history.choice == Choice::Default;
    let Some(spot) = &history.spot else {
        let late = "the file system did not answer in time";
        let details = json!({
            "path": path, "is_default": is_default, "exists": null, "is_file": null, "parent_exists": null,
            "parent_writable": null, "size_bytes": null, "error": late,
        });
        return DEFAULT_DB
            .warning(late, details)
            .advise("Give a path on a local disk with `--db PATH`.");
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
    let check = |status, summary: &str| DEFAULT_DB.check(status, summary, details.clone());
    let elsewhere = match history.choice {
        Choice::Default => "Give another path with `--db PATH`, or set HOME.",
        Choice::Custom => "Give another path with `--db PATH`.",
    };
    let unusable = |summary: &str| check(Status::Error, summary).advise(elsewhere);
    if let Some(found) = &history.file_system
        && spot.entry == Entry::Absent
        && found.reach == Reach::Kernel
    {
        return unusable(&format!("on {}, where no file can be created", found.name));
    }
    let room = spot.room.as_ref();
    let is_read_only = room.is_some_and(|room| room.mounted == Mounted::ReadOnly);
    match (&spot.entry, history.choice, spot.parent) {
        (Entry::Unreadable(error), ..) => {
            unusable(&format!("cannot be looked at: {}", sanitize(error)))
        }
        (Entry::NoFile, ..) => check(Status::Error, "exists and is not a regular file")
            .blocked_until("Give another path with `--db PATH`."),
        (Entry::File { .. }, Choice::Custom, _) => check(
            Status::Warning,
            "exists, a new history would be refused here",
        )
        .advise("Give a path that does not exist yet to begin a new history."),
        _ if is_read_only => unusable("on a file system that is mounted read-only"),
        (Entry::File { .. }, Choice::Default, _) => {
            check(Status::Ok, "exists and will be appended to")
        }
        (Entry::Absent, Choice::Default, Parent::Missing) => {
            match room.and_then(|room| in_the_way(&history.path, room)) {
                Some(summary) => unusable(&summary),
                None => check(Status::Ok, "absent, its directory will be created"),
            }
        }
        (Entry::Absent, Choice::Custom, Parent::Missing) => {
            check(Status::Error, "its directory does not exist")
                .blocked_until("Create its directory, or give another path with `--db PATH`.")
        }
        (Entry::Absent, _, Parent::ReadOnly) => {
            unusable("absent, and its directory is not writable")
        }
        (Entry::Absent, _, Parent::Writable) => check(Status::Ok, "absent and ready to be created"),
    }
}

/// Returns why the directory of the default path cannot be created below the nearest existing one.
fn in_the_way(path: &Path, room: &Room) -> Option<String> {
    let home = path.parent().and_then(Path::parent)?;
    let shown = |path: &Path| sanitize(&path.to_string_lossy());
    if home != room.directory && room.directory != Path::new(".") {
        return Some(format!("the home directory {} does not exist", shown(home)));
    }
    (room.directory_access != Parent::Writable)
        .then(|| format!("the home directory {} is not writable", shown(home)))
}

pub(super) fn disk_space(facts: &Facts) -> Check {
    let history = &facts.history;
    let file_system = history.file_system.as_ref();
    let reach = file_system.map(|found| found.reach);
    let room = history.spot.as_ref().and_then(|spot| spot.room.as_ref());
    let details = json!({
        "directory": room.map(|room| room.directory.to_string_lossy()),
        "free_bytes": room.map(|room| room.free.0),
        "total_bytes": room.map(|room| room.total.0),
        "free_inodes": room.and_then(|room| room.free_inodes),
        "file_system": file_system.map(|found| found.name.as_str()),
        "is_network": reach.map(|reach| reach == Reach::Network),
        "is_read_only": room.map(|room| room.mounted == Mounted::ReadOnly),
    });
    let (mut status, mut summary, advice) = match room {
        Some(room) if reach != Some(Reach::Kernel) => judge(room),
        _ => (Status::Skipped, "not known".to_owned(), None),
    };
    let mut advice = Vec::from_iter(advice);
    if let Some(found) = file_system.filter(|found| found.reach == Reach::Network) {
        summary.push_str(&format!(
            ", on a network ({}), where SQLite's write-ahead log does not work",
            found.name
        ));
        if matches!(status, Status::Ok | Status::Skipped) {
            status = Status::Warning;
        }
        advice.push("Keep the history on a local disk (`--db PATH`).".to_owned());
    }
    let check = DISK_SPACE.check(status, summary, details);
    advice.into_iter().fold(check, Check::advise)
}

fn judge(room: &Room) -> (Status, String, Option<String>) {
    let place = sanitize(&room.directory.to_string_lossy());
    let free = format!("{} free", size(room.free));
    let make_room = Some(format!("Make room at {place}."));
    let or_elsewhere = || format!("Make room at {place}, or choose another disk (`--db PATH`).");
    if room.free < TOO_LITTLE {
        return (Status::Error, free, Some(or_elsewhere()));
    }
    if room.free_inodes == Some(0) {
        let summary = "no inodes left".to_owned();
        return (Status::Error, summary, Some(or_elsewhere()));
    }
    if room.free < LITTLE {
        let summary = format!("{free}, and a history grows with its cards and years");
        return (Status::Warning, summary, make_room);
    }
    if let Some(inodes @ ..FEW_INODES) = room.free_inodes {
        let summary = format!("{free}, only {inodes} inodes left");
        return (Status::Warning, summary, make_room);
    }
    (Status::Ok, free, None)
}

#[cfg(test)]
mod tests;
