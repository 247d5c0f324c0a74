//! Lateness of the machine. The script runs at a hundredth of real time, so that a processor that is busy with something else
//! for a tenth of a second is like a collector that stops for ten seconds. A thread that wakes up at regular times, with the
//! priority of the collector, measures how late it is: where it is late, no collector could have been on time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gua_probe::clock;

/// Time between two beats, a tenth of a tick.
const BEAT: Duration = Duration::from_millis(30);

pub(crate) struct Metronome {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Metronome {
    pub(crate) fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut latest = Duration::ZERO;
            let mut due = clock::monotonic() + BEAT;
            while !flag.load(Ordering::Relaxed) {
                std::thread::sleep(due.saturating_sub(clock::monotonic()));
                let now = clock::monotonic();
                latest = latest.max(now.saturating_sub(due));
                due = now + BEAT;
            }
            latest
        });
        Self { is_over, thread }
    }

    /// Ends the thread. Returns by how much its latest beat was late.
    pub(crate) fn stop(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the metronome does not panic")
    }
}
