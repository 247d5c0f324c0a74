//! Ticks that wait in memory while another process holds the lock of the history, or the disk is full.
//!
//! A user who can open the file can hold SQLite's write lock (byte 120 of the `-shm` file, sqlite.org/walformat.html) for
//! any time. The collector does not wait for it: it keeps sampling and writes the ticks when the lock is free.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use gua_model::Tick;
use gua_probe::host::{HostRoot, locks};

use crate::claims::Names;

/// Maximum number of GPUs and processes in all waiting ticks: about 50 MB. Twelve GPUs with one process each reach it after
/// a day at 30 s, and after half an hour at 0.5 s.
pub(super) const MAX_WAITING: usize = 100_000;

/// Ticks in the order in which they were taken.
#[derive(Debug)]
pub(super) struct Waiting {
    ticks: VecDeque<Tick>,
    weight: usize,
    most: usize,
}

impl Waiting {
    pub(super) fn bounded(most: usize) -> Self {
        Self {
            ticks: VecDeque::new(),
            weight: 0,
            most,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ticks.len()
    }

    /// Appends a tick; returns whether there was room for it.
    #[must_use]
    pub(super) fn push(&mut self, tick: &Tick) -> bool {
        let weight = weight(tick);
        let fits = self.weight + weight <= self.most;
        if fits {
            self.weight += weight;
            self.ticks.push_back(tick.clone());
        }
        fits
    }

    pub(super) fn pop(&mut self) -> Option<Tick> {
        let tick = self.ticks.pop_front()?;
        self.weight -= weight(&tick);
        Some(tick)
    }

    /// Puts back the tick that was popped last.
    pub(super) fn put_back(&mut self, tick: Tick) {
        self.weight += weight(&tick);
        self.ticks.push_front(tick);
    }
}

fn weight(tick: &Tick) -> usize {
    let gpus = &tick.sample.gpus;
    let processes: usize = gpus.iter().map(|gpu| gpu.processes.len()).sum();
    1 + gpus.len() + processes
}

/// The processes that hold a lock on the files of a history, in words: `pid 4711 (python3) of ada`.
pub fn lock_holders(db: &Path) -> String {
    let files = ["-shm", ""]
        .into_iter()
        .filter_map(|suffix| Some(std::fs::metadata(gua_files::beside(db, suffix)).ok()?.ino()));
    let files: Vec<u64> = files.collect();
    let mut names = Names::default();
    let holders = locks::holders(&HostRoot::real(), &files).into_iter();
    let holders = holders.filter(|pid| pid.0 != std::process::id());
    let holders: Vec<String> = holders.map(|pid| names.process(pid)).collect();
    match holders.is_empty() {
        true => "an unknown process".to_owned(),
        false => holders.join(", "),
    }
}
