//! The stream: the utilisation of each card, each second, through one WebSocket. It has a thread and a reader child of its
//! own, and survives whatever the board, the network and the driver do.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use gua_probe::clock;
use gua_probe::reader::{Reader, ReaderOptions};
use gua_wire::refusal::sentence;
use gua_wire::server_url::STREAM;
use gua_wire::stream::UtilFrame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tungstenite::client::{IntoClientRequest as _, client_with_config};
use tungstenite::http::HeaderValue;
use tungstenite::http::header::AUTHORIZATION;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tungstenite::{HandshakeError, Message, WebSocket};

use super::backoff::RetryDelay;
use super::connection::{Connection, Deadline, Limits, overdue};
use super::enrolment::{Enrolled, Enrolment};
use super::pusher::Say;
use crate::chain::chain;
use crate::failure_log::FailureLog;

/// The time from one frame to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// A board that takes a frame no faster than this is as good as away.
const SEND_LIMIT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A connection that has lasted so long is there again.
const HOLDS: Duration = Duration::from_secs(10);
/// How long the end of the daemon waits for a farewell.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// A board has nothing to say that is longer.
const LONGEST_MESSAGE: usize = 64 * 1024;
/// So many messages are taken in at a time; then it is looked whether there is something else to do.
const AT_A_TIME: usize = 16;
/// A board that says more from one frame to the next only keeps us busy. Those that people use send a ping now and then.
const MOST_MESSAGES: usize = 256;
/// The same for what never becomes a message.
const MOST_BYTES: u64 = 4 * LONGEST_MESSAGE as u64;

/// The stream as the loop sees it: something that can be stopped.
pub(super) struct Streamer {
    /// Closing it wakes the thread.
    wake: UnixStream,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
    is_connected: Arc<AtomicBool>,
}

impl Streamer {
    /// Starts the thread, which calls `changed` when it is connected and when it is not any more.
    pub(super) fn start(
        enrolment: Enrolment,
        reader: ReaderOptions,
        say: Say,
        changed: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (wake, stop) = UnixStream::pair()?;
        let (alive, ended) = sync_channel(0);
        let is_connected = Arc::new(AtomicBool::new(false));
        let connected = Arc::clone(&is_connected);
        thread::Builder::new()
            .name("gua-stream".to_owned())
            .spawn(move || {
                let stream = Stream {
                    enrolment,
                    reader: Reader::new(reader),
                    stop,
                    say,
                    pause: RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE),
                    told: FailureLog::default(),
                    is_known: false,
                    is_connected: connected,
                    changed: Box::new(changed),
                };
                stream.run();
                drop(alive);
            })?;
        Ok(Self {
            wake,
            ended,
            is_connected,
        })
    }

    pub(super) fn is_connected(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_connected)
    }

    /// Says farewell to the board, if that is quick.
    pub(super) fn stop(self) {
        drop(self.wake);
        let _ = self.ended.recv_timeout(LAST_PATIENCE);
    }
}

struct Stream {
    enrolment: Enrolment,
    reader: Reader,
    /// Has something to be read (its end) once the daemon stops.
    stop: UnixStream,
    say: Say,
    pause: RetryDelay,
    told: FailureLog,
    /// Whether the log knows of a connection.
    is_known: bool,
    is_connected: Arc<AtomicBool>,
    changed: Box<dyn Fn() + Send>,
}

/// Why a connection is over.
enum Over {
    Stopped,
    /// The enrolment is another, or gone.
    Moved,
    Lost(String),
}

type Socket = WebSocket<Connection>;

impl Stream {
    fn run(mut self) {
        loop {
            match self.connect() {
                Ok((mut socket, enrolled)) => {
                    self.connected();
                    let over = self.feed(&mut socket, &enrolled);
                    self.note(false);
                    match over {
                        Over::Stopped => return farewell(&mut socket),
                        // The next attempt finds out where to go now.
                        Over::Moved => farewell(&mut socket),
                        Over::Lost(why) => self.lost(&why),
                    }
                }
                Err(why) => self.lost(&why),
            }
            let rest = self.pause.remaining(clock::monotonic());
            if self.sleep(rest.unwrap_or_default()) == Woken::Stop {
                return;
            }
        }
    }

    fn connect(&mut self) -> Result<(Socket, Arc<Enrolled>), String> {
        let enrolled = self.enrolment.current().map_err(|error| chain(&error))?;
        let way = enrolled.client.way();
        let line = way.open(Limits::CALL).map_err(|error| chain(&error))?;
        Ok((handshake(line, &enrolled)?, enrolled))
    }

    fn connected(&mut self) {
        self.pause.succeeded();
        self.note(true);
        if !std::mem::replace(&mut self.is_known, true) {
            self.told = FailureLog::default();
            (self.say)("stream connected");
        }
    }

    fn note(&self, is_connected: bool) {
        self.is_connected.store(is_connected, Ordering::Relaxed);
        (self.changed)();
    }

    fn lost(&mut self, why: &str) {
        self.pause.failed(clock::monotonic());
        let why = gua_model::text::sanitize(why);
        if self.told.is_news(&why) {
            (self.say)(&format!("stream lost: {why}; gua tries again"));
        }
    }

