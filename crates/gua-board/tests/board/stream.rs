//! Connections over loopback: the stream, slow clients and the graceful stop.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gua_board::server::serve;
use gua_board_store::HostId;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tungstenite::client::IntoClientRequest as _;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

use crate::{Board, snapshot};

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(board: &Board) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let app = Arc::clone(&board.app);
        let server = tokio::spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            serve(listener, None, app, stop).await.unwrap();
        });
        Self {
            address,
            stop: Some(stop),
            server,
        }
    }

    pub(crate) async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.server.await.unwrap();
    }
}

pub(crate) fn connect(address: SocketAddr, token: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut request = format!("ws://{address}/agent/v1/stream")
        .into_client_request()
        .unwrap();
    request
        .headers_mut()
        .insert("authorization", token.parse().unwrap());
    tungstenite::client(request, stream).unwrap().0
}

pub(crate) const FRAME: &str =
    r#"{"type":"util","ts":1.5,"gpus":[{"deviceUuid":"GPU-a","utilPct":42,"memUsedMb":1}]}"#;

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_reach_the_live_state_and_a_stop_closes_the_stream() {
    let board = Board::start();
    let (host, token) = board.enrol(&board.workspace(), "gpu1").await;
    let auth = [("authorization", token.as_str())];
    board
        .call(
            "POST /agent/v1/observations",
            &auth,
            snapshot(0, "ada").to_string(),
        )
        .await;
    let served = Served::start(&board).await;
    let address = served.address;
    let mut revisions = board.app.live.watch();
    let mut socket = blocking(move || {
        let mut socket = connect(address, &token);
        socket.send(Message::text(FRAME)).unwrap();
        socket
    })
    .await;
    revisions.wait_for(|revision| *revision >= 2).await.unwrap();
    let live = board.app.live.host(&HostId(host)).unwrap();
    let curve = live.curves.values().next().unwrap();
    let newest = curve.last(1, board.app.now().as_second()).next().unwrap();
    assert_eq!(newest, Some(42));
    let closed = thread::spawn(move || socket.read().unwrap());
    served.stop().await;
    let Message::Close(Some(frame)) = blocking(move || closed.join().unwrap()).await else {
        panic!("the stream was not closed");
    };
    assert_eq!(frame.code, CloseCode::Restart);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_outside_of_the_contract_closes_the_stream() {
    let board = Board::start();
    let (_, token) = board.enrol(&board.workspace(), "gpu1").await;
    let served = Served::start(&board).await;
    let address = served.address;
    let codes = blocking(move || {
        [
            Message::text("{}"),
            Message::text(FRAME.replace("\"ts\"", "\"x\":1,\"ts\"")),
            Message::text("\u{0}"),
            Message::binary(vec![0xff; 10]),
        ]
        .map(|message| {
            let mut socket = connect(address, &token);
            socket.send(message).unwrap();
            match socket.read().unwrap() {
                Message::Close(Some(frame)) => u16::from(frame.code),
                other => panic!("{other:?}"),
            }
        })
    })
    .await;
    assert_eq!(codes, [1008, 1008, 1008, 1003]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_needs_a_valid_token() {
    let board = Board::start();
    let served = Served::start(&board).await;
    let address = served.address;
    let refused = blocking(move || {
        let stream = TcpStream::connect(address).unwrap();
        let mut request = format!("ws://{address}/agent/v1/stream")
            .into_client_request()
            .unwrap();
        request
            .headers_mut()
            .insert("authorization", "Bearer x".parse().unwrap());
        match tungstenite::client(request, stream) {
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                answer.status().as_u16()
            }
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(refused, 401);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_answered_or_disconnected_and_the_board_keeps_running() {
    let board = Board::start();
    let served = Served::start(&board).await;
    let address = served.address;
    let answers = blocking(move || {
        let long = format!(
            "GET /healthz HTTP/1.1\r\nX: {}\r\n\r\n",
            "x".repeat(100_000)
        );
        [
            b"\x00\xff\r\n\r\n".to_vec(),
            long.into_bytes(),
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(),
        ]
        .map(|request| {
            let mut stream = TcpStream::connect(address).unwrap();
            // A refused request may be cut off before it is sent whole.
            let _ = stream.write_all(&request);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8_lossy(&answer).into_owned()
        })
    })
    .await;
    assert!(
        answers[0].is_empty() || answers[0].contains(" 400 "),
        "{}",
        answers[0]
    );
    assert!(
        answers[1].is_empty() || answers[1].contains(" 431 "),
        "{}",
        answers[1]
    );
    assert!(
        answers[2].contains(" 200 ") && answers[2].ends_with("ok\n"),
        "{}",
        answers[2]
    );
    served.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_ends_its_request_is_cut_off() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let board = Board::start();
    let served = Served::start(&board).await;
    let stream = tokio::net::TcpStream::connect(served.address).await;
    let mut stream = stream.unwrap();
    let begun = b"GET /healthz HTTP/1.1\r\nHost: x\r\n";
    stream.write_all(begun).await.unwrap();
    // The clock of the test moves on while nothing happens, so this waits for the limit and not for real time.
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.contains(" 200 "), "{answer}");
    served.stop().await;
}
