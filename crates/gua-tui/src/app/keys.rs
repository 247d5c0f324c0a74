//! The effect of each key.

use std::time::Duration;

use crossterm::event::{KeyCode as Key, KeyEvent, KeyModifiers};
use gua_model::OwnerKey;
use jiff::Timestamp;

use super::{Action, App, Density, Overlay, PendingSignal, Rights, Signal, View};
use crate::rows::{SORTED, user_name};
use crate::timeline::Source;

/// Size of a large step through time.
const LEAP: Duration = Duration::from_mins(10);

impl App {
    /// Handles one key press. Returns the effect outside of the screen, if any.
    pub fn key(&mut self, key: impl Into<KeyEvent>) -> Option<Action> {
        let key: KeyEvent = key.into();
        let control = match key.code {
            Key::Char(letter) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                Some(letter.to_ascii_lowercase())
            }
            _ => None,
        };
        match control {
            Some('c') => return Some(Action::Quit),
            Some('z') => return Some(Action::Suspend),
            Some('l') => return Some(Action::Repaint),
            Some('u') if self.overlay == Overlay::Filter => self.filter.clear(),
            _ => {}
        }
        self.notice = None;
        // Other letters with Ctrl have no meaning of their own.
        let key = control.map_or(key.code, |_| Key::Null);
        match self.overlay.clone() {
            Overlay::Help => self.overlay = Overlay::None,
            Overlay::Filter => self.filter_key(key),
            Overlay::Confirm(pending) => return self.confirm_key(key, &pending),
            Overlay::None if self.move_key(key) => {}
            Overlay::None => return self.keeping_selection(|app| app.plain_key(key)),
        }
        None
    }

    /// Moves the selection, if the key does that.
    fn move_key(&mut self, key: Key) -> bool {
        match key {
            Key::Up | Key::Char('k') => self.select(self.selected.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(self.selected + 1),
            Key::PageUp => self.select(self.selected.saturating_sub(self.page)),
            Key::PageDown => self.select(self.selected + self.page),
            Key::Home | Key::Char('g') => self.unselect(),
            Key::End | Key::Char('G') => self.select(usize::MAX),
            _ => return false,
        }
        true
    }

    fn plain_key(&mut self, key: Key) -> Option<Action> {
        match key {
            Key::Char('q' | 'Q') => return Some(Action::Quit),
            // Esc closes one thing after the other, and the program last.
            Key::Esc if !self.filter.is_empty() => self.filter.clear(),
            Key::Esc if self.frozen.is_some() => self.follow(),
            Key::Esc => return Some(Action::Quit),
            Key::Char('?' | 'h') | Key::F(1) => self.overlay = Overlay::Help,
            Key::Char('/') | Key::F(4) => self.overlay = Overlay::Filter,
            Key::Char('s') => self.sort_by(1),
            Key::Char('S') => self.sort_by(SORTED.len() - 1),
            Key::Char('r') => self.descending = !self.descending,
            Key::Char('t') | Key::F(5) => self.toggle(View::Tree),
            Key::Char('u') => self.toggle(View::Users),
            Key::Tab => self.turn_view(1),
            Key::BackTab => self.turn_view(2),
            Key::Char('d') => {
                self.density = match self.density {
                    Density::Auto => Density::OneLine,
                    Density::OneLine => Density::Graphs,
                    Density::Graphs => Density::Auto,
                }
            }
            Key::Char(' ' | 'p') => self.pause(),
            Key::Char('n') => self.follow(),
            Key::Left => return self.step_back(),
            Key::Right => self.step_forward(),
            Key::Char('[') => return self.leap_back(),
            Key::Char(']') => self.leap_forward(),
            Key::Char('K') => self.gpus_top = self.gpus_top.saturating_sub(1),
            Key::Char('J') => self.gpus_top += 1,
            Key::Char('x') | Key::F(9) => self.request_signal(),
            _ => {}
        }
        None
    }

    fn filter_key(&mut self, key: Key) {
        match key {
            Key::Char(letter) => self.filter.push(letter),
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Enter | Key::Up | Key::Down => self.overlay = Overlay::None,
            Key::Esc => {
                self.filter.clear();
                self.overlay = Overlay::None;
            }
            _ => {}
        }
        self.unselect();
    }

    fn sort_by(&mut self, steps: usize) {
        let place = SORTED.iter().position(|name| *name == self.column);
        self.column = SORTED[(place.unwrap_or(0) + steps) % SORTED.len()];
        self.descending = matches!(self.column, "memory" | "sm" | "cpu" | "ram" | "age");
    }

    fn toggle(&mut self, view: View) {
        let is_on = self.view == view;
        self.view = if is_on { View::Processes } else { view };
        self.selected = 0;
    }

    fn turn_view(&mut self, steps: usize) {
        let all = [View::Processes, View::Tree, View::Users];
        let place = all.iter().position(|view| *view == self.view).unwrap_or(0);
        self.view = all[(place + steps) % all.len()];
        self.selected = 0;
    }

    fn pause(&mut self) {
        match self.frozen {
            Some(_) => self.follow(),
            None => self.frozen = self.timeline.last_at(),
        }
    }

    /// Returns to the newest moment.
    fn follow(&mut self) {
        self.frozen = None;
        self.timeline.drop_recorded();
    }

    /// Shows a moment of the past.
    fn show(&mut self, index: usize) {
        self.frozen = self.timeline.get(index).map(|moment| moment.sample.at);
    }

    fn step_back(&mut self) -> Option<Action> {
        let Some(older) = self.shown_index()?.checked_sub(1) else {
            return self.load();
        };
        self.show(older);
        None
    }

    fn leap_back(&mut self) -> Option<Action> {
        let at = self.shown()?.sample.at;
        let target = at.checked_sub(LEAP).unwrap_or(Timestamp::MIN);
        let first = self.timeline.first_at()?;
        if target < first && at == first {
            return self.load();
        }
        self.show(self.timeline.index_at(target.max(first))?);
        None
    }

    fn load(&mut self) -> Option<Action> {
        let first = self.timeline.first_at()?;
        self.frozen = Some(first);
        if !self.setup.has_history {
            self.notify("no recorded history; `gua daemon` keeps one");
            return None;
        }
        if self.timeline.is_full() {
            self.notify("this is as far back as top goes");
            return None;
        }
        if self.is_loading {
            return None;
        }
        self.is_loading = true;
        Some(Action::LoadBefore(first))
    }

    fn step_forward(&mut self) {
        let newer = self.frozen.and(self.shown_index()).map(|index| index + 1);
        match newer.filter(|newer| self.timeline.get(*newer).is_some()) {
            Some(newer) => self.show(newer),
            None => self.follow(),
        }
    }

    fn leap_forward(&mut self) {
        let target = self.frozen.and_then(|at| at.checked_add(LEAP).ok());
        let is_past =
            |target: &Timestamp| self.timeline.last_at().is_some_and(|last| *target < last);
        let place = target.filter(is_past);
        let Some(place) = place.and_then(|target| self.timeline.index_at(target)) else {
            return self.follow();
        };
        let before = self.frozen;
        self.show(place);
        // The gap is wider than the step.
        if self.frozen == before {
            self.step_forward();
        }
    }

    /// Opens the confirmation of a signal, or shows why there is none.
    fn request_signal(&mut self) {
        let me = match self.setup.rights {
            Rights::Own(me) | Rights::Admin(me) => me,
            Rights::Simulated => return self.warn("simulated processes cannot be signalled"),
            Rights::ReadOnly => return self.warn("read-only: no process is signalled"),
        };
        if self.view == View::Users {
            return self.warn("select a process first: Tab shows them");
        }
        let source = self.shown().map(|moment| moment.source);
        if source == Some(Source::Recorded) || self.frozen.is_some() {
            return self.warn("this is a past moment: n returns to now");
        }
        let rows = self.process_rows();
        let Some(row) = rows.get(self.selected) else {
            return self.warn("there is no process to signal");
        };
        if row.members > 1 {
            let count = row.members;
            return self.warn(format!("{count} processes: t shows them one by one"));
        }
        let own = row.own.as_ref().map(|user| user.uid);
        let owner = match &row.owner {
            // A rule names an owner for the books; the process is still its user's.
            Some(OwnerKey::Name(_)) => own,
            owner => owner.as_ref().and_then(OwnerKey::uid),
        };
        match row.key {
            Some(process) if me.owns(own, owner) || self.setup.rights == Rights::Admin(me) => {
                self.overlay = Overlay::Confirm(PendingSignal {
                    process,
                    pid: row.pid,
                    name: row.name.clone(),
                    owner: user_name(row.owner.as_ref()),
                    signal: Signal::Terminate,
                    is_own: me.owns(own, owner),
                });
            }
            _ => {
                let (pid, owner) = (row.pid, user_name(row.owner.as_ref()));
                self.warn(format!("{pid} is not your process (it belongs to {owner})"));
            }
        }
    }

    fn confirm_key(&mut self, key: Key, pending: &PendingSignal) -> Option<Action> {
        let mut all = Signal::ALL.iter();
        let place = all.position(|signal| *signal == pending.signal);
        let turned = |steps| Signal::ALL[(place.unwrap_or(0) + steps) % Signal::ALL.len()];
        let chosen = |signal| {
            Overlay::Confirm(PendingSignal {
                signal,
                ..pending.clone()
            })
        };
        match key {
            Key::Char('y' | 'Y') => {
                self.overlay = Overlay::None;
                return Some(Action::Signal {
                    process: pending.process,
                    signal: pending.signal,
                });
            }
            Key::Right | Key::Tab | Key::Down => self.overlay = chosen(turned(1)),
            Key::Left | Key::BackTab | Key::Up => self.overlay = chosen(turned(2)),
            Key::Char('t') => self.overlay = chosen(Signal::Terminate),
            Key::Char('i') => self.overlay = chosen(Signal::Interrupt),
            Key::Char('k') => self.overlay = chosen(Signal::Kill),
            Key::Esc | Key::Char('n' | 'N' | 'q') => {
                self.overlay = Overlay::None;
                self.notify("no signal was sent");
            }
            _ => {}
        }
        None
    }
}
