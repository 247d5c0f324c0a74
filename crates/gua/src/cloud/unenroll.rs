//! `gua unenroll`: removes the enrolment of this host.

use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::board::CloudFile;

use crate::config::Loaded;
use crate::{output, which};

pub fn run(loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let file = CloudFile::at(&loaded.settings.cloud.config.value);
    // Only used for the message; an invalid file is removed as well.
    let known = file.load().ok();
    let path = file.path().display();
    let removed = file
        .remove()
        .with_context(|| format!("cannot remove `{path}`"))?;
    let history = which::history(loaded);
    let dropped = super::remove_link(loaded, &history, known.as_ref());
    let text = match (removed, known) {
        (false, _) => format!("gua unenroll: this host is not enrolled (no `{path}`)\n"),
        (true, None) => format!("gua unenroll: removed {path}{dropped}\n"),
        (true, Some(config)) => format!(
            "gua unenroll: removed the enrolment of {} ({})\n  removed: {path}{dropped}\n  the board still lists this host: remove it there to revoke its token\n",
            gua_model::text::sanitize(&config.shown_name()),
            config.server_url
        ),
    };
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}
