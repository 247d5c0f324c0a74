//! Progress of long operations on one line of a terminal. Nothing is shown if stderr is not a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use gua_compat::gpu_usage_audit::Progress;
use gua_probe::clock;

use crate::output;

/// Progress line that is redrawn in place.
#[derive(Debug)]
pub(crate) struct Bar {
    what: &'static str,
    began: Duration,
    /// Time of the last redraw; `None` before the first one.
    drawn: Option<Duration>,
    shown: bool,
}

/// Minimum time between redraws; a line that changes more often is not readable.
const PAUSE: Duration = Duration::from_millis(100);

impl Bar {
    /// Runs work with a progress line, which is erased at the end.
    pub(crate) fn during<T>(what: &'static str, work: impl FnOnce(&mut Self) -> T) -> T {
        let mut bar = Self::new(what);
        let done = work(&mut bar);
        bar.clear();
        done
    }

    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            began: clock::monotonic(),
            drawn: None,
            shown: std::io::stderr().is_terminal(),
        }
    }

    pub(crate) fn show(&mut self, progress: Progress) {
        let now = clock::monotonic();
        if !self.is_due(now) {
            return;
        }
        self.drawn = Some(now);
        let text = line(self.what, progress, now.saturating_sub(self.began));
        output::eprint(&format!("\r\x1b[K{text}"));
    }

    /// Shows the completed share, from 0 to 1, if nothing else is known about the progress.
    pub(crate) fn share(&mut self, share: f64) {
        let now = clock::monotonic();
        if self.is_due(now) {
            self.drawn = Some(now);
            output::eprint(&format!("\r\x1b[K{}: {:.0} %", self.what, share * 100.0));
        }
    }

    fn is_due(&self, now: Duration) -> bool {
        let soon = self
            .drawn
            .is_some_and(|drawn| now.saturating_sub(drawn) < PAUSE);
        self.shown && !soon
    }

    /// Erases the line before other output.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            output::eprint("\r\x1b[K");
        }
    }
}

fn line(what: &str, progress: Progress, took: Duration) -> String {
    let Progress {
        rows_done,
        rows_total,
    } = progress;
    let percent = rows_done
        .saturating_mul(100)
        .checked_div(rows_total)
        .unwrap_or(100)
        .min(100);
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let rate = rows_done
        .saturating_mul(1000)
        .checked_div(millis)
        .map_or_else(String::new, |rate| format!(", {rate} rows/s"));
    format!("{what}: {rows_done} of {rows_total} rows ({percent} %){rate}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(done: u64, total: u64, millis: u64, expected: &str) {
        let progress = Progress {
            rows_done: done,
            rows_total: total,
        };
        let text = line("importing", progress, Duration::from_millis(millis));
        assert_eq!(text, expected);
    }

    #[test]
    fn progress_says_rows_share_and_rate() {
        check(50, 200, 500, "importing: 50 of 200 rows (25 %), 100 rows/s");
        check(0, 0, 0, "importing: 0 of 0 rows (100 %)");
        check(9, 10, 0, "importing: 9 of 10 rows (90 %)");
    }
}
