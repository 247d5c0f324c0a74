//! Checks of the history path: what exists there, and how much space is free.

use std::path::Path;

use crate::host::disk::{Entry, Parent, Room};
use crate::host::mount::Mount;
use gua_model::Bytes;
use gua_model::text::sanitize;

use super::check::{Finding, Status, size};
use super::details::Details;
use super::facts::{Choice, Facts, HistoryKind};

const TOO_LITTLE: Bytes = Bytes::from_mb(50);
const LITTLE: Bytes = Bytes::from_mb(1024);
/// Minimum number of free inodes: SQLite creates a few files next to the history.
const FEW_INODES: u64 = 100;

pub(super) fn default_db(facts: &Facts) -> Finding {
    let elsewhere = facts.known.read_elsewhere.as_ref().map(|path| {
        format!(
            "Commands without `--db` use the history {}, not the one that `gua daemon` would write.",
            sanitize(&path.to_string_lossy())
        )
    });
    collectors_path(facts).advise_all(elsewhere)
}

fn collectors_path(facts: &Facts) -> Finding {
    let (path, choice) = (&facts.known.db, facts.known.choice);
    let late = "the file system did not respond in time";
    let spot = facts.spot.as_ref();
    let details = Details::DefaultDb {
        error: match spot.map(|spot| &spot.entry) {
            None => Some(late.to_owned()),
            Some(Entry::Unreadable(error)) => Some(error.clone()),
            Some(_) => None,
        },
        exists: spot.map(|spot| spot.entry != Entry::Absent),
        is_default: choice == Choice::Default,
        is_file: spot.map(|spot| matches!(spot.entry, Entry::File { .. })),
        parent_exists: spot.map(|spot| spot.parent != Parent::Missing),
        parent_writable: spot.map(|spot| spot.parent == Parent::Writable),
        path: path.to_string_lossy().into_owned(),
        size_bytes: match spot.map(|spot| &spot.entry) {
            Some(Entry::File { size }) => Some(size.0),
            _ => None,
        },
    };
    let Some(spot) = spot else {
        return Status::Warning
            .finding(late, details)
            .advise("Pass a path on a local disk with `--db PATH`.");
    };
    let finding = |status: Status, summary: &str| status.finding(summary, details.clone());
    let elsewhere = match choice {
        Choice::Default => "Pass another path with `--db PATH`, or set HOME.",
        Choice::Custom => "Pass another path with `--db PATH`.",
    };
    let unusable = |summary: &str| finding(Status::Error, summary).advise(elsewhere);
    if let Some(mount) = facts.mount.as_ref().filter(|mount| mount.is_virtual())
        && spot.entry == Entry::Absent
    {
        return unusable(&format!("on {}, where no file can be created", mount.kind));
    }
    let room = spot.room.as_ref();
    let is_read_only = room.is_some_and(|room| room.is_read_only);
    match (&spot.entry, choice, spot.parent) {
        (Entry::Unreadable(error), ..) => {
            unusable(&format!("cannot be examined: {}", sanitize(error)))
        }
        (Entry::NoFile, ..) => finding(Status::Error, "exists and is not a regular file")
            .blocked_until("Pass another path with `--db PATH`."),
        (Entry::File { .. }, Choice::Custom, _) => finding(
            Status::Warning,
            "exists, a new history would be refused here",
        )
        .advise("Pass a path that does not exist yet to begin a new history."),
        _ if is_read_only => unusable("on a file system that is mounted read-only"),
        (Entry::File { .. }, Choice::Default, _) => {
            let (status, summary, advice) = existing(facts);
            finding(status, &summary).advise_all(advice)
        }
        (Entry::Absent, Choice::Default, Parent::Missing) => {
            match room.and_then(|room| in_the_way(path, room)) {
                Some(summary) => unusable(&summary),
                None => finding(Status::Ok, "absent, its directory will be created"),
            }
        }
        (Entry::Absent, Choice::Custom, Parent::Missing) => {
            finding(Status::Error, "its directory does not exist")
                .blocked_until("Create its directory, or pass another path with `--db PATH`.")
        }
        (Entry::Absent, _, Parent::ReadOnly) => {
            unusable("absent, and its directory is not writable")
        }
        (Entry::Absent, _, Parent::Writable) => {
            finding(Status::Ok, "absent and ready to be created")
        }
    }
}

