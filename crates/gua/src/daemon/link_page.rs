//! How the link to a board is doing, for `gua status`. It shows no secret, and contacts nobody.

use std::path::Path;

use gua_collector::board::{ArchiveState, CloudFile, LinkState};
use gua_model::text::harmless;
use jiff::Timestamp;

use super::history::with_age;

/// Some lines where this host has or had to do with a board; nothing otherwise.
pub(super) fn summary(history: &Path, enrolment: &Path, now: Timestamp) -> String {
    let archive = ArchiveState::read(history);
    match LinkState::read(history) {
        Some(link) => page(&link, archive.as_ref(), now),
        None => match CloudFile::at(enrolment).load() {
            Ok(config) => format!(
                "  board: {} ({})\n  last push: none yet\n",
                harmless(&config.display_name),
                config.server_url
            ),
            Err(_) => String::new(),
        },
    }
}

fn page(link: &LinkState, archive: Option<&ArchiveState>, now: Timestamp) -> String {
    // The file lies where others may write.
    let mut text = format!(
        "  board: {} ({})\n",
        harmless(&link.display_name),
        harmless(&link.board)
    );
    let pushed = link.last_push.map(|at| with_age(at, now));
    text.push_str(&format!(
        "  last push: {}\n",
        pushed.as_deref().unwrap_or("none yet")
    ));
    if link.failures > 0 {
        text.push_str(&format!("  failed attempts since: {}\n", link.failures));
    }
    if let Some(error) = &link.last_error {
        let at = with_age(error.at, now);
        text.push_str(&format!("  last error: {at}: {}\n", harmless(&error.what)));
    }
    if link.spooled > 0 || link.dropped > 0 {
        text.push_str(&format!("  pushes that wait: {}", link.spooled));
        if link.dropped > 0 {
            text.push_str(&format!(" ({} had no room)", link.dropped));
        }
        text.push('\n');
    }
    if let Some(is_streaming) = link.is_streaming {
        let word = if is_streaming {
            "connected"
        } else {
            "not connected"
        };
        text.push_str(&format!("  stream: {word}\n"));
    }
    if let Some(archive) = archive.filter(|archive| archive.task.board == link.board) {
        let completed = archive.completed.map(|at| with_age(at, now));
        text.push_str(&format!(
            "  archive: {}\n",
            completed.map_or("not complete yet".to_owned(), |at| format!(
                "complete as of {at}"
            ))
        ));
        if let Some(error) = &archive.last_error {
            let at = with_age(error.at, now);
            text.push_str(&format!(
                "  archive failed: {at}: {}\n",
                harmless(&error.what)
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use gua_collector::board::link_state::LinkError;

    use super::*;

    #[test]
    fn the_link_is_told_with_its_last_failure_and_what_waits() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let history = directory.path().join("gua.db");
        let cloud = directory.path().join("cloud.json");
        let now = at("2026-11-15T10:00:00Z");
        assert_eq!(summary(&history, &cloud, now), "");
        std::fs::write(
            &cloud,
            r#"{"serverUrl":"https://b","hostId":"h","displayName":"lab","agentToken":"secret","tokenPrefix":"s"}"#,
        )
        .unwrap();
        assert_eq!(
            summary(&history, &cloud, now),
            "  board: lab (https://b)\n  last push: none yet\n"
        );
        let link = LinkState {
            board: "https://b".to_owned(),
            display_name: "lab\u{1b}".to_owned(),
            last_push: Some(at("2026-11-15T09:59:57Z")),
            last_error: Some(LinkError {
                at: at("2026-11-15T09:00:00Z"),
                what: "no".to_owned(),
            }),
            failures: 2,
            spooled: 3,
            dropped: 1,
            is_streaming: Some(false),
            ..LinkState::default()
        };
        link.write(&history).unwrap();
        let told = summary(&history, &cloud, now);
        for line in [
            "  failed attempts since: 2\n",
            ": no\n",
            "  pushes that wait: 3 (1 had no room)\n  stream: not connected\n",
        ] {
            assert!(told.contains(line), "{told}");
        }
        assert!(
            !told.contains('\u{1b}') && !told.contains("secret"),
            "{told}"
        );
    }
}
