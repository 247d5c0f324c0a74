//! Whoever runs the loop and is told what happens: the binary prints, talks to systemd and reads settings in its name.

use std::time::Duration;

use gua_model::{Thresholds, Tick};

use crate::open_outage::OpenOutage;

/// What can be changed while the loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub interval: Duration,
    pub thresholds: Thresholds,
    /// How long raw ticks are kept.
    pub keep_raw: Duration,
}

/// Is told what the loop does. None of these may fail: a loop that nobody listens to goes on.
pub trait Observer {
    /// A tick was read, and stored or lost.
    fn ticked(&mut self, number: u64, tick: &Tick);

    /// Something worth a line in the log.
    fn note(&mut self, text: &str);

    /// Ticks are being lost from now on, for another reason, or no longer.
    fn outage(&mut self, _outage: Option<&OpenOutage>) {}

    /// The first tick was stored.
    fn ready(&mut self);

    /// The loop is alive; called as often as was asked for, also while the driver hangs.
    fn alive(&mut self);

    /// Reads the settings again; an error leaves the old ones in force.
    fn reload(&mut self) -> Result<Options, String>;

    /// The reload is done.
    fn reloaded(&mut self);

    /// The loop is about to end, for the reason that it was told to.
    fn stopping(&mut self, ticks: u64);
}
