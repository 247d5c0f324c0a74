//! SVG and HTML as text: elements, attributes and numbers, escaped. This module is independent of charts.

use std::fmt::Write as _;

use gua_model::text::is_harmful;

/// A document under construction. The caller closes every element that it opens.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    out: String,
}

impl Svg {
    pub(crate) fn finish(self) -> String {
        self.out
    }

    /// Opens an element, which `close` ends.
    pub(crate) fn open(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.out.push('>');
    }

    pub(crate) fn close(&mut self, name: &str) {
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }

    /// Writes an empty element.
    pub(crate) fn leaf(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.out.push_str("/>");
    }

    /// Writes an element with text.
    pub(crate) fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        self.open(name, attributes);
        escape(&mut self.out, text);
        self.close(name);
    }

    /// Writes text beside other elements.
    pub(crate) fn content(&mut self, text: &str) {
        escape(&mut self.out, text);
    }

    /// Appends the content of another document.
    pub(crate) fn append(&mut self, other: &Self) {
        self.out.push_str(&other.out);
    }

    /// Writes a trusted style sheet without escaping.
    pub(crate) fn style(&mut self, sheet: &str) {
        self.open("style", &[]);
        self.out.push_str(sheet);
        self.close("style");
    }

    /// Writes finished markup without escaping, such as a chart in a page.
    pub(crate) fn markup(&mut self, finished: &str) {
        self.out.push_str(finished);
    }

    pub(crate) fn line_break(&mut self) {
        self.out.push('\n');
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.out.push('<');
        self.out.push_str(name);
        for (key, value) in attributes {
            self.out.push(' ');
            self.out.push_str(key);
            self.out.push_str("=\"");
            escape(&mut self.out, value);
            self.out.push('"');
        }
    }
}

/// Formats a coordinate with at most two decimals, which is finer than a screen's resolution.
pub(crate) fn number(value: f64) -> String {
    let mut text = format!("{value:.2}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if text == "-0" { "0".to_owned() } else { text }
}

/// Escapes untrusted text for XML. Control characters and characters that XML forbids are replaced; line feeds are
/// kept.
fn escape(out: &mut String, text: &str) {
    for letter in text.chars() {
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

/// A path's data, step by step.
#[derive(Debug, Default)]
pub(crate) struct Path {
    data: String,
}

impl Path {
    pub(crate) fn move_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.data, "M{} {}", number(x), number(y));
    }

    pub(crate) fn horizontal(&mut self, x: f64) {
        let _ = write!(self.data, "H{}", number(x));
    }

    pub(crate) fn vertical(&mut self, y: f64) {
        let _ = write!(self.data, "V{}", number(y));
    }

    pub(crate) fn end(&mut self) {
        self.data.push('Z');
    }

    pub(crate) fn data(&self) -> &str {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_strangers_cannot_leave_its_place() {
        let mut svg = Svg::default();
        svg.text(
            "text",
            &[("data-name", "\"><script>")],
            "<b>&'\"\u{1b}[31m\u{202e}\u{ffff}\u{0}",
        );
        let xml = svg.finish();
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
