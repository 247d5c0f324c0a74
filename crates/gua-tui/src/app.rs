//! State of the screen and effects of keys: a state machine without a terminal.

mod choice;
#[cfg(test)]
pub(crate) mod fixture;
mod keys;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::health::faults;
use gua_model::pick::is_vacant;
use gua_model::since::Since;
use gua_model::{GpuUuid, Pid, ProcessKey, RollUp, Sample, State, Thresholds, Uid, classify};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::jobs;
use crate::lost;
use crate::rows::{self, ProcessRow, UserRow};
use crate::streak::Streaks;
use crate::surroundings::Surroundings;
use crate::terminal::Palette;
use crate::timeline::{self, Moment, Source, Timeline};
use crate::tree::{self, Lineage};

/// Settings that do not change while the program runs.
#[derive(Clone, Debug)]
pub struct Setup {
    pub host: String,
    pub interval: Duration,
    pub thresholds: Thresholds,
    /// Clock ticks per second in which the kernel counts the start of a process.
    pub ticks_per_second: u64,
    pub zone: TimeZone,
    pub palette: Palette,
    pub rights: Rights,
    /// Whether there is a recorded history to scroll back into.
    pub has_history: bool,
}

/// Processes that may be signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    ReadOnly,
    /// The data is made up, and so are the pids.
    Simulated,
    /// Only the processes of this user.
    Own(Me),
    /// The processes of everyone: an administrator has asked for it. The program logs each signal.
    Admin(Me),
}

/// The user at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Me {
    pub uid: Uid,
    /// Owner of this program itself: the login user, also under sudo.
    pub owner: Uid,
}

impl Me {
    pub fn is_root(&self) -> bool {
        self.uid == Uid(0)
    }

    /// Reports whether a process runs as this user and belongs to this person. Root has no further rights.
    pub fn owns(&self, own: Option<Uid>, owner: Option<Uid>) -> bool {
        own == Some(self.uid) && owner.is_some_and(|owner| owner == self.owner || owner == self.uid)
    }
}

gua_model::words! {
    /// A signal that can be sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Signal {
        Terminate = "TERM",
        Interrupt = "INT",
        Kill = "KILL",
    }
}

/// An effect that the program performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    /// Give the terminal back to the shell and stop.
    Suspend,
    /// Redraw everything: another program wrote on the screen.
    Repaint,
    /// Read recorded moments that end before this time.
    LoadBefore(Timestamp),
    /// Signal this process. The user has confirmed it.
    Signal {
        process: ProcessKey,
        signal: Signal,
    },
}

/// Contents of the lower table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Processes,
    Tree,
    Users,
}

/// Height of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Density {
    /// As much as there is space for.
    Auto,
    OneLine,
    Graphs,
}

/// Output medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Screen,
    /// Text without scrolling and without a selection.
    Text,
}

/// A window over the screen, which takes the keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Overlay {
    None,
    Help,
    Filter,
    Confirm(PendingSignal),
}

/// A signal that is not confirmed yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingSignal {
    pub(crate) process: ProcessKey,
    pub(crate) pid: Pid,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) signal: Signal,
    /// Whether it is a process of the user, and not one that only an administrator may signal.
    pub(crate) is_own: bool,
}

/// State of the driver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Driver {
    /// No answer yet since this time.
    Opening(Timestamp),
    /// Time of the last answer.
    Answered(Timestamp),
    /// Failed, with the last error.
    Faulty { since: Timestamp, fault: String },
}

/// State of the whole screen.
#[derive(Debug)]
pub struct App {
    pub setup: Setup,
    pub(crate) timeline: Timeline,
    streaks: Streaks,
    lineage: Lineage,
    pub(crate) surroundings: Surroundings,
    /// Time of the moment that is shown; `None` follows the newest.
    pub(crate) frozen: Option<Timestamp>,
    pub(crate) medium: Medium,
    pub(crate) view: View,
    pub(crate) density: Density,
    pub(crate) overlay: Overlay,
    /// Column that the lines are sorted by: one of [`rows::SORTED`].
    pub(crate) column: &'static str,
    pub(crate) descending: bool,
    pub(crate) filter: String,
    pub(crate) selected: usize,
    /// Whether the user selected the line, so that the selection follows its process or user.
    is_selected: bool,
    /// First visible line of the table, and first visible GPU.
    pub(crate) table_top: usize,
    pub(crate) gpus_top: usize,
    /// Number of table lines that fitted at the last draw.
    pub(crate) page: usize,
    pub(crate) driver: Driver,
    /// Last message to the user.
    pub(crate) notice: Option<Notice>,
    /// Whether recorded moments were requested and have not arrived yet.
    pub(crate) is_loading: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) text: String,
    pub(crate) is_bad: bool,
}

