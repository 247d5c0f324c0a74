//! Load on a real board: many simulated hosts push and stream to `gua board serve` on loopback, while pages are requested.
//!
//! Hosts are enrolled in the board's data before it starts. Each push is a connection of its own, as agents make it, and is
//! due at a fixed time whether or not the ones before it were answered. Every acknowledged push must be in the stored data
//! afterwards, also after the board was killed under load.

mod client;
mod hosts;
mod outcome;
mod server;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::client::{Frames, Pace, Pages, Pushes};
use self::hosts::Fleet;
use self::server::{Server, Usage};
use crate::wait::now;
use crate::wait_until;

pub use self::outcome::{Limits, Outcome, Spread};

/// Time between two readings of the server's memory.
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);
/// Number of pushes in progress at most.
const PUSHERS: usize = 64;

/// Parameters of the load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The program under load.
    pub gua: PathBuf,
    /// Empty directory for the board's data.
    pub directory: PathBuf,
    pub hosts: u32,
    /// GPUs of each host.
    pub gpus: u32,
    /// Number of hosts with a stream.
    pub streams: u32,
    /// Time between two pushes of a host.
    pub period: Duration,
    /// Time of steady load. Figures are taken after the first two periods, when every host has reported.
    pub duration: Duration,
    /// Page requests per second.
    pub pages: u32,
    /// Number of times that the board is killed under load after the steady time.
    pub kills: u32,
}

impl Load {
    /// Runs the load on a board and checks that every acknowledged push is in its data.
    pub fn run(&self) -> Outcome {
        let fleet = Fleet::enrol(self);
        let mut outcome = Outcome::default();
        let mut server = Server::start(&self.gua, &self.directory, 0);
        outcome.starts.push(server.took);
        self.steady(&fleet, &server, &mut outcome);
        self.kill(&fleet, &mut server, &mut outcome);
        server.stop();
        outcome.acknowledged = outcome.keys.len() as u64;
        outcome.lost = fleet.missing(&self.directory, &outcome.keys);
        outcome
    }

    /// Every host pushes once in each period.
    fn pace(&self, start: Instant, end: Instant) -> Pace {
        Pace {
            start,
            end,
            period: self.period,
            hosts: self.hosts,
            next: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
        }
    }

    /// Pushes, streams and pages for the whole duration.
    fn steady(&self, fleet: &Fleet, server: &Server, outcome: &mut Outcome) {
        let start = now();
        let pace = self.pace(start, start + self.duration);
        let warm = start + (self.period * 2).min(self.duration / 2);
        let is_over = AtomicBool::new(false);
        let address = server.address;
        std::thread::scope(|scope| {
            let pushers: Vec<_> = (0..PUSHERS)
                .map(|_| scope.spawn(|| Pushes::send(fleet, address, &pace)))
                .collect();
            let frames = scope.spawn(|| {
                sleep_until(start + self.period);
                Frames::send(fleet, address, self.streams, &is_over)
            });
            let pages = scope.spawn(|| {
                sleep_until(warm);
                Pages::load(fleet, address, self.pages, &is_over)
            });
            sleep_until(warm);
            let before = server.usage();
            let began = now();
            while now() < pace.end {
                outcome.memory_kib.push(server.usage().memory_kib);
                sleep_until((now() + MEMORY_INTERVAL).min(pace.end));
            }
            outcome.machine_load = server::machine_load();
            let Usage { cpu, .. } = server.usage();
            outcome.cpu = cpu - before.cpu;
            outcome.window = now() - began;
            for pusher in pushers {
                outcome.add(pusher.join().unwrap(), warm);
            }
            is_over.store(true, Ordering::Relaxed);
            outcome.frames_sent = frames.join().unwrap();
            outcome.pages = pages.join().unwrap();
        });
        outcome.frames_received = fleet.frames_received(address, outcome.frames_sent);
    }

    /// Kills the board again and again while hosts push.
    fn kill(&self, fleet: &Fleet, server: &mut Server, outcome: &mut Outcome) {
        let address = server.address;
        let is_over = AtomicBool::new(false);
        // The pushes end when the last kill is done.
        let start = now();
        let pace = self.pace(start, start + Duration::from_secs(3600));
        std::thread::scope(|scope| {
            let pushers: Vec<_> = (0..PUSHERS)
                .map(|_| scope.spawn(|| Pushes::send_until(fleet, address, &pace, &is_over)))
                .collect();
            for kill in 0..self.kills {
                // After different numbers of pushes, so that different work is interrupted.
                let pushes = 20 + u64::from(kill) * 37 % 180;
                let before = pace.acknowledged.load(Ordering::Relaxed);
                wait_until("acknowledged pushes", || {
                    pace.acknowledged.load(Ordering::Relaxed) >= before + pushes
                });
                server.kill();
                *server = Server::start(&self.gua, &self.directory, address.port());
                outcome.starts.push(server.took);
            }
            is_over.store(true, Ordering::Relaxed);
            for pusher in pushers {
                let pushes = pusher.join().unwrap();
                outcome.keys.extend(pushes.acknowledged());
            }
        });
    }
}

fn sleep_until(at: Instant) {
    let left = at.saturating_duration_since(now());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}
