//! The drawing surface of every chart: header, legend, text and marks in the theme's colours, and the message of an
//! empty chart.

use super::measure::{Weight, fitted, text_width, wrapped};
use super::palette::{
    self, GAP_LINE, IDLE_STRIPE, INK, MUTED, Paint, SURFACE, UNKNOWN_DOT, of_state,
};
use super::{Frame, Shown, Theme};
use crate::svg::{Svg, number};

/// Margin on all sides.
pub(crate) const MARGIN: f64 = 20.0;
/// Font size of labels.
pub(crate) const LABEL: f64 = 11.0;
const TITLE: f64 = 17.0;
const SUBTITLE: f64 = 12.0;
const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Noto Sans CJK KR', 'Malgun Gothic', 'DejaVu Sans', sans-serif";

/// Point of a text that its coordinates refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// One line of text; `y` is its baseline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) content: &'a str,
    pub(crate) size: f64,
    pub(crate) weight: Weight,
    pub(crate) anchor: Anchor,
    pub(crate) paint: Paint,
}

impl<'a> Text<'a> {
    pub(crate) fn label(x: f64, y: f64, anchor: Anchor, content: &'a str) -> Self {
        Self {
            x,
            y,
            content,
            size: LABEL,
            weight: Weight::Regular,
            anchor,
            paint: MUTED,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Rect {
    pub(crate) fn right(self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(self) -> f64 {
        self.y + self.height
    }
}

/// Fill of a mark.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fill {
    State(Shown),
    Plain(Paint),
    /// Invisible, but has a tooltip.
    Clear,
}

#[derive(Debug)]
pub(crate) struct Canvas<'a> {
    frame: &'a Frame,
    body: Svg,
    /// Bottom of the header, where the chart begins.
    pub(crate) top: f64,
}

impl<'a> Canvas<'a> {
    pub(crate) fn new(frame: &'a Frame) -> Self {
        let mut canvas = Self {
            frame,
            body: Svg::default(),
            top: MARGIN,
        };
        canvas.header();
        canvas
    }

    pub(crate) fn width(&self) -> f64 {
        f64::from(self.frame.width.clamp(320, 20_000))
    }

    fn header(&mut self) {
        let room = self.width() - 2.0 * MARGIN;
        let title = fitted(&self.frame.title, room, TITLE, Weight::Bold);
        self.top += TITLE;
        self.text(&Text {
            x: MARGIN,
            y: self.top - 3.0,
            content: &title,
            size: TITLE,
            weight: Weight::Bold,
            anchor: Anchor::Start,
            paint: INK,
        });
        if let Some(subtitle) = &self.frame.subtitle {
            // The subtitle is never truncated: it lists the filters.
            for line in wrapped(subtitle, room, SUBTITLE, Weight::Regular) {
                self.top += SUBTITLE + 6.0;
                self.text(&Text {
                    size: SUBTITLE,
                    ..Text::label(MARGIN, self.top - 3.0, Anchor::Start, &line)
                });
            }
        }
        self.top += 10.0;
    }

    /// Draws swatches with their names, wrapped into rows.
    pub(crate) fn legend(&mut self, entries: &[(Fill, &str)]) {
        const SWATCH: f64 = 14.0;
        let room = self.width() - 2.0 * MARGIN;
        let mut x = MARGIN;
        self.top += 4.0;
        for (fill, name) in entries {
            let name = fitted(name, room - SWATCH - 6.0, LABEL, Weight::Regular);
            let width = SWATCH + 6.0 + text_width(&name, LABEL, Weight::Regular);
            if x > MARGIN && x + width > MARGIN + room {
                x = MARGIN;
                self.top += 20.0;
            }
            let swatch = Rect {
                x,
                y: self.top,
                width: SWATCH,
                height: 11.0,
            };
            self.rect(swatch, *fill, &[("rx", "2")], "");
            self.text(&Text::label(
                x + SWATCH + 6.0,
                self.top + 9.5,
                Anchor::Start,
                &name,
            ));
            x += width + 18.0;
        }
        self.top += 24.0;
    }

    pub(crate) fn text(&mut self, text: &Text<'_>) {
        self.written(text, &[], "");
    }

    /// Draws a text with a tooltip, for text that was truncated.
    pub(crate) fn text_with_tooltip(&mut self, text: &Text<'_>, tooltip: &str) {
        self.written(text, &[], tooltip);
    }

    /// Draws a text over marks of any colour, with an outline for contrast.
    pub(crate) fn text_over_marks(&mut self, text: &Text<'_>) {
        let stroke = SURFACE.plain(self.frame.theme);
        let rim = [
            ("stroke", stroke),
            ("stroke-width", "2.6"),
            ("stroke-linejoin", "round"),
            ("paint-order", "stroke"),
            ("pointer-events", "none"),
        ];
        self.written(text, &rim, "");
    }

    fn written(&mut self, text: &Text<'_>, rim: &[(&str, &str)], tooltip: &str) {
        if text.content.is_empty() {
            return;
        }
        let (x, y, size) = (number(text.x), number(text.y), number(text.size));
        let class = if rim.is_empty() {
            format!("f-{}", text.paint.name)
        } else {
            format!("f-{} s-{}", text.paint.name, SURFACE.name)
        };
        let mut attributes = vec![
            ("x", x.as_str()),
            ("y", &y),
            ("font-size", &size),
            ("fill", text.paint.plain(self.frame.theme)),
            ("class", &class),
        ];
        match text.anchor {
            Anchor::Start => {}
            Anchor::Middle => attributes.push(("text-anchor", "middle")),
            Anchor::End => attributes.push(("text-anchor", "end")),
        }
        if text.weight == Weight::Bold {
            attributes.push(("font-weight", "bold"));
        }
        attributes.extend_from_slice(rim);
        if tooltip.is_empty() {
            self.body.text("text", &attributes, text.content);
        } else {
            self.body.open("text", &attributes);
            self.body.text("title", &[], tooltip);
            self.body.content(text.content);
            self.body.close("text");
        }
    }

    /// Opens a group whose marks share a fill.
    pub(crate) fn open_group(&mut self, fill: Fill, name: &str) {
        let fill = self.fill(fill);
        let mut attributes = vec![("fill", fill.0.as_str())];
        if !fill.1.is_empty() {
            attributes.push(("class", fill.1.as_str()));
        }
        if !name.is_empty() {
            attributes.push(("data-state", name));
        }
        self.body.open("g", &attributes);
    }

    pub(crate) fn close_group(&mut self) {
        self.body.close("g");
        self.body.line_break();
    }

    /// Draws a mark that inherits its fill from its group.
    pub(crate) fn bare_rect(&mut self, rect: Rect) {
        self.marked("rect", rect, &[], "");
    }

    pub(crate) fn rect(&mut self, rect: Rect, fill: Fill, facts: &[(&str, &str)], tooltip: &str) {
        let fill = self.fill(fill);
        let mut attributes = vec![("fill", fill.0.as_str())];
        if !fill.1.is_empty() {
            attributes.push(("class", fill.1.as_str()));
        }
        attributes.extend_from_slice(facts);
        self.marked("rect", rect, &attributes, tooltip);
    }

    fn marked(&mut self, name: &str, rect: Rect, attributes: &[(&str, &str)], tooltip: &str) {
        let place = [rect.x, rect.y, rect.width, rect.height].map(number);
        let mut all = vec![
            ("x", place[0].as_str()),
            ("y", &place[1]),
            ("width", &place[2]),
            ("height", &place[3]),
        ];
        all.extend_from_slice(attributes);
        if tooltip.is_empty() {
            self.body.leaf(name, &all);
        } else {
            self.body.open(name, &all);
            self.body.text("title", &[], tooltip);
            self.body.close(name);
        }
    }

    pub(crate) fn path(&mut self, data: &str) {
        self.body.leaf("path", &[("d", data)]);
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), paint: Paint) {
        let place = [from.0, from.1, to.0, to.1].map(number);
        let class = format!("s-{}", paint.name);
        self.body.leaf(
            "line",
            &[
                ("x1", &place[0]),
                ("y1", &place[1]),
                ("x2", &place[2]),
                ("y2", &place[3]),
                ("stroke", paint.plain(self.frame.theme)),
                ("class", &class),
            ],
        );
    }

    /// Returns a chart with a message instead of data.
    pub(crate) fn empty(frame: &'a Frame, words: &str) -> String {
        let mut canvas = Self::new(frame);
        let plot = Rect {
            x: MARGIN,
            y: canvas.top,
            width: canvas.width() - 2.0 * MARGIN,
            height: 120.0,
        };
        canvas.rect(plot, Fill::Plain(palette::BAND), &[("rx", "6")], "");
        let shown = fitted(words, plot.width - 12.0, 13.0, Weight::Regular);
        canvas.text(&Text {
            size: 13.0,
            ..Text::label(
                plot.x + plot.width / 2.0,
                plot.y + plot.height / 2.0 + 4.5,
                Anchor::Middle,
                &shown,
            )
        });
        canvas.finish(plot.bottom() + MARGIN, words)
    }

    /// Returns the attribute and the class of a fill.
    fn fill(&self, fill: Fill) -> (String, String) {
        match fill {
            Fill::State(state @ (Shown::Active | Shown::TrulyIdle)) => {
                self.fill(Fill::Plain(of_state(state)))
            }
            Fill::State(state) => (
                format!("url(#{}-{})", self.frame.id, state.key()),
                String::new(),
            ),
            Fill::Plain(paint) => (
                paint.plain(self.frame.theme).to_owned(),
                format!("f-{}", paint.name),
            ),
            Fill::Clear => ("none".to_owned(), String::new()),
        }
    }

    /// Returns the whole document, `height` pixels high.
    pub(crate) fn finish(self, height: f64, description: &str) -> String {
        let (width, height) = (number(self.width()), number(height.ceil()));
        let (title_id, description_id) = (
            format!("{}-title", self.frame.id),
            format!("{}-description", self.frame.id),
        );
        let mut svg = Svg::default();
        svg.open(
            "svg",
            &[
                ("xmlns", "http://www.w3.org/2000/svg"),
                ("viewBox", &format!("0 0 {width} {height}")),
                ("width", &width),
                ("height", &height),
                ("class", "gua-chart"),
                ("role", "img"),
                ("aria-labelledby", &format!("{title_id} {description_id}")),
                ("font-family", FONTS),
            ],
        );
        svg.line_break();
        svg.text("title", &[("id", &title_id)], &self.frame.title);
        svg.text("desc", &[("id", &description_id)], description);
        svg.line_break();
        if self.frame.theme == Theme::Auto {
            svg.style(&palette::own_style());
        }
        self.patterns(&mut svg);
        if self.frame.theme != Theme::Page {
            let class = format!("f-{}", SURFACE.name);
            svg.leaf(
                "rect",
                &[
                    ("width", &width),
                    ("height", &height),
                    ("fill", SURFACE.plain(self.frame.theme)),
                    ("class", &class),
                ],
            );
        }
        svg.line_break();
        svg.append(&self.body);
        svg.close("svg");
        svg.line_break();
        svg.finish()
    }

    /// Defines stripes, dots and hatches, which distinguish states without colour.
    fn patterns(&self, svg: &mut Svg) {
        let shapes = [
            (
                Shown::IdleHeld,
                IDLE_STRIPE,
                "M-1.5 1.5L1.5 -1.5M0 6L6 0M4.5 7.5L7.5 4.5",
                "1.3",
            ),
            (
                Shown::HeldUnknown,
                UNKNOWN_DOT,
                "M1.5 1.5h.01M4.5 4.5h.01",
                "1.7",
            ),
            (
                Shown::Gap,
                GAP_LINE,
                "M-1.5 4.5L1.5 7.5M0 0L6 6M4.5 -1.5L7.5 1.5",
                "1",
            ),
        ];
        svg.open("defs", &[]);
        for (state, paint, data, stroke) in shapes {
            let ground = of_state(state);
            let theme = self.frame.theme;
            svg.open(
                "pattern",
                &[
                    ("id", &format!("{}-{}", self.frame.id, state.key())),
                    ("width", "6"),
                    ("height", "6"),
                    ("patternUnits", "userSpaceOnUse"),
                ],
            );
            svg.leaf(
                "rect",
                &[
                    ("width", "6"),
                    ("height", "6"),
                    ("fill", ground.plain(theme)),
                    ("class", &format!("f-{}", ground.name)),
                ],
            );
            svg.leaf(
                "path",
                &[
                    ("d", data),
                    ("fill", "none"),
                    ("stroke", paint.plain(theme)),
                    ("stroke-width", stroke),
                    ("stroke-linecap", "round"),
                    ("class", &format!("s-{}", paint.name)),
                ],
            );
            svg.close("pattern");
        }
        svg.close("defs");
        svg.line_break();
    }
}