impl App {
    pub fn new(setup: Setup, now: Timestamp) -> Self {
        let streaks = Streaks::new(setup.thresholds);
        Self {
            setup,
            timeline: Timeline::default(),
            streaks,
            lineage: Lineage::new(),
            surroundings: Surroundings::default(),
            frozen: None,
            medium: Medium::Screen,
            view: View::Processes,
            density: Density::Auto,
            overlay: Overlay::None,
            column: rows::SORTED[0],
            descending: false,
            filter: String::new(),
            selected: 0,
            is_selected: false,
            table_top: 0,
            gpus_top: 0,
            page: 1,
            driver: Driver::Opening(now),
            notice: None,
            is_loading: false,
        }
    }

    /// Adds a sample.
    pub fn take_sample(&mut self, mut sample: Sample) {
        let before = self.timeline.last().map(|before| &before.sample);
        lost::add_unidentified(&mut sample, before);
        self.driver = Driver::Answered(sample.at);
        let interval = self.setup.interval;
        self.streaks.see(&sample, interval);
        self.keeping_selection(|app| {
            app.timeline.push(Moment {
                sample,
                interval,
                source: Source::Live,
            });
        });
    }

    /// Records that the driver failed.
    pub fn take_fault(&mut self, fault: String, now: Timestamp) {
        let (Driver::Opening(since) | Driver::Answered(since) | Driver::Faulty { since, .. }) =
            self.driver;
        let since = since.min(now);
        self.driver = Driver::Faulty { since, fault };
    }

    /// Adds what the recorded history knows about states that began before this run.
    pub fn take_since(&mut self, since: &BTreeMap<GpuUuid, Since>) {
        for (gpu, since) in since {
            self.streaks.lengthen(gpu, *since);
        }
    }

    /// Adds recorded moments, in order of time; an empty list means that there are no older ones.
    pub fn take_recorded(&mut self, mut recorded: Vec<Moment>) {
        for place in 0..recorded.len() {
            let (before, rest) = recorded.split_at_mut(place);
            if let Some(moment) = rest.first_mut() {
                lost::add_unidentified(
                    &mut moment.sample,
                    before.last().map(|before| &before.sample),
                );
            }
        }
        self.is_loading = false;
        self.keeping_selection(|app| app.put_recorded(recorded));
    }

    fn put_recorded(&mut self, recorded: Vec<Moment>) {
        let before = self.timeline.first_at();
        match self.timeline.put_before(recorded) {
            0 => self.notify("no older samples in the recorded history"),
            // Performs the step back for which they were requested.
            count if self.frozen.is_some() && self.frozen == before => {
                let last = self.timeline.get(count - 1);
                self.frozen = last.map(|moment| moment.sample.at);
            }
            _ => {}
        }
    }

    /// Sets the ancestors of processes, for the tree; needed while [`App::wants_lineage`].
    pub fn take_lineage(&mut self, lineage: Lineage) {
        self.keeping_selection(|app| app.lineage = lineage);
    }

    /// Sets what the host says about now; the caller looks it up with each sample.
    pub fn take_surroundings(&mut self, surroundings: Surroundings) {
        self.keeping_selection(|app| app.surroundings = surroundings);
    }

    /// Adds recorded moments of the last minutes before the first sample, so that curves are not empty at the start.
    pub fn take_past(&mut self, mut recorded: Vec<Moment>) {
        let first = self.timeline.first_at();
        let from = first.and_then(|first| first.checked_sub(timeline::PAST).ok());
        recorded.retain(|moment| from.is_some_and(|from| moment.sample.at >= from));
        self.timeline.put_before(recorded);
    }

    pub fn wants_lineage(&self) -> bool {
        self.view == View::Tree && self.frozen.is_none()
    }

