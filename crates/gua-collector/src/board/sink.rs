//! The board as a sink: each tick is handed to a thread. Nothing here waits for a server.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use gua_model::Tick;
use gua_model::usage_state::UsageTracker;
use gua_wire::snapshot::{UsageStates, usage_states};
use jiff::Timestamp;

use super::archive_uploader::ArchiveUploader;
use super::enrolment::Enrolment;
use super::live::LiveReporter;
use super::push::Push;
use super::pusher::{Event, Events, FINAL_WAIT, MAX_EVENTS, Pusher};
use super::stream;
use super::worker::Worker;
use crate::reader::daemon_options;
use crate::sink::{Sink, SinkError};

/// Maximum time the daemon waits for the disk at its end, after the wait for a push in flight.
const DISK_WAIT: Duration = Duration::from_secs(1);

/// Hands ticks to the thread that pushes them.
#[derive(Debug)]
pub struct BoardSink {
    events: Events,
    tracker: UsageTracker,
    pusher: Worker,
    stream: Worker,
    archive: Option<Worker>,
}

impl BoardSink {
    /// Starts the threads. Only the stream connects before the first tick. Without `archive_days`, closed days are not
    /// uploaded.
    ///
    /// # Errors
    /// If a thread cannot be started. A spool that cannot be opened is logged, and missed pushes are dropped.
    pub fn start(
        enrolment: Enrolment,
        live: LiveReporter,
        archive_days: Option<u32>,
    ) -> io::Result<Self> {
        let (events, queue) = sync_channel(MAX_EVENTS);
        let live = Arc::new(live);
        let pusher = Pusher::new(enrolment.clone(), Arc::clone(&live), queue, events.clone());
        let stream_events = events.clone();
        let changed = move |is_connected| {
            // The queue is only full while the disk hangs.
            let _ = stream_events.try_send(Event::StreamConnected(is_connected));
        };
        let reader = daemon_options(&live.settings);
        Ok(Self {
            events,
            tracker: UsageTracker::default(),
            pusher: Worker::start("gua-board", move |_| pusher.run())?,
            stream: stream::start(enrolment.clone(), reader, changed)?,
            archive: archive_days
                .map(|days| ArchiveUploader::start(enrolment, &live, days))
                .transpose()?,
        })
    }

    /// Never waits. The queue is only full while the disk hangs.
    fn put(&self, event: Event) {
        let _ = self.events.try_send(event);
    }
}

/// Outages are not pushed: the format cannot express them. A tick that is not in the history is not pushed, so a board never has
/// more than its hosts.
impl Sink for BoardSink {
    fn name(&self) -> &str {
        "board"
    }

    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError> {
        let usage = usage_states(&mut self.tracker, &tick.sample);
        self.put(Event::Tick(Push {
            at: tick.sample.at,
            sample: Some(Arc::new(tick.sample.clone())),
            usage,
        }));
        Ok(())
    }

    fn driver_failed(&mut self, at: Timestamp) {
        let (sample, usage) = (None, UsageStates::new());
        self.put(Event::Tick(Push { at, sample, usage }));
    }

    fn finish(self: Box<Self>, _: Timestamp) {
        self.put(Event::Close);
        drop(self.archive);
        self.stream.stop(stream::CLOSE_WAIT);
        self.pusher.stop(FINAL_WAIT + DISK_WAIT);
    }
}
