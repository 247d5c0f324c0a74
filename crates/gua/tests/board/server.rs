//! A board for tests. It grants everything and keeps each request, or answers as badly as it is told to.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{CertifiedKey, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

pub(crate) use crate::request::{CLAIM_ANSWER, Request};

pub(crate) const TOKEN: &str = "gua_agent_secret";

/// How the board answers.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    Kind,
    /// With this status and body.
    Says(u16, String),
    /// With this status where the request's line has this in it; else it is kind.
    Refuses(&'static str, u16),
    /// Takes the request and says nothing.
    Silent,
    /// A byte of its answer now and then, for as long as anybody listens.
    Drips,
    /// Hangs up in the middle of the answer's head.
    CutsHead,
    /// Hangs up in the middle of the answer's body.
    CutsBody,
    /// Something that is not HTTP.
    Gibberish,
    /// Sends the client elsewhere.
    Redirects(String),
    /// Ten megabytes.
    Talkative,
}

pub(crate) struct Board {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
}

struct Shared {
    requests: Mutex<Vec<Request>>,
    manner: Mutex<Manner>,
    streams: Mutex<Streams>,
    attempts: Mutex<usize>,
    /// How much of an answer was taken by those who were told a lot.
    taken: Mutex<u64>,
}

impl Board {
    /// Listens until the test's process ends.
    pub(crate) fn start() -> Self {
        Self::listen("http", |socket| Some(Box::new(socket)))
    }

    /// The same behind TLS. The certificate of its authority is written to `ca_file`.
    pub(crate) fn encrypted(ca_file: &Path) -> Self {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(ca_file, cert.pem()).unwrap();
        let config = Arc::new(server_config(&cert, &signing_key));
        Self::listen("https", move |mut socket| {
            let mut session = ServerConnection::new(Arc::clone(&config)).unwrap();
            while session.is_handshaking() {
                session.complete_io(&mut socket).ok()?;
            }
            Some(Box::new(StreamOwned::new(session, socket)))
        })
    }

    fn listen(
        scheme: &'static str,
        greet: impl Fn(TcpStream) -> Option<Box<dyn Duplex>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            manner: Mutex::new(Manner::Kind),
            streams: Mutex::default(),
            attempts: Mutex::default(),
            taken: Mutex::default(),
        });
        let (kept, greet) = (Arc::clone(&shared), Arc::new(greet));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (kept, greet) = (Arc::clone(&kept), Arc::clone(&greet));
                thread::spawn(move || {
                    if let Some(stream) = greet(socket) {
                        kept.serve(stream);
                    }
                });
            }
        });
        Self {
            address,
            scheme,
            shared,
        }
    }

    /// By name where a certificate needs one.
    pub(crate) fn url(&self) -> String {
        let host = match self.scheme {
            "https" => "localhost",
            _ => "127.0.0.1",
        };
        format!("{}://{host}:{}", self.scheme, self.address.port())
    }

    /// Each stream lasts for so many frames from now on.
    pub(crate) fn drops_streams_after(&self, frames: usize) {
        self.shared.streams.lock().unwrap().lasts = Some(frames);
    }

    /// From now on each stream is talked to without pause: one frame, and then another again and again.
    pub(crate) fn floods_streams(&self, first: &[u8], then: &[u8]) {
        let flood = (first.to_owned(), then.to_owned());
        self.shared.streams.lock().unwrap().flood = Some(flood);
    }

    /// What came through streams so far.
    pub(crate) fn streams(&self) -> Streams {
        self.shared.streams.lock().unwrap().clone()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn behaves(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    /// What came since this was last asked.
    pub(crate) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.shared.requests.lock().unwrap())
    }

    /// How many requests have come in all.
    pub(crate) fn attempts(&self) -> usize {
        *self.shared.attempts.lock().unwrap()
    }

    /// How many bytes of long answers were taken off its hands.
    pub(crate) fn taken(&self) -> u64 {
        *self.shared.taken.lock().unwrap()
    }
}

/// All streams together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    /// After so many frames a stream is cut.
    lasts: Option<usize>,
    flood: Option<(Vec<u8>, Vec<u8>)>,
    /// The requests by which they began.
    pub(crate) opened: Vec<Request>,
    pub(crate) frames: Vec<String>,
    /// How often a ping was answered.
    pub(crate) pongs: usize,
    /// The codes by which clients ended them.
    pub(crate) closed: Vec<u16>,
}

/// A connection, encrypted or not.
pub(crate) trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

