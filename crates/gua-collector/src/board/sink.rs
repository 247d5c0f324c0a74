//! The board as a sink: each tick is handed to a thread. Nothing here waits for a server.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use gua_model::chain::chain;
use gua_model::usage_state::UsageTracker;
use gua_model::{Outage, Tick};
use gua_probe::reader::ReaderOptions;
use gua_wire::snapshot::usage_states;
use jiff::Timestamp;

use super::archive_uploader::{ArchiveOptions, ArchiveUploader};
use super::enrolment::Enrolment;
use super::link_state::LinkFiles;
use super::live::LiveReporter;
use super::push::{AgentIdentity, Push};
use super::pusher::{Event, Events, FINAL_WAIT, Link, MAX_EVENTS, Pusher};
use super::spool::Spool;
use super::stream;
use super::worker::Worker;
use crate::sink::{Sink, SinkError};

/// Maximum time the daemon waits for the disk at its end, after the wait for a push in flight.
const DISK_WAIT: Duration = Duration::from_secs(1);

/// Configuration of the link to a board.
#[derive(Debug)]
pub struct BoardOptions {
    pub enrolment: Enrolment,
    pub identity: AgentIdentity,
    pub live: LiveReporter,
    /// Maximum size of the spool; `None` disables it.
    pub spool_bytes: Option<u64>,
    pub history: PathBuf,
    /// Reader of the stream; `None` disables the stream.
    pub stream: Option<ReaderOptions>,
    /// Options of the archive; `None` disables it.
    pub archive: Option<ArchiveOptions>,
}

/// Hands ticks to the thread that pushes them.
#[derive(Debug)]
pub struct BoardSink {
    events: Events,
    tracker: UsageTracker,
    pusher: Worker,
    stream: Option<Worker>,
    archive: Option<Worker>,
}

impl BoardSink {
    /// Starts the threads. Only the stream connects before the first tick.
    ///
    /// # Errors
    /// If a thread cannot be started. A spool that cannot be opened is logged, and missed pushes are dropped.
    pub fn start(options: BoardOptions) -> io::Result<Self> {
        let files = LinkFiles::new(options.enrolment.file().path(), &options.history);
        let spool = options
            .spool_bytes
            .map(|bytes| Spool::open(&files.spools(), bytes))
            .transpose();
        let (spool, spool_error) = match spool {
            Ok(spool) => (spool, None),
            Err(error) => (None, Some(chain(&error))),
        };
        let (events, queue) = sync_channel(MAX_EVENTS);
        let is_streaming = options.stream.as_ref().map(|_| false);
        let stream = options.stream.map(|reader| {
            let events = events.clone();
            let changed = move |is_connected| {
                // The queue is only full while the disk hangs.
                let _ = events.try_send(Event::StreamConnected(is_connected));
            };
            stream::start(options.enrolment.clone(), reader, changed)
        });
        let archive = options.archive.map(|archive| {
            ArchiveUploader::start(options.enrolment.clone(), options.history.clone(), archive)
        });
        let link = Link {
            enrolment: options.enrolment,
            identity: options.identity,
            live: Arc::new(options.live),
            spool,
            spool_error,
            files,
            is_streaming,
        };
        let pusher = Pusher::new(link, queue, events.clone());
        Ok(Self {
            events,
            tracker: UsageTracker::default(),
            pusher: Worker::start("gua-board", move |_| pusher.run())?,
            stream: stream.transpose()?,
            archive: archive.transpose()?,
        })
    }

    /// Never waits. The queue is only full while the disk hangs.
    fn put(&self, event: Event) {
        let _ = self.events.try_send(event);
    }
}

impl Sink for BoardSink {
    fn name(&self) -> &str {
        "board"
    }

    /// A tick that is not in the history is not pushed, so a board never has more than its hosts.
    fn follows_history(&self) -> bool {
        true
    }

    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError> {
        let usage = usage_states(&mut self.tracker, &tick.sample);
        self.put(Event::Tick(Push::Sample {
            sample: Arc::new(tick.sample.clone()),
            usage,
        }));
        Ok(())
    }

    fn driver_failed(&mut self, at: Timestamp) {
        self.put(Event::Tick(Push::DriverFailed { at }));
    }

    /// Does nothing: the push format cannot express outages.
    fn outage(&mut self, _: &Outage) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(self: Box<Self>, _: Timestamp) {
        self.put(Event::Close);
        drop(self.archive);
        if let Some(stream) = self.stream {
            stream.stop(stream::CLOSE_WAIT);
        }
        self.pusher.stop(FINAL_WAIT + DISK_WAIT);
    }
}
