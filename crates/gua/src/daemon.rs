//! `gua daemon`, `start`, `status`, `stop`: the collector of this host, in the background or in the foreground.

pub mod background;
mod board_link;
mod board_status;
mod collect;
pub(crate) mod history;
pub(crate) mod observer;
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
use collect::{Job, Mode};

/// Prefix of the messages about a background daemon.
pub const BACKGROUND: &str = "gua daemon";
/// Prefix of the messages of a foreground daemon.
pub const FOREGROUND: &str = "gua daemon --foreground";
/// Prefix under the name of the replaced tool.
const AUDIT: &str = "gpu-usage-audit daemon";

/// Whether an existing history may be continued.
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

/// Collects until a signal stops it.
pub fn foreground(args: &CollectArgs) -> anyhow::Result<ExitCode> {
    let flags = args.settings();
    let loaded = load(&flags)?;
    collect::run(Job {
        loaded,
        flags,
        typed_db: args.db.clone(),
        append: args.append.into(),
        cloud: board_link::Cloud::of(args),
        mode: Mode::Foreground,
    })
}

/// `gpu-usage-audit daemon`, always in the foreground, with the arguments after `daemon`.
pub fn audit(arguments: &[OsString]) -> ExitCode {
    let words = std::iter::once(OsString::from(AUDIT)).chain(arguments.iter().cloned());
    match AuditDaemonArgs::try_parse_from(words) {
        Ok(args) => {
            foreground(&args.collect).unwrap_or_else(|error| failure::report(AUDIT, &error))
        }
        Err(error) => answer(AUDIT, &error),
    }
}

/// Prints a message of clap about arguments that are not part of gua's own command tree.
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

/// Creates the parent directory of a file.
pub(crate) fn make_directory_of(file: &Path) -> anyhow::Result<()> {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create directory `{}`", directory.display())),
        _ => Ok(()),
    }
}
