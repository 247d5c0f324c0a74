//! The thread that keeps the link to the board: pushes the latest state, backs off after failures and spools what could
//! not be pushed. It never waits for a server itself, so nothing that should be spooled is lost when the daemon ends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use gua_model::chain::chain;
use gua_model::failure_log::{FailureLog, OpenFaults};
use gua_model::text::sanitize;
use gua_probe::clock;
use gua_wire::snapshot::LeftOut;
use tracing::{info, warn};

use super::client::CallError;
use super::enrolment::{Enrolled, Enrolment, EnrolmentError};
use super::link_state::{LinkFiles, LinkState, Peer, StreamState};
use super::live::LiveReporter;
use super::push::{EncodedPush, Push};
use super::retry::Retry;
use super::spool::{Recipient, Spool};

/// Delay after the first failure, and the longest delay.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Minimum time between two writes of the state file while only the time of the last push changes.
const STATE_PERIOD: Duration = Duration::from_secs(5);
/// Maximum time to wait at the end for the result of a push in flight.
pub(super) const FINAL_WAIT: Duration = Duration::from_secs(2);

/// Event that a [`Pusher`] handles.
pub(super) enum Event {
    Tick(Push),
    /// The push in flight has ended.
    Sent(Result<(), CallError>),
    /// The stream has connected or disconnected.
    StreamConnected(bool),
    /// The daemon ends.
    Close,
}

/// Maximum number of events that wait for the pusher, which only waits for the disk.
pub(super) const MAX_EVENTS: usize = 256;

/// The end of the pusher's queue that other threads have.
pub(super) type Events = SyncSender<Event>;

pub(super) struct Pusher {
    enrolment: Enrolment,
    live: Arc<LiveReporter>,
    /// `None` if it is disabled or cannot be opened.
    spool: Option<Spool>,
    files: LinkFiles,
    /// Whether the stream is connected; `None` after the end of the stream.
    is_streaming: Option<bool>,
    events: Receiver<Event>,
    /// For the results of pushes.
    sent: Events,
    state: LinkState,
    /// Earliest time at which only the time of the last push is written again.
    next_write: Duration,
    /// Time at which the changed state is written; `None` if it has not changed.
    write_at: Option<Duration>,
    retry: Retry,
    unsent: Option<EncodedPush>,
    in_flight: Option<InFlight>,
    spool_failures: FailureLog,
    /// Why the spool does not work at the moment.
    spool_error: Option<String>,
    /// Pushes that failed because the enrolment cannot be used.
    unusable: FailureLog,
    /// Pushes that failed because there is no enrolment.
    not_enrolled: FailureLog,
    /// GPUs that are left out of the pushes.
    left_out: OpenFaults<LeftOut>,
}

/// Builds the live report that goes with a push, if there is one.
type Live = Box<dyn FnOnce() -> Option<String> + Send>;

/// Urgency of writing a changed state.
#[derive(Clone, Copy)]
enum Write {
    Now,
    /// After [`STATE_PERIOD`] since the last write.
    InTime,
}

/// The push that is being sent.
enum InFlight {
    Latest(EncodedPush),
    /// By its name in the spool.
    Spooled(String),
    /// A push to a board at which this host is not enrolled any more; its result is ignored.
    Abandoned,
}

impl Pusher {
    /// `sent` belongs to the same queue as `events`.
    pub(super) fn new(
        enrolment: Enrolment,
        live: Arc<LiveReporter>,
        events: Receiver<Event>,
        sent: Events,
    ) -> Self {
        let files = LinkFiles::new(enrolment.file.path(), &live.history);
        let max_bytes = live.settings.cloud.spool_mb.value * 1024 * 1024;
        let spool = (max_bytes > 0).then(|| Spool::open(&files.spools(), max_bytes));
        let mut pusher = Self {
            enrolment,
            live,
            spool: None,
            files,
            is_streaming: Some(false),
            events,
            sent,
            state: LinkState::default(),
            next_write: Duration::ZERO,
            write_at: None,
            retry: Retry::new(FIRST_DELAY, MAX_DELAY),
            unsent: None,
            in_flight: None,
            spool_failures: FailureLog::default(),
            spool_error: None,
            unusable: FailureLog::default(),
            not_enrolled: FailureLog::default(),
            left_out: OpenFaults::new(LeftOut::eq),
        };
        match spool.transpose() {
            Ok(spool) => pusher.spool = spool,
            Err(error) => pusher.spool_failed(&chain(&error)),
        }
        pusher
    }

