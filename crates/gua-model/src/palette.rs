//! The colours of every output: terminal text, the terminal view, charts and pages.
//!
//! A colour has one meaning everywhere: blue works, bold orange is held without being used, green is free, grey was not
//! observed, and reversed red needs repair. Colour is never the only sign. Each tone also has a character for bars, and
//! texts name the state in words.
//!
//! A program cannot know the background of a terminal, so each tone has one terminal colour that is readable on light
//! and on dark backgrounds. Pages know their background and have two. The tests check the contrast, and that tones
//! remain distinguishable for people who see colours differently.

use crate::state::{RollUp, State};

crate::words! {
    /// Meaning of a colour, in stacking order. Its word is the name in style sheets.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Tone {
        Active = "active",
        /// Held without being used.
        IdleHeld = "idle-held",
        /// Held, but nobody can tell whether it is used.
        HeldUnknown = "held-unknown",
        Free = "free",
        /// Not observed.
        Gap = "gap",
        /// Needs repair, or must be checked before it is used.
        Unhealthy = "unhealthy",
    }
}

/// Emphasis of a tone in a terminal, so that it differs from the others without colours too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emphasis {
    Regular,
    Bold,
    /// Bold, with text and background exchanged.
    Reversed,
}

/// A colour of a page, as `#rrggbb`, for a light and for a dark background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shade {
    pub light: &'static str,
    pub dark: &'static str,
}

/// All colours of one tone.
#[derive(Clone, Copy, Debug)]
pub struct Colours {
    /// Areas of charts and pages.
    pub fill: Shade,
    /// Text on pages.
    pub ink: Shade,
    /// Number in the terminal's table of 256 colours. The first 16 are not used, because users redefine them.
    pub terminal: u8,
    pub emphasis: Emphasis,
    /// Character of a bar in a terminal.
    pub glyph: char,
}

/// Terminal colour of text that matters less.
pub const MUTED: u8 = 244;

const fn shade(light: &'static str, dark: &'static str) -> Shade {
    Shade { light, dark }
}

impl Tone {
    /// Returns the tone of a state.
    pub const fn of(state: State) -> Self {
        match state {
            State::Active | State::Stalled | State::Ghost => Tone::Active,
            State::IdleHeld | State::OrphanHeld => Tone::IdleHeld,
            State::HeldUnknown => Tone::HeldUnknown,
            State::TrulyIdle => Tone::Free,
            State::Unobserved => Tone::Gap,
        }
    }

    /// Returns the colours of the tone. This is the only place where they are declared.
    pub const fn colours(self) -> Colours {
        match self {
            Tone::Active => Colours {
                fill: shade("#0b5fa5", "#4d9fe0"),
                ink: shade("#0b5fa5", "#4d9fe0"),
                terminal: 32,
                emphasis: Emphasis::Regular,
                glyph: '█',
            },
            Tone::IdleHeld => Colours {
                fill: shade("#f5ab45", "#f2ae49"),
                ink: shade("#9a5300", "#f2ae49"),
                terminal: 166,
                emphasis: Emphasis::Bold,
                glyph: '▒',
            },
            Tone::HeldUnknown => Colours {
                fill: shade("#b583a9", "#9a6f92"),
                ink: shade("#74446a", "#e0bcd9"),
                terminal: 133,
                emphasis: Emphasis::Regular,
                glyph: '?',
            },
            Tone::Free => Colours {
                fill: shade("#d3e9dc", "#2b4a3b"),
                ink: shade("#1f7a4d", "#5cc08d"),
                terminal: 29,
                emphasis: Emphasis::Regular,
                glyph: '░',
            },
            Tone::Gap => Colours {
                fill: shade("#fafbfc", "#161c23"),
                ink: shade("#566371", "#9fabb8"),
                terminal: MUTED,
                emphasis: Emphasis::Regular,
                glyph: '·',
            },
            Tone::Unhealthy => Colours {
                fill: shade("#b3261e", "#ff8a80"),
                ink: shade("#b3261e", "#ff8a80"),
                terminal: 161,
                emphasis: Emphasis::Reversed,
                glyph: '!',
            },
        }
    }
}

impl From<RollUp> for Tone {
    fn from(class: RollUp) -> Self {
        Tone::of(class.into())
    }
}

#[cfg(test)]
mod tests;
