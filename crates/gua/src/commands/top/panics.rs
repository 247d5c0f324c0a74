//! Panics while the screen is ours: what one says is kept until the terminal can show it, and the session ends.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::events::Event;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send + 'static>;

/// Keeps what a panic of any thread says, as long as it lives.
pub(super) struct Panics {
    said: Arc<Mutex<Option<String>>>,
    before: Option<Hook>,
}

impl Panics {
    /// From now on a panic is kept, and told to the session as an event.
    pub(super) fn keep(events: SyncSender<Event>) -> Self {
        let said = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&said);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            let text = told(what);
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            // The first is the cause; others follow from it.
            kept.get_or_insert(text);
            drop(kept);
            // With a full queue the session is awake, and looks before it draws again.
            let _ = events.try_send(Event::Panicked);
        }));
        Self {
            said,
            before: Some(before),
        }
    }

    /// What the first panic said, if there was one.
    pub(super) fn said(&self) -> Option<String> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.clone()
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        // A thread that panics may not set a hook; it ends with the program, whose hook is of no use then.
        if let Some(before) = self.before.take()
            && !thread::panicking()
        {
            panic::set_hook(before);
        }
    }
}

/// As the standard hook says it.
fn told(what: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("without a name");
    let place = what
        .location()
        .map_or_else(String::new, |place| format!(" at {place}"));
    let message = what.payload_as_str().unwrap_or("it did not say why");
    let trace = Backtrace::capture();
    let trace = match trace.status() {
        BacktraceStatus::Captured => format!("\n{trace}"),
        _ => String::new(),
    };
    format!("thread {name} panicked{place}: {message}{trace}")
}
