//! The thread that keeps the link to the board: it sends the latest state, leaves a board alone that fails, and puts aside
//! what could not be sent. It never waits for a server itself, so that at the end nothing is lost that was to be kept.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gua_probe::clock;
use gua_wire::snapshot::LeftOut;

use super::backoff::RetryDelay;
use super::enrolment::{Enrolled, Enrolment, EnrolmentError};
use super::latest_slot::{LatestSlot, Taken};
use super::link_state::{LinkFiles, LinkState, Peer, StreamState};
use super::push::{AgentIdentity, EncodedPush, Push};
use super::push_worker::{Answer, PushWorker};
use super::spool::{Recipient, Spool};
use crate::chain::chain;
use crate::failure_log::FailureLog;

/// The pause after a first failure, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often the file for `gua status` is written while nothing changes but the time of the last push.
const STATE_PERIOD: Duration = Duration::from_secs(5);
/// How long the end waits for the answer to a push that is on its way.
pub(super) const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Writes one line to the log. It is called by threads beside the loop.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// What a pusher is given.
pub(super) struct Link {
    pub(super) slot: Arc<LatestSlot<Push>>,
    pub(super) worker: PushWorker,
    pub(super) enrolment: Enrolment,
    pub(super) identity: AgentIdentity,
    pub(super) spool: Option<Spool>,
    /// Why there is none where one is wished.
    pub(super) spool_trouble: Option<String>,
    pub(super) place: LinkFiles,
    /// Whether the stream is connected; `None` where there is none.
    pub(super) is_streaming: Option<Arc<AtomicBool>>,
    pub(super) say: Say,
}

pub(super) struct Pusher {
    link: Link,
    state: LinkState,
    state_written: Option<Duration>,
    /// Whether more is known than was written.
    has_news: bool,
    /// What was written of the stream.
    stream_written: Option<bool>,
    pause: RetryDelay,
    unsent: Option<EncodedPush>,
    carried: Option<Carried>,
    told: FailureLog,
    /// What the log knows of the spool's troubles, and what lasts of them.
    told_of_spool: FailureLog,
    spool_trouble: Option<String>,
    /// The cards that were told to be left out.
    left_out: Vec<LeftOut>,
}

/// What is on its way.
enum Carried {
    Latest(EncodedPush),
    /// By its name in the spool.
    Spooled(String),
    /// To a board at which this host is enrolled no more.
    Stray,
}

impl Pusher {
    pub(super) fn new(link: Link) -> Self {
        Self {
            link,
            state: LinkState::default(),
            state_written: None,
            has_news: false,
            stream_written: None,
            pause: RetryDelay::new(FIRST_PAUSE, LONGEST_PAUSE),
            unsent: None,
            carried: None,
            told: FailureLog::default(),
            told_of_spool: FailureLog::default(),
            spool_trouble: None,
            left_out: Vec::new(),
        }
    }

    /// Until the slot is closed and empty.
    pub(super) fn run(mut self) {
        if let Some(why) = self.link.spool_trouble.take() {
            self.spool_failed(&why);
        }
        loop {
            match self.link.slot.take(self.patience()) {
                Taken::Push(letter) => self.receive(&letter),
                Taken::Nothing => {}
                Taken::Closed => break,
            }
            if let Some(answer) = self.link.worker.answer() {
                self.answered(answer);
            }
            if self.may_send() && !self.send_latest() {
                self.send_spooled();
            }
            // The next push may be an hour away.
            if self.is_streaming() != self.stream_written {
                self.write_state();
            } else if self.has_news {
                self.write_state_if_due();
            }
        }
        self.end();
    }

    /// What is left is sent where the board answers, and put aside otherwise. A board that fails is not asked again.
    fn end(mut self) {
        let until = clock::monotonic().saturating_add(LAST_PATIENCE);
        self.is_for_the_same();
        loop {
            if self.may_send() {
                self.send_latest();
            }
            if matches!(self.carried, None | Some(Carried::Stray)) {
                break;
            }
            let left = until.saturating_sub(clock::monotonic());
            match self.link.worker.answer_within(left) {
                Some(answer) => self.answered(answer),
                None => break,
            }
        }
        // It may arrive still. Without an answer it counts as missed: rather twice than never.
        if let Some(Carried::Latest(unsent)) = self.carried.take() {
            self.put_aside(&unsent);
        }
        if let Some(unsent) = self.unsent.take() {
            self.put_aside(&unsent);
        }
        self.link.is_streaming = None;
        self.spool_trouble = None;
        self.write_state();
    }

    fn may_send(&self) -> bool {
        self.carried.is_none() && self.pause.remaining(clock::monotonic()).is_none()
    }

