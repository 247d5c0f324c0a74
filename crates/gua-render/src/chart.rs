//! Charts as SVG, drawn as strings: plain numbers in, a picture out. Nothing is computed here that a report does not
//! print as well, and nothing is looked up: the caller says which window, which time zone and which language.
//!
//! Every chart carries a title, a unit, a legend, a description for those who cannot see it, and a tooltip and `data-`
//! attributes on every mark. Texts are laid out by generous widths, never by a font, so that no two labels touch whatever
//! font the reader has. States differ in colour, in brightness and in pattern: the chart can be printed in grey.

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

/// What every chart is told, whatever it shows.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Unique among the charts of a page: patterns are found by it. Letters, digits and dashes.
    pub id: String,
    pub title: String,
    /// The window, the host, what was filtered.
    pub subtitle: Option<String>,
    pub theme: Theme,
    pub language: Language,
    /// In pixels; less than 320 is drawn as 320. The height follows from what there is to show.
    pub width: u32,
}

impl Frame {
    /// A frame as wide as a page, for a file of its own.
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

/// Where the colours come from. In every theme, the plain attributes alone make a complete picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Light or dark as the reader's system says, light on paper: for an SVG file of its own.
    Auto,
    /// As the page says that the chart stands in; see [`page_style`]. Without a background of its own.
    Page,
    /// Plain attributes only, for renderers that know no style sheets.
    Light,
    /// Plain attributes only, for renderers that know no style sheets.
    Dark,
}

/// What a chart tells apart, in the order of its stacks.
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
    /// Those in which somebody has the card.
    pub const HELD: [Shown; 3] = [Shown::Active, Shown::IdleHeld, Shown::HeldUnknown];

    /// The name that keys and columns use.
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
    /// The hours in one state. What is no amount of time (negative, not a number) draws nothing.
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

    /// All states together.
    #[must_use]
    pub fn total(&self) -> f64 {
        Shown::ALL.iter().map(|state| self.of(*state)).sum()
    }

    /// Those in which somebody has the card.
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
