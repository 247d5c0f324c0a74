//! Results of a load, and their limits.

use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::client::Pushes;

/// Requests for pages.
#[derive(Clone, Debug, Default)]
pub struct PageLoads {
    pub took: Vec<Duration>,
    /// Size of the largest page, in bytes.
    pub largest: usize,
}

/// Results of a load. Figures about time are of the measured window, counts are of everything.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub acknowledged: u64,
    /// Pushes of the steady load that the board did not accept.
    pub refused: u64,
    /// Acknowledged pushes that are not stored.
    pub lost: u64,
    pub frames_sent: u64,
    pub frames_received: u64,
    /// From the connection to the answer of a push.
    pub pushes: Vec<Duration>,
    /// From when a push was due to its answer, which includes the load generator's own delay.
    pub since_due: Vec<Duration>,
    pub pages: PageLoads,
    /// Memory of the board, once a second.
    pub memory_kib: Vec<u64>,
    /// Processor time of the board in the window.
    pub cpu: Duration,
    pub window: Duration,
    /// Time of each start until the first answer; the first is with empty data.
    pub starts: Vec<Duration>,
    /// Load average of the machine at the end of the window.
    pub machine_load: f64,
    /// Host and time of each acknowledged push.
    pub(super) keys: Vec<(u32, Timestamp)>,
}

/// Distribution of times.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub count: usize,
    pub median: Duration,
    pub p99: Duration,
    pub most: Duration,
}

impl Spread {
    /// Summarizes times; all zero if there are none.
    pub fn of(times: &[Duration]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
            sorted.get(place).copied().unwrap_or_default()
        };
        Self {
            count: sorted.len(),
            median: at(50),
            p99: at(99),
            most: at(100),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        write!(
            out,
            "{} requests, median {:.1} ms, p99 {:.1} ms, most {:.1} ms",
            self.count,
            millis(self.median),
            millis(self.p99),
            millis(self.most)
        )
    }
}

/// Limits for the results.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub push_p99: Duration,
    pub page_p99: Duration,
    pub page_bytes: usize,
    pub start: Duration,
    /// Growth of the memory from the first to the last tenth of the window, in percent.
    pub memory_growth: u64,
}

impl Outcome {
    /// Takes in the pushes of one thread.
    pub(super) fn add(&mut self, pushes: Pushes, warm: Instant) {
        self.keys.extend(pushes.acknowledged());
        for push in pushes.0 {
            self.refused += u64::from(!push.is_acknowledged);
            if push.due >= warm {
                self.pushes.push(push.took);
                self.since_due.push(push.took_since_due);
            }
        }
    }

    /// Mean memory in the first and in the last tenth of the window, in KiB.
    pub fn memory(&self) -> (u64, u64) {
        let tenth = (self.memory_kib.len() / 10).max(1);
        let mean = |part: &[u64]| part.iter().sum::<u64>() / part.len().max(1) as u64;
        let last = self.memory_kib.len().saturating_sub(tenth);
        let first = self.memory_kib.get(..tenth).unwrap_or_default();
        (mean(first), mean(&self.memory_kib[last..]))
    }

    /// Returns the violated limits that do not depend on speed.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.lost > 0 {
            faults.push(format!("{} acknowledged pushes are not stored", self.lost));
        }
        if self.refused > 0 {
            faults.push(format!("{} pushes were not acknowledged", self.refused));
        }
        if self.frames_received != self.frames_sent {
            let (sent, received) = (self.frames_sent, self.frames_received);
            faults.push(format!("{received} of {sent} frames were received"));
        }
        faults
    }

    /// Returns all violated limits.
    pub fn breaches(&self, limits: &Limits) -> Vec<String> {
        let mut breaches = self.faults();
        let mut check = |name: &str, found: Duration, limit: Duration| {
            if found > limit {
                breaches.push(format!("{name}: {found:?} is over {limit:?}"));
            }
        };
        check(
            "p99 of pushes",
            Spread::of(&self.pushes).p99,
            limits.push_p99,
        );
        check(
            "p99 of pages",
            Spread::of(&self.pages.took).p99,
            limits.page_p99,
        );
        let slowest = self.starts.iter().max().copied().unwrap_or_default();
        check("start", slowest, limits.start);
        if self.pages.largest > limits.page_bytes {
            let (found, limit) = (self.pages.largest, limits.page_bytes);
            breaches.push(format!("page: {found} bytes are over {limit}"));
        }
        let (first, last) = self.memory();
        if last * 100 > first * (100 + limits.memory_growth) {
            breaches.push(format!("memory grew from {first} to {last} KiB"));
        }
        breaches
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pushes = self.pushes.len().max(1) as u128;
        let (first, last) = self.memory();
        let share = self.cpu.as_secs_f64() / self.window.as_secs_f64().max(0.001);
        writeln!(
            out,
            "acknowledged pushes   {} (lost {}, refused {})",
            self.acknowledged, self.lost, self.refused
        )?;
        writeln!(out, "pushes                {}", Spread::of(&self.pushes))?;
        writeln!(out, "pushes since due      {}", Spread::of(&self.since_due))?;
        writeln!(
            out,
            "frames                {} sent, {} received",
            self.frames_sent, self.frames_received
        )?;
        writeln!(
            out,
            "availability pages    {}, largest {} bytes",
            Spread::of(&self.pages.took),
            self.pages.largest
        )?;
        writeln!(
            out,
            "processor time        {} us per push with streams and pages, {:.2} of a core",
            self.cpu.as_micros() / pushes,
            share
        )?;
        writeln!(
            out,
            "memory                {} MiB at first, {} MiB at last",
            first / 1024,
            last / 1024
        )?;
        writeln!(out, "starts                {}", Spread::of(&self.starts))?;
        writeln!(out, "load of the machine   {:.2}", self.machine_load)
    }
}
