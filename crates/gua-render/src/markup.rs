//! Text in HTML and SVG: escaping, numbers with their exact values, and coordinates. Pages are `maud` templates; charts write their
//! elements themselves, because SVG files are XML.

use gua_model::text::is_harmful;
use maud::{Markup, Render, html};

use crate::table::Cell;

/// Text of any origin, escaped for XML. Control characters and characters that XML forbids are replaced; line feeds are kept.
/// Without it, a template escapes what HTML needs and keeps control characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escaped<T>(pub(crate) T);

impl<T: AsRef<str>> Render for Escaped<T> {
    fn render_to(&self, out: &mut String) {
        for letter in self.0.as_ref().chars() {
            match letter {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                '\n' => out.push('\n'),
                '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
                harmful if is_harmful(harmful) => out.push(char::REPLACEMENT_CHARACTER),
                letter => out.push(letter),
            }
        }
    }
}

/// A number for display, with its exact value as an attribute.
pub(crate) fn number_of(key: &str, cell: &Cell) -> Markup {
    html! { data data-key=(Escaped(key)) value=(Escaped(cell.exact())) { (Escaped(cell.shown())) } }
}

/// Formats a coordinate with at most two decimals, which is finer than a screen's resolution.
pub(crate) fn number(value: f64) -> String {
    let mut text = format!("{value:.2}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if text == "-0" { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_cannot_leave_its_place() {
        let name = "\"><script>";
        let text = "<b>&'\"\u{1b}[31m\u{202e}\u{ffff}\u{0}";
        let xml = html! { text data-name=(Escaped(name)) { (Escaped(text)) } }.into_string();
        assert!(!xml.contains("<script") && !xml.contains("<b>"), "{xml}");
        let document = roxmltree::Document::parse(&xml).unwrap();
        let element = document.root_element();
        assert_eq!(element.attribute("data-name"), Some("\"><script>"));
        assert_eq!(
            element.text(),
            Some("<b>&'\"\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}")
        );
    }

    #[test]
    fn numbers_are_short() {
        let check = |value, text: &str| assert_eq!(number(value), text);
        check(0.0, "0");
        check(-0.001, "0");
        check(12.5, "12.5");
        check(100.0, "100");
        check(1.0 / 3.0, "0.33");
    }
}
