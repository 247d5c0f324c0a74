//! `gua unenroll`: this host forgets its board.

use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::board::CloudFile;

use crate::config::Loaded;
use crate::{output, which};

pub fn run(loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let file = CloudFile::at(&loaded.settings.cloud.config.value);
    // What it says is only told; a file that is no enrolment is removed as well.
    let known = file.load().ok();
    let path = file.path().display();
    let removed = file
        .remove()
        .with_context(|| format!("cannot remove `{path}`"))?;
    // What was kept for the board goes with it.
    let history = which::history(loaded);
    let waited = super::forget_link(loaded, &history, known.as_ref());
    let text = match (removed, known) {
        (false, _) => format!("gua unenroll: this host is not enrolled (no `{path}`)\n"),
        (true, None) => format!("gua unenroll: removed {path}{waited}\n"),
        (true, Some(config)) => format!(
            "gua unenroll: forgot {} ({})\n  removed: {path}{waited}\n  the board still knows this host: remove it there, so that its token is worth nothing\n",
            gua_model::text::sanitize(&config.shown_name()),
            config.server_url
        ),
    };
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}