    /// Returns the processes of the newest sample, to look up what they use of the host.
    pub fn newest_processes(&self) -> Vec<ProcessKey> {
        let newest = self.timeline.last();
        let gpus = newest.into_iter().flat_map(|moment| &moment.sample.gpus);
        let processes = gpus.flat_map(|gpu| &gpu.processes);
        let mut keys: Vec<ProcessKey> = processes
            .filter_map(|process| Some(process.identity.as_ref().ok()?.key))
            .collect();
        keys.sort_unstable_by_key(|key| (key.pid, key.start.0));
        keys.dedup();
        keys
    }

    /// Returns the processes that are shown now.
    pub fn holders(&self) -> Vec<Pid> {
        let sample = self.shown().map(|moment| &moment.sample);
        let gpus = sample.into_iter().flat_map(|sample| &sample.gpus);
        gpus.flat_map(|gpu| &gpu.processes)
            .map(|process| process.pid)
            .collect()
    }

    /// Shows a message at the bottom.
    pub fn notify(&mut self, text: impl Into<String>) {
        let (text, is_bad) = (text.into(), false);
        self.notice = Some(Notice { text, is_bad });
    }

    /// Shows a warning at the bottom.
    pub fn warn(&mut self, text: impl Into<String>) {
        let (text, is_bad) = (text.into(), true);
        self.notice = Some(Notice { text, is_bad });
    }

    /// Returns the index of the moment that is shown.
    pub(crate) fn shown_index(&self) -> Option<usize> {
        match self.frozen {
            None => self.timeline.last_index(),
            Some(at) => self.timeline.index_at(at),
        }
    }

    pub(crate) fn shown(&self) -> Option<&Moment> {
        self.timeline.get(self.shown_index()?)
    }

    /// Returns since when each GPU is in its state. For past moments only those in memory are considered.
    pub(crate) fn streaks_shown(&self) -> Cow<'_, Streaks> {
        let Some(index) = self.frozen.and_then(|at| self.timeline.index_at(at)) else {
            return Cow::Borrowed(&self.streaks);
        };
        let mut streaks = Streaks::new(self.setup.thresholds);
        for moment in (0..=index).filter_map(|place| self.timeline.get(place)) {
            streaks.see(&moment.sample, moment.interval);
        }
        Cow::Owned(streaks)
    }

    /// Counts the GPUs by roll-up; those without one are `other`.
    pub(crate) fn counts(&self, sample: &Sample) -> [(&'static str, usize); 4] {
        let gpus = sample.gpus.iter().filter(|gpu| gpu.place.counts());
        let names = RollUp::ALL.map(|class| State::from(class).in_listings());
        let mut counts = [(names[0], 0), (names[1], 0), (names[2], 0), ("other", 0)];
        for gpu in gpus {
            let roll_up = classify(gpu, &self.setup.thresholds, None).state.roll_up();
            let place = match roll_up {
                // An idle or unreadable GPU with a fault is counted as unhealthy only.
                None | Some(RollUp::TrulyIdle) if !faults(gpu).is_empty() => continue,
                Some(RollUp::TrulyIdle) if !is_vacant(gpu, &self.setup.thresholds) => 3,
                other => other.map_or(3, RollUp::place),
            };
            counts[place].1 += 1;
        }
        counts
    }

    /// Returns the lines of the table of processes, in order.
    pub(crate) fn process_rows(&self) -> Vec<ProcessRow> {
        let Some(moment) = self.shown() else {
            return Vec::new();
        };
        let nothing = Surroundings::default();
        let surroundings = match self.frozen {
            None => &self.surroundings,
            Some(_) => &nothing,
        };
        let ticks = self.setup.ticks_per_second;
        let mut rows = rows::processes(&moment.sample, ticks, surroundings);
        if !self.filter.is_empty() {
            rows.retain(|row| rows::matches(row, &self.filter));
        }
        rows::sort(&mut rows, self.column, self.descending);
        match self.view {
            View::Tree => tree::arrange(rows, &self.lineage),
            View::Processes => jobs::merged(rows),
            View::Users => rows,
        }
    }

    pub(crate) fn user_rows(&self) -> Vec<UserRow> {
        let Some(moment) = self.shown() else {
            return Vec::new();
        };
        rows::users(&moment.sample, &self.process_rows(), &self.setup.thresholds)
    }

    pub(crate) fn row_count(&self) -> usize {
        match self.view {
            View::Users => self.user_rows().len(),
            View::Processes | View::Tree => self.process_rows().len(),
        }
    }
}
