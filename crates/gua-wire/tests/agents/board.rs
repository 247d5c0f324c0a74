//! A board for tests: it speaks HTTP over loopback, grants everything, and keeps each request.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

pub(crate) use crate::request::{CLAIM_ANSWER, Request};

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
                if let Some(request) = Request::receive(&mut BufReader::new(&stream)) {
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
