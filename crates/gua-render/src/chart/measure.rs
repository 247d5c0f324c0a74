//! Text widths without font metrics: upper bounds for common fonts, so that labels laid out with them never touch.

use gua_model::text::is_harmful;
use unicode_width::UnicodeWidthChar;

/// Ellipsis at the end of a truncated text.
const ELLIPSIS: char = '…';

/// Factor for bold faces, which are wider than the widths in the table.
const BOLD: f64 = 1.14;

/// Advance widths in thousandths of an em, from space to tilde, of DejaVu Sans. It is wider than the default sans-serif
/// fonts of common systems.
const ASCII: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318,
    337, // space to /
    636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, // 0 to ?
    1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787, // @ to O
    603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, // P to _
    500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, // ` to o
    635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838, // p to ~
];

/// Font weight of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Regular,
    Bold,
}

/// Returns an upper bound of the width of a text in pixels.
pub(crate) fn text_width(text: &str, size: f64, weight: Weight) -> f64 {
    let ems: f64 = text.chars().map(em_width).sum();
    ems * size * factor(weight)
}

/// Returns the text, truncated with an ellipsis if it does not fit; empty if not even the ellipsis fits.
pub(crate) fn fitted(text: &str, width: f64, size: f64, weight: Weight) -> String {
    if text_width(text, size, weight) <= width {
        return text.to_owned();
    }
    let scale = size * factor(weight);
    let mut kept = String::new();
    let mut ems = 0.0;
    for letter in text.chars() {
        ems += em_width(letter);
        // Same order of operations as `text_width`, so that rounding gives the same result.
        if (ems + em_width(ELLIPSIS)) * scale > width {
            break;
        }
        kept.push(letter);
    }
    let kept = kept.trim_end();
    if kept.is_empty() {
        return String::new();
    }
    format!("{kept}{ELLIPSIS}")
}

fn factor(weight: Weight) -> f64 {
    match weight {
        Weight::Regular => 1.0,
        Weight::Bold => BOLD,
    }
}

fn em_width(letter: char) -> f64 {
    if is_harmful(letter) {
        // It is displayed as the replacement character.
        return 1.1;
    }
    let code = u32::from(letter);
    let place = code
        .checked_sub(0x20)
        .and_then(|place| usize::try_from(place).ok());
    if let Some(width) = place.and_then(|place| ASCII.get(place)) {
        return f64::from(*width) / 1000.0;
    }
    match letter.width() {
        Some(0) => 0.0,
        // Emoji are drawn wider than East Asian letters.
        Some(2) if code >= 0x1_f000 => 1.4,
        Some(2) => 1.0,
        _ if code < 0x250 => 0.85,
        _ => 1.1,
    }
}

/// Wraps a text at word boundaries into lines of at most `room`; a wider word is truncated.
pub(crate) fn wrapped(text: &str, room: f64, size: f64, weight: Weight) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match longer.filter(|line| text_width(line, size, weight) <= room) {
            Some(line) => {
                lines.pop();
                lines.push(line);
            }
            None => lines.push(fitted(word, room, size, weight)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_east_asian_letter_takes_a_whole_em_and_a_combining_mark_nothing() {
        let width = |text| text_width(text, 10.0, Weight::Regular);
        assert!((width("김민수") - 30.0).abs() < 1e-9);
        assert!((width("e\u{301}") - width("e")).abs() < 1e-9);
        assert!(width("iii") < width("mmm"));
        assert!(text_width("mmm", 10.0, Weight::Bold) > width("mmm"));
    }

    #[test]
    fn a_text_that_does_not_fit_ends_with_an_ellipsis_and_fits_then() {
        let fit = |text, width| fitted(text, width, 10.0, Weight::Regular);
        assert_eq!(fit("ada", 100.0), "ada");
        assert_eq!(fit("alexander the great", 60.0), "alexande…");
        assert_eq!(fit("ada", 5.0), "");
        for width in 0..200 {
            let width = f64::from(width);
            let shown = fit("김민수 and alexander", width);
            assert!(text_width(&shown, 10.0, Weight::Regular) <= width);
        }
    }
}
