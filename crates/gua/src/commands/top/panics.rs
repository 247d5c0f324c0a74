//! Panics while `top` controls the screen: the message is kept until the terminal is restored, and the session ends.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::events::Event;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send + 'static>;

/// Panic hook that keeps the message of a panic of any thread; removed on drop.
pub(super) struct Panics {
    message: Arc<Mutex<Option<String>>>,
    before: Option<Hook>,
}

impl Panics {
    /// Installs the hook. It keeps the message and sends an event to the session.
    pub(super) fn keep(events: SyncSender<Event>) -> Self {
        let message = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&message);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            let text = panic_message(what);
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            // The first panic is the cause; later ones are consequences.
            kept.get_or_insert(text);
            drop(kept);
            // If the queue is full, the session is awake and checks for panics before it draws again.
            let _ = events.try_send(Event::Panicked);
        }));
        Self {
            message,
            before: Some(before),
        }
    }

    /// Message of the first panic, if any.
    pub(super) fn message(&self) -> Option<String> {
        let message = self.message.lock().unwrap_or_else(PoisonError::into_inner);
        message.clone()
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        // A panicking thread may not set a hook. The program ends then, so the previous hook is not needed.
        if let Some(before) = self.before.take()
            && !thread::panicking()
        {
            panic::set_hook(before);
        }
    }
}

/// Formats the message like the standard hook.
fn panic_message(what: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("without a name");
    let place = what
        .location()
        .map_or_else(String::new, |place| format!(" at {place}"));
    let message = what.payload_as_str().unwrap_or("no message");
    let trace = Backtrace::capture();
    let trace = match trace.status() {
        BacktraceStatus::Captured => format!("\n{trace}"),
        _ => String::new(),
    };
    format!("thread {name} panicked{place}: {message}{trace}")
}
