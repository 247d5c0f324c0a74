//! The colours of charts and pages. Those of states are declared in `gua_model::palette`; here are the ones that only
//! charts have: text, lines, patterns and the steps of heat maps. Each state has a different brightness, so that states
//! can be distinguished in greyscale. Every colour has a light and a dark variant.

use gua_model::Tone;
use gua_model::palette::Shade;

use super::{Shown, Theme};

/// A colour, identified by its role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    /// Name of the role in classes and custom properties.
    pub(crate) name: &'static str,
    light: &'static str,
    dark: &'static str,
}

impl Paint {
    const fn new(name: &'static str, light: &'static str, dark: &'static str) -> Self {
        Self { name, light, dark }
    }

    /// Returns the colour of areas in this tone.
    const fn fill(tone: Tone) -> Self {
        let Shade { light, dark } = tone.colours().fill;
        Self::new(tone.as_str(), light, dark)
    }

    /// Returns the colour for presentation attributes, which apply if the style sheet is not supported.
    pub(crate) fn plain(self, theme: Theme) -> &'static str {
        match theme {
            Theme::Auto | Theme::Page | Theme::Light => self.light,
            Theme::Dark => self.dark,
        }
    }
}

/// Declares the colours: role, light and dark variant.
macro_rules! paints {
    ($($NAME:ident = $name:literal, $light:literal, $dark:literal;)*) => {
        $(pub(crate) const $NAME: Paint = Paint::new($name, $light, $dark);)*
        const ROLES: &[Paint] = &[$($NAME),*];
    };
}

paints! {
    SURFACE = "surface", "#ffffff", "#12171d";
    INK = "ink", "#1b2430", "#e8edf2";
    MUTED = "muted", "#566371", "#9fabb8";
    GRID = "grid", "#e4e8ed", "#29323b";
    AXIS = "axis", "#98a3af", "#566371";
    BAND = "band", "#f5f7f9", "#181f27";
    IDLE_STRIPE = "idle-stripe", "#df8c25", "#c98a2b";
    UNKNOWN_DOT = "unknown-dot", "#74446a", "#e0bcd9";
    GAP_LINE = "gap-line", "#a3adb8", "#5d6976";
    ON_PALE = "on-pale", "#1b2430", "#e8edf2";
    ON_STRONG = "on-strong", "#ffffff", "#0c1115";
}

/// Number of steps in a heat map. The first is exactly zero.
pub(crate) const HEAT_STEPS: usize = 8;
const USE: [Paint; HEAT_STEPS] = [
    Paint::new("use-0", "#f1f5f9", "#1a222b"),
    Paint::new("use-1", "#d9e8f5", "#1b3348"),
    Paint::new("use-2", "#b9d5ec", "#1e4665"),
    Paint::new("use-3", "#8fbcdf", "#235c86"),
    Paint::new("use-4", "#629fce", "#2b6fa0"),
    Paint::new("use-5", "#387db8", "#4a95cc"),
    Paint::new("use-6", "#1b5d9c", "#7ab6e3"),
    Paint::new("use-7", "#0a3d70", "#b5d8f3"),
];

/// Returns the colour of a state, below its pattern.
pub(crate) fn of_state(state: Shown) -> Paint {
    Paint::fill(state.tone())
}

/// Returns the colour of a step, and the colour of text on it.
pub(crate) fn of_heat(step: usize) -> (Paint, Paint) {
    let step = step.min(HEAT_STEPS - 1);
    (USE[step], if step < 5 { ON_PALE } else { ON_STRONG })
}

/// Returns the style sheet for a page with charts of [`Theme::Page`], to be included once per page. The theme follows
/// the system's preference or `data-theme="light|dark"` on the root element; print is always light.
pub fn page_style() -> String {
    let [light, dark] = [Theme::Light, Theme::Dark].map(properties);
    let classes = classes();
    format!(
        ":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\
         @media screen{{:root[data-theme=dark]{{{dark}}}}}{classes}.gua-chart{{max-width:100%;height:auto}}"
    )
}