    /// A frame each second, until the connection is lost, the enrolment is another, or the daemon stops.
    fn feed(&mut self, socket: &mut Socket, enrolled: &Arc<Enrolled>) -> Over {
        // What came with the handshake is in a buffer already, and would wake nobody.
        let mut heard = match hear(socket) {
            Ok(heard) => heard,
            Err(why) => return Over::Lost(why),
        };
        let mut is_behind = heard == AT_A_TIME;
        let began = clock::monotonic();
        let mut due = began;
        let mut taken = socket.get_ref().taken();
        loop {
            let now = clock::monotonic();
            // A connection that is dropped again and again is told once, and that it is back when it holds.
            if !self.told.is_empty() && now.saturating_sub(began) > HOLDS {
                let failures = self.told.over().unwrap_or_default();
                (self.say)(&format!("stream connected again after {failures} failures"));
            }
            if now >= due {
                if !self.is_still(enrolled) {
                    return Over::Moved;
                }
                if let Err(why) = self.send(socket) {
                    return Over::Lost(why);
                }
                // After a driver that took long there is no burst.
                due = (due + PERIOD).max(clock::monotonic());
                heard = 0;
                taken = socket.get_ref().taken();
            }
            // Also when the next frame is due already: a slow driver must not make us deaf. What is left of a burst lies in
            // a buffer, and wakes nobody.
            let rest = match is_behind {
                true => Duration::ZERO,
                false => due.saturating_sub(clock::monotonic()),
            };
            match self.wait(socket.get_ref().as_fd(), rest) {
                Woken::Stop => return Over::Stopped,
                Woken::Time if !is_behind => {}
                Woken::Time | Woken::Board => match hear(socket) {
                    Ok(more) => {
                        heard += more;
                        is_behind = more == AT_A_TIME;
                    }
                    Err(why) => return Over::Lost(why),
                },
            }
            if heard > MOST_MESSAGES || socket.get_ref().taken() - taken > MOST_BYTES {
                return Over::Lost("the board talks without pause".to_owned());
            }
        }
    }

    /// Whether this host is still enrolled where the stream goes.
    fn is_still(&mut self, enrolled: &Arc<Enrolled>) -> bool {
        let now = self.enrolment.current();
        now.is_ok_and(|now| Arc::ptr_eq(&now, enrolled) || now.config == enrolled.config)
    }

    /// A driver that does not answer costs a frame.
    fn send(&mut self, socket: &mut Socket) -> Result<(), String> {
        let Ok(sample) = self.reader.sample() else {
            return Ok(());
        };
        let frame = UtilFrame::of(&sample).text();
        allow(socket, SEND_LIMIT);
        socket
            .send(Message::text(frame))
            .map_err(|error| error.to_string())
    }

    fn sleep(&self, length: Duration) -> Woken {
        let mut inputs = [PollFd::new(&self.stop, PollFlags::IN)];
        let heard = wait_for(&mut inputs, length);
        if heard && !inputs[0].revents().is_empty() {
            Woken::Stop
        } else {
            Woken::Time
        }
    }

    fn wait(&self, board: BorrowedFd<'_>, length: Duration) -> Woken {
        let mut inputs = [
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::from_borrowed_fd(board, PollFlags::IN),
        ];
        if !wait_for(&mut inputs, length) {
            return Woken::Time;
        }
        match inputs.map(|input| !input.revents().is_empty()) {
            [true, _] => Woken::Stop,
            [_, true] => Woken::Board,
            _ => Woken::Time,
        }
    }
}

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Time,
    Board,
    Stop,
}

/// Whether something came within the time.
fn wait_for(inputs: &mut [PollFd<'_>], length: Duration) -> bool {
    let length = Timespec::try_from(length).ok();
    matches!(poll(inputs, length.as_ref()), Ok(1..))
}

fn handshake(line: Connection, enrolled: &Enrolled) -> Result<Socket, String> {
    let config = &enrolled.config;
    let request = config.server_url.websocket_at(STREAM).into_client_request();
    let mut request = request.map_err(|error| error.to_string())?;
    let mut bearer = HeaderValue::from_str(&config.agent_token.bearer())
        .map_err(|_| "the token does not fit a header".to_owned())?;
    bearer.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let limits = WebSocketConfig::default()
        .max_message_size(Some(LONGEST_MESSAGE))
        .max_frame_size(Some(LONGEST_MESSAGE));
    match client_with_config(request, line, Some(limits)) {
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

/// Takes in what the board has sent, up to a bound, and says how many messages that was: its pings are answered, its words
/// are not read.
fn hear(socket: &mut Socket) -> Result<usize, String> {
    let mut heard = 0;
    while heard < AT_A_TIME {
        // What is there is there; nothing is waited for.
        allow(socket, Duration::from_millis(1));
        match socket.read() {
            Ok(Message::Close(_)) => return Err("the board closed it".to_owned()),
            Ok(_) => heard += 1,
            Err(tungstenite::Error::Io(error)) if overdue(&error).is_some() => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    // The answers to pings.
    allow(socket, SEND_LIMIT);
    match socket.flush() {
        Ok(()) => Ok(heard),
        Err(error) => Err(error.to_string()),
    }
}

fn farewell(socket: &mut Socket) {
    allow(socket, LAST_PATIENCE);
    let word = CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    };
    let _ = socket.close(Some(word));
    let _ = socket.get_mut().flush();
}

fn allow(socket: &mut Socket, time: Duration) {
    let until = Deadline::after(clock::monotonic(), time);
    socket.get_mut().allow(until, time);
}
