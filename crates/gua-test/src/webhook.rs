//! A web server on loopback that records requests, and accepts them, refuses them or never answers.

use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::http::Request;

/// Response of the server to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Answers with a status.
    Answer(u16),
    /// Keeps the connection open and never answers.
    Hang,
}

/// A recording web server; its thread ends with the test process.
#[derive(Debug)]
pub struct Webhook {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    behaviour: Behaviour,
    requests: Vec<Request>,
    /// Connections that are never answered.
    open: Vec<TcpStream>,
}

impl Webhook {
    pub fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared {
            behaviour,
            requests: Vec::new(),
            open: Vec::new(),
        }));
        let ours = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&ours);
                thread::spawn(move || answer(stream, &shared));
            }
        });
        Self { address, shared }
    }

    /// URL with a secret path.
    pub fn url(&self) -> String {
        format!("http://{}/hook/s3cret", self.address)
    }

    pub fn set(&self, behaviour: Behaviour) {
        lock(&self.shared).behaviour = behaviour;
    }

    /// Requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared).requests.clone()
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(mut stream: TcpStream, shared: &Mutex<Shared>) {
    let Ok(reading) = stream.try_clone() else {
        return;
    };
    let Some(request) = Request::receive(&mut BufReader::new(reading)) else {
        return;
    };
    let mut shared = lock(shared);
    shared.requests.push(request);
    match shared.behaviour {
        Behaviour::Answer(status) => {
            drop(shared);
            let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: 2\r\nconnection: close");
            let _ = write!(stream, "{head}\r\n\r\nok");
        }
        Behaviour::Hang => shared.open.push(stream),
    }
}
