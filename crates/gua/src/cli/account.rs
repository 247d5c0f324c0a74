//! What can be typed to keep accounts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use crate::config::FlagValue;

/// What can be done with the daily CSV.
#[derive(Debug, Subcommand)]
pub enum CsvCommand {
    /// Look at the cards once and append what they show to the file of the day.
    ///
    /// The file is YYYYMMDD_gpu_stats.csv by the local date, with the header timestamp,user,pid,gpu,usage. One row names
    /// the first process of a card; where no card has a process, one row of dashes says so. A minute is written once.
    #[command(after_help = "Examples:\n  \
                      gua csv sample\n  \
                      gua csv sample --dir /data/gpu_stats\n  \
                      gua csv sample --csv-format full    every process, with its card's state, memory and owner")]
    Sample(CsvSampleArgs),

    /// Let a timer of your own take samples. Again to change or update it.
    ///
    /// It needs no root. systemd ends a user's timers with their last session unless lingering is on; this says so where
    /// it is off.
    #[command(after_help = "Examples:\n  \
                      gua csv install\n  \
                      gua csv install --every 1m --dir ~/stats\n  \
                      gua csv install --print    show the units, and change nothing")]
    Install(CsvInstallArgs),

    /// Stop the timer and remove its units. The files stay.
    #[command(after_help = "Example:\n  gua csv uninstall")]
    Uninstall(CsvUninstallArgs),
}

/// Where samples go, and in which form.
#[derive(Debug, Args)]
pub struct CsvSampleArgs {
    /// The directory of the files; it is made where it is missing [default: ~/gpu_stats].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// The form: classic, as gpu_stats writes it, or full, with every process and card, into files of their own.
    #[arg(long, value_name = "FORM")]
    pub csv_format: Option<OsString>,
}

#[derive(Debug, Args)]
pub struct CsvInstallArgs {
    #[command(flatten)]
    pub sample: CsvSampleArgs,

    /// The time from one sample to the next.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub every: OsString,

    /// Prepare an image below this directory instead of changing this system.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,

    /// Replace units of these names that gua did not write.
    #[arg(long)]
    pub force: bool,

    /// Print the units and change nothing.
    #[arg(long)]
    pub print: bool,
}

#[derive(Debug, Args)]
pub struct CsvUninstallArgs {
    /// The image below this directory instead of this system.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
}

impl CsvSampleArgs {
    fn settings(&self) -> Vec<FlagValue> {
        let dir = FlagValue::of("--dir", "csv", "dir", self.dir.as_ref());
        let form = self.csv_format.as_ref();
        let form = FlagValue::of("--csv-format", "csv", "format", form);
        dir.into_iter().chain(form).collect()
    }
}

impl CsvCommand {
    /// Those of these flags that stand for settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        match self {
            CsvCommand::Sample(args) => args.settings(),
            CsvCommand::Install(args) => {
                let every = FlagValue::of("--every", "csv", "every", Some(&args.every));
                args.sample.settings().into_iter().chain(every).collect()
            }
            CsvCommand::Uninstall(_) => Vec::new(),
        }
    }
}
