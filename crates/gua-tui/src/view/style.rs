//! Styles by meaning, from `gua_model::palette`. Without colours, bold, dim and reversed text remain.

use gua_model::palette::{Emphasis, MUTED};
use gua_model::{State, Tone};
use ratatui::style::{Color, Modifier, Style};

use crate::terminal::Palette;

/// Share of memory, power or temperature from which it is emphasised.
const FULL: f64 = 0.9;

#[derive(Clone, Copy)]
pub(super) struct Styles(pub(super) Palette);

impl Styles {
    fn colour(self, number: u8) -> Style {
        match self.0 {
            Palette::Colour => Style::new().fg(Color::Indexed(number)),
            Palette::Plain => Style::new(),
        }
    }

    pub(super) fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn dim(self) -> Style {
        match self.0 {
            Palette::Colour => self.colour(MUTED),
            Palette::Plain => Style::new().add_modifier(Modifier::DIM),
        }
    }

    /// Returns the style of text in a tone.
    pub(super) fn tone(self, tone: Tone) -> Style {
        let colours = tone.colours();
        let style = self.colour(colours.terminal);
        match colours.emphasis {
            Emphasis::Regular => style,
            Emphasis::Bold => style.add_modifier(Modifier::BOLD),
            Emphasis::Reversed => style.add_modifier(Modifier::BOLD | Modifier::REVERSED),
        }
    }

    pub(super) fn bad(self) -> Style {
        self.tone(Tone::Unhealthy)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn state(self, state: State) -> Style {
        self.tone(Tone::of(state))
    }

    pub(super) fn share(self, word: &str) -> Style {
        let mut states = State::ALL.into_iter();
        let state = states.find(|state| state.in_listings() == word);
        self.state(state.unwrap_or(State::Unobserved))
    }

    /// Returns the style for a share of memory, power or temperature.
    pub(super) fn load(self, share: f64) -> Style {
        match share {
            FULL.. => self.bold(),
            _ => Style::new(),
        }
    }
}
