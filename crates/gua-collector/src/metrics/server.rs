//! A small HTTP server for `/metrics`: one thread per connection, GET and HEAD only, few connections, short time limits.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gua_model::failure_log::FailureLog;
use gua_model::server_url::names_this_host;
use gua_probe::clock;
use gua_render::metrics::Form;
use tracing::{info, warn};

use super::Published;
use crate::lock;
use crate::timed_stream::TimedStream;

/// Maximum number of open connections; more are refused.
const MAX_CONNECTIONS: usize = 8;
/// Maximum size of a request's header.
const MAX_HEADER: usize = 8 * 1024;
/// Maximum time for a request and its answer.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Time between two attempts to listen.
const RETRY: Duration = Duration::from_secs(10);
/// Memory for the stack of a connection's thread.
const STACK: usize = 256 * 1024;

/// Serves on an address, on its own thread. An address that is in use is retried.
pub(super) fn start(address: SocketAddr, published: Arc<Published>) -> io::Result<()> {
    let listener = TcpListener::bind(address);
    std::thread::Builder::new()
        .name("metrics-http".to_owned())
        .stack_size(STACK)
        .spawn(move || serve(&listening(listener, address), &published))?;
    Ok(())
}

/// Retries until the address can be bound.
fn listening(first: io::Result<TcpListener>, address: SocketAddr) -> TcpListener {
    let mut tried = first;
    let mut failures = FailureLog::default();
    loop {
        match tried {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(address);
                let failures = failures.end();
                info!(%address, failures, "serving metrics");
                return listener;
            }
            Err(error) => {
                if failures.add() {
                    warn!(%error, %address, "cannot serve metrics; retrying every 10 s");
                }
            }
        }
        std::thread::park_timeout(RETRY);
        tried = TcpListener::bind(address);
    }
}

/// Callers that may send requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callers {
    /// Programs on this host. A request for a host name that another site controls is refused (DNS rebinding).
    ThisHost,
    Everyone,
}

/// Counts a connection while it is open.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn serve(listener: &TcpListener, published: &Arc<Published>) {
    let open = Arc::new(AtomicUsize::new(0));
    let address = listener.local_addr();
    let callers = match address.is_ok_and(|address| address.ip().is_loopback()) {
        true => Callers::ThisHost,
        false => Callers::Everyone,
    };
    let mut failures = FailureLog::default();
    loop {
        let accepted = listener.accept();
        match failures.change(&accepted) {
            Some(Ok(failures)) => info!(failures, "requests for metrics are accepted again"),
            Some(Err(error)) => warn!(%error, "cannot accept requests for metrics"),
            None => {}
        }
        let Ok((stream, _)) = accepted else {
            // For example, no file descriptor is free. An immediate retry would be a busy loop.
            std::thread::park_timeout(Duration::from_millis(100));
            continue;
        };
        let slot = Slot(Arc::clone(&open));
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            // A few bytes fit into the socket's buffer, so this does not block.
            let _ = stream.set_nonblocking(true);
            let busy = "too many connections; try again later\n";
            let _ = (&stream).write(&Answer::plain(UNAVAILABLE, busy).bytes(false));
            continue;
        }
        let published = Arc::clone(published);
        let thread = std::thread::Builder::new().name("metrics-client".to_owned());
        // If the thread cannot be started, the connection is closed.
        let _ = thread.stack_size(STACK).spawn(move || {
            let _slot = slot;
            let _ = answer(&stream, &published, callers);
        });
    }
}

/// Reads one request and answers it.
fn answer(stream: &TcpStream, published: &Published, callers: Callers) -> io::Result<()> {
    let mut client = TimedStream::new(stream, TIME_LIMIT);
    let Some(header) = read_header(&mut client)? else {
        let status = "431 Request Header Fields Too Large";
        let answer = Answer::plain(status, "the request header is too large\n");
        return client.write_all(&answer.bytes(false));
    };
    let mut lines = header.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next());
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let values = |wanted: &'static str| {
        let fields = fields.iter();
        let found = fields.filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim())
    };
    let accept = values("accept").collect::<Vec<_>>().join(",");
    // Browsers always send the host name, and only a browser can be sent here by another site.
    let is_foreign = callers == Callers::ThisHost && !values("host").all(names_this_host);
    let path = path.and_then(|path| path.split('?').next());
    let answer = match (method, path) {
        _ if is_foreign => Answer::plain(
            "403 Forbidden",
            "use localhost or the IP address of this server in the URL\n",
        ),
        ("GET" | "HEAD", Some("/metrics")) => page(published, Form::accepted(&accept)),
        ("GET" | "HEAD", Some("/")) => Answer::plain("200 OK", "Metrics are at /metrics.\n"),
        ("GET" | "HEAD", _) => Answer::plain("404 Not Found", "Metrics are at /metrics.\n"),
        _ => Answer::plain(NOT_ALLOWED, "only GET and HEAD are allowed\n"),
    };
    client.write_all(&answer.bytes(method == "HEAD"))
}

/// Writes the latest snapshot, without readings that are too old.
fn page(published: &Published, form: Form) -> Answer {
    let Some(snapshot) = lock(published).clone() else {
        return Answer::plain(UNAVAILABLE, "no tick has completed yet; try again later\n");
    };
    let body = match snapshot.is_fresh(clock::monotonic()) {
        true => snapshot.metrics.text(form),
        false => {
            let mut metrics = snapshot.metrics.clone();
            for gpu in &mut metrics.gpus {
                gpu.forget_readings();
            }
            metrics.text(form)
        }
    };
    Answer {
        status: "200 OK",
        content_type: form.content_type(),
        body,
    }
}

const UNAVAILABLE: &str = "503 Service Unavailable";
const NOT_ALLOWED: &str = "405 Method Not Allowed";

struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Answer {
    fn plain(status: &'static str, body: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.to_owned(),
        }
    }

    fn bytes(&self, is_head: bool) -> Vec<u8> {
        let (status, content_type, length) = (self.status, self.content_type, self.body.len());
        let allow = match status == NOT_ALLOWED {
            true => "Allow: GET, HEAD\r\n",
            false => "",
        };
        let mut text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{allow}\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        );
        if !is_head {
            text.push_str(&self.body);
        }
        text.into_bytes()
    }
}

/// Reads until the empty line; `None` if the header is too large.
fn read_header(stream: &mut impl Read) -> io::Result<Option<String>> {
    let mut header = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        header.extend_from_slice(&buffer[..length]);
        if let Some(end) = header.windows(4).position(|four| four == b"\r\n\r\n") {
            header.truncate(end);
            return Ok(Some(String::from_utf8_lossy(&header).into_owned()));
        }
        if header.len() > MAX_HEADER {
            return Ok(None);
        }
    }
}