impl Shared {
    fn serve(&self, stream: Box<dyn Duplex>) {
        let mut stream = BufReader::new(stream);
        let Some(request) = Request::receive(&mut stream) else {
            return;
        };
        let mut manner = self.manner.lock().unwrap().clone();
        let mut is_refused = false;
        if let Manner::Refuses(part, status) = manner
            && request.line.contains(part)
        {
            manner = Manner::Says(status, String::new());
            is_refused = true;
        }
        if request.header("upgrade") == Some("websocket") && !is_refused {
            self.stream(&request, stream);
            return;
        }
        let good = good_answer(&request);
        // Kept before it is answered, so that a client that ended has been recorded.
        self.requests.lock().unwrap().push(request);
        *self.attempts.lock().unwrap() += 1;
        // A client that hangs up has heard enough.
        let _ = self.answer(stream.into_inner(), &manner, &good);
    }

    /// Takes frames until the client goes, or for as long as it was told to.
    fn stream(&self, request: &Request, mut stream: BufReader<Box<dyn Duplex>>) {
        let (lasts, flood) = {
            let mut streams = self.streams.lock().unwrap();
            streams.opened.push(request.clone());
            (streams.lasts.unwrap_or(usize::MAX), streams.flood.clone())
        };
        let key = request.header("sec-websocket-key").unwrap_or_default();
        let accept = derive_accept_key(key.as_bytes());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        if stream.get_mut().write_all(head.as_bytes()).is_err() {
            return;
        }
        if let Some((first, then)) = flood {
            // More than anybody can take in.
            let many = then.repeat(20_000);
            let _ = stream.get_mut().write_all(&first);
            while stream.get_mut().write_all(&many).is_ok() {}
            return;
        }
        let mut socket = WebSocket::from_raw_socket(stream.into_inner(), Role::Server, None);
        for _ in 0..lasts {
            // A client that does not answer a ping is dropped by the servers that people use.
            let _ = socket.send(Message::Ping("?".into()));
            let message = loop {
                match socket.read() {
                    Ok(Message::Pong(_)) => self.streams.lock().unwrap().pongs += 1,
                    other => break other,
                }
            };
            let mut streams = self.streams.lock().unwrap();
            match message {
                Ok(Message::Text(text)) => streams.frames.push(text.to_string()),
                Ok(Message::Close(Some(word))) => return streams.closed.push(word.code.into()),
                _ => return,
            }
        }
    }

    fn answer(
        &self,
        mut stream: Box<dyn Duplex>,
        manner: &Manner,
        good: &(u16, String),
    ) -> io::Result<()> {
        let head = |status: u16, length: usize, more: &str| {
            format!(
                "HTTP/1.1 {status} Word\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n"
            )
        };
        let whole = |status: u16, body: &str| head(status, body.len(), "") + body;
        match manner {
            Manner::Kind | Manner::Refuses(..) => {
                stream.write_all(whole(good.0, &good.1).as_bytes())?;
            }
            Manner::Says(status, body) => stream.write_all(whole(*status, body).as_bytes())?,
            Manner::Silent => {
                // Until the client gives up.
                let _ = stream.read(&mut [0]);
            }
            Manner::Drips => {
                let answer = format!("HTTP/1.1 200 OK\r\nX-Long: {}", "x".repeat(10_000));
                for byte in answer.bytes() {
                    stream.write_all(&[byte])?;
                    stream.flush()?;
                    thread::park_timeout(std::time::Duration::from_millis(50));
                }
            }
            Manner::CutsHead => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le")?,
            Manner::CutsBody => {
                let body = r#"{"hostId":"h1","#;
                stream.write_all((head(200, 100, "") + body).as_bytes())?;
            }
            Manner::Gibberish => stream.write_all(b"\x00\xffthis is no HTTP\r\n\r\n")?,
            Manner::Redirects(to) => {
                let more = format!("Location: {to}\r\n");
                stream.write_all(head(302, 0, &more).as_bytes())?;
            }
            Manner::Talkative => {
                const PIECE: usize = 64 * 1024;
                const PIECES: usize = 160;
                stream.write_all(head(422, PIECE * PIECES, "").as_bytes())?;
                for _ in 0..PIECES {
                    stream.write_all(&[b' '; PIECE])?;
                    *self.taken.lock().unwrap() += PIECE as u64;
                }
            }
        }
        stream.flush()
    }
}

fn good_answer(request: &Request) -> (u16, String) {
    match request.line.as_str() {
        line if line.ends_with("/claim") => (201, CLAIM_ANSWER.to_owned()),
        line if line.starts_with("GET") => (200, r#"{"archives":[]}"#.to_owned()),
        _ => (202, r#"{"status":"accepted"}"#.to_owned()),
    }
}

fn server_config(certificate: &rcgen::Certificate, key: &KeyPair) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap()
}
