//! How the link to a board is doing, for `gua status`. It shows no secret, and contacts nobody.

use std::path::Path;

use gua_collector::board::cloud_file::LoadError;
use gua_collector::board::{ArchiveState, CloudFile, LinkFiles, LinkState};
use gua_collector::chain::chain;
use gua_model::text::sanitize;
use jiff::Timestamp;

use super::history::with_age;

/// Some lines where this host has to do with a board; nothing otherwise.
pub(super) fn summary(history: &Path, enrolment: &Path, now: Timestamp) -> String {
    let place = LinkFiles::new(enrolment, history);
    let link = match CloudFile::at(enrolment).load() {
        Ok(config) => {
            let fresh = LinkState::new(&config);
            place.read(&fresh.peer).unwrap_or(fresh)
        }
        // The host may have a service that reports; its enrolment is root's.
        Err(LoadError::Missing(_)) => match place.of_the_history() {
            Some(link) => link,
            None => return String::new(),
        },
        Err(error) => {
            let why = sanitize(&chain(&error));
            return format!("  board: the enrolment cannot be used: {why}\n");
        }
    };
    let waiting = place.waiting(&link.peer);
    page(&link, waiting, now) + &archive(&link, &place, now)
}

fn page(link: &LinkState, waiting: Option<usize>, now: Timestamp) -> String {
    // The file lies where others may write.
    let mut text = format!(
        "  board: {} ({})\n",
        sanitize(&link.display_name),
        sanitize(&link.peer.board)
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
        text.push_str(&format!("  last error: {at}: {}\n", sanitize(&error.what)));
    }
    if waiting != Some(0) || link.dropped > 0 {
        let waiting = waiting.map(|number| number.to_string());
        let waiting = waiting.as_deref();
        text.push_str(&format!(
            "  pushes that wait: {}",
            waiting.unwrap_or("unknown, since another user keeps them")
        ));
        if link.dropped > 0 {
            text.push_str(&format!(" ({} had no room)", link.dropped));
        }
        text.push('\n');
    }
    if let Some(why) = &link.spool_trouble {
        text.push_str(&format!("  missed pushes are dropped: {}\n", sanitize(why)));
    }
    // A daemon that died has not said that its stream ended.
    let stream = link.stream.filter(|stream| stream.is_of_the_living());
    if let Some(stream) = stream {
        let word = match stream.is_connected {
            true => "connected",
            false => "not connected",
        };
        text.push_str(&format!("  stream: {word}\n"));
    }
    text
}

fn archive(link: &LinkState, place: &LinkFiles, now: Timestamp) -> String {
    let is_of = |archive: &ArchiveState| {
        (&archive.task.board, &archive.task.host_id) == (&link.peer.board, &link.peer.host_id)
    };
    let Some(archive) = ArchiveState::read(place).filter(is_of) else {
        return String::new();
    };
    let completed = archive.completed.map(|at| with_age(at, now));
    let mut text = format!(
        "  archive: {}\n",
        completed.map_or("not complete yet".to_owned(), |at| format!(
            "complete as of {at}"
        ))
    );
    if let Some(error) = &archive.last_error {
        let at = with_age(error.at, now);
        text.push_str(&format!(
            "  archive failed: {at}: {}\n",
            sanitize(&error.what)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use gua_collector::board::Peer;
    use gua_collector::board::link_state::{LinkError, StreamState};

    use super::*;

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
            spool_trouble: Some("full".to_owned()),
            stream: StreamState::of_this_process(false),
        }
    }

    /// What is told with this enrolment and this state, each of which may be missing.
    fn told(enrolment: Option<&str>, link: Option<&LinkState>) -> String {
        let directory = tempfile::tempdir().unwrap();
        let history = directory.path().join("gua.db");
        let cloud = directory.path().join("cloud.json");
        if let Some(text) = enrolment {
            std::fs::write(&cloud, text).unwrap();
        }
        if let Some(link) = link {
            LinkFiles::new(&cloud, &history).write(link).unwrap();
        }
        let told = summary(&history, &cloud, at("2026-11-15T10:00:00Z"));
        assert!(
            !told.contains('\u{1b}') && !told.contains("secret"),
            "{told}"
        );
        told.replace(&directory.path().display().to_string(), "~")
    }

    #[test]
    fn the_link_is_told_with_its_last_failure_and_what_waits() {
        let told = told(Some(ENROLLED), Some(&link()));
        for line in [
            "  failed attempts since: 2\n",
            ": no\n",
            "  pushes that wait: 0 (1 had no room)\n  missed pushes are dropped: full\n  stream: not connected\n",
        ] {
            assert!(told.contains(line), "{told}");
        }
    }

    #[test]
    fn what_waits_and_cannot_be_counted_is_not_zero() {
        let link = link();
        let now = at("2026-11-15T10:00:00Z");
        let told = page(&link, None, now);
        let line = "  pushes that wait: unknown, since another user keeps them (1 had no room)\n";
        assert!(told.contains(line), "{told}");
    }

    #[test]
    fn nothing_is_told_of_another_board_or_of_nobody() {
        assert_eq!(told(None, None), "");
        assert_eq!(told(None, Some(&link())), "");
        assert_eq!(told(Some(ENROLLED), None), NONE_YET);
        let mut other = link();
        other.peer.board = "https://c".to_owned();
        assert_eq!(told(Some(ENROLLED), Some(&other)), NONE_YET);
        let mut other = link();
        other.peer.host_id = "before".to_owned();
        assert_eq!(told(Some(ENROLLED), Some(&other)), NONE_YET);
    }

    #[test]
    fn a_stream_of_a_daemon_that_died_is_not_told() {
        let mut link = link();
        let stream = link.stream.as_mut().unwrap();
        stream.is_connected = true;
        stream.daemon.start.0 += 1;
        let told = told(Some(ENROLLED), Some(&link));
        assert!(!told.contains("stream"), "{told}");
    }

    #[test]
    fn a_broken_enrolment_is_one_sentence() {
        assert_eq!(
            told(Some("{}"), Some(&link())),
            "  board: the enrolment cannot be used: `~/cloud.json` is no enrolment: the cloud config cannot be used: fields are missing, empty or no text: serverUrl, hostId, displayName, agentToken, tokenPrefix\n"
        );
    }
}
