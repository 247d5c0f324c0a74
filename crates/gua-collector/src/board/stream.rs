//! The stream: sends the utilisation of each GPU every second through one WebSocket. It has its own thread and reader
//! child, and survives any failure of the board, the network and the driver.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use gua_model::chain::chain;
use gua_probe::clock;
use gua_probe::reader::{Reader, ReaderOptions};
use gua_wire::refusal::sentence;
use gua_wire::server_url::STREAM;
use gua_wire::stream::UtilFrame;
use tracing::{info, warn};
use tungstenite::client::{IntoClientRequest as _, client_with_config};
use tungstenite::http::HeaderValue;
use tungstenite::http::header::AUTHORIZATION;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tungstenite::{HandshakeError, Message, WebSocket};

use super::connection::{Connection, is_timeout};
use super::endpoint::cause;
use super::enrolment::{Enrolled, Enrolment};
use super::retry::Retry;
use super::worker::Worker;

/// Time between two frames.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum time for sending a frame.
const SEND_LIMIT: Duration = Duration::from_secs(5);
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Time after which a new connection counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Maximum time for the closing handshake when the daemon ends.
pub(super) const CLOSE_WAIT: Duration = Duration::from_secs(1);
/// Maximum size of a message from the board.
const MAX_MESSAGE: usize = 64 * 1024;
/// Maximum wait for a message, after which a stop is noticed.
const READ_WAIT: Duration = Duration::from_millis(200);
/// Minimum time for messages after each frame, so that a slow driver does not prevent reading.
const MIN_READ_WAIT: Duration = Duration::from_millis(1);
/// Maximum number of messages between two frames. Real boards only send a ping now and then.
const MAX_MESSAGES: usize = 256;
/// Maximum number of bytes between two frames, also if they never form a message.
const MAX_BYTES: u64 = 4 * MAX_MESSAGE as u64;

/// Starts the thread of the stream, which calls `changed` whenever it connects or disconnects.
pub(super) fn start(
    enrolment: Enrolment,
    reader: ReaderOptions,
    changed: impl Fn(bool) + Send + 'static,
) -> io::Result<Worker> {
    Worker::start("gua-stream", move |end| {
        let stream = Stream {
            enrolment,
            reader: Reader::new(reader),
            end,
            retry: Retry::new(FIRST_DELAY, MAX_DELAY),
            was_logged: false,
            changed: Box::new(changed),
        };
        stream.run();
    })
}

struct Stream {
    enrolment: Enrolment,
    reader: Reader,
    /// Disconnected when the daemon stops.
    end: Receiver<()>,
    retry: Retry,
    /// Whether the first connection was logged.
    was_logged: bool,
    /// Called with whether the stream is connected.
    changed: Box<dyn Fn(bool) + Send>,
}

/// Why a connection ended.
enum End {
    Stopped,
    /// The enrolment changed or was removed.
    EnrolmentChanged,
    Lost(String),
}

type Socket = WebSocket<Connection>;

