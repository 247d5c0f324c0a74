//! The state of the link to a board, for `gua status`. It shows no secrets and makes no connections.

use std::path::Path;

use gua_model::chain::chain;
use gua_model::text::sanitize;
use jiff::Timestamp;

use super::{Cloud, add_line, with_age};
use crate::board::link_state::{LinkError, StreamState};
use crate::board::{ArchiveState, CloudFile, EnrolmentError, LinkFiles, LinkState};

/// The lines about the board; empty for a host without one. `running` tells what the running daemon sends; `None` if none runs.
pub fn summary(history: &Path, enrolment: &Path, running: Option<Cloud>, now: Timestamp) -> String {
    let files = LinkFiles::new(enrolment, history);
    let link = match CloudFile::at(enrolment).load() {
        Ok(config) => {
            let fresh = LinkState::new(&config);
            files.read(&fresh.peer).unwrap_or(fresh)
        }
        // A service may push for this host; its enrolment is only readable by root.
        Err(EnrolmentError::Missing(_)) => match files.read_service() {
            Some(link) => link,
            None => return String::new(),
        },
        Err(error) => {
            let why = sanitize(&chain(&error));
            return format!("  board: unusable enrolment: {why}\n");
        }
    };
    let spooled = files.spooled(&link.peer);
    page(&link, spooled, running, now) + &archive(&link, &files, now)
}

fn page(
    link: &LinkState,
    spooled: Option<usize>,
    running: Option<Cloud>,
    now: Timestamp,
) -> String {
    // Other users may be able to write this file.
    let (name, board) = (sanitize(&link.display_name), sanitize(&link.peer.board));
    let mut text = String::new();
    add_line(&mut text, "board", format_args!("{name} ({board})"));
    let pushed = link.last_push.map(|at| with_age(at, now));
    let never = match running {
        Some(Cloud::Off) => {
            "none: the daemon was started without --cloud (`gua stop`, then `gua daemon --cloud`)"
        }
        _ => "none yet",
    };
    let pushed = pushed.as_deref().unwrap_or(never);
    add_line(&mut text, "last push", pushed);
    if link.failures > 0 {
        add_line(&mut text, "failed attempts since", link.failures);
    }
    add_error(&mut text, "last error", link.last_error.as_ref(), now);
    if spooled != Some(0) || link.dropped > 0 {
        let mut pushes = match spooled {
            Some(number) => number.to_string(),
            None => "unknown (the spool belongs to another user)".to_owned(),
        };
        if link.dropped > 0 {
            pushes.push_str(&format!(" ({} dropped: spool full)", link.dropped));
        }
        add_line(&mut text, "spooled pushes", pushes);
    }
    if let Some(why) = &link.spool_error {
        add_line(&mut text, "spool error", sanitize(why));
    }
    // A dead daemon could not record the end of its stream.
    if let Some(stream) = link.stream.filter(StreamState::is_current) {
        let state = match stream.is_connected {
            true => "connected",
            false => "not connected",
        };
        add_line(&mut text, "stream", state);
    }
    text
}

fn archive(link: &LinkState, files: &LinkFiles, now: Timestamp) -> String {
    let is_of = |archive: &ArchiveState| archive.task.peer == link.peer;
    let Some(archive) = ArchiveState::read(files).filter(is_of) else {
        return String::new();
    };
    let mut text = String::new();
    match archive.completed.map(|at| with_age(at, now)) {
        Some(at) => add_line(&mut text, "archive", format_args!("complete as of {at}")),
        None => add_line(&mut text, "archive", "not complete yet"),
    }
    let error = archive.last_error.as_ref();
    add_error(&mut text, "archive failed", error, now);
    text
}

fn add_error(text: &mut String, label: &str, error: Option<&LinkError>, now: Timestamp) {
    if let Some(LinkError { at, what }) = error {
        let (at, what) = (with_age(*at, now), sanitize(what));
        add_line(text, label, format_args!("{at}: {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Peer;

    const ENROLLED: &str = r#"{"serverUrl":"https://b","hostId":"h","displayName":"lab","agentToken":"secret","tokenPrefix":"s"}"#;
    const NONE_YET: &str = "  board: lab (https://b)\n  last push: none yet\n";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn link() -> LinkState {
        LinkState {
            peer: Peer {
                board: "https://b".to_owned(),
                host_id: "h".to_owned(),
            },
            display_name: "lab\u{1b}".to_owned(),
            last_push: Some(at("2026-11-15T09:59:57Z")),
            last_error: Some(LinkError {
                at: at("2026-11-15T09:00:00Z"),
                what: "no".to_owned(),
            }),
            failures: 2,
            dropped: 1,
            spool_error: Some("full".to_owned()),
            stream: StreamState::of_this_process(false),
        }
    }

    /// The lines for this enrolment and this state, each of which may be missing.
    fn lines(enrolment: Option<&str>, link: Option<&LinkState>) -> String {
        let directory = tempfile::tempdir().unwrap();
        let history = directory.path().join("gua.db");
        let cloud = directory.path().join("cloud.json");
        if let Some(text) = enrolment {
            std::fs::write(&cloud, text).unwrap();
        }
        if let Some(link) = link {
            LinkFiles::new(&cloud, &history).store(link).unwrap();
        }
        let lines = summary(&history, &cloud, None, at("2026-11-15T10:00:00Z"));
        assert!(
            !lines.contains('\u{1b}') && !lines.contains("secret"),
            "{lines}"
        );
        lines.replace(&directory.path().display().to_string(), "~")
    }

    #[test]
    fn the_link_is_shown_with_its_last_failure_and_its_spool() {
        let lines = lines(Some(ENROLLED), Some(&link()));
        for line in [
            "  failed attempts since: 2\n",
            ": no\n",
            "  spooled pushes: 0 (1 dropped: spool full)\n  spool error: full\n  stream: not connected\n",
        ] {
            assert!(lines.contains(line), "{lines}");
        }
    }

    #[test]
    fn a_spool_that_cannot_be_counted_is_unknown_and_not_zero() {
        let link = link();
        let now = at("2026-11-15T10:00:00Z");
        let lines = page(&link, None, None, now);
        let line = "  spooled pushes: unknown (the spool belongs to another user) (1 dropped: spool full)\n";
        assert!(lines.contains(line), "{lines}");
    }

    #[test]
    fn nothing_is_shown_of_another_board_or_without_one() {
        assert_eq!(lines(None, None), "");
        assert_eq!(lines(None, Some(&link())), "");
        assert_eq!(lines(Some(ENROLLED), None), NONE_YET);
        let mut other = link();
        other.peer.board = "https://c".to_owned();
        assert_eq!(lines(Some(ENROLLED), Some(&other)), NONE_YET);
        let mut other = link();
        other.peer.host_id = "before".to_owned();
        assert_eq!(lines(Some(ENROLLED), Some(&other)), NONE_YET);
    }

    #[test]
    fn the_stream_of_a_dead_daemon_is_not_shown() {
        let mut link = link();
        let stream = link.stream.as_mut().unwrap();
        stream.is_connected = true;
        stream.daemon.start.0 += 1;
        let lines = lines(Some(ENROLLED), Some(&link));
        assert!(!lines.contains("stream"), "{lines}");
    }

    #[test]
    fn an_invalid_enrolment_is_one_sentence() {
        assert_eq!(
            lines(Some("{}"), Some(&link())),
            "  board: unusable enrolment: `~/cloud.json` is not a valid enrolment: the cloud config cannot be used: fields are missing, empty or not a string: serverUrl, hostId, displayName, agentToken, tokenPrefix\n"
        );
    }
}