    /// Runs until the daemon ends.
    pub(super) fn run(mut self) {
        loop {
            let event = match self.next_wakeup() {
                Some(wait) => self.events.recv_timeout(wait).ok(),
                None => self.events.recv().ok(),
            };
            match event {
                Some(Event::Tick(push)) => self.receive(&push),
                Some(Event::Sent(result)) => self.handle_result(result),
                // Does not wait for the next push, which may be an hour away.
                Some(Event::StreamConnected(is_connected)) => {
                    self.is_streaming = Some(is_connected);
                    self.write_soon(Write::Now);
                }
                None => {}
                Some(Event::Close) => break,
            }
            if self.may_send() && !self.send_latest() {
                self.send_spooled();
            }
            if self.write_at.is_some_and(|at| at <= clock::monotonic()) {
                self.write_state();
            }
        }
        self.finish();
    }

    /// Sends what is left if the board responds, and spools it otherwise. A failing board gets no further attempt.
    fn finish(mut self) {
        let until = clock::monotonic().saturating_add(FINAL_WAIT);
        self.is_peer_unchanged();
        loop {
            if self.may_send() {
                self.send_latest();
            }
            if matches!(self.in_flight, None | Some(InFlight::Abandoned)) {
                break;
            }
            let left = until.saturating_sub(clock::monotonic());
            match self.events.recv_timeout(left) {
                Ok(Event::Sent(result)) => self.handle_result(result),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        // Without a result the push counts as missed although it may still arrive: a duplicate is better than a loss.
        if let Some(InFlight::Latest(push)) = self.in_flight.take() {
            self.add_to_spool(&push);
        }
        if let Some(push) = self.unsent.take() {
            self.add_to_spool(&push);
        }
        self.is_streaming = None;
        self.spool_error = None;
        self.write_state();
    }

    fn may_send(&self) -> bool {
        self.in_flight.is_none() && self.retry.remaining(clock::monotonic()).is_none()
    }

    /// Maximum time to wait for the next push: until there is other work, or without limit. A result ends the wait.
    fn next_wakeup(&self) -> Option<Duration> {
        let is_spooled = self.spool.as_ref().is_some_and(|one| !one.is_empty());
        let has_work = self.in_flight.is_none() && (self.unsent.is_some() || is_spooled);
        let now = clock::monotonic();
        let until_work = has_work.then(|| self.retry.remaining(now).unwrap_or_default());
        let until_written = self.write_at.map(|at| at.saturating_sub(now));
        until_work.into_iter().chain(until_written).min()
    }

    /// Checks the enrolment and returns whether this host is still enrolled at the same board under the same id. Pushes
    /// for another peer are dropped.
    fn is_peer_unchanged(&mut self) -> bool {
        let before = self.state.peer.clone();
        match self.enrolment.current() {
            Ok(enrolled) => self.update_peer(&enrolled),
            Err(error) if error.is_missing() => self.no_enrolment(&error),
            // A damaged file may be repaired.
            Err(_) => {}
        }
        self.state.peer == before
    }

    /// Encodes a new push. An older one that was not sent goes to the spool.
    fn receive(&mut self, push: &Push) {
        let Some(enrolled) = self.enrolled() else {
            return;
        };
        if let Some(older) = self.unsent.take() {
            self.add_to_spool(&older);
        }
        let (encoded, left_out) = push.encode(&enrolled.config, &self.live);
        self.left_out.update(&left_out, |gpu, pushes| match pushes {
            Some(pushes) => {
                info!(gpu = gpu.index, pushes, error = %gpu.why, "GPU no longer left out of pushes");
            }
            None => warn!(gpu = gpu.index, error = %gpu.why, "GPU left out of pushes"),
        });
        self.unsent = Some(encoded);
    }

    /// Follows a change of the board or of this host's id there. Pushes for the previous peer are not sent.
    fn update_peer(&mut self, enrolled: &Enrolled) {
        if let Some(failures) = self.not_enrolled.end().or(self.unusable.end()) {
            info!(failures, "host is enrolled again");
        }
        let fresh = LinkState::new(&enrolled.config);
        if self.state.peer != fresh.peer {
            if self.state.peer != Peer::default() {
                self.unsent = None;
                self.in_flight = self.in_flight.take().map(|_| InFlight::Abandoned);
                if let Some(failures) = self.retry.succeeded() {
                    info!(failures, "the enrolment has changed; pushes start again");
                }
            }
            // A restarted daemon continues with the state of its predecessor.
            self.state = self.files.read(&fresh.peer).unwrap_or_default();
            self.state.peer = fresh.peer;
            self.write_soon(Write::Now);
        }
        self.state.display_name = fresh.display_name;
        let recipient = Recipient::new(&enrolled.config, &self.live.users);
        let Some(spool) = &mut self.spool else {
            return;
        };
        match spool.set_recipient(&recipient) {
            Ok(0) => {}
            Ok(dropped) => info!(
                dropped,
                "dropped missed pushes for another board, host or setting of cloud.users"
            ),
            Err(error) => self.spool_failed(&chain(&error)),
        }
    }

    /// Records a failure of the spool. Pushes continue without it.
    fn spool_failed(&mut self, error: &str) {
        let error = sanitize(error);
        if self.spool_failures.add() {
            warn!(error, "cannot spool missed pushes; they are dropped");
            self.write_soon(Write::InTime);
        }
        self.spool_error = Some(error);
    }

    /// Sends the latest state, if there is an unsent one; returns whether there was.
    fn send_latest(&mut self) -> bool {
        if self.unsent.is_none() {
            return false;
        }
        self.send(|pusher| {
            let push = pusher.unsent.take()?;
            let reporter = Arc::clone(&pusher.live);
            let (at, sample) = (push.at, push.sample.clone());
            let live = move || Some(reporter.body(at, sample.as_deref()));
            Some((
                push.body.clone(),
                Box::new(live) as _,
                InFlight::Latest(push),
            ))
        });
        true
    }

    /// Sends one push of the spool; a new push takes precedence over the next one.
    fn send_spooled(&mut self) {
        let is_empty = self.spool.as_ref().is_none_or(Spool::is_empty);
        if is_empty {
            return;
        }
        self.send(|pusher| {
            let (name, body) = pusher.spool.as_mut()?.oldest()?;
            // A live report states the present, so there is none for the past.
            Some((body, Box::new(|| None) as _, InFlight::Spooled(name)))
        });
    }

    /// Sends the push that `take` returns, if this host is enrolled: a change of peer can drop the push.
    fn send(&mut self, take: impl FnOnce(&mut Self) -> Option<(String, Live, InFlight)>) {
        let Some(enrolled) = self.enrolled() else {
            return self.retry.back_off(clock::monotonic());
        };
        let Some((body, live, what)) = take(self) else {
            return;
        };
        self.in_flight = Some(what);
        let push = move || enrolled.push(&body, live);
        if let Err(error) = in_background(push, self.sent.clone()) {
            self.handle_result(Err(CallError::Broken(error)));
        }
    }

    /// The current enrolment, after a change of peer was handled.
    fn enrolled(&mut self) -> Option<Arc<Enrolled>> {
        match self.enrolment.current() {
            Ok(enrolled) => {
                self.update_peer(&enrolled);
                Some(enrolled)
            }
            Err(error) => {
                self.no_enrolment(&error);
                None
            }
        }
    }

    fn handle_result(&mut self, result: Result<(), CallError>) {
        let Some(in_flight) = self.in_flight.take() else {
            return;
        };
        let is_retryable = result.as_ref().is_err_and(|error| error.is_retryable());
        match in_flight {
            InFlight::Abandoned => return,
            InFlight::Latest(push) if is_retryable => match self.unsent {
                None => self.unsent = Some(push),
                Some(_) => self.add_to_spool(&push),
            },
            InFlight::Spooled(name) if !is_retryable => {
                if let Some(spool) = &mut self.spool {
                    spool.remove(&name);
                }
            }
            // Accepted, or permanently rejected; or still in the spool.
            InFlight::Latest(_) | InFlight::Spooled(_) => {}
        }
        match result {
            Ok(()) => self.succeeded(),
            Err(error) => {
                let error = chain(&error);
                let new = self.retry.failed(clock::monotonic(), &error);
                self.record_failure(&error, new.is_some());
                if let Some(error) = new {
                    warn!(error, "board push failed");
                }
            }
        }
    }

    /// Stores a missed push in the spool, if there is one.
    fn add_to_spool(&mut self, push: &EncodedPush) {
        if self.spool.is_some()
            && self.is_peer_unchanged()
            && let Some(spool) = &mut self.spool
        {
            match spool.add(push.at, &push.body) {
                Ok(()) => {
                    if let Some(failures) = self.spool_failures.end() {
                        info!(failures, "missed pushes are spooled again");
                    }
                    self.spool_error = None;
                }
                Err(error) => self.spool_failed(&chain(&error)),
            }
        }
    }

    fn succeeded(&mut self) {
        let failures = self.retry.succeeded();
        let is_first = self.state.last_push.is_none();
        self.state.succeeded(clock::now());
        if let Some(failures) = failures {
            info!(failures, "board accepts pushes again");
        }
        self.write_soon(match failures.is_some() || is_first {
            true => Write::Now,
            false => Write::InTime,
        });
    }

    /// Handles an unusable enrolment. If it was removed, nothing is kept for later either.
    fn no_enrolment(&mut self, error: &EnrolmentError) {
        let why = chain(error);
        if !error.is_missing() {
            let is_new = self.unusable.add();
            self.record_failure(&why, is_new);
            if is_new {
                let error = sanitize(&why);
                warn!(error, "board enrolment unusable; nothing is pushed");
            }
            return;
        }
        self.unsent = None;
        self.in_flight = self.in_flight.take().map(|_| InFlight::Abandoned);
        let dropped = self.spool.as_mut().map_or(0, Spool::clear);
        // `gua unenroll` removes the state files too, but this thread may have written them again since.
        let LinkState { peer, .. } = std::mem::take(&mut self.state);
        let peer = (peer != Peer::default()).then_some(&peer);
        self.files.remove(peer);
        self.write_at = None;
        if self.not_enrolled.add() {
            warn!(
                error = sanitize(&why),
                dropped, "host is no longer enrolled; nothing is pushed"
            );
        }
    }

    /// Updates the state for `gua status`.
    fn record_failure(&mut self, error: &str, is_new: bool) {
        self.state.failed(clock::now(), sanitize(error));
        self.write_soon(match is_new {
            true => Write::Now,
            false => Write::InTime,
        });
    }

    fn write_soon(&mut self, when: Write) {
        self.write_at = Some(match when {
            Write::Now => Duration::ZERO,
            Write::InTime => self.write_at.unwrap_or(self.next_write),
        });
    }

    /// Writes the state file, except for a host that is not enrolled. A write error is ignored: the log has the same.
    fn write_state(&mut self) {
        self.write_at = None;
        if self.state.peer == Peer::default() || !self.is_peer_unchanged() {
            return;
        }
        self.next_write = clock::monotonic() + STATE_PERIOD;
        let stream = self.is_streaming;
        self.state.stream = stream.and_then(StreamState::of_this_process);
        let dropped = self.spool.as_mut().map(Spool::take_dropped);
        self.state.dropped += dropped.unwrap_or_default();
        self.state.spool_error = self.spool_error.clone();
        let _: io::Result<()> = self.files.store(&self.state);
        // Removes the file again if the enrolment was removed during the write.
        self.is_peer_unchanged();
    }
}

/// Pushes on a thread that reports the result, so that a silent server blocks nothing else. The thread is abandoned if the
/// daemon ends first.
fn in_background(
    push: impl FnOnce() -> Result<(), CallError> + Send + 'static,
    sent: Events,
) -> io::Result<()> {
    let work = move || {
        // Without a result, nothing would be sent any more. No state of a push that panics is used again.
        let result = catch_unwind(AssertUnwindSafe(push));
        let _ = sent.send(Event::Sent(result.unwrap_or(Err(CallError::Panicked))));
    };
    let thread = thread::Builder::new().name("gua-push".to_owned());
    thread.spawn(work).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_push_that_panics_is_a_failure() {
        let (sent, events) = sync_channel(1);
        let result = |push: fn() -> Result<(), CallError>| {
            in_background(push, sent.clone()).unwrap();
            match events.recv().unwrap() {
                Event::Sent(result) => result,
                _ => unreachable!("nothing else is sent"),
            }
        };
        assert!(result(|| Ok(())).is_ok());
        let error = result(|| panic!("bad push")).unwrap_err();
        assert!(error.is_retryable());
        assert_eq!(error.to_string(), "internal error: the push panicked");
        assert!(result(|| Ok(())).is_ok());
    }
}
