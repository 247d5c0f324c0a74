//! SVG and HTML as text: elements, attributes and numbers, escaped. Elements are always closed, so that a page is
//! well-formed XML.

use std::fmt::Write as _;

use gua_model::text::is_harmful;

use crate::table::Cell;

/// Attributes of an element.
pub(crate) type Attributes<'a> = &'a [(&'a str, &'a str)];

/// A document under construction.
#[derive(Debug, Default)]
pub(crate) struct Markup {
    out: String,
}

impl Markup {
    pub(crate) fn finish(self) -> String {
        self.out
    }

    /// Writes an element with what `inside` writes.
    pub(crate) fn element(
        &mut self,
        name: &str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Self),
    ) {
        self.open(name, attributes);
        inside(self);
        self.close(name);
    }

    /// Opens an element, which `close` ends.
    pub(crate) fn open(&mut self, name: &str, attributes: Attributes<'_>) {
        self.tag(name, attributes);
        self.out.push('>');
    }

    pub(crate) fn close(&mut self, name: &str) {
        let _ = write!(self.out, "</{name}>");
        let is_block = matches!(
            name,
            "section" | "tr" | "p" | "header" | "table" | "head" | "li"
        );
        if is_block {
            self.line_break();
        }
    }

    /// Writes an empty element.
    pub(crate) fn leaf(&mut self, name: &str, attributes: Attributes<'_>) {
        self.tag(name, attributes);
        self.out.push_str("/>");
    }

    /// Writes an element with text.
    pub(crate) fn text(&mut self, name: &str, attributes: Attributes<'_>, text: &str) {
        self.element(name, attributes, |inside| inside.words(text));
    }

    /// Writes text beside elements.
    pub(crate) fn words(&mut self, text: &str) {
        escape(&mut self.out, text);
    }

    /// Writes a number for display, with its exact value as an attribute.
    pub(crate) fn number(&mut self, key: &str, cell: &Cell) {
        let attributes = [("data-key", key), ("value", &cell.exact())];
        self.text("data", &attributes, &cell.shown());
    }

    /// Writes finished markup without escaping, such as a chart in a page or a trusted style sheet.
    pub(crate) fn raw(&mut self, finished: &str) {
        self.out.push_str(finished);
    }

    pub(crate) fn line_break(&mut self) {
        self.out.push('\n');
    }

    fn tag(&mut self, name: &str, attributes: Attributes<'_>) {
        self.out.push('<');
        self.out.push_str(name);
        for (key, value) in attributes {
            let _ = write!(self.out, " {key}=\"");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_strangers_cannot_leave_its_place() {
        let mut svg = Markup::default();
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
