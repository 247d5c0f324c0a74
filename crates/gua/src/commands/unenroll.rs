//! `gua unenroll`: removes the enrolment of this host.

use gua_collector::board::{CloudFile, Peer, setup};
use gua_collector::service::collector;
use gua_wire::CloudConfig;

use crate::commands::prelude::*;

pub fn run(context: &Context) -> anyhow::Result<()> {
    let file = CloudFile::at(&context.settings().cloud.config.value);
    // Only used for the message; an invalid file is removed as well.
    let known = file.load().ok();
    let path = file.path().display();
    let removed = file
        .remove()
        .map_err(Failure::cannot("remove", file.path()))?;
    let mut dropped = remove_link(context, known.as_ref());
    if removed {
        dropped.extend(collector::follow_enrolment(file.path()));
    }
    let text = match (removed, known) {
        (false, _) => format!("gua unenroll: this host is not enrolled (no `{path}`)\n"),
        (true, None) => format!("gua unenroll: removed {path}{dropped}\n"),
        (true, Some(config)) => format!(
            "gua unenroll: removed the enrolment of {} ({})\n  removed: {path}{dropped}\n  the board still lists this host: remove it there to revoke its token\n",
            sanitize(&config.shown_name()),
            config.server_url
        ),
    };
    output::data(&text)
}

/// Removes the state and spool of the link; returns a line about dropped pushes.
pub(super) fn remove_link(context: &Context, config: Option<&CloudConfig>) -> String {
    let peer = config.map(Peer::of);
    let files = setup::link_files(&context.loaded, &context.history());
    match files.remove(peer.as_ref()) {
        0 => String::new(),
        some => format!("\n  dropped: {some} spooled pushes for the previous board"),
    }
}
