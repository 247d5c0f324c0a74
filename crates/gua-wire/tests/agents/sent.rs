//! The real agents enrol and push to the recording board. Ours must send the same bytes, except for the blanks that
//! Python puts after commas and colons.

use std::path::Path;
use std::process::{Command, Output};

use gua_wire::enroll::AboutHost;
use gua_wire::server_url::{CLAIM, OBSERVATIONS};
use gua_wire::snapshot::{About, ErrorCode, Form, Snapshot, stamp};
use gua_wire::users::UserPolicy;
use gua_wire::{ClaimRequest, CloudConfig, ServerUrl, Token};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::gpus::{ABOUT, built, sample};
use gua_test::board::Board;
use gua_test::http::{CLAIM_ANSWER, Request};
use gua_test::originals::released;
use gua_test::tape::Tape;

/// Runs a real agent with its own home directory.
pub(crate) fn agent(version: &str, home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(released(version));
    // An unusable library path guarantees that there is no driver, even on a host with GPUs.
    std::fs::write(home.join("libnvidia-ml.so.1"), "").unwrap();
    command.env("HOME", home).env("LD_LIBRARY_PATH", home);
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    command.args(arguments).output().unwrap()
}

pub(crate) fn succeed(version: &str, home: &Path, arguments: &[&str]) {
    let run = agent(version, home, arguments);
    let complaint = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{version} {arguments:?}: {complaint}");
}

/// JSON of generated data without the blanks that Python puts between its parts.
pub(crate) fn compact(json: &str) -> String {
    json.replace(": ", ":").replace(", ", ",")
}

/// Sample time of a snapshot.
fn observed_at(snapshot: &str) -> Timestamp {
    let read: Snapshot = serde_json::from_str(snapshot).unwrap();
    let at = read.observed_at.parse().unwrap();
    assert_eq!(stamp(at), read.observed_at);
    at
}

/// Requests and files of a real agent.
#[derive(Serialize, Deserialize)]
struct Sent {
    /// The board's address as it was typed.
    url: String,
    claim: Request,
    /// The enrolment file.
    kept: String,
    /// From a host with a non-ASCII letter in its name, and from another.
    pushes: [Request; 2],
}

impl Sent {
    fn by(version: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let board = Board::start();
        let claim = [
            "enroll",
            "--enrollment-token",
            " gua_enroll_x ",
            "--hostname",
            "vm",
            "--server-url",
        ];
        let url = format!(" {}/ ", board.url());
        succeed(version, home.path(), &[&claim[..], &[&url]].concat());
        let [claim] = board.take().try_into().unwrap();
        let file = home.path().join(".gua/cloud.json");
        let kept = std::fs::read_to_string(&file).unwrap();
        // Our enrolment file is also the agent's.
        let mut config = enrolment(&url);
        for name in ["lab \u{e9}", "lab 1"] {
            name.clone_into(&mut config.display_name);
            std::fs::write(&file, config.write()).unwrap();
            succeed(version, home.path(), &["sync-once", "--fake"]);
        }
        Self {
            url,
            claim,
            kept,
            pushes: board.take().try_into().unwrap(),
        }
    }
}

pub(crate) fn enrolment(url: &str) -> CloudConfig {
    let url = ServerUrl::parse(url).unwrap();
    CloudConfig::enrolled(url, CLAIM_ANSWER.as_bytes(), None).unwrap()
}

fn check(version: &'static str, form: Form) {
    let tape = Tape::open(&format!("wire-sent-{version}"), &[version]);
    let theirs = tape.take(|| Sent::by(version));
    let request = &theirs.claim;
    assert_eq!(request.line, format!("POST {CLAIM}"));
    assert_eq!(request.header("authorization"), None);
    let about = AboutHost {
        hostname: "vm",
        agent_version: version,
        driver_version: " ",
    };
    let ours = ClaimRequest::new(Token::new("gua_enroll_x").unwrap(), about).unwrap();
    assert_eq!(compact(request.text()), ours.body());
    let config = enrolment(&theirs.url);
    assert_eq!(theirs.kept, config.write());

    let [other, request] = &theirs.pushes;
    assert!(other.text().contains(r"lab \u00e9"), "{}", other.text());
    assert_eq!(request.line, format!("POST {OBSERVATIONS}"));
    let bearer = config.agent_token.bearer();
    assert_eq!(request.header("authorization"), Some(bearer.as_str()));
    let theirs: Snapshot = serde_json::from_str(request.text()).unwrap();
    let about = About {
        hostname: &theirs.host.hostname,
        agent_version: version,
        ..ABOUT
    };
    let sample = sample(form, observed_at(request.text()));
    let ours = built(about, &sample, form, &UserPolicy::Plain)
        .unwrap()
        .snapshot;
    assert_eq!(ours.body(), compact(request.text()));
    assert_eq!(ours, theirs);
}

#[test]
fn release_1_1_sends_the_same() {
    check("1.1.0", Form::V1_1);
}

#[test]
fn release_1_8_sends_the_same() {
    check("1.8.0", Form::V1_4);
}

#[test]
fn release_1_8_reports_a_missing_driver_with_the_same_words() {
    let tape = Tape::open("wire-sent-no-driver", &["1.8.0"]);
    let request: Request = tape.take(|| {
        let home = tempfile::tempdir().unwrap();
        let board = Board::start();
        let file = home.path().join("cloud.json");
        std::fs::write(&file, enrolment(&board.url()).write()).unwrap();
        let arguments = ["sync-once", "--config", file.to_str().unwrap()];
        let run = agent("1.8.0", home.path(), &arguments);
        assert_eq!(run.status.code(), Some(1));
        let [request] = board.take().try_into().unwrap();
        request
    });
    let theirs: Snapshot = serde_json::from_str(request.text()).unwrap();
    let about = About {
        hostname: &theirs.host.hostname,
        ..ABOUT
    };
    let at = observed_at(request.text());
    let ours = Snapshot::error_heartbeat(about, at, ErrorCode::NvmlInitFailed);
    assert_eq!(ours.body(), compact(request.text()));
}
