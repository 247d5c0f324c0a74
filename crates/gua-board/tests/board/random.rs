//! Altered JSON bodies and random bytes on the stream, from a fixed seed: the board refuses or accepts them, and never panics.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use gua_board::demo;
use gua_board_store::registry::{Role, Scope};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::stream::{FRAME, Served, blocking, connect};
use crate::{Board, snapshot};

const BODIES: usize = 600;
const STREAMS: usize = 60;

/// Makes the same values in every run.
fn runner() -> TestRunner {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(Config::default(), rng)
}

fn next<S: Strategy>(runner: &mut TestRunner, strategy: &S) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}

/// Values that break careless readers.
fn odd() -> impl Strategy<Value = Value> {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let fixed = vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e308),
        json!(0.1),
        json!(""),
        json!("\u{202e}\u{0}</script>{0}"),
        json!("9999-12-31T23:59:60+23:59"),
        json!("-262144-01-01T00:00:00Z"),
        json!("GPU-a"),
        json!("x".repeat(5000)),
        json!([]),
        json!({}),
        deep,
    ];
    prop_oneof![
        select(fixed),
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from)
    ]
}

/// JSON pointers of all values in a document.
fn places(document: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match document {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{index}"), all);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                places(field, &format!("{at}/{name}"), all);
            }
        }
        _ => {}
    }
}

/// Replaces, removes or repeats parts of a document, or breaks its text.
fn altered(runner: &mut TestRunner, document: &Value) -> Vec<u8> {
    let mut document = document.clone();
    for _ in 0..next(runner, &(1..4usize)) {
        let mut all = Vec::new();
        places(&document, "", &mut all);
        let place = next(runner, &select(all));
        let Some(value) = document.pointer_mut(&place) else {
            continue;
        };
        match (next(runner, &(0..4)), value) {
            (0, Value::Object(fields)) => {
                let first = fields.keys().next().cloned();
                first.map(|name| fields.remove(&name));
            }
            (1, Value::Object(fields)) => {
                fields.insert(next(runner, &any::<String>()), next(runner, &odd()));
            }
            (2, Value::Array(items)) => {
                let copies = items.clone();
                (0..300).for_each(|_| items.extend_from_slice(&copies));
                items.truncate(2000);
            }
            (_, value) => *value = next(runner, &odd()),
        }
    }
    let mut bytes = document.to_string().into_bytes();
    if next(runner, &(0..8)) == 0 && !bytes.is_empty() {
        let at = next(runner, &(0..bytes.len()));
        bytes[at] = next(runner, &any::<u8>());
        bytes.truncate(next(runner, &(at..=bytes.len())));
    }
    bytes
}

#[tokio::test]
async fn altered_bodies_never_fail_the_board_or_its_pages() {
    let board = Board::start();
    let workspace = board.workspace();
    let (host, agent) = board.enrol(&workspace, "gpu1").await;
    let owner = board.account("ada", &workspace, Role::Owner);
    let owner = board.api_token(&owner, &workspace, Scope::Write);
    let live = demo::report(0, board.app.now()).body();
    let live: Value = serde_json::from_str(&live).unwrap();
    let key = board.enrolment_key(&workspace, 1);
    let api = "/api/v1/workspaces/default";
    let requests = [
        (
            "POST /agent/v1/observations".to_owned(),
            &agent,
            snapshot(0, "ada"),
        ),
        ("POST /agent/v1/live".to_owned(), &agent, live),
        (
            "POST /agent/v1/names".to_owned(),
            &agent,
            json!({"code": "gua_name_x", "user": "ada"}),
        ),
        (
            "POST /agent/v1/enrollments/claim".to_owned(),
            &agent,
            json!({"enrollmentToken": key, "hostname": "x"}),
        ),
        (
            format!("POST {api}/enrolment-keys"),
            &owner,
            json!({"name": "a", "tags": "a,b", "uses": 2, "expiresInHours": 1}),
        ),
        (
            format!("PUT {api}/hosts/{host}/maintenance"),
            &owner,
            json!({"note": "x", "endsInHours": 3}),
        ),
        (
            format!("PUT {api}/hosts/{host}/groups"),
            &owner,
            json!({"groups": "a, b"}),
        ),
        (
            format!("PUT {api}/settings"),
            &owner,
            json!({"title": "Lab", "namesFrom": "admin", "sessionDays": 3}),
        ),
    ];
    let mut runner = runner();
    let mut accepted = 0;
    for number in 0..BODIES {
        let (line, auth, body) = &requests[number % requests.len()];
        let body = altered(&mut runner, body);
        let auth = [("authorization", auth.as_str())];
        let text = String::from_utf8_lossy(&body).into_owned();
        let answer = board.call(line, &auth, body).await;
        accepted += usize::from(answer.status < 300);
        let is_answer = answer.status < 500;
        assert!(
            is_answer,
            "{line} {}: {}\n{text}",
            answer.status, answer.body
        );
        if answer.status < 300 {
            for path in [
                format!("/w/default/hosts/{host}"),
                "/w/default".to_owned(),
                "/w/default/servers".to_owned(),
            ] {
                let auth = [("authorization", owner.as_str()), ("accept", "text/html")];
                let page = board.call(&format!("GET {path}"), &auth, "").await;
                assert_eq!(page.status, 200, "{path}: {}\n{text}", page.body);
            }
        }
    }
    assert!(
        accepted > BODIES / 50,
        "only {accepted} bodies were accepted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn altered_frames_and_random_bytes_never_end_the_server() {
    let board = Board::start();
    let (_, token) = board.enrol(&board.workspace(), "gpu1").await;
    let auth = [("authorization", token.as_str())];
    let line = "POST /agent/v1/observations";
    let pushed = board
        .call(line, &auth, snapshot(0, "ada").to_string())
        .await;
    assert_eq!(pushed.status, 202, "{}", pushed.body);
    let served = Served::start(&board).await;
    let address = served.address;
    blocking(move || {
        let mut runner = runner();
        let frame: Value = serde_json::from_str(FRAME).unwrap();
        for number in 0..STREAMS {
            let mut socket = connect(address, &token);
            let stream: &mut TcpStream = socket.get_mut();
            let payload = match number % 3 {
                0 => next(&mut runner, &prop::collection::vec(any::<u8>(), 0..300)),
                1 => {
                    let mut text = altered(&mut runner, &frame);
                    text.truncate(60_000);
                    masked(0x81, &text)
                }
                _ => {
                    let head = next(&mut runner, &any::<u8>());
                    let body = next(&mut runner, &prop::collection::vec(any::<u8>(), 0..100));
                    masked(head, &body)
                }
            };
            // The board may close the connection before it has read everything.
            let _ = stream.write_all(&payload);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
        }
    })
    .await;
    // A stream whose task panicked would still be counted.
    let owner = board.account("ada", &board.workspace(), Role::Owner);
    let owner = board.api_token(&owner, &board.workspace(), Scope::Read);
    let auth = [("authorization", owner.as_str())];
    let is_over = async || {
        let metrics = board.call("GET /metrics", &auth, "").await;
        assert_eq!(metrics.status, 200);
        crate::pages::text(&metrics).contains("\ngua_board_streams 0\n")
    };
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while !is_over().await {
        assert!(tokio::time::Instant::now() < until, "a stream did not end");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    served.stop().await;
}

/// A frame of a client (RFC 6455, section 5.2) of less than 64 KiB, with the first byte given and a mask of zeros.
fn masked(head: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![head];
    let length = u16::try_from(payload.len()).unwrap();
    match u8::try_from(length) {
        Ok(short) if short < 126 => frame.push(0x80 | short),
        _ => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}