impl Stream {
    fn run(mut self) {
        loop {
            match self.connect() {
                Ok((mut socket, enrolled)) => {
                    self.connected();
                    let end = self.feed(&mut socket, &enrolled);
                    (self.changed)(false);
                    match end {
                        End::Stopped => return close(&mut socket),
                        // The next attempt uses the new enrolment.
                        End::EnrolmentChanged => close(&mut socket),
                        End::Lost(why) => self.lost(&why),
                    }
                }
                Err(why) => self.lost(&why),
            }
            let rest = self.retry.remaining(clock::monotonic());
            let ended = self.end.recv_timeout(rest.unwrap_or_default());
            if ended == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    fn connect(&mut self) -> Result<(Socket, Arc<Enrolled>), String> {
        let enrolled = self.enrolment.current().map_err(|error| chain(&error))?;
        let connection = enrolled.endpoint.connect();
        Ok((handshake(connection.map_err(cause)?, &enrolled)?, enrolled))
    }

    /// The delay stays until the connection is stable: a board that accepts and drops every connection is retried with
    /// growing delays and logged once.
    fn connected(&mut self) {
        (self.changed)(true);
        if !std::mem::replace(&mut self.was_logged, true) {
            info!("stream connected");
        }
    }

    fn lost(&mut self, why: &str) {
        if let Some(error) = self.retry.failed(clock::monotonic(), why) {
            warn!(error, "stream lost");
        }
    }

    /// Sends a frame each second until the connection is lost, the enrolment changes or the daemon stops.
    fn feed(&mut self, socket: &mut Socket, enrolled: &Arc<Enrolled>) -> End {
        let began = clock::monotonic();
        let mut due = began;
        let mut received = 0;
        let mut bytes = 0;
        loop {
            let now = clock::monotonic();
            // A connection that drops again and again is logged once, and its recovery only when it is stable.
            if self.retry.has_failed() && now.saturating_sub(began) > STABLE_AFTER {
                let failures = self.retry.succeeded();
                info!(failures, "stream connected again");
            }
            if now >= due {
                if !self.is_enrolment_unchanged(enrolled) {
                    return End::EnrolmentChanged;
                }
                if let Err(why) = self.send(socket) {
                    return End::Lost(why);
                }
                // No burst after a slow read.
                due = (due + PERIOD).max(clock::monotonic());
                received = 0;
                bytes = socket.get_ref().bytes_read;
            }
            if self.end.try_recv() == Err(TryRecvError::Disconnected) {
                return End::Stopped;
            }
            let rest = due.saturating_sub(clock::monotonic());
            match receive(socket, rest.clamp(MIN_READ_WAIT, READ_WAIT)) {
                Ok(more) => received += more,
                Err(why) => return End::Lost(why),
            }
            if received > MAX_MESSAGES || socket.get_ref().bytes_read - bytes > MAX_BYTES {
                return End::Lost("the board sends too many messages".to_owned());
            }
        }
    }

    /// Whether this host is still enrolled at the board of this connection.
    fn is_enrolment_unchanged(&mut self, enrolled: &Arc<Enrolled>) -> bool {
        let now = self.enrolment.current();
        now.is_ok_and(|now| Arc::ptr_eq(&now, enrolled) || now.config == enrolled.config)
    }

    /// Sends one frame; none if the driver does not answer.
    fn send(&mut self, socket: &mut Socket) -> Result<(), String> {
        let Ok(sample) = self.reader.sample() else {
            return Ok(());
        };
        let frame = UtilFrame::of(&sample).text();
        socket.get_mut().set_limit(SEND_LIMIT);
        socket
            .send(Message::text(frame))
            .map_err(|error| error.to_string())
    }
}

fn handshake(connection: Connection, enrolled: &Enrolled) -> Result<Socket, String> {
    let config = &enrolled.config;
    let request = config.server_url.websocket_at(STREAM).into_client_request();
    let mut request = request.map_err(|error| error.to_string())?;
    let mut bearer = HeaderValue::from_str(&config.agent_token.bearer())
        .map_err(|_| "the token is not a valid header value".to_owned())?;
    bearer.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let limits = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    match client_with_config(request, connection, Some(limits)) {
        Ok((socket, _)) => Ok(socket),
        Err(HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
            let body = answer.body().as_deref().unwrap_or_default();
            Err(sentence(
                answer.status().as_u16(),
                body,
                &config.agent_token,
            ))
        }
        Err(error) => Err(config.agent_token.hide_in(&error.to_string())),
    }
}

/// Reads messages for this time and returns their number. Pings are answered, everything else is ignored.
fn receive(socket: &mut Socket, time: Duration) -> Result<usize, String> {
    let mut received = 0;
    socket.get_mut().set_limit(time);
    while received <= MAX_MESSAGES {
        match socket.read() {
            Ok(Message::Close(_)) => return Err("the board closed the connection".to_owned()),
            Ok(_) => received += 1,
            Err(tungstenite::Error::Io(error)) if is_timeout(&error) => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    // Sends the answers to pings.
    socket.get_mut().set_limit(SEND_LIMIT);
    socket.flush().map_err(|error| error.to_string())?;
    Ok(received)
}

fn close(socket: &mut Socket) {
    socket.get_mut().set_limit(CLOSE_WAIT);
    let frame = CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    };
    let _ = socket.close(Some(frame));
    let _ = socket.get_mut().flush();
}

#[cfg(test)]
mod tests {
    use gua_probe::probe::ProbeOptions;
    use gua_settings::Proxies;
    use gua_wire::server_url::Unencrypted;

    use super::*;
    use crate::board::{CloudFile, ConnectOptions};

    #[test]
    fn a_board_that_accepts_and_drops_is_retried_with_growing_delays() {
        let (_running, end) = std::sync::mpsc::channel();
        let options = ConnectOptions {
            unencrypted: Unencrypted::LoopbackOnly,
            ca_file: None,
            pin: None,
            proxies: Proxies::default(),
        };
        let mut stream = Stream {
            enrolment: Enrolment::new(CloudFile::at("/nowhere"), options),
            reader: Reader::new(ReaderOptions::this_program(
                ProbeOptions::default(),
                FIRST_DELAY,
            )),
            end,
            retry: Retry::new(FIRST_DELAY, MAX_DELAY),
            was_logged: false,
            changed: Box::new(|_| {}),
        };
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            stream.connected();
            stream.lost("the board closed the connection");
            let delay = stream.retry.remaining(clock::monotonic()).unwrap();
            // Up to half of it is added at random, and a little time has passed.
            let least = Duration::from_secs(seconds) * 9 / 10;
            assert!(
                delay > least && delay <= least * 5 / 3,
                "{seconds}: {delay:?}"
            );
        }
        assert_eq!(stream.retry.succeeded(), Some(7), "one fault");
    }
}
