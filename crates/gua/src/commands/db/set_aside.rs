//! `gua db set-aside`: renames a damaged history. Nothing is deleted or overwritten.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::location;
use gua_collector::python_collector::python_writer;
use gua_probe::clock;
use gua_probe::host::HostRoot;
use gua_store::{FileKind, OpenError, WriterLock, what_is_this};

use crate::failure::{Exit, Failure};
use crate::output;

/// Renames the history, after confirmation on a terminal or with `--yes`.
pub(super) fn run(db: &Path, yes: bool) -> anyhow::Result<ExitCode> {
    let path = target(db)?;
    // Held during the rename.
    let _lock = WriterLock::take_if_there(&path).map_err(super::explained)?;
    if let Some(pid) = python_writer(&HostRoot::real(), &path) {
        return Err(super::explained(OpenError::Busy {
            path,
            pid: Some(pid),
        }));
    }
    let kind = what_is_this(&path);
    let question = format!("Set `{}` aside ({kind})? [y/N] ", path.display());
    let hint = "the file is kept under another name, and the next collector starts a new history";
    if !yes && !super::confirmed(&question, hint)? {
        output::eprint("nothing was renamed\n");
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

/// Path of the file with symbolic links resolved: renaming a link would leave the file in place.
fn target(db: &Path) -> anyhow::Result<PathBuf> {
    match what_is_this(db) {
        FileKind::Missing => Err(location::no_history(db).into()),
        FileKind::Directory => {
            Err(Failure::usage(format!("`{}` is a directory", db.display())).into())
        }
        _ => db
            .canonicalize()
            .with_context(|| format!("cannot examine `{}`", db.display())),
    }
}
