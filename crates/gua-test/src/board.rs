//! A board for tests, on loopback. It accepts and records every request, or misbehaves in the way that a test sets.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

use crate::http::{CLAIM_ANSWER, Request};
use crate::tls::{Duplex, TlsServer};

/// The agent token in [`CLAIM_ANSWER`].
pub const TOKEN: &str = "gua_agent_secret";

/// Responses of the board.
#[derive(Clone, Debug)]
pub enum Behaviour {
    Accepts,
    /// Responds with this status and body.
    Responds(u16, String),
    /// Responds with this status if the request line contains this text; accepts otherwise.
    Rejects(&'static str, u16),
    /// Reads the request and never responds.
    Silent,
    /// Sends a byte of its response now and then, for as long as the client listens.
    Trickles,
    /// Hangs up in the middle of the response's head.
    CutsHead,
    /// Hangs up in the middle of the response's body.
    CutsBody,
    /// Sends bytes that are not HTTP.
    Garbage,
    /// Redirects to this address.
    Redirects(String),
    /// Sends ten megabytes.
    Floods,
}

/// A listening board.
#[derive(Debug)]
pub struct Board {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    requests: Mutex<Vec<Request>>,
    behaviour: Mutex<Behaviour>,
    /// Response to a GET.
    listing: Mutex<String>,
    streams: Mutex<Streams>,
    attempts: Mutex<usize>,
    /// Bytes of long responses that clients read.
    taken: Mutex<u64>,
}

impl Board {
    /// Listens until the test's process ends.
    pub fn start() -> Self {
        Self::listen("http", |socket| Some(Box::new(socket)))
    }

    /// A board behind TLS. Its CA certificate is written to `ca_file`.
    pub fn encrypted(ca_file: &Path) -> Self {
        let tls = TlsServer::new("localhost", ca_file);
        Self::listen("https", move |socket| Some(Box::new(tls.accept(socket)?)))
    }

    fn listen(
        scheme: &'static str,
        greet: impl Fn(TcpStream) -> Option<Box<dyn Duplex>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            behaviour: Mutex::new(Behaviour::Accepts),
            listing: Mutex::new(r#"{"archives":[]}"#.to_owned()),
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

    /// Base URL, by host name if the certificate needs one.
    pub fn url(&self) -> String {
        let host = match self.scheme {
            "https" => "localhost",
            _ => "127.0.0.1",
        };
        format!("{}://{host}:{}", self.scheme, self.address.port())
    }

    /// From now on each WebSocket stream is cut after this many frames.
    pub fn drops_streams_after(&self, frames: usize) {
        self.shared.streams.lock().unwrap().lasts = Some(frames);
    }

    /// From now on each WebSocket stream receives the first frame once and the second without pause.
    pub fn floods_streams(&self, first: &[u8], then: &[u8]) {
        let flood = (first.to_owned(), then.to_owned());
        self.shared.streams.lock().unwrap().flood = Some(flood);
    }

    /// Record of all WebSocket streams so far.
    pub fn streams(&self) -> Streams {
        self.shared.streams.lock().unwrap().clone()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn behaves(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().unwrap() = behaviour;
    }

    /// Sets the response to a GET, the listing of archives.
    pub fn lists(&self, listing: impl Into<String>) {
        *self.shared.listing.lock().unwrap() = listing.into();
    }

    /// Requests since the last call.
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.shared.requests.lock().unwrap())
    }

    /// Number of all requests.
    pub fn attempts(&self) -> usize {
        *self.shared.attempts.lock().unwrap()
    }

    /// Bytes of long responses that clients read.
    pub fn taken(&self) -> u64 {
        *self.shared.taken.lock().unwrap()
    }
}

/// Record of all WebSocket streams.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// Number of frames after which a stream is cut.
    lasts: Option<usize>,
    flood: Option<(Vec<u8>, Vec<u8>)>,
    /// The upgrade requests.
    pub opened: Vec<Request>,
    pub frames: Vec<String>,
    /// Number of answered pings.
    pub pongs: usize,
    /// Close codes of the clients.
    pub closed: Vec<u16>,
}

impl Shared {
    fn serve(&self, stream: Box<dyn Duplex>) {
        let mut stream = BufReader::new(stream);
        let Some(request) = Request::receive(&mut stream) else {
            return;
        };
        let mut behaviour = self.behaviour.lock().unwrap().clone();
        let mut is_refused = false;
        if let Behaviour::Rejects(part, status) = behaviour
            && request.line.contains(part)
        {
            behaviour = Behaviour::Responds(status, String::new());
            is_refused = true;
        }
        if request.header("upgrade") == Some("websocket") && !is_refused {
            self.stream(&request, stream);
            return;
        }
        let good = self.good_answer(&request);
        // Kept before it is answered, so that a client that ended has been recorded.
        self.requests.lock().unwrap().push(request);
        *self.attempts.lock().unwrap() += 1;
        // The client may hang up before the end of the response.
        let _ = self.answer(stream.into_inner(), &behaviour, &good);
    }

    /// Records frames until the client closes the stream or the limit is reached.
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
                Ok(Message::Close(Some(word))) => {
                    streams.closed.push(word.code.into());
                    return;
                }
                _ => return,
            }
        }
    }

    fn answer(
        &self,
        mut stream: Box<dyn Duplex>,
        behaviour: &Behaviour,
        good: &(u16, String),
    ) -> io::Result<()> {
        let head = |status: u16, length: usize, more: &str| {
            format!(
                "HTTP/1.1 {status} Word\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n"
            )
        };
        let whole = |status: u16, body: &str| head(status, body.len(), "") + body;
        match behaviour {
            Behaviour::Accepts | Behaviour::Rejects(..) => {
                stream.write_all(whole(good.0, &good.1).as_bytes())?;
            }
            Behaviour::Responds(status, body) => {
                stream.write_all(whole(*status, body).as_bytes())?;
            }
            Behaviour::Silent => {
                // Until the client gives up.
                let _ = stream.read(&mut [0]);
            }
            Behaviour::Trickles => {
                let answer = format!("HTTP/1.1 200 OK\r\nX-Long: {}", "x".repeat(10_000));
                for byte in answer.bytes() {
                    stream.write_all(&[byte])?;
                    stream.flush()?;
                    thread::park_timeout(std::time::Duration::from_millis(50));
                }
            }
            Behaviour::CutsHead => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le")?,
            Behaviour::CutsBody => {
                let body = r#"{"hostId":"h1","#;
                stream.write_all((head(200, 100, "") + body).as_bytes())?;
            }
            Behaviour::Garbage => stream.write_all(b"\x00\xffthis is no HTTP\r\n\r\n")?,
            Behaviour::Redirects(to) => {
                let more = format!("Location: {to}\r\n");
                stream.write_all(head(302, 0, &more).as_bytes())?;
            }
            Behaviour::Floods => {
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

    fn good_answer(&self, request: &Request) -> (u16, String) {
        match request.line.as_str() {
            line if line.ends_with("/claim") => (201, CLAIM_ANSWER.to_owned()),
            line if line.starts_with("GET") => (200, self.listing.lock().unwrap().clone()),
            _ => (202, r#"{"status":"accepted"}"#.to_owned()),
        }
    }
}
