//! `gua csv`: writes daily CSV files like gpu_stats, one sample per call, run manually or by a user timer.

use std::path::PathBuf;

use gua_collector::csv::{Appended, DayFiles, configured_directory, configured_form};
use gua_collector::service::{Install, Scope, csv};
use gua_compat::gpu_stats::{Minute, lines};
use tracing::warn;

use super::service;
use crate::commands::prelude::*;

/// Directory of gpu_stats below the home directory.
const USUAL: &str = "gpu_stats";

pub fn run(command: &CsvCommand, context: &Context) -> anyhow::Result<()> {
    // Always the scope of a user, also for root.
    let place = |root: &Option<PathBuf>| context.place(Some(Scope::User), root.clone());
    match command {
        CsvCommand::Sample(_) => sample(context),
        CsvCommand::Install(args) => {
            let install = Install {
                force: args.force,
                print: args.print,
                ..Install::default()
            };
            let installed = csv::install(&install, &place(&args.root)?, context.settings())?;
            service::print(&installed)
        }
        CsvCommand::Uninstall(args) => output::data(&csv::uninstall(&place(&args.root)?)?),
    }
}

/// Takes one sample and appends its rows.
pub(crate) fn sample(context: &Context) -> anyhow::Result<()> {
    context.start_command_log();
    let settings = context.settings();
    let files = DayFiles::new(directory(context)?, configured_form(settings));
    let sample = context.sample()?;
    // The minute of the readings; the clock may have moved on.
    let minute = Minute::of(sample.at, &context.zone());
    let lines = lines(&sample, files.form, minute, &settings.thresholds());
    if !lines.unread.is_empty() {
        let numbers: Vec<String> = lines.unread.iter().map(u32::to_string).collect();
        let gpus = numbers.join(", ");
        let line = format!(
            "gua csv sample: the processes of GPU {gpus} could not be read; no rows are written for them"
        );
        warn!(gpus, line, "processes not read; no rows are written");
    }
    if lines.text.is_empty() {
        bail!(
            Failure::failed("cannot write a row: the processes on the GPUs are unknown")
                .hint("`gua doctor` shows the reason")
        );
    }
    match files.append(minute, &lines.text)? {
        Appended::Written { path, torn } => {
            if let Some(torn) = torn {
                let (path, torn) = (path.display(), torn.display());
                let line = format!(
                    "gua csv sample: the last line of {path} was incomplete; it was moved to {torn}"
                );
                warn!(%path, %torn, line, "an incomplete line was moved");
            }
            let rows = u64::try_from(lines.rows).unwrap_or(u64::MAX);
            output::data(&format!("{}: {}\n", path.display(), counted(rows, "row")))
        }
        Appended::Already { path } => output::data(&format!(
            "{}: already has rows of this minute\n",
            path.display()
        )),
    }
}

/// Configured directory, or the default one.
fn directory(context: &Context) -> Result<PathBuf, Failure> {
    let home = context.loaded.inputs.home.as_ref();
    configured_directory(context.settings())
        .or_else(|| home.map(|home| home.join(USUAL)))
        .ok_or_else(|| {
            Failure::usage("the home directory is unknown")
                .hint("set HOME, or pass a directory with --dir")
        })
}
