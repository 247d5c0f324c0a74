//! `gua daemon`, `start`, `status`, `stop`: the collector of this host, in the background or in the foreground.

pub mod background;
mod board_link;
mod board_status;
mod collect;
pub(crate) mod history;
mod log_file;
pub(crate) mod observer;
mod outage_file;
pub mod status;
pub mod stop;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use clap::error::ErrorKind;

use crate::cli::{AuditDaemonArgs, CollectArgs};
use crate::dispatch::load;
use crate::failure::{self, Exit};
use crate::output;
use collect::{Job, Setting};

/// What the messages of a daemon in the background begin with.
pub const BACKGROUND: &str = "gua daemon";
/// What the messages of a daemon in the foreground begin with.
pub const FOREGROUND: &str = "gua daemon --foreground";
/// And under the name of the tool that this one replaces.
const AUDIT: &str = "gpu-usage-audit daemon";

/// Whether a history that exists may be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Append {
    Yes,
    No,
}

impl From<bool> for Append {
    fn from(given: bool) -> Self {
        if given { Append::Yes } else { Append::No }
    }
}

/// Collects until a signal says otherwise.
pub fn foreground(args: &CollectArgs) -> anyhow::Result<ExitCode> {
    let flags = args.settings();
    let loaded = load(&flags)?;
    collect::run(Job {
        loaded,
        flags,
        typed_db: args.db.clone(),
        append: args.append.into(),
        cloud: board_link::Cloud::asked(args),
        setting: Setting::Foreground,
    })
}

/// `gpu-usage-audit daemon`: always in the foreground. `arguments` are those after the word.
pub fn audit(arguments: &[OsString]) -> ExitCode {
    let words = std::iter::once(OsString::from(AUDIT)).chain(arguments.iter().cloned());
    match AuditDaemonArgs::try_parse_from(words) {
        Ok(args) => {
            foreground(&args.collect).unwrap_or_else(|error| failure::report(AUDIT, &error))
        }
        Err(error) => answer(AUDIT, &error),
    }
}

/// What clap has to say about arguments outside of gua's own tree.
pub(crate) fn answer(command: &str, error: &clap::Error) -> ExitCode {
    let text = error.render().ansi().to_string();
    if error.kind() != ErrorKind::DisplayHelp {
        output::talk(&text);
        return Exit::Usage.into();
    }
    match output::data(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(command, &error),
    }
}

/// Makes the directory that a file is to stand in.
pub(crate) fn make_directory_of(file: &Path) -> anyhow::Result<()> {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create the directory `{}`", directory.display())),
        _ => Ok(()),
    }
}
