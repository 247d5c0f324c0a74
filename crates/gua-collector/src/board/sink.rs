//! The board as a sink: each tick is handed to a thread and forgotten. Nothing here waits for a server.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use gua_model::usage_state::UsageTracker;
use gua_model::{Outage, Tick};
use gua_probe::reader::ReaderOptions;
use gua_wire::snapshot::usage_states;
use jiff::Timestamp;

use super::archive_uploader::{ArchiveOptions, ArchiveUploader};
use super::enrolment::Enrolment;
use super::latest_slot::LatestSlot;
use super::link_state::LinkFiles;
use super::push::{AgentIdentity, Push};
use super::push_worker::PushWorker;
use super::pusher::{LAST_PATIENCE, Link, Pusher, Say};
use super::spool::Spool;
use super::stream::Streamer;
use crate::chain::chain;
use crate::sink::{Sink, SinkError};

/// How long the end of the daemon waits for the disk, after what the pusher waits for a push that is on its way.
const DISK_PATIENCE: Duration = Duration::from_secs(1);
/// So many ticks wait in memory where they are kept on disk afterwards; otherwise the latest alone.
const SPOOLED_ROOM: usize = 256;

/// What the link to a board needs.
pub struct BoardOptions {
    pub enrolment: Enrolment,
    pub identity: AgentIdentity,
    /// How many bytes of pushes that could not be sent wait on disk, where some may.
    pub spool_bytes: Option<u64>,
    pub history: PathBuf,
    /// By what the stream reads the cards; without it there is none.
    pub stream: Option<ReaderOptions>,
    /// What of the history goes into the board's archive; without it nothing does.
    pub archive: Option<ArchiveOptions>,
    pub say: Say,
}

/// Hands ticks to the thread that speaks to the board.
pub struct BoardSink {
    slot: Arc<LatestSlot<Push>>,
    tracker: UsageTracker,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
    stream: Option<Streamer>,
    /// Its closing ends the archive's thread.
    archive: Option<Arc<LatestSlot<()>>>,
}

impl BoardSink {
    /// Starts the threads. Nothing is contacted before the first tick, but for the stream.
    ///
    /// # Errors
    /// When a thread cannot be started. A spool that cannot be opened is told, and nothing waits.
    pub fn start(options: BoardOptions) -> io::Result<Self> {
        let place = LinkFiles::new(options.enrolment.file().path(), &options.history);
        let spool = options
            .spool_bytes
            .map(|bytes| Spool::open(&place.spools(), bytes))
            .transpose();
        let (spool, spool_trouble) = match spool {
            Ok(spool) => (spool, None),
            Err(error) => (None, Some(chain(&error))),
        };
        let room = spool.as_ref().map_or(1, |_| SPOOLED_ROOM);
        let slot = Arc::new(LatestSlot::new(room));
        let waker = || {
            let slot = Arc::clone(&slot);
            move || slot.wake()
        };
        let stream = options
            .stream
            .map(|reader| {
                let say = Arc::clone(&options.say);
                Streamer::start(options.enrolment.clone(), reader, say, waker())
            })
            .transpose()?;
        let archive = options
            .archive
            .map(|archive| {
                let say = Arc::clone(&options.say);
                ArchiveUploader::start(
                    options.enrolment.clone(),
                    options.history.clone(),
                    archive,
                    say,
                )
            })
            .transpose()?;
        let pusher = Pusher::new(Link {
            slot: Arc::clone(&slot),
            worker: PushWorker::start(waker())?,
            enrolment: options.enrolment,
            identity: options.identity,
            spool,
            spool_trouble,
            place,
            is_streaming: stream.as_ref().map(Streamer::is_connected),
            say: options.say,
        });
        let (alive, ended) = sync_channel(0);
        thread::Builder::new()
            .name("gua-board".to_owned())
            .spawn(move || {
                pusher.run();
                drop(alive);
            })?;
        Ok(Self {
            slot,
            tracker: UsageTracker::default(),
            ended,
            stream,
            archive,
        })
    }
}

impl Sink for BoardSink {
    fn name(&self) -> &str {
        "board"
    }

    /// A tick that the history has not taken is not sent: what a board knows is known here.
    fn follows_history(&self) -> bool {
        true
    }

    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError> {
        let usage = usage_states(&mut self.tracker, &tick.sample);
        self.slot.put(Push::Seen {
            sample: Box::new(tick.sample.clone()),
            usage,
        });
        Ok(())
    }

    fn driver_failed(&mut self, at: Timestamp) {
        self.slot.put(Push::DriverFailed { at });
    }

    /// A board has no word for time that nobody observed.
    fn outage(&mut self, _: &Outage) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self, _: Timestamp) {
        self.slot.close();
        if let Some(archive) = self.archive.take() {
            archive.close();
        }
        if let Some(stream) = self.stream.take() {
            stream.stop();
        }
        // Ends with an error when the thread has ended, and when it takes too long.
        let _ = self.ended.recv_timeout(LAST_PATIENCE + DISK_PATIENCE);
    }
}

impl fmt::Debug for BoardOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BoardOptions")
            .field("enrolment", &self.enrolment)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BoardSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BoardSink")
    }
}
