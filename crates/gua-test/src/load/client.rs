//! Requests of hosts and people: pushes at fixed times, frames every second, and requests for pages.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Message, WebSocket};

use super::hosts::{Fleet, wall_clock};
use super::outcome::PageLoads;
use super::sleep_until;
use crate::wait::now;

/// Maximum time to wait for an answer: that of an agent.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Times at which pushes are due.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) period: Duration,
    pub(super) hosts: u32,
    pub(super) next: AtomicU64,
    /// Number of acknowledged pushes.
    pub(super) acknowledged: AtomicU64,
}

impl Pace {
    /// Number of the next push and when it is due; `None` after the end.
    fn next(&self) -> Option<(u64, Instant)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let nanos = self.period.as_nanos() * u128::from(number) / u128::from(self.hosts);
        let due = self.start + Duration::from_nanos(u64::try_from(nanos).unwrap());
        (due < self.end).then_some((number, due))
    }
}

/// One push.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) host: u32,
    pub(super) observed_at: Timestamp,
    pub(super) due: Instant,
    /// Time from the connection to the answer.
    pub(super) took: Duration,
    /// Time from when it was due to the answer.
    pub(super) took_since_due: Duration,
    pub(super) is_acknowledged: bool,
}

/// Pushes of one thread.
#[derive(Debug, Default)]
pub(super) struct Pushes(pub(super) Vec<Push>);

impl Pushes {
    pub(super) fn send(fleet: &Fleet, address: SocketAddr, pace: &Pace) -> Self {
        Self::send_until(fleet, address, pace, &AtomicBool::new(false))
    }

    pub(super) fn send_until(
        fleet: &Fleet,
        address: SocketAddr,
        pace: &Pace,
        is_over: &AtomicBool,
    ) -> Self {
        let mut sent = Self::default();
        while let Some((number, due)) = pace.next() {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            sleep_until(due);
            let hosts = u64::from(pace.hosts);
            let host = u32::try_from(number % hosts).unwrap();
            let observed_at = wall_clock();
            let body = fleet.snapshot(host, number / hosts, observed_at);
            let token = &fleet.hosts[host as usize].token;
            let request = format!(
                "POST /agent/v1/observations HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAccept: application/json\r\n\
                 Content-Type: application/json\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let began = now();
            let answer = exchange(address, request.as_bytes());
            let ended = now();
            let is_acknowledged = matches!(answer, Ok((202, _)));
            pace.acknowledged
                .fetch_add(u64::from(is_acknowledged), Ordering::Relaxed);
            sent.0.push(Push {
                host,
                observed_at,
                due,
                took: ended - began,
                took_since_due: ended - due,
                is_acknowledged,
            });
        }
        sent
    }

    /// Host and time of the acknowledged pushes.
    pub(super) fn acknowledged(&self) -> impl Iterator<Item = (u32, Timestamp)> + '_ {
        let acknowledged = self.0.iter().filter(|push| push.is_acknowledged);
        acknowledged.map(|push| (push.host, push.observed_at))
    }
}

/// Sends a request on a connection of its own and returns status and body of the answer.
pub(super) fn exchange(address: SocketAddr, request: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect_timeout(&address, TIME_LIMIT)?;
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    stream.set_nodelay(true)?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or_else(invalid)?;
    let status = answer
        .get(9..12)
        .and_then(|digits| str::from_utf8(digits).ok());
    let status = status.and_then(|digits| digits.parse().ok());
    Ok((status.ok_or_else(invalid)?, answer.split_off(end + 4)))
}

/// Streams: one thread writes a frame to each of them every second.
pub(super) struct Frames;

impl Frames {
    /// Returns the number of frames sent.
    pub(super) fn send(
        fleet: &Fleet,
        address: SocketAddr,
        streams: u32,
        is_over: &AtomicBool,
    ) -> u64 {
        let open = |host: u32| {
            let url = format!("ws://{address}/agent/v1/stream");
            let mut request = url.into_client_request().unwrap();
            let bearer = format!("Bearer {}", fleet.hosts[host as usize].token);
            let headers = request.headers_mut();
            headers.insert("Authorization", bearer.parse().unwrap());
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            let (socket, _) = tungstenite::client(request, stream).unwrap();
            (host, socket)
        };
        let mut sockets: Vec<(u32, WebSocket<TcpStream>)> = (0..streams).map(open).collect();
        let start = now();
        let mut sent = 0;
        for second in 0.. {
            for (place, (host, socket)) in sockets.iter_mut().enumerate() {
                // Spread over the second, as the streams of real hosts are.
                let part = u64::try_from(place).unwrap() * 1000 / u64::from(streams.max(1));
                sleep_until(start + Duration::from_secs(second) + Duration::from_millis(part));
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let frame = fleet.frame(*host, second);
                socket.send(Message::text(frame)).unwrap();
                sent += 1;
            }
            if is_over.load(Ordering::Relaxed) || sockets.is_empty() {
                break;
            }
        }
        for (_, socket) in &mut sockets {
            let _ = socket.close(None);
        }
        sent
    }
}

/// Requests for pages.
pub(super) struct Pages;

impl Pages {
    /// Queries of the availability page: the first page, a late one, and filters.
    const QUERIES: [&str; 6] = [
        "",
        "?page=40",
        "?model=H100+80GB+HBM3",
        "?memory=48&gpus=3",
        "?model=A100-SXM4-80GB&page=7",
        "?form=compact",
    ];

    /// Loads pages at fixed times until it is over.
    pub(super) fn load(
        fleet: &Fleet,
        address: SocketAddr,
        per_second: u32,
        is_over: &AtomicBool,
    ) -> PageLoads {
        let mut loads = PageLoads::default();
        let start = now();
        for number in 0..u32::MAX {
            if per_second == 0 || is_over.load(Ordering::Relaxed) {
                break;
            }
            sleep_until(start + Duration::from_secs(1) * number / per_second);
            let query = Self::QUERIES[number as usize % Self::QUERIES.len()];
            let request = format!(
                "GET /w/default{query} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAccept: text/html\r\n\
                 Authorization: Bearer {}\r\n\r\n",
                fleet.reader
            );
            let began = now();
            let (status, body) = exchange(address, request.as_bytes()).unwrap();
            assert_eq!(status, 200, "{query}");
            loads.took.push(now() - began);
            loads.largest = loads.largest.max(body.len());
        }
        loads
    }
}