    /// How long the next letter is waited for: until there is something else to do, or for good. An answer wakes us.
    fn patience(&self) -> Option<Duration> {
        let is_spooled = self.link.spool.as_ref().is_some_and(|one| !one.is_empty());
        let has_work = self.carried.is_none() && (self.unsent.is_some() || is_spooled);
        let now = clock::monotonic();
        let until_work = has_work.then(|| self.pause.remaining(now).unwrap_or_default());
        let until_written = self.has_news.then(|| self.state_due_in(now));
        until_work.into_iter().chain(until_written).min()
    }

    /// Whether what is at hand is for the one at whom this host is enrolled now. What was for another is dropped.
    fn is_for_the_same(&mut self) -> bool {
        let before = self.state.peer.clone();
        match self.link.enrolment.current() {
            Ok(enrolled) => self.meet(&enrolled),
            Err(error) if error.is_missing() => self.nobody_to_tell(&error),
            // It may be mended.
            Err(_) => {}
        }
        self.state.peer == before
    }

    /// Writes the push down. What was not sent before is older, and put aside.
    fn receive(&mut self, letter: &Push) {
        let enrolled = match self.link.enrolment.current() {
            Ok(enrolled) => enrolled,
            Err(error) => return self.nobody_to_tell(&error),
        };
        self.meet(&enrolled);
        if let Some(older) = self.unsent.take() {
            self.put_aside(&older);
        }
        let (unsent, left_out) = letter.write(&enrolled.config, &self.link.identity);
        self.note_left_out(left_out);
        self.unsent = Some(unsent);
    }

    /// Sees whether the board, and who we are there, are those of before. What was meant for others is not sent.
    fn meet(&mut self, enrolled: &Enrolled) {
        let fresh = LinkState::new(&enrolled.config);
        if self.state.peer != fresh.peer {
            if self.state.peer != Peer::default() {
                self.unsent = None;
                self.carried = self.carried.take().map(|_| Carried::Stray);
                self.pause.succeeded();
                self.told = FailureLog::default();
            }
            // A daemon that starts again knows what the one before it knew.
            self.state = self.link.place.read(&fresh.peer).unwrap_or_default();
            self.state.peer = fresh.peer;
            self.state_written = None;
            self.has_news = true;
        }
        self.state.display_name = fresh.display_name;
        let to = Recipient::new(&enrolled.config, &self.link.identity.users);
        let Some(spool) = &mut self.link.spool else {
            return;
        };
        match spool.address(&to) {
            Ok(0) => {}
            Ok(dropped) => (self.link.say)(&format!(
                "board: {dropped} missed pushes were dropped: they were kept for another board, host or setting of cloud.users"
            )),
            Err(error) => self.spool_failed(&chain(&error)),
        }
    }

    /// Pushes go on without it.
    fn spool_failed(&mut self, why: &str) {
        let why = gua_model::text::sanitize(why);
        if self.told_of_spool.is_news(&why) {
            (self.link.say)(&format!("board: missed pushes are dropped: {why}"));
            self.has_news = true;
        }
        self.spool_trouble = Some(why);
    }

    /// Cards that have no place in a push are named when that begins or changes.
    fn note_left_out(&mut self, left_out: Vec<LeftOut>) {
        for card in &left_out {
            if !self.left_out.contains(card) {
                let LeftOut { index, why } = card;
                (self.link.say)(&format!("board: gpu {index} is not told: {why}"));
            }
        }
        self.left_out = left_out;
    }

    /// Hands the latest state over, if it was not; says whether there was one.
    fn send_latest(&mut self) -> bool {
        if self.unsent.is_none() {
            return false;
        }
        if let Some(enrolled) = self.addressed()
            && let Some(unsent) = self.unsent.take()
        {
            let body = unsent.body.clone();
            self.carried = Some(Carried::Latest(unsent));
            self.link.worker.carry(enrolled, body);
        }
        true
    }

    /// One of those that wait on disk; a new letter goes before the next.
    fn send_spooled(&mut self) {
        let is_empty = self.link.spool.as_ref().is_none_or(Spool::is_empty);
        if is_empty {
            return;
        }
        if let Some(enrolled) = self.addressed()
            && let Some((name, body)) = self.link.spool.as_mut().and_then(Spool::oldest)
        {
            self.carried = Some(Carried::Spooled(name));
            self.link.worker.carry(enrolled, body);
        }
    }

    /// Whom to send to now. What waits is for this one.
    fn addressed(&mut self) -> Option<Arc<Enrolled>> {
        match self.link.enrolment.current() {
            Ok(enrolled) => {
                self.meet(&enrolled);
                Some(enrolled)
            }
            Err(error) => {
                self.pause.failed(clock::monotonic());
                self.nobody_to_tell(&error);
                None
            }
        }
    }

