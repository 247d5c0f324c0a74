//! Input from the terminal, as far as the program handles it.

use crossterm::event::{Event, KeyEvent, KeyEventKind};

/// Input from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Key(KeyEvent),
    /// The terminal was resized, or shows this program again.
    Resized,
}

impl Input {
    /// Converts an event; `None` for key releases, mouse and focus.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => Some(Input::Key(*key)),
            Event::Resize(..) => Some(Input::Resized),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyModifiers};

    use super::*;

    #[test]
    fn keys_keep_their_modifiers_and_releases_are_ignored() {
        let typed = |code, modifiers| Input::of(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(
            typed(KeyCode::Char('C'), KeyModifiers::CONTROL),
            Some(Input::Key(KeyEvent::new(
                KeyCode::Char('C'),
                KeyModifiers::CONTROL
            )))
        );
        assert_eq!(
            typed(KeyCode::Char('S'), KeyModifiers::SHIFT),
            Some(Input::Key(KeyEvent::new(
                KeyCode::Char('S'),
                KeyModifiers::SHIFT
            )))
        );
        let mut release = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        release.kind = KeyEventKind::Release;
        assert_eq!(Input::of(&Event::Key(release)), None);
        assert_eq!(Input::of(&Event::Resize(80, 24)), Some(Input::Resized));
    }
}
