//! Key presses in our own type, so that tests can create them.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// One key press that the program handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Function(u8),
    /// A letter with Ctrl, in lower case.
    Control(char),
}

/// Input from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Key(Key),
    /// The terminal was resized, or shows this program again.
    Resized,
}

impl Input {
    /// Converts an event; `None` for key releases, mouse and focus.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => of_key(*key).map(Input::Key),
            Event::Resize(..) => Some(Input::Resized),
            _ => None,
        }
    }
}

fn of_key(event: KeyEvent) -> Option<Key> {
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        KeyCode::Char(letter) if control => Key::Control(letter.to_ascii_lowercase()),
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::F(number) => Key::Function(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_letters_are_told_from_plain_ones_and_releases_are_not_heard() {
        let typed = |code, modifiers| Input::of(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(
            typed(KeyCode::Char('C'), KeyModifiers::CONTROL),
            Some(Input::Key(Key::Control('c')))
        );
        assert_eq!(
            typed(KeyCode::Char('S'), KeyModifiers::SHIFT),
            Some(Input::Key(Key::Char('S')))
        );
        let mut release = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        release.kind = KeyEventKind::Release;
        assert_eq!(Input::of(&Event::Key(release)), None);
        assert_eq!(Input::of(&Event::Resize(80, 24)), Some(Input::Resized));
    }
}
