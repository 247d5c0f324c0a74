//! Changes the limits in a configuration file. A reader sees the old file or the new one, and concurrent changes wait for
//! each other. What a change does to the text is decided in gua-settings.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gua_settings::Inputs;
use gua_settings::edit::{Document, EditError, edit};
use gua_settings::kind::Home;

use crate::failure::Failure;
use crate::whole_file::{Over, WholeFile};

/// The file that limits are written to: the host's, or the user's.
pub(super) fn file(inputs: &Inputs, system: bool) -> Result<PathBuf, Failure> {
    if system {
        return Ok(inputs.system_file.clone());
    }
    let candidates = inputs.candidates();
    let own = candidates
        .iter()
        .find(|candidate| candidate.path != inputs.system_file);
    own.map(|candidate| candidate.path.clone()).ok_or_else(|| {
        Failure::usage("your home directory is not known").hint("set HOME, or give --system")
    })
}

/// Applies `change` to a file and writes it if it is still valid.
pub(super) fn change(
    path: &Path,
    inputs: &Inputs,
    change: impl FnOnce(&mut Document) -> Result<(), EditError>,
) -> anyhow::Result<()> {
    // A link to a file elsewhere stays a link.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let cannot = |what: &str| format!("cannot {what} `{}`", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(|| cannot("make the directory of"))?;
    }
    let _lock = lock(path).with_context(|| cannot("write"))?;
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| cannot("read")),
    };
    let edited = edit(&text, path, &Home(inputs.home.clone()), change);
    let edited = edited.map_err(|error| match error {
        EditError::InlineArray { .. } => Failure::usage(error.to_string()).into(),
        error => anyhow::Error::from(error),
    })?;
    let Some(changed) = edited else {
        return Ok(());
    };
    let write = || -> io::Result<()> {
        let whole = WholeFile::begin(path, Over::Write)?;
        (&whole.file).write_all(changed.as_bytes())?;
        whole.finish()
    };
    write().with_context(|| cannot("write"))
}

/// Locks a file against other changes. The lock is a file of its own, because each change replaces the file itself.
fn lock(path: &Path) -> io::Result<fs::File> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path.with_file_name(format!(".{name}.lock")))?;
    file.lock()?;
    Ok(file)
}
