//! The drawing surface of every chart: header, legend, text and marks in the theme's colours, and the message of an
//! empty chart.

use std::fmt::Write as _;

use maud::Render as _;

use super::measure::{Weight, fitted, text_width, wrapped};
use super::palette::{
    self, GAP_LINE, IDLE_STRIPE, INK, MUTED, Paint, SURFACE, UNKNOWN_DOT, of_state,
};
use super::{Frame, Shown, StateHours, Theme};
use crate::markup::{Escaped, number};

/// Margin on all sides.
pub(crate) const MARGIN: f64 = 20.0;
/// Font size of labels.
pub(crate) const LABEL: f64 = 11.0;
const TITLE: f64 = 17.0;
const SUBTITLE: f64 = 12.0;
const FONTS: &str = "system-ui, -apple-system, &#39;Segoe UI&#39;, &#39;Noto Sans&#39;, &#39;Noto Sans CJK KR&#39;, \
                     &#39;Malgun Gothic&#39;, &#39;DejaVu Sans&#39;, sans-serif";

/// Names and values of attributes. Values may be of any origin.
pub(crate) type Attributes<'a> = &'a [(&'a str, &'a str)];

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
    x: f64,
    y: f64,
    content: &'a str,
    size: f64,
    weight: Weight,
    anchor: Anchor,
    paint: Paint,
    /// The whole text, if `content` is truncated.
    tooltip: &'a str,
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
            tooltip: "",
        }
    }

    pub(crate) fn painted(self, paint: Paint) -> Self {
        Self { paint, ..self }
    }

    pub(crate) fn sized(self, size: f64) -> Self {
        Self { size, ..self }
    }

    pub(crate) fn weighing(self, weight: Weight) -> Self {
        Self { weight, ..self }
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
    pub(crate) fn new(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self {
            x,
            y,
            width,
            height,
        }
    }

    pub(crate) fn right(self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(self) -> f64 {
        self.y + self.height
    }

    /// The middle between left and right.
    pub(crate) fn middle(self) -> f64 {
        self.x + self.width / 2.0
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
    pub(crate) frame: &'a Frame,
    body: String,
    /// Bottom of the header, where the chart begins.
    pub(crate) top: f64,
}

impl<'a> Canvas<'a> {
    pub(crate) fn new(frame: &'a Frame) -> Self {
        let mut canvas = Self {
            frame,
            body: String::new(),
            top: MARGIN,
        };
        canvas.header();
        canvas
    }

    pub(crate) fn width(&self) -> f64 {
        f64::from(self.frame.width.clamp(320, 20_000))
    }

    /// The width between the margins.
    pub(crate) fn room(&self) -> f64 {
        self.width() - 2.0 * MARGIN
    }

    fn header(&mut self) {
        let room = self.room();
        let title = fitted(&self.frame.title, room, TITLE, Weight::Bold);
        self.top += TITLE;
        let text = Text::label(MARGIN, self.top - 3.0, Anchor::Start, &title);
        self.text(text.sized(TITLE).weighing(Weight::Bold).painted(INK));
        if let Some(subtitle) = &self.frame.subtitle {
            // The subtitle is never truncated: it lists the filters.
            for line in wrapped(subtitle, room, SUBTITLE, Weight::Regular) {
                self.top += SUBTITLE + 6.0;
                let text = Text::label(MARGIN, self.top - 3.0, Anchor::Start, &line);
                self.text(text.sized(SUBTITLE));
            }
        }
        self.top += 10.0;
    }

    /// Draws the legend of the states that occur in a chart, and of what else it marks.
    pub(crate) fn state_legend(
        &mut self,
        states: &[Shown],
        total: &StateHours,
        others: &[(Fill, &str)],
    ) {
        let language = self.frame.language;
        let states = total.in_legend(states);
        let states = states.map(|state| (Fill::State(state), state.label().of(language)));
        const SWATCH: f64 = 14.0;
        let room = self.room();
        let mut x = MARGIN;
        self.top += 4.0;
        // Swatches with their names, wrapped into rows.
        for (fill, name) in states.chain(others.iter().copied()) {
            let name = fitted(name, room - SWATCH - 6.0, LABEL, Weight::Regular);
            let width = SWATCH + 6.0 + text_width(&name, LABEL, Weight::Regular);
            if x > MARGIN && x + width > MARGIN + room {
                x = MARGIN;
                self.top += 20.0;
            }
            let swatch = Rect::new(x, self.top, SWATCH, 11.0);
            self.rect(swatch, fill, &[("rx", "2")], "");
            let (x_text, y) = (x + SWATCH + 6.0, self.top + 9.5);
            self.label((x_text, y), Anchor::Start, &name);
            x += width + 18.0;
        }
        self.top += 24.0;
    }

    pub(crate) fn text(&mut self, text: Text<'_>) {
        self.written(text, "", "");
    }

    pub(crate) fn label(&mut self, (x, y): (f64, f64), anchor: Anchor, content: &str) {
        self.text(Text::label(x, y, anchor, content));
    }

    /// Draws the name of a row, truncated to `room`, to the left of `x`.
    pub(crate) fn row_name(&mut self, at: (f64, f64), name: &str, room: f64, look: (f64, Paint)) {
        let (size, paint) = look;
        let short = fitted(name, room, size, Weight::Regular);
        let tooltip = if short == name { "" } else { name };
        let text = Text::label(at.0, at.1, Anchor::End, &short);
        self.text(Text {
            size,
            paint,
            tooltip,
            ..text
        });
    }

    /// Draws a text over marks of any colour, with an outline for contrast.
    pub(crate) fn text_over_marks(&mut self, text: Text<'_>) {
        let (stroke, name) = (SURFACE.plain(self.frame.theme), SURFACE.name);
        let rim = format!(
            " stroke=\"{stroke}\" stroke-width=\"2.6\" stroke-linejoin=\"round\" paint-order=\"stroke\" pointer-events=\"none\""
        );
        self.written(text, &format!(" s-{name}"), &rim);
    }

    fn written(&mut self, text: Text<'_>, class: &str, rim: &str) {
        if text.content.is_empty() {
            return;
        }
        let [x, y, size] = [text.x, text.y, text.size].map(number);
        let (fill, name) = (text.paint.plain(self.frame.theme), text.paint.name);
        let anchor = match text.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = match text.weight {
            Weight::Regular => "",
            Weight::Bold => " font-weight=\"bold\"",
        };
        let (title, content) = (title(text.tooltip), escaped(text.content));
        let _ = write!(
            self.body,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{fill}\" class=\"f-{name}{class}\"\
             {anchor}{weight}{rim}>{title}{content}</text>"
        );
    }

    /// Draws marks of one state, which share its fill.
    pub(crate) fn group(&mut self, state: Shown, inside: impl FnOnce(&mut Self)) {
        let fill = self.fill(Fill::State(state));
        let _ = write!(self.body, "<g{fill} data-state=\"{}\">", state.as_str());
        inside(self);
        self.body.push_str("</g>\n");
    }

    /// Draws a mark that inherits its fill from its group.
    pub(crate) fn bare_rect(&mut self, rect: Rect) {
        self.marked(rect, "", "");
    }

    pub(crate) fn rect(&mut self, rect: Rect, fill: Fill, facts: Attributes<'_>, tooltip: &str) {
        let mut attributes = self.fill(fill);
        for (key, value) in facts {
            let _ = write!(attributes, " {key}=\"{}\"", escaped(value));
        }
        self.marked(rect, &attributes, tooltip);
    }

    /// Draws a column that is divided among states, from the bottom. If no time was observed, it is hatched.
    pub(crate) fn stack(
        &mut self,
        rect: Rect,
        (hours, states): (&StateHours, &[Shown]),
        facts: Attributes<'_>,
        tooltip: &str,
    ) {
        let whole: f64 = states.iter().map(|state| hours.of(*state)).sum();
        let parts: Vec<(Shown, f64)> = match whole > 0.0 {
            true => {
                let share = |state: &Shown| (*state, hours.of(*state) / whole);
                states.iter().map(share).collect()
            }
            false => vec![(Shown::Gap, 1.0)],
        };
        let mut foot = rect.bottom();
        for (state, share) in parts.into_iter().filter(|(_, share)| *share > 0.0) {
            let height = rect.height * share;
            foot -= height;
            let amount = number(hours.of(state));
            let own = [("data-state", state.as_str()), ("data-hours", &amount)];
            let facts = [facts, &own].concat();
            let part = Rect::new(rect.x, foot, rect.width, height);
            self.rect(part, Fill::State(state), &facts, tooltip);
        }
    }

    fn marked(&mut self, rect: Rect, attributes: &str, tooltip: &str) {
        let [x, y, width, height] = [rect.x, rect.y, rect.width, rect.height].map(number);
        let end = match tooltip {
            "" => "/>".to_owned(),
            tooltip => format!(">{}</rect>", title(tooltip)),
        };
        let _ = write!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{attributes}{end}"
        );
    }

    pub(crate) fn path(&mut self, data: &str) {
        let _ = write!(self.body, "<path d=\"{data}\"/>");
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), paint: Paint) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        let (stroke, name) = (paint.plain(self.frame.theme), paint.name);
        let _ = write!(
            self.body,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{stroke}\" class=\"s-{name}\"/>"
        );
    }

    /// Returns a chart with a message instead of data.
    pub(crate) fn empty(frame: &'a Frame, words: &str) -> String {
        let mut canvas = Self::new(frame);
        let plot = Rect::new(MARGIN, canvas.top, canvas.room(), 120.0);
        canvas.rect(plot, Fill::Plain(palette::BAND), &[("rx", "6")], "");
        let shown = fitted(words, plot.width - 12.0, 13.0, Weight::Regular);
        let y = plot.y + plot.height / 2.0 + 4.5;
        canvas.text(Text::label(plot.middle(), y, Anchor::Middle, &shown).sized(13.0));
        canvas.finish(plot.bottom() + MARGIN, words)
    }

    /// Returns the attributes of a fill: its colour, and its class if a style sheet can change it.
    fn fill(&self, fill: Fill) -> String {
        match fill {
            Fill::State(state @ (Shown::Active | Shown::TrulyIdle)) => {
                self.fill(Fill::Plain(of_state(state)))
            }
            Fill::State(state) => format!(" fill=\"url(#{}-{})\"", self.frame.id, state.as_str()),
            Fill::Plain(paint) => {
                let (colour, name) = (paint.plain(self.frame.theme), paint.name);
                format!(" fill=\"{colour}\" class=\"f-{name}\"")
            }
            Fill::Clear => " fill=\"none\"".to_owned(),
        }
    }

    /// Returns the whole document, `height` pixels high.
    pub(crate) fn finish(self, height: f64, description: &str) -> String {
        let Frame { id, theme, .. } = self.frame;
        let (width, height) = (number(self.width()), number(height.ceil()));
        let [title, description] = [self.frame.title.as_str(), description].map(escaped);
        let style = match theme {
            Theme::Auto => format!("<style>{}</style>", palette::own_style()),
            Theme::Page | Theme::Light | Theme::Dark => String::new(),
        };
        let fill = self.fill(Fill::Plain(SURFACE));
        let ground = match theme {
            Theme::Page => String::new(),
            _ => format!("<rect width=\"{width}\" height=\"{height}\"{fill}/>"),
        };
        let (patterns, body) = (self.patterns(), &self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" class=\"gua-chart\" role=\"img\" aria-labelledby=\"{id}-title {id}-description\" \
             font-family=\"{FONTS}\">\n<title id=\"{id}-title\">{title}</title>\
             <desc id=\"{id}-description\">{description}</desc>\n{style}{patterns}{ground}\n{body}</svg>\n"
        )
    }

    /// Defines stripes, dots and hatches, which distinguish states without colour.
    fn patterns(&self) -> String {
        const STRIPES: &str = "M-1.5 1.5L1.5 -1.5M0 6L6 0M4.5 7.5L7.5 4.5";
        const DOTS: &str = "M1.5 1.5h.01M4.5 4.5h.01";
        const HATCHES: &str = "M-1.5 4.5L1.5 7.5M0 0L6 6M4.5 -1.5L7.5 1.5";
        let shapes = [
            (Shown::IdleHeld, IDLE_STRIPE, STRIPES, "1.3"),
            (Shown::HeldUnknown, UNKNOWN_DOT, DOTS, "1.7"),
            (Shown::Gap, GAP_LINE, HATCHES, "1"),
        ];
        let pattern = |(state, paint, shape, stroke): (Shown, Paint, &str, &str)| {
            let (id, theme, ground) = (&self.frame.id, self.frame.theme, of_state(state));
            format!(
                "<pattern id=\"{id}-{}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
                 <rect width=\"6\" height=\"6\" fill=\"{}\" class=\"f-{}\"/>\
                 <path d=\"{shape}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{stroke}\" \
                 stroke-linecap=\"round\" class=\"s-{}\"/></pattern>",
                state.as_str(),
                ground.plain(theme),
                ground.name,
                paint.plain(theme),
                paint.name
            )
        };
        let patterns: String = shapes.into_iter().map(pattern).collect();
        format!("<defs>{patterns}</defs>\n")
    }
}

fn escaped(text: &str) -> String {
    Escaped(text).render().into_string()
}

/// Returns a tooltip, if there is one.
fn title(tooltip: &str) -> String {
    match tooltip {
        "" => String::new(),
        tooltip => format!("<title>{}</title>", escaped(tooltip)),
    }
}
