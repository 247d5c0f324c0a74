//! Charts as SVG, drawn as strings: numbers in, a picture out. Charts show only numbers that a report also prints. They
//! look nothing up: the caller passes the window, the time zone and the language.
//!
//! Every chart has a title, a unit, a legend and an accessible description, and every mark has a tooltip and `data-`
//! attributes. Text is laid out with conservative widths instead of font metrics, so that labels do not touch in any
//! font. States differ in colour, brightness and pattern, so that a chart can be printed in greyscale.

mod axis;
mod bars;
mod canvas;
mod day;
mod heat;
mod measure;
mod palette;
#[cfg(feature = "png")]
mod png;
mod scale;
mod sessions;
mod states;
mod time_axis;
mod words;

pub use bars::{HoursBars, HoursRow};
pub use day::DayHours;
pub use heat::{HeatMap, HeatUnit, Tone};
pub use palette::page_style;
#[cfg(feature = "png")]
pub use png::{PngError, to_png};
pub use sessions::{SessionBar, SessionChart, SessionRow};
pub use states::{Measure, StateSlot, StatesOverTime};
pub use words::Language;

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

impl Frame {
    /// Creates a frame with the default width, for a standalone file.
    #[must_use]
    pub fn new(id: &str, title: &str) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            subtitle: None,
            theme: Theme::Auto,
            language: Language::English,
            width: 960,
        }
    }
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

/// States that a chart distinguishes, in stacking order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Active,
    IdleHeld,
    HeldUnknown,
    TrulyIdle,
    Gap,
}

impl Shown {
    pub const ALL: [Shown; 5] = [
        Shown::Active,
        Shown::IdleHeld,
        Shown::HeldUnknown,
        Shown::TrulyIdle,
        Shown::Gap,
    ];
    /// States in which a GPU is held.
    pub const HELD: [Shown; 3] = [Shown::Active, Shown::IdleHeld, Shown::HeldUnknown];

    /// Name in keys and columns.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Shown::Active => "active",
            Shown::IdleHeld => "idle-held",
            Shown::HeldUnknown => "held-unknown",
            Shown::TrulyIdle => "truly-idle",
            Shown::Gap => "gap",
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
    #[must_use]
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
    #[must_use]
    pub fn total(&self) -> f64 {
        Shown::ALL.iter().map(|state| self.of(*state)).sum()
    }

    /// Hours in which a GPU is held.
    #[must_use]
    pub fn held(&self) -> f64 {
        Shown::HELD.iter().map(|state| self.of(*state)).sum()
    }
}

impl std::ops::Add for StateHours {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            active: self.of(Shown::Active) + other.of(Shown::Active),
            idle_held: self.of(Shown::IdleHeld) + other.of(Shown::IdleHeld),
            held_unknown: self.of(Shown::HeldUnknown) + other.of(Shown::HeldUnknown),
            truly_idle: self.of(Shown::TrulyIdle) + other.of(Shown::TrulyIdle),
            gap: self.of(Shown::Gap) + other.of(Shown::Gap),
        }
    }
}

impl std::iter::Sum for StateHours {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum + one)
    }
}

#[cfg(test)]
pub(crate) mod tests;
