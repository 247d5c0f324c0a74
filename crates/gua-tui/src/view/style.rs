//! Colours by meaning; without colours, bold, dim and reversed text.

use gua_model::State;
use ratatui::style::{Color, Modifier, Style};

use super::Mode;
use crate::terminal::Palette;

#[derive(Clone, Copy)]
pub(super) struct Styles(Palette);

impl Styles {
    pub(super) fn of(palette: Palette) -> Self {
        Self(palette)
    }

    fn colour(self, colour: Color) -> Style {
        match self.0 {
            Palette::Colour => Style::new().fg(colour),
            Palette::Plain => Style::new(),
        }
    }

    pub(super) fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn dim(self) -> Style {
        match self.0 {
            Palette::Colour => Style::new().fg(Color::DarkGray),
            Palette::Plain => Style::new().add_modifier(Modifier::DIM),
        }
    }

    pub(super) fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn heading(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(super) fn mode(self, mode: Mode) -> Style {
        match mode {
            Mode::Live => self.colour(Color::Green),
            Mode::Past => self
                .colour(Color::Yellow)
                .add_modifier(Modifier::BOLD | Modifier::REVERSED),
        }
    }

    pub(super) fn state(self, state: State) -> Style {
        match state {
            State::Active => self.colour(Color::Green),
            State::IdleHeld => self.colour(Color::Yellow).add_modifier(Modifier::BOLD),
            State::TrulyIdle => self.colour(Color::Blue),
            State::HeldUnknown => self.colour(Color::Magenta),
            State::Stalled | State::Ghost | State::OrphanHeld => {
                self.colour(Color::Magenta).add_modifier(Modifier::BOLD)
            }
            State::Unobserved => self.bad(),
        }
    }

    pub(super) fn share(self, word: &str) -> Style {
        let mut states = State::ALL.into_iter();
        let state = states.find(|state| state.as_str() == word);
        self.state(state.unwrap_or(State::Unobserved))
    }

    /// Returns the style for a share of memory, power or temperature.
    pub(super) fn load(self, share: f64) -> Style {
        match share {
            0.9.. => self.colour(Color::Red),
            0.7.. => self.colour(Color::Yellow),
            _ => self.colour(Color::Cyan),
        }
    }
}