    fn answered(&mut self, answer: Answer) {
        let Some(carried) = self.carried.take() else {
            return;
        };
        let may_pass = answer.as_ref().is_err_and(|error| error.may_pass());
        match carried {
            Carried::Stray => return,
            Carried::Latest(unsent) if may_pass => match self.unsent {
                None => self.unsent = Some(unsent),
                Some(_) => self.put_aside(&unsent),
            },
            Carried::Spooled(name) if !may_pass => {
                if let Some(spool) = &mut self.link.spool {
                    spool.forget(&name);
                }
            }
            // Taken or refused for good; or on disk until it is taken.
            Carried::Latest(_) | Carried::Spooled(_) => {}
        }
        match answer {
            Ok(()) => self.succeeded(),
            Err(error) => self.failed(&chain(&error)),
        }
    }

    /// What is not sent waits on disk, where that is wished.
    fn put_aside(&mut self, unsent: &EncodedPush) {
        if self.link.spool.is_some()
            && self.is_for_the_same()
            && let Some(spool) = &mut self.link.spool
        {
            match spool.keep(unsent.at, &unsent.body) {
                Ok(()) => {
                    self.told_of_spool = FailureLog::default();
                    self.spool_trouble = None;
                }
                Err(error) => self.spool_failed(&chain(&error)),
            }
        }
    }

    fn succeeded(&mut self) {
        self.pause.succeeded();
        if self.state.last_push.is_none() {
            self.state_written = None;
        }
        self.state.succeeded(clock::now());
        if let Some(failures) = self.told.over() {
            (self.link.say)(&format!(
                "board: it takes pushes again after {failures} failed attempts"
            ));
            self.state_written = None;
        }
        self.write_state_if_due();
    }

    fn failed(&mut self, why: &str) {
        self.pause.failed(clock::monotonic());
        self.tell(why, "gua tries again");
    }

    /// Nothing is sent any more. Where this host is enrolled no more, nothing is kept for later either.
    fn nobody_to_tell(&mut self, error: &EnrolmentError) {
        let why = chain(error);
        if !error.is_missing() {
            return self.tell(&why, "nothing is sent");
        }
        self.unsent = None;
        self.carried = self.carried.take().map(|_| Carried::Stray);
        let dropped = self.link.spool.as_mut().map_or(0, Spool::clear);
        // Whoever removed the enrolment has removed this too, but we may have written since.
        let LinkState { peer, .. } = std::mem::take(&mut self.state);
        let of_peer = (peer != Peer::default()).then_some(&peer);
        self.link.place.forget(of_peer);
        self.has_news = false;
        let dropped = match dropped {
            0 => String::new(),
            some => format!("; {some} missed pushes were dropped"),
        };
        if self.told.is_news(&why) {
            (self.link.say)(&format!(
                "board: {why}; the history goes on, and nothing is sent{dropped}"
            ));
        }
    }

    /// One line for each kind of failure, and the state for `gua status`.
    fn tell(&mut self, why: &str, then: &str) {
        let why = gua_model::text::sanitize(why);
        self.state.failed(clock::now(), why.clone());
        if self.told.is_news(&why) {
            (self.link.say)(&format!("board: {why}; the history goes on, and {then}"));
            self.state_written = None;
        }
        self.write_state_if_due();
    }

    fn write_state_if_due(&mut self) {
        self.has_news = true;
        if self.state_due_in(clock::monotonic()).is_zero() {
            self.write_state();
        }
    }

    fn state_due_in(&self, now: Duration) -> Duration {
        let due = |written: Duration| written.saturating_add(STATE_PERIOD).saturating_sub(now);
        self.state_written.map(due).unwrap_or_default()
    }

    fn is_streaming(&self) -> Option<bool> {
        let flag = self.link.is_streaming.as_ref();
        flag.map(|flag| flag.load(Ordering::Relaxed))
    }

    /// A disk that does not take it is no reason to stop; the log says the same. Of nobody there is nothing to be known.
    fn write_state(&mut self) {
        self.has_news = false;
        self.stream_written = self.is_streaming();
        if self.state.peer == Peer::default() || !self.is_for_the_same() {
            return;
        }
        self.state_written = Some(clock::monotonic());
        self.state.stream = self.stream_written.and_then(StreamState::of_this_process);
        let dropped = self.link.spool.as_mut().map(Spool::take_dropped);
        self.state.dropped += dropped.unwrap_or_default();
        self.state.spool_trouble = self.spool_trouble.clone();
        let _: io::Result<()> = self.link.place.write(&self.state);
        // The enrolment may have gone between the look and the writing.
        self.is_for_the_same();
    }
}
