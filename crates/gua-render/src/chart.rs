//! Charts as SVG, drawn as strings: numbers in, a picture out. Charts show only numbers that a report also prints. They
//! look nothing up: the caller passes the window, the time zone and the language.
//!
//! Every chart has a title, a unit, a legend and an accessible description, and every mark has a tooltip and `data-`
//! attributes. Text is laid out with conservative widths instead of font metrics, so that labels do not touch in any
//! font. States differ in colour, brightness and pattern, so that a chart can be printed in greyscale.

mod axis;
mod bars;
mod canvas;
mod heat;
mod measure;
mod palette;
#[cfg(feature = "png")]
mod png;
mod scale;
mod sessions;
pub(crate) mod states;
mod time_axis;
pub(crate) mod words;

use gua_model::Tone;

use crate::language::Label;
pub use crate::language::Language;
pub use bars::{HoursBars, HoursRow};
pub use heat::{HeatMap, HeatUnit};
pub use palette::page_style;
#[cfg(feature = "png")]
pub use png::{PngError, to_png};
pub(crate) use scale::{count, thousands};
pub use sessions::{SessionBar, SessionChart, SessionRow};
pub use states::{DayHours, StateSlot, StatesOverTime};

/// Options that all charts share.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Unique ID within a page, referenced by the patterns. Letters, digits and dashes.
    pub id: String,
    pub title: String,
    /// The window, the host and the filters.
    pub subtitle: Option<String>,
    pub theme: Theme,
    pub language: Language,
    /// Width in pixels; at least 320. The height depends on the content.
    pub width: u32,
}

/// Source of the colours. In every theme, the presentation attributes alone make a complete picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Light or dark as the reader's system prefers, light in print: for a standalone SVG file.
    Auto,
    /// Colours of the surrounding page, see [`page_style`]. The chart has no background.
    Page,
    /// Presentation attributes only, for renderers without style sheet support.
    Light,
    /// Presentation attributes only, for renderers without style sheet support.
    Dark,
}

gua_model::words! {
    /// States that a chart distinguishes, in stacking order, with their names in keys and columns.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Shown {
        Active = "active",
        IdleHeld = "idle-held",
        HeldUnknown = "held-unknown",
        TrulyIdle = "truly-idle",
        Gap = "gap",
    }
}

impl Shown {
    /// States in which people hold a GPU. It is truly idle while their processes have too little memory to hold it.
    pub const HELD: [Shown; 4] = [
        Shown::Active,
        Shown::IdleHeld,
        Shown::HeldUnknown,
        Shown::TrulyIdle,
    ];

    /// Colours.
    pub const fn tone(self) -> Tone {
        match self {
            Shown::Active => Tone::Active,
            Shown::IdleHeld => Tone::IdleHeld,
            Shown::HeldUnknown => Tone::HeldUnknown,
            Shown::TrulyIdle => Tone::Free,
            Shown::Gap => Tone::Gap,
        }
    }

    /// Name for people.
    pub(crate) fn label(self) -> Label {
        match self {
            Shown::Active => Label("active", "실가동"),
            Shown::IdleHeld => Label("idle-held", "유휴점유"),
            Shown::HeldUnknown => Label("held-unknown", "점유(사용률 미상)"),
            Shown::TrulyIdle => Label("truly-idle", "완전유휴"),
            Shown::Gap => Label("gap (not observed)", "관측 공백"),
        }
    }
}

/// GPU-hours by state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StateHours {
    pub active: f64,
    pub idle_held: f64,
    pub held_unknown: f64,
    pub truly_idle: f64,
    pub gap: f64,
}

impl StateHours {
    /// Hours in one state; 0 if the value is negative or not a number.
    pub fn of(&self, state: Shown) -> f64 {
        let hours = match state {
            Shown::Active => self.active,
            Shown::IdleHeld => self.idle_held,
            Shown::HeldUnknown => self.held_unknown,
            Shown::TrulyIdle => self.truly_idle,
            Shown::Gap => self.gap,
        };
        if hours.is_finite() {
            hours.max(0.0)
        } else {
            0.0
        }
    }

    /// Hours in all states.
    pub fn total(&self) -> f64 {
        Shown::ALL.iter().map(|state| self.of(*state)).sum()
    }

    /// Hours in which a GPU is held.
    pub fn held(&self) -> f64 {
        Shown::HELD.iter().map(|state| self.of(*state)).sum()
    }

    /// The states that a legend explains: those that are rare only where there are any.
    pub(crate) fn in_legend(self, states: &[Shown]) -> impl Iterator<Item = Shown> {
        let of_people = states == Shown::HELD;
        let is_rare = move |state| match state {
            Shown::HeldUnknown | Shown::Gap => true,
            Shown::TrulyIdle => of_people,
            Shown::Active | Shown::IdleHeld => false,
        };
        let states = states.iter().copied();
        states.filter(move |state| !is_rare(*state) || self.of(*state) > 0.0)
    }

    /// One line for each state that occurred, as in a tooltip, each after a line feed.
    fn lines(&self, states: impl Iterator<Item = Shown>, language: Language) -> String {
        let states = states.filter(|state| self.of(*state) > 0.0);
        let line = |state: Shown| {
            let (word, amount) = (state.label().of(language), self.of(state));
            let share = scale::percent(amount / self.total());
            format!("\n{word}: {} ({share})", scale::hours(amount))
        };
        states.map(line).collect()
    }
}

impl std::iter::Sum for StateHours {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            active: sum.active + one.of(Shown::Active),
            idle_held: sum.idle_held + one.of(Shown::IdleHeld),
            held_unknown: sum.held_unknown + one.of(Shown::HeldUnknown),
            truly_idle: sum.truly_idle + one.of(Shown::TrulyIdle),
            gap: sum.gap + one.of(Shown::Gap),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
