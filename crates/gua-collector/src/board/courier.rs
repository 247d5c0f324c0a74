//! The thread that speaks to the board. It sends the latest state, leaves a board alone that fails, and is waited for by
//! nobody: whatever a server does, ticks go on.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gua_model::Sample;
use gua_probe::clock;
use gua_wire::Snapshot;
use gua_wire::snapshot::{About, ErrorCode, Form, LeftOut, Observed, UsageStates};
use gua_wire::users::UserPolicy;
use jiff::Timestamp;

use super::client::CallError;
use super::enrolment::{Enrolled, Enrolment};
use super::link_state::LinkState;
use super::mailbox::{Mailbox, Taken};
use super::pause::Pause;
use super::spool::Spool;
use super::told::Told;
use crate::chain::chain;

/// The pause after a first failure, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often the file for `gua status` is written while nothing changes but the time of the last push.
const STATE_PERIOD: Duration = Duration::from_secs(5);

/// Writes one line to the log. It is called by threads beside the loop.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// What a tick came to.
#[derive(Debug)]
pub(super) enum Letter {
    Seen {
        sample: Box<Sample>,
        usage: UsageStates,
    },
    /// The driver could not be read.
    DriverFailed { at: Timestamp },
}

/// Who speaks, and how much is told.
#[derive(Clone, Debug)]
pub struct Speaker {
    pub hostname: String,
    pub agent_version: String,
    pub users: UserPolicy,
    pub form: Form,
}

/// A push that is written and not yet taken.
#[derive(Debug)]
struct Unsent {
    at: Timestamp,
    body: String,
}

/// What a courier is given.
pub(super) struct Link {
    pub(super) mailbox: Arc<Mailbox<Letter>>,
    pub(super) enrolment: Enrolment,
    pub(super) speaker: Speaker,
    pub(super) spool: Option<Spool>,
    /// The history, beside which the state of the link stands.
    pub(super) history: PathBuf,
    /// Whether the stream is connected; `None` where there is none.
    pub(super) is_streaming: Option<Arc<AtomicBool>>,
    pub(super) say: Say,
}

pub(super) struct Courier {
    mailbox: Arc<Mailbox<Letter>>,
    enrolment: Enrolment,
    speaker: Speaker,
    spool: Option<Spool>,
    history: PathBuf,
    say: Say,
    state: LinkState,
    state_written: Option<Duration>,
    pause: Pause,
    unsent: Option<Unsent>,
    told: Told,
    is_streaming: Option<Arc<AtomicBool>>,
    /// The cards that were told to be left out.
    left_out: Vec<LeftOut>,
}

impl Courier {
    pub(super) fn new(link: Link) -> Self {
        let Link {
            mailbox,
            enrolment,
            speaker,
            spool,
            history,
            is_streaming,
            say,
        } = link;
        Self {
            mailbox,
            enrolment,
            speaker,
            spool,
            history,
            say,
            state: LinkState {
                pid: std::process::id(),
                ..LinkState::default()
            },
            state_written: None,
            pause: Pause::new(FIRST_PAUSE, LONGEST_PAUSE),
            unsent: None,
            told: Told::default(),
            is_streaming,
            left_out: Vec::new(),
        }
    }

    /// Until the mailbox is closed and, where the board answers, empty.
    pub(super) fn run(mut self) {
        loop {
            match self.mailbox.take(self.patience()) {
                Taken::Letter(letter) => self.receive(&letter),
                Taken::Nothing => {}
                Taken::Closed => break,
            }
            if self.is_pausing() {
                // A board that fails is not asked again at the end.
                if self.mailbox.is_closed() {
                    break;
                }
            } else if self.unsent.is_some() {
                self.send_latest();
            } else {
                self.send_spooled();
            }
        }
        self.put_aside();
        self.write_state();
    }

    fn is_pausing(&self) -> bool {
        self.pause.remaining(clock::monotonic()).is_some()
    }

    /// How long the next letter is waited for: until there is something else to do, or for good.
    fn patience(&self) -> Option<Duration> {
        let has_work = self.unsent.is_some() || self.spooled() > 0;
        has_work.then(|| self.pause.remaining(clock::monotonic()).unwrap_or_default())
    }

    fn spooled(&self) -> usize {
        self.spool.as_ref().map_or(0, Spool::depth)
    }

    /// Writes the push down. What was not sent before is older, and put aside.
    fn receive(&mut self, letter: &Letter) {
        self.put_aside();
        match self.enrolment.current() {
            Ok(enrolled) => {
                self.state.board = enrolled.config.server_url.to_string();
                self.state.display_name = gua_model::text::harmless(&enrolled.config.display_name);
                let (at, body) = self.written(letter, &enrolled);
                self.unsent = Some(Unsent { at, body });
            }
            Err(error) => self.unenrolled(&chain(&error)),
        }
    }

