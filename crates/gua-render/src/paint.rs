//! Colours of text for terminals, from `gua_model::palette`. The output removes them if colours are disabled.

use anstyle::{Ansi256Color, Style};
use gua_model::Tone;
use gua_model::palette::{Emphasis, MUTED};

/// Returns the style of text in a tone: `format!("{style}text{style:#}")`.
pub const fn style(tone: Tone) -> Style {
    let colours = tone.colours();
    let style = coloured(colours.terminal);
    match colours.emphasis {
        Emphasis::Regular => style,
        Emphasis::Bold => style.bold(),
        Emphasis::Reversed => style.bold().invert(),
    }
}

/// Returns the style of a bar's part, which is drawn with the tone's glyph.
pub const fn bar(tone: Tone) -> Style {
    coloured(tone.colours().terminal)
}

/// Returns the style of text that matters less.
pub const fn muted() -> Style {
    coloured(MUTED)
}

const fn coloured(number: u8) -> Style {
    let colour = anstyle::Color::Ansi256(Ansi256Color(number));
    Style::new().fg_color(Some(colour))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_is_the_terminal_colour_with_its_emphasis() {
        let check = |style: Style, expected: &str| assert_eq!(style.to_string(), expected);
        check(style(Tone::Active), "\x1b[38;5;32m");
        check(style(Tone::IdleHeld), "\x1b[1m\x1b[38;5;166m");
        check(style(Tone::Unhealthy), "\x1b[1m\x1b[7m\x1b[38;5;161m");
        check(bar(Tone::IdleHeld), "\x1b[38;5;166m");
        check(muted(), "\x1b[38;5;244m");
    }
}
