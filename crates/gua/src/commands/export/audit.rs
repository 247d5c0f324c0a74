//! `gua export --format gpu-usage-audit`: writes a history file of release 1.8.0 of that tool.

use std::ops::ControlFlow;
use std::path::Path;

use gua_collector::access::Access;
use gua_compat::gpu_usage_audit::LegacyError;
use gua_files::Over;
use gua_model::text::counted;

use super::super::db::damaged;
use crate::failure::Failure;
use crate::output as print;
use crate::progress::Bar;

/// Exports a history to a file.
pub(super) fn run(
    history: &Access,
    db: &Path,
    (output, over): (&Path, Over),
) -> anyhow::Result<()> {
    let exported = Bar::during("exporting", |bar| {
        history.export_old(output, over, &mut |progress| {
            bar.show(progress);
            ControlFlow::Continue(())
        })
    });
    let exported = match exported {
        Err(error @ LegacyError::Exists { .. }) => {
            let hint = "choose another name with --output, or pass --overwrite";
            return Err(Failure::usage(error.to_string()).hint(hint).into());
        }
        Err(error @ LegacyError::LogBeside { .. }) => {
            let hint = "end the program that uses it, or choose another name with --output";
            return Err(Failure::usage(error.to_string()).hint(hint).into());
        }
        other => other.map_err(|error| damaged(db, &error))?,
    };
    if exported.gpus_without_util > 0 {
        print::eprint(&format!(
            "gua export: left out {} readings without a utilisation, which that format cannot represent\n",
            exported.gpus_without_util
        ));
    }
    if exported.damaged_ticks > 0 {
        print::eprint(&format!(
            "gua export: left out {} damaged ticks; `gua db check` shows details\n",
            exported.damaged_ticks
        ));
    }
    print::data(&format!(
        "exported {}, {} and {} from {} to {}\n",
        counted(exported.gpu_rows, "GPU row"),
        counted(exported.process_rows, "process row"),
        counted(exported.runs, "run"),
        db.display(),
        output.display()
    ))
}
