//! `gua db forget`: erases a user from the history, and lists the other files in which the user remains.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use gua_claim::EventId;
use gua_collector::board::{CloudFile, LinkFiles};
use gua_collector::{claims, history};
use gua_compat::gpu_usage_audit::import_inside;
use gua_model::Uid;
use gua_settings::kind::UserNames;
use gua_store::{Forgotten, WriteError};

use crate::commands::import;
use crate::commands::prelude::*;

/// Maximum number of files that are listed.
const MAX_LISTED: usize = 20;

/// Erases a user's identity, after confirmation on a terminal or with `--yes`.
pub(super) fn run(db: &Path, user: &str, yes: bool, context: &Context) -> anyhow::Result<ExitCode> {
    let mut store = super::write(db)?;
    let question = format!("Erase {user:?} from {} permanently? [y/N] ", db.display());
    let hint = "erased data cannot be restored; `gua db backup` makes a copy";
    if !yes && !super::confirmed(&question, hint)? {
        output::eprint("nothing was erased\n");
        return Ok(Exit::Failed.into());
    }
    // Rows that gpu-usage-audit wrote into the file would keep the name.
    import_inside(&mut store, clock::now()).map_err(import::explained)?;
    let forgotten = store.forget(user).map_err(|error| explained(db, error))?;
    store.close()?;
    if forgotten.is_empty() {
        let message = format!("no user {user:?} in `{}`", db.display());
        bail!(Failure::failed(message));
    }
    let names = forgotten.known_as.iter().map(|(_, name)| name.as_str());
    let known_as = match names.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        names => format!("; their time now belongs to {}", names.join(", ")),
    };
    output::data(&format!(
        "erased from {} processes and {} imported rows{known_as}\n",
        forgotten.processes, forgotten.old_rows
    ))?;
    for note in elsewhere(db, user, &forgotten, context) {
        output::eprint(&format!("note: {note}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Error that names the process which keeps the erased data in the file.
pub(super) fn explained(db: &Path, error: WriteError) -> anyhow::Error {
    if !matches!(error, WriteError::Reader) {
        return error.into();
    }
    let message = format!("{error} ({})", history::lock_holders(db));
    let hint = "end that process, then run `gua db vacuum`, which completes it";
    Failure::failed(message).hint(hint).into()
}

/// Describes where the name may still be. Files that contain it are listed.
fn elsewhere(db: &Path, user: &str, forgotten: &Forgotten, context: &Context) -> Vec<String> {
    let settings = context.settings();
    let mut notes = match forgotten.uids.as_slice() {
        [] => Vec::new(),
        uids => events(uids, context),
    };
    let mut files = backups(db);
    let links = LinkFiles::new(&settings.cloud.config.value, db);
    files.extend(links.spools().iter().flat_map(|path| files_in(path)));
    let csv = settings.csv.dir.value.iter();
    files.extend(csv.flat_map(|path| files_in(path)));
    files.retain(|path| contains(path, user.as_bytes()));
    let others = files.len().saturating_sub(MAX_LISTED);
    let listed = files.iter().take(MAX_LISTED);
    notes.extend(listed.map(|path| format!("the name is still in `{}`", path.display())));
    if others > 0 {
        notes.push(format!("and in {}", counted(others as u64, "other file")));
    }
    notes.push(
        "copies of the history in other directories (`gua db backup`, `gua export`) keep the name"
            .to_owned(),
    );
    let is_sent = settings.cloud.users.value != UserNames::Omit;
    if is_sent && let Ok(config) = CloudFile::at(&settings.cloud.config.value).load() {
        notes.push(format!(
            "the board {} keeps what was sent to it",
            config.server_url
        ));
    }
    notes
}

/// Events that the user's programs left for the collector. They are not removed: the history may be that of another host,
/// where the uid is another person's.
fn events(uids: &[u32], context: &Context) -> Vec<String> {
    let Ok(dir) = claims::directory(context.settings()) else {
        return Vec::new();
    };
    let Ok(found) = dir.events(&HashSet::new()) else {
        return Vec::new();
    };
    let note = |uid: &u32| {
        let of_user = |id: &&EventId| dir.person(id.owner) == Uid(*uid);
        let count = found.present.iter().filter(of_user).count();
        let events = counted(count as u64, "event");
        let place = dir.path().display();
        (count > 0).then(|| format!("{events} of uid {uid} in `{place}` can still be imported"))
    };
    uids.iter().filter_map(note).collect()
}

/// Files beside the history whose names begin with its name: backups, and files that were set aside.
fn backups(db: &Path) -> Vec<PathBuf> {
    let Some(name) = db.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    let own = ["", "-wal", "-shm", "-journal", "-lock"].map(|suffix| format!("{name}{suffix}"));
    let is_other = |path: &PathBuf| {
        let found = path.file_name().map(|name| name.to_string_lossy());
        found.is_some_and(|found| found.starts_with(name) && !own.contains(&found.into_owned()))
    };
    let mut files = files_in(gua_store::directory(db));
    files.retain(is_other);
    files
}

/// Regular files in a directory, in order; none if it cannot be read.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut files: Vec<_> = files.map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Whether a file contains a text. A file that cannot be read is assumed to.
fn contains(path: &Path, text: &[u8]) -> bool {
    const CHUNK: usize = 1 << 20;
    let Ok(mut file) = gua_files::open_regular(path) else {
        return true;
    };
    let mut bytes = Vec::new();
    loop {
        // The end of the last chunk stays, because the text may lie across two of them.
        let tail = bytes.len().saturating_sub(text.len());
        bytes.drain(..tail);
        match (&mut file).take(CHUNK as u64).read_to_end(&mut bytes) {
            Ok(0) => return false,
            Ok(_) if bytes.windows(text.len()).any(|part| part == text) => return true,
            Ok(_) => {}
            Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_also_across_two_chunks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for at in [0, (1 << 20) - 2, (1 << 20) + 5, 3 << 20] {
            let mut bytes = vec![b'.'; (3 << 20) + 10];
            assert!(bytes.splice(at..at + 3, *b"ada").eq(*b"..."));
            std::fs::write(file.path(), &bytes).unwrap();
            assert!(contains(file.path(), b"ada"), "{at}");
            assert!(!contains(file.path(), b"adab"), "{at}");
        }
    }
}
