//! The collector's caller: prints tick lines, notifies systemd and reloads settings on the loop's behalf.

use std::time::Duration;

use gua_model::{Thresholds, Tick};

use crate::open_outage::OpenOutage;

/// Settings that can change while the loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub interval: Duration,
    pub thresholds: Thresholds,
    /// Retention of raw ticks.
    pub keep_raw: Duration,
}

/// Callbacks of the loop. None of them can fail: the loop runs on whatever the observer does.
pub trait Observer {
    /// A tick was read; it was stored or lost.
    fn ticked(&mut self, number: u64, tick: &Tick);

    /// Ticks are being lost from now on, for a new reason, or (with `None`) no longer.
    fn outage(&mut self, _outage: Option<&OpenOutage>) {}

    /// The first tick was stored.
    fn ready(&mut self);

    /// Called at every heartbeat, also while the driver hangs.
    fn alive(&mut self);

    /// Reads the settings again. After an error the previous settings stay in force.
    fn reload(&mut self) -> Result<Options, String>;

    /// The reload has finished.
    fn reloaded(&mut self);

    /// A stop was requested and the loop is about to end.
    fn stopping(&mut self, ticks: u64);
}
