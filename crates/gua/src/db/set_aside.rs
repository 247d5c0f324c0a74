//! `gua db set-aside`: puts a history that cannot be used out of the way. It renames, and never removes or overwrites.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::rival::python_writer;
use gua_probe::clock;
use gua_probe::host::HostRoot;
use gua_store::{FileKind, OpenError, what_is_this};
use rustix::fs::{FlockOperation, flock};

use crate::failure::{Exit, Failure};
use crate::output;

/// Renames the history, after a question on a terminal or with `--yes`.
pub(super) fn run(db: &Path, yes: bool) -> anyhow::Result<ExitCode> {
    let path = target(db)?;
    let _lock = lock(&path)?;
    if let Some(pid) = python_writer(&HostRoot::real(), &path) {
        return Err(super::explained(OpenError::Busy {
            path,
            pid: Some(pid),
        }));
    }
    let kind = what_is_this(&path);
    let question = format!("Set `{}` aside ({kind})? [y/N] ", path.display());
    let hint = "the file is kept under another name, and the next collector begins a new history";
    if !yes && !super::confirmed(&question, hint)? {
        output::talk("nothing was renamed\n");
        return Ok(Exit::Failed.into());
    }
    let aside = gua_store::set_aside(&path, clock::now())
        .with_context(|| format!("cannot rename `{}`", path.display()))?;
    output::data(&format!(
        "{}: set aside as {}\n",
        db.display(),
        aside.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The file itself, with links followed: a link that was renamed would leave the file where it is.
fn target(db: &Path) -> anyhow::Result<PathBuf> {
    match what_is_this(db) {
        FileKind::Missing => {
            Err(Failure::usage(format!("there is no history at `{}`", db.display())).into())
        }
        FileKind::Directory => {
            Err(Failure::usage(format!("`{}` is a directory", db.display())).into())
        }
        _ => db
            .canonicalize()
            .with_context(|| format!("cannot look at `{}`", db.display())),
    }
}

/// The lock of the history's writer, held while it is renamed. It is not made here: where it is missing nobody has
/// written, and one that root made would keep the owner's collector out.
fn lock(path: &Path) -> anyhow::Result<Option<File>> {
    let mut name = OsString::from(path);
    name.push("-lock");
    let name = PathBuf::from(name);
    let shown = || {
        format!(
            "cannot tell whether a collector writes: `{}`",
            name.display()
        )
    };
    let file = match File::options().read(true).write(true).open(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(shown)?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let text = io::read_to_string(&file).unwrap_or_default();
            Err(super::explained(OpenError::Busy {
                path: path.to_owned(),
                pid: text.trim().parse().ok(),
            }))
        }
        Err(error) => Err(io::Error::from(error)).with_context(shown),
    }
}
