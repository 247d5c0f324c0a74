//! `gua export`: writes a history in a form that other programs read.

use std::ops::ControlFlow;
use std::process::ExitCode;

use gua_store::History;
use gua_store::legacy::LegacyError;

use crate::cli::{ExportArgs, ExportFormat};
use crate::config::Loaded;
use crate::db::damaged;
use crate::failure::Failure;
use crate::import::runs;
use crate::output;
use crate::progress::Bar;

/// Exports the history of the settings to `args.output`.
pub fn run(args: &ExportArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let ExportFormat::GpuUsageAudit = args.format;
    let db = loaded.settings.history.db.value.as_path();
    let history = match History::open(db) {
        Err(error @ gua_store::OpenError::Missing { .. }) => {
            let hint = "`gua daemon` makes one; --db names another";
            return Err(Failure::usage(error.to_string()).hint(hint).into());
        }
        other => other?,
    };
    let mut bar = Bar::new("exporting");
    let exported = history.export_old(&args.output, &mut |progress| {
        bar.show(progress);
        ControlFlow::Continue(())
    });
    bar.clear();
    let exported = match exported {
        Err(error @ LegacyError::Exists { .. }) => {
            let hint = "choose another name with --output, or remove the file";
            return Err(Failure::usage(error.to_string()).hint(hint).into());
        }
        other => other.map_err(|error| damaged(db, &error))?,
    };
    if exported.cards_without_util > 0 {
        output::talk(&format!(
            "gua export: left out {} readings without a utilisation, which that form cannot hold\n",
            exported.cards_without_util
        ));
    }
    if exported.damaged_ticks > 0 {
        output::talk(&format!(
            "gua export: left out {} ticks that are damaged; `gua db check` tells more\n",
            exported.damaged_ticks
        ));
    }
    output::data(&format!(
        "exported {} card rows, {} process rows and {} from {} to {}\n",
        exported.card_rows,
        exported.process_rows,
        runs(exported.runs),
        db.display(),
        args.output.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
