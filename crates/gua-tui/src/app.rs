//! What is shown and what a key does: a state machine without a terminal.

mod choice;
#[cfg(test)]
pub(crate) mod fixture;
mod keys;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::since::Since;
use gua_model::{GpuUuid, Pid, ProcessKey, RollUp, Sample, State, Thresholds, Uid, classify};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::lost;
use crate::rows::{self, Column, ProcessRow, UserRow};
use crate::streak::Streaks;
use crate::terminal::Palette;
use crate::timeline::{Moment, Source, Timeline};
use crate::tree::{self, Lineage};

/// What does not change while it runs.
#[derive(Clone, Debug)]
pub struct Setup {
    pub host: String,
    pub interval: Duration,
    pub thresholds: Thresholds,
    /// Clock ticks in which the kernel counts the start of a process.
    pub ticks_per_second: u64,
    pub zone: TimeZone,
    pub palette: Palette,
    pub rights: Rights,
    /// Whether there is a recorded history to scroll back into.
    pub has_history: bool,
}

/// Whether processes may be signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    ReadOnly,
    /// What is shown is made up, and so are its pids.
    MadeUp,
    /// Those of this person, and nobody else's.
    Own(Me),
}

/// The person at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Me {
    pub uid: Uid,
    /// Who is answerable for this program itself: the login user, also under sudo.
    pub owner: Uid,
}

impl Me {
    /// Whether a process runs as this user and this person is answerable for it. Root gets no more than that.
    #[must_use]
    pub fn owns(&self, own: Option<Uid>, owner: Option<Uid>) -> bool {
        own == Some(self.uid) && owner.is_some_and(|owner| owner == self.owner || owner == self.uid)
    }
}

/// A signal that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Terminate,
    Interrupt,
    Kill,
}

impl Signal {
    pub(crate) const ALL: [Signal; 3] = [Signal::Terminate, Signal::Interrupt, Signal::Kill];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Signal::Terminate => "TERM",
            Signal::Interrupt => "INT",
            Signal::Kill => "KILL",
        }
    }
}

/// What the program is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    /// Give the terminal back to the shell and stop.
    Suspend,
    /// Draw everything anew: something else wrote on the screen.
    Repaint,
    /// Read recorded moments that end before this time.
    LoadBefore(Timestamp),
    /// The confirmed wish to signal this very process.
    Signal {
        process: ProcessKey,
        signal: Signal,
    },
}

/// What the lower table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Processes,
    Tree,
    Users,
}

/// How much room a card gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Density {
    /// As much as there is.
    Auto,
    OneLine,
    Graphs,
}

/// What is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Screen,
    /// Nothing moves there and nobody chooses.
    Paper,
}

/// What lies over the picture and takes the keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Overlay {
    None,
    Help,
    Filter,
    Confirm(Wish),
}

/// A signal that is not confirmed yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) process: ProcessKey,
    pub(crate) pid: Pid,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) signal: Signal,
}

/// How the driver is doing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Driver {
    /// It has not answered yet, since this time.
    Opening(Timestamp),
    /// Its last answer.
    Answered(Timestamp),
    /// It failed, with what it said last.
    Faulty { since: Timestamp, fault: String },
}

/// Everything that is shown.
#[derive(Debug)]
pub struct App {
    pub(crate) setup: Setup,
    pub(crate) timeline: Timeline,
    streaks: Streaks,
    lineage: Lineage,
    /// The moment that is looked at; `None` follows the newest.
    pub(crate) frozen: Option<Timestamp>,
    pub(crate) medium: Medium,
    pub(crate) view: View,
    pub(crate) density: Density,
    pub(crate) overlay: Overlay,
    pub(crate) column: Column,
    pub(crate) descending: bool,
    pub(crate) filter: String,
    pub(crate) selected: usize,
    /// Whether the person went to that line, so that it stays with what stands there.
    is_chosen: bool,
    /// The first line of the table that is shown, and of the cards.
    pub(crate) table_top: usize,
    pub(crate) cards_top: usize,
    /// Lines of the table that fit, as of the last picture.
    pub(crate) page: usize,
    pub(crate) driver: Driver,
    /// The last word to the person, and whether it is bad news.
    pub(crate) notice: Option<Notice>,
    /// Whether the recorded history was asked and has not answered yet.
    pub(crate) is_loading: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) text: String,
    pub(crate) is_bad: bool,
}

impl App {
    #[must_use]
    pub fn new(setup: Setup, now: Timestamp) -> Self {
        let streaks = Streaks::new(setup.thresholds);
        Self {
            setup,
            timeline: Timeline::default(),
            streaks,
            lineage: Lineage::new(),
            frozen: None,
            medium: Medium::Screen,
            view: View::Processes,
            density: Density::Auto,
            overlay: Overlay::None,
            column: Column::Gpu,
            descending: false,
            filter: String::new(),
            selected: 0,
            is_chosen: false,
            table_top: 0,
            cards_top: 0,
            page: 1,
            driver: Driver::Opening(now),
            notice: None,
            is_loading: false,
        }
    }