/// Status and description of the file at the default path, and advice for the user before a collector uses it.
fn existing(facts: &Facts) -> (Status, String, Option<String>) {
    let path = sanitize(&facts.known.db.to_string_lossy());
    match (&facts.known.history, facts.known.python_writer) {
        (HistoryKind::Old, Some(pid)) => (
            Status::Warning,
            format!("a history of gpu-usage-audit, which its collector (pid {pid}) is writing"),
            Some("Stop that collector with `gua stop`. `gua daemon` then imports the history into a new file.".to_owned()),
        ),
        (HistoryKind::Old, None) => (
            Status::Ok,
            format!("a history of gpu-usage-audit; `gua daemon` imports it into a new file and keeps it as {path}.gpu-usage-audit-1"),
            None,
        ),
        (HistoryKind::OursWithOldRows(rows), _) => (
            Status::Warning,
            format!("exists and will be appended to; gpu-usage-audit has written {rows} rows into it"),
            Some("Stop the old collector (see `crontab -l` and `systemctl list-timers`). `gua daemon` imports its rows.".to_owned()),
        ),
        (HistoryKind::Other(what), _) => (
            Status::Error,
            format!("exists and is {what}; `gua daemon` refuses it"),
            Some(format!("Rename it (`mv {path} {path}.old`), or pass another path with `--db PATH`.")),
        ),
        (HistoryKind::Ours, _) => (Status::Ok, "exists and will be appended to".to_owned(), None),
    }
}

/// Returns why the directory of the default path cannot be created below the nearest existing one.
fn in_the_way(path: &Path, room: &Room) -> Option<String> {
    let home = path.parent().and_then(Path::parent)?;
    let shown = sanitize(&home.to_string_lossy());
    if home != room.directory && room.directory != Path::new(".") {
        return Some(format!("the home directory {shown} does not exist"));
    }
    (room.directory_access != Parent::Writable)
        .then(|| format!("the home directory {shown} is not writable"))
}

pub(super) fn disk_space(facts: &Facts) -> Finding {
    let mount = facts.mount.as_ref();
    let room = facts.spot.as_ref().and_then(|spot| spot.room.as_ref());
    let details = Details::DiskSpace {
        directory: room.map(|room| room.directory.to_string_lossy().into_owned()),
        file_system: mount.map(|mount| mount.kind.clone()),
        free_bytes: room.map(|room| room.free.0),
        free_inodes: room.and_then(|room| room.free_inodes),
        is_network: mount.map(Mount::is_network),
        is_read_only: room.map(|room| room.is_read_only),
        total_bytes: room.map(|room| room.total.0),
    };
    let (mut status, mut summary, advice) = match room {
        Some(room) if !mount.is_some_and(Mount::is_virtual) => judge(room),
        _ => (Status::Skipped, "not known".to_owned(), None),
    };
    let mut advice = Vec::from_iter(advice);
    if let Some(mount) = mount.filter(|mount| mount.is_network()) {
        summary.push_str(&format!(
            ", on a network ({}), where SQLite's write-ahead log does not work",
            mount.kind
        ));
        if status != Status::Error {
            status = Status::Warning;
        }
        advice.push("Keep the history on a local disk (`--db PATH`).".to_owned());
    }
    status.finding(summary, details).advise_all(advice)
}

fn judge(room: &Room) -> (Status, String, Option<String>) {
    let place = sanitize(&room.directory.to_string_lossy());
    let free = format!("{} free", size(room.free));
    let make_room = Some(format!("Make room at {place}."));
    let or_elsewhere = Some(format!(
        "Make room at {place}, or choose another disk (`--db PATH`)."
    ));
    match room.free_inodes {
        _ if room.free < TOO_LITTLE => (Status::Error, free, or_elsewhere),
        Some(0) => (Status::Error, "no inodes left".to_owned(), or_elsewhere),
        _ if room.free < LITTLE => {
            let summary = format!("{free}, and a history grows with its GPUs and years");
            (Status::Warning, summary, make_room)
        }
        Some(inodes @ ..FEW_INODES) => {
            let summary = format!("{free}, only {inodes} inodes left");
            (Status::Warning, summary, make_room)
        }
        _ => (Status::Ok, free, None),
    }
}

#[cfg(test)]
mod tests;
