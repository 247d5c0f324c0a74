//! A board for tests: it speaks HTTP over loopback, grants everything, and keeps each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Method, path and query.
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub(crate) const CLAIM_ANSWER: &str = r#"{"hostId":"h1","displayName":"lab 1","agentToken":"gua_agent_secret","tokenPrefix":"gua_agent_se"}"#;

pub(crate) struct Board {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Board {
    /// Listens until the test's process ends.
    pub(crate) fn start(listing: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(request) = receive(&stream) {
                    let (status, answer) = match request.line.as_str() {
                        line if line.ends_with("/claim") => ("201 Created", CLAIM_ANSWER),
                        line if line.starts_with("GET") => ("200 OK", listing.as_str()),
                        _ => ("202 Accepted", r#"{"status":"accepted"}"#),
                    };
                    // Kept before it is answered, so that a client that ended has been recorded.
                    kept.lock().unwrap().push(request);
                    let length = answer.len();
                    let head = format!(
                        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                    );
                    let _ = (&stream).write_all((head + answer).as_bytes());
                }
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What came since this was last asked.
    pub(crate) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

fn receive(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut next = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    };
    let line = next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let mut headers = Vec::new();
    while let Some((name, value)) = next()?.split_once(": ") {
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut request = Request {
        line,
        headers,
        body: Vec::new(),
    };
    let length = request
        .header("content-length")
        .map_or(0, |text| text.parse().unwrap());
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
