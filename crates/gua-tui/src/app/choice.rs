//! The selected line of the table: it stays on its process or user when the order changes.

use gua_model::{Pid, ProcessKey};

use super::{App, View};
use crate::rows::ProcessRow;

/// Subject of the selected line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// A process by its key, or by its pid if nothing else is known, and its GPU.
    Process((Option<ProcessKey>, Pid), String),
    User(String),
}

impl App {
    /// Changes the data and keeps the selection on its subject while that exists. Without a selection the first line
    /// stays marked, so that an idle user sees the top of the table.
    pub(super) fn keeping_selection<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let choice = self.is_selected.then(|| self.choice()).flatten();
        let result = change(self);
        if let Some(place) = choice.and_then(|choice| self.place_of(&choice)) {
            self.selected = place;
        }
        result
    }

    /// Selects a line.
    pub(super) fn select(&mut self, place: usize) {
        self.selected = place.min(self.row_count().saturating_sub(1));
        self.is_selected = true;
    }

    /// Drops the selection and returns to the first line.
    pub(super) fn unselect(&mut self) {
        self.selected = 0;
        self.is_selected = false;
    }

    fn choice(&self) -> Option<Choice> {
        Some(match self.view {
            View::Users => Choice::User(self.user_rows().into_iter().nth(self.selected)?.user),
            View::Processes | View::Tree => {
                let row = self.process_rows().into_iter().nth(self.selected)?;
                Choice::Process((row.key, row.pid), row.gpu)
            }
        })
    }

    fn place_of(&self, choice: &Choice) -> Option<usize> {
        match (choice, self.view) {
            (Choice::User(user), View::Users) => {
                let rows = self.user_rows();
                rows.iter().position(|row| row.user == *user)
            }
            (Choice::Process(process, gpu), View::Processes | View::Tree) => {
                let rows = self.process_rows();
                let is_it = |row: &ProcessRow| (row.key, row.pid) == *process;
                // It may have left one of its GPUs.
                let here = rows.iter().position(|row| is_it(row) && row.gpu == *gpu);
                here.or_else(|| rows.iter().position(is_it))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{app, gpu, sample_of};
    use super::*;
    use crossterm::event::KeyCode as Key;

    type Held<'a> = &'a [(u32, &'a str, u64)];

    /// Sets the GPUs from now on, with processes as pid, user and MB.
    fn sample(app: &mut App, first: Held<'_>, second: Held<'_>) {
        let second_of_sample =
            1000 + i64::try_from(app.timeline.last_index().map_or(0, |at| at + 1)).unwrap();
        let gpus = vec![
            gpu(0, "GPU-a", Ok(50), first),
            gpu(1, "GPU-b", Ok(0), second),
        ];
        app.take_sample(sample_of(second_of_sample, gpus));
    }

    fn chosen(app: &App) -> String {
        let rows = app.process_rows();
        let row = rows.get(app.selected);
        row.map_or("nothing".to_owned(), |row| {
            format!("{} on {}", row.pid, row.gpu)
        })
    }

    fn app_with_bob_chosen() -> App {
        let mut app = app();
        sample(
            &mut app,
            &[(10, "ada", 900), (11, "bob", 500)],
            &[(12, "cyd", 100)],
        );
        app.key(Key::Down);
        assert_eq!(chosen(&app), "11 on 0");
        app
    }

    #[test]
    fn the_chosen_process_stays_chosen_when_the_order_changes() {
        let mut app = app_with_bob_chosen();
        sample(&mut app, &[(11, "bob", 950), (10, "ada", 900)], &[]);
        assert_eq!((chosen(&app).as_str(), app.selected), ("11 on 0", 0));
        sample(
            &mut app,
            &[(9, "eve", 999), (10, "ada", 980), (11, "bob", 950)],
            &[],
        );
        assert_eq!((chosen(&app).as_str(), app.selected), ("11 on 0", 2));
        for key in ['s', 'r', 'S', 't', 't', ' ', 'n'] {
            app.key(Key::Char(key));
            assert_eq!(chosen(&app), "11 on 0", "after {key}");
        }
        app.key(Key::Left);
        assert_eq!(chosen(&app), "11 on 0", "in the past");
    }

    #[test]
    fn a_process_on_two_gpus_stays_chosen_on_its_gpu_and_else_on_the_other() {
        let mut app = app();
        sample(
            &mut app,
            &[(10, "ada", 900)],
            &[(10, "ada", 500), (12, "cyd", 100)],
        );
        // The tree shows a process on each of its GPUs.
        app.key(Key::Char('t'));
        app.key(Key::Down);
        assert_eq!(chosen(&app), "10 on 1");
        sample(
            &mut app,
            &[(10, "ada", 900)],
            &[(12, "cyd", 700), (10, "ada", 500)],
        );
        assert_eq!(chosen(&app), "10 on 1");
        sample(&mut app, &[(10, "ada", 900)], &[(12, "cyd", 700)]);
        assert_eq!(chosen(&app), "10 on 0");
    }

    #[test]
    fn where_the_chosen_process_has_ended_the_line_stays() {
        let mut app = app_with_bob_chosen();
        sample(&mut app, &[(10, "ada", 900)], &[(12, "cyd", 100)]);
        assert_eq!(chosen(&app), "12 on 1");
        // A reused pid is another process.
        let mut app = app_with_bob_chosen();
        let mut other = gpu(0, "GPU-a", Ok(50), &[(11, "bob", 990), (10, "ada", 900)]);
        let identity = other.processes[0].identity.as_mut().unwrap();
        identity.key.start.0 += 1;
        app.take_sample(sample_of(1001, vec![other]));
        assert_eq!(chosen(&app), "10 on 0");
    }

    #[test]
    fn before_anything_is_chosen_the_first_line_is_the_first() {
        let mut app = app();
        sample(&mut app, &[(10, "ada", 900), (11, "bob", 500)], &[]);
        sample(&mut app, &[(11, "bob", 950), (10, "ada", 900)], &[]);
        assert_eq!(chosen(&app), "11 on 0");
        let mut app = app_with_bob_chosen();
        app.key(Key::Home);
        sample(&mut app, &[(9, "eve", 999), (10, "ada", 900)], &[]);
        assert_eq!(chosen(&app), "9 on 0");
    }

    #[test]
    fn a_chosen_user_stays_chosen_too() {
        let mut app = app();
        app.key(Key::Char('u'));
        sample(&mut app, &[(10, "ada", 900), (11, "bob", 500)], &[]);
        app.key(Key::Down);
        sample(
            &mut app,
            &[(10, "ada", 900), (11, "bob", 500)],
            &[(12, "bob", 100)],
        );
        assert_eq!(app.user_rows()[app.selected].user, "bob");
        assert_eq!(app.selected, 0);
    }
}
