//! What can be typed to get numbers out and old histories in.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// Take the rows of an old history into ours.
///
/// Reads files of gpu-usage-audit 1.0.2 to 1.8.0 and never changes them. What was imported before is not imported again,
/// so a file that has grown can be imported anew. An old file at the path of the history itself is set aside afterwards.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                        gua import /tmp/gua.db                  an old history of gpu-usage-audit 1.0.2\n  \
                        gua import backup/gua.db --db all.db    into a history of its own")]
pub struct ImportArgs {
    /// The old history.
    #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub path: PathBuf,

    /// The history to import into [default: ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// Write a history in a form that other programs read.
#[derive(Debug, Args)]
#[command(
    after_help = "gpu-usage-audit: a file as its release 1.8.0 writes it, for that tool and what was built around it.\n\
                  It holds names of users and programs: look at it before you share it.\n\n\
                  Example:\n  \
                  gua export --format gpu-usage-audit --output old.db"
)]
pub struct ExportArgs {
    /// The form to write.
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: ExportFormat,

    /// The file to write; it must not exist.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// The history to export [default: ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// The forms that a history can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A history file of gpu-usage-audit 1.8.0.
    GpuUsageAudit,
}

/// How a table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    #[default]
    Text,
    Json,
    Csv,
}