    fn written(&mut self, letter: &Letter, enrolled: &Enrolled) -> (Timestamp, String) {
        let about = About {
            hostname: &self.speaker.hostname,
            agent_version: &self.speaker.agent_version,
            host_id: Some(&enrolled.config.host_id),
            display_name: Some(&enrolled.config.display_name),
        };
        let (sample, usage) = match letter {
            Letter::DriverFailed { at } => {
                let heartbeat = Snapshot::error_heartbeat(about, *at, ErrorCode::NvmlInitFailed);
                return (*at, heartbeat.body());
            }
            Letter::Seen { sample, usage } => (sample, usage),
        };
        let observed = Observed {
            about,
            sample,
            usage,
            users: &self.speaker.users,
            form: self.speaker.form,
        };
        let (snapshot, left_out) = match observed.build() {
            Ok(built) => (built.snapshot, built.left_out),
            Err(nothing) => {
                let why = ErrorCode::GpuReadingUnavailable;
                let heartbeat = Snapshot::error_heartbeat(about, sample.at, why);
                (heartbeat, nothing.0)
            }
        };
        self.note_left_out(left_out);
        (sample.at, snapshot.body())
    }

    /// Cards that have no place in a push are named when that begins or changes.
    fn note_left_out(&mut self, left_out: Vec<LeftOut>) {
        for card in &left_out {
            if !self.left_out.contains(card) {
                let LeftOut { index, why } = card;
                (self.say)(&format!("board: gpu {index} is not told: {why}"));
            }
        }
        self.left_out = left_out;
    }

    fn send_latest(&mut self) {
        let Some(unsent) = self.unsent.take() else {
            return;
        };
        match self.push(&unsent.body) {
            Ok(()) => self.succeeded(),
            Err(Failed::ForNow(why)) => {
                self.unsent = Some(unsent);
                self.failed(&why);
            }
            Err(Failed::ForGood(why)) => self.failed(&why),
        }
    }

    /// One of those that wait on disk; a new letter is taken before the next.
    fn send_spooled(&mut self) {
        let Some(body) = self.spool.as_mut().and_then(Spool::oldest) else {
            return;
        };
        match self.push(&body) {
            Ok(()) => {
                self.forget_spooled();
                self.succeeded();
            }
            Err(Failed::ForNow(why)) => self.failed(&why),
            Err(Failed::ForGood(why)) => {
                self.forget_spooled();
                self.failed(&why);
            }
        }
    }

    fn forget_spooled(&mut self) {
        if let Some(spool) = &mut self.spool {
            spool.forget_oldest();
        }
    }

    fn push(&mut self, body: &str) -> Result<(), Failed> {
        let enrolled = match self.enrolment.current() {
            Ok(enrolled) => enrolled,
            // The next letter finds out, and says so.
            Err(error) => return Err(Failed::ForNow(chain(&error))),
        };
        enrolled
            .client
            .push_body(body, &enrolled.config)
            .map_err(|error: CallError| {
                let why = chain(&error);
                match error.may_pass() {
                    true => Failed::ForNow(why),
                    false => Failed::ForGood(why),
                }
            })
    }

    /// What is not sent waits on disk, where that is wished.
    fn put_aside(&mut self) {
        let Some(Unsent { at, body }) = self.unsent.take() else {
            return;
        };
        if let Some(spool) = &mut self.spool
            && let Err(error) = spool.keep(at, &body)
        {
            (self.say)(&format!(
                "board: a push could not be kept for later: {error}"
            ));
        }
    }

    fn succeeded(&mut self) {
        self.pause.succeeded();
        self.state.succeeded(clock::now());
        if let Some(failures) = self.told.over() {
            (self.say)(&format!(
                "board: it takes pushes again after {failures} failed attempts"
            ));
            self.state_written = None;
        }
        self.write_state_if_due();
    }

    fn failed(&mut self, why: &str) {
        self.pause.failed(clock::monotonic());
        self.tell(
            &format!("{why}; the history goes on, and gua tries again"),
            why,
        );
    }

    /// Nothing is sent any more, and nothing is kept for later. Nobody is asked, so there is nothing to pause for.
    fn unenrolled(&mut self, why: &str) {
        if let Some(spool) = &mut self.spool {
            spool.clear();
        }
        self.tell(
            &format!("{why}; the history goes on, and nothing is sent"),
            why,
        );
    }

    /// One line for each kind of failure, and the state for `gua status`.
    fn tell(&mut self, line: &str, why: &str) {
        let why = gua_model::text::harmless(why);
        self.state.failed(clock::now(), why.clone());
        if self.told.is_news(&why) {
            (self.say)(&format!("board: {line}"));
            self.state_written = None;
        }
        self.write_state_if_due();
    }

    fn write_state_if_due(&mut self) {
        let now = clock::monotonic();
        let is_fresh = |written: Duration| now.saturating_sub(written) < STATE_PERIOD;
        if !self.state_written.is_some_and(is_fresh) {
            self.write_state();
        }
    }

    /// A disk that does not take it is no reason to stop; the log says the same.
    fn write_state(&mut self) {
        self.state_written = Some(clock::monotonic());
        let is_streaming = self.is_streaming.as_ref();
        self.state.is_streaming = is_streaming.map(|flag| flag.load(Ordering::Relaxed));
        self.state.spooled = self.spooled() as u64;
        self.state.dropped = self.spool.as_ref().map_or(0, |spool| spool.dropped);
        let _: io::Result<()> = self.state.write(&self.history);
    }
}

/// Why a push was not taken.
enum Failed {
    /// It may be taken later.
    ForNow(String),
    /// It would be refused again.
    ForGood(String),
}