/// Returns the style sheet inside a standalone chart.
pub(crate) fn own_style() -> String {
    let [light, dark] = [Theme::Light, Theme::Dark].map(properties);
    let classes = classes();
    format!(
        ".gua-chart{{{light}}}@media screen and (prefers-color-scheme:dark){{.gua-chart{{{dark}}}}}{classes}"
    )
}

fn all() -> impl Iterator<Item = Paint> {
    let tones = Tone::ALL.into_iter().map(Paint::fill);
    ROLES.iter().copied().chain(tones).chain(USE)
}

fn properties(theme: Theme) -> String {
    let fills = all().map(|paint| format!("--gua-{}:{};", paint.name, paint.plain(theme)));
    let inks = Tone::ALL.into_iter().map(|tone| {
        let Shade { light, dark } = tone.colours().ink;
        let ink = Paint::new(tone.as_str(), light, dark);
        format!("--gua-{}-ink:{};", ink.name, ink.plain(theme))
    });
    fills.chain(inks).collect()
}

/// Returns the rules for fill and stroke. A CSS rule overrides a presentation attribute, so that the theme applies if
/// style sheets are supported.
fn classes() -> String {
    let rules = |Paint { name, .. }: Paint| {
        format!(
            ".gua-chart .f-{name}{{fill:var(--gua-{name})}}.gua-chart .s-{name}{{stroke:var(--gua-{name})}}"
        )
    };
    // The free state is pale: an outline separates it from the ground. Print has no patterns: a viewer or a printer would
    // draw every mark with one again, which makes a page of many sessions twenty times as large.
    const OUTLINE: &str = ".gua-chart .f-free{stroke:var(--gua-free-ink);stroke-width:.6;vector-effect:non-scaling-stroke}";
    const PRINT: &str = "@media print{.gua-chart [data-state=idle-held]{fill:var(--gua-idle-held)}\
        .gua-chart [data-state=held-unknown]{fill:var(--gua-held-unknown)}\
        .gua-chart [data-state=gap]{fill:var(--gua-gap);stroke:var(--gua-gap-line);stroke-width:.5}}";
    let rules: String = all().map(rules).collect();
    rules + OUTLINE + PRINT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as WCAG 2 defines it.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn text_has_enough_contrast_to_its_background() {
        for theme in [Theme::Light, Theme::Dark] {
            for (text, ground) in [(INK, SURFACE), (MUTED, SURFACE), (INK, BAND), (MUTED, BAND)] {
                let found = contrast(text.plain(theme), ground.plain(theme));
                assert!(found >= 4.5, "{} on {}: {found}", text.name, ground.name);
            }
            for step in 0..HEAT_STEPS {
                let (ground, text) = of_heat(step);
                let found = contrast(text.plain(theme), ground.plain(theme));
                assert!(found >= 3.8, "on {} in {theme:?}: {found}", ground.name);
            }
        }
    }

    #[test]
    fn states_differ_in_brightness_and_steps_go_one_way() {
        for theme in [Theme::Light, Theme::Dark] {
            for (at, one) in Shown::ALL.iter().enumerate() {
                for other in &Shown::ALL[at + 1..] {
                    let found =
                        contrast(of_state(*one).plain(theme), of_state(*other).plain(theme));
                    let patterned = matches!(other, Shown::Gap | Shown::HeldUnknown);
                    let enough = if patterned { 1.05 } else { 1.3 };
                    assert!(
                        found >= enough,
                        "{one:?} and {other:?} in {theme:?}: {found}"
                    );
                }
            }
            let steps: Vec<f64> = (0..HEAT_STEPS)
                .map(|step| luminance(of_heat(step).0.plain(theme)))
                .collect();
            assert!(
                steps.is_sorted() || steps.iter().rev().is_sorted(),
                "{steps:?}"
            );
        }
    }
}