    /// What the driver answered.
    pub fn take_sample(&mut self, mut sample: Sample) {
        let before = self.timeline.last_index();
        let before = before.and_then(|index| self.timeline.get(index));
        lost::put_in(&mut sample, before.map(|before| &before.sample));
        self.driver = Driver::Answered(sample.at);
        let interval = self.setup.interval;
        self.streaks.see(&sample, interval);
        self.keeping_choice(|app| {
            app.timeline.push(Moment {
                sample,
                interval,
                source: Source::Live,
            });
        });
    }

    /// Why it did not.
    pub fn take_fault(&mut self, fault: String, now: Timestamp) {
        let since = match &self.driver {
            Driver::Opening(since) | Driver::Answered(since) | Driver::Faulty { since, .. } => {
                *since
            }
        };
        self.driver = Driver::Faulty {
            since: since.min(now),
            fault,
        };
    }

    /// What the recorded history knows about states that went on when this run first looked.
    pub fn take_since(&mut self, since: &BTreeMap<GpuUuid, Since>) {
        for (gpu, since) in since {
            self.streaks.lengthen(gpu, *since);
        }
    }

    /// Recorded moments, in order of time; none where there are no older ones.
    pub fn take_recorded(&mut self, mut recorded: Vec<Moment>) {
        for place in 0..recorded.len() {
            let (before, rest) = recorded.split_at_mut(place);
            if let Some(moment) = rest.first_mut() {
                lost::put_in(
                    &mut moment.sample,
                    before.last().map(|before| &before.sample),
                );
            }
        }
        self.is_loading = false;
        self.keeping_choice(|app| app.put_recorded(recorded));
    }

    fn put_recorded(&mut self, recorded: Vec<Moment>) {
        let before = self.timeline.first_at();
        match self.timeline.put_before(recorded) {
            0 => self.tell("there is nothing older in the recorded history"),
            _ => {
                // The step back that asked for them.
                let last = before.and_then(|before| {
                    let index = self.timeline.index_at(before)?;
                    self.timeline
                        .get(index.checked_sub(1)?)
                        .map(|moment| moment.sample.at)
                });
                if self.frozen.is_some() && self.frozen == before {
                    self.frozen = last;
                }
            }
        }
    }

    /// Who started whom, for the tree; asked for while [`App::wants_lineage`].
    pub fn take_lineage(&mut self, lineage: Lineage) {
        self.keeping_choice(|app| app.lineage = lineage);
    }

    #[must_use]
    pub fn wants_lineage(&self) -> bool {
        self.view == View::Tree && self.frozen.is_none()
    }

    /// The processes that are shown now.
    #[must_use]
    pub fn holders(&self) -> Vec<Pid> {
        let sample = self.shown().map(|moment| &moment.sample);
        let gpus = sample.into_iter().flat_map(|sample| &sample.gpus);
        gpus.flat_map(|gpu| &gpu.processes)
            .map(|process| process.pid)
            .collect()
    }

    /// Says something at the lower edge.
    pub fn tell(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice {
            text: text.into(),
            is_bad: false,
        });
    }

    /// The same for bad news.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice {
            text: text.into(),
            is_bad: true,
        });
    }

    #[must_use]
    pub fn rights(&self) -> Rights {
        self.setup.rights
    }

    #[must_use]
    pub fn palette(&self) -> Palette {
        self.setup.palette
    }

    /// The index of the moment that is looked at.
    pub(crate) fn shown_index(&self) -> Option<usize> {
        match self.frozen {
            None => self.timeline.last_index(),
            Some(at) => self.timeline.index_at(at),
        }
    }

    pub(crate) fn shown(&self) -> Option<&Moment> {
        self.timeline.get(self.shown_index()?)
    }

    /// Since when each card is in its state. In the past only what is in memory is known.
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

    /// How many cards are in which share of the roll-up; the rest is neither.
    pub(crate) fn counts(&self, sample: &Sample) -> [(&'static str, usize); 4] {
        let cards = sample.gpus.iter().filter(|gpu| gpu.place.counts());
        let mut counts = [
            ("active", 0),
            ("idle-held", 0),
            ("truly-idle", 0),
            ("other", 0),
        ];
        for gpu in cards {
            let state: State = classify(gpu, &self.setup.thresholds, None).state;
            let place = match state.roll_up() {
                Some(RollUp::Active) => 0,
                Some(RollUp::IdleHeld) => 1,
                Some(RollUp::TrulyIdle) => 2,
                None => 3,
            };
            counts[place].1 += 1;
        }
        counts
    }

    /// The lines of the table of processes, in order.
    pub(crate) fn process_rows(&self) -> Vec<ProcessRow> {
        let Some(moment) = self.shown() else {
            return Vec::new();
        };
        let mut rows = rows::processes(&moment.sample, self.setup.ticks_per_second);
        if !self.filter.is_empty() {
            rows.retain(|row| rows::matches(row, &self.filter));
        }
        rows::sort(&mut rows, self.column, self.descending);
        match self.view {
            View::Tree => tree::arrange(rows, &self.lineage),
            View::Processes | View::Users => rows,
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
