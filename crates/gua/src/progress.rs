//! Progress of long operations on one line of a terminal. Nothing is shown if stderr is not a terminal.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::time::Duration;

use gua_compat::gpu_usage_audit::Progress;
use gua_probe::clock;

use crate::output;

/// Progress line that is redrawn in place, and erased on drop.
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
        work(&mut Self::new(what))
    }

    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            began: clock::monotonic(),
            drawn: None,
            shown: std::io::stderr().is_terminal(),
        }
    }

    /// Shows the completed rows. Never stops the work.
    pub(crate) fn show(&mut self, progress: Progress) -> ControlFlow<()> {
        let what = self.what;
        self.draw(|took| line(what, progress, took));
        ControlFlow::Continue(())
    }

    /// Shows the completed share, from 0 to 1, if nothing else is known about the progress.
    pub(crate) fn share(&mut self, share: f64) {
        let what = self.what;
        self.draw(|_| format!("{what}: {:.0} %", share * 100.0));
    }

    /// Draws the line if it is due; the text is computed from the time since the beginning.
    fn draw(&mut self, text: impl FnOnce(Duration) -> String) {
        let now = clock::monotonic();
        let drawn = self.drawn;
        let is_soon = drawn.is_some_and(|drawn| now.saturating_sub(drawn) < PAUSE);
        if self.shown && !is_soon {
            self.drawn = Some(now);
            let text = text(now.saturating_sub(self.began));
            output::eprint(&format!("\r\x1b[K{text}"));
        }
    }

    /// Erases the line before other output.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            output::eprint("\r\x1b[K");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
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
