//! Text with ANSI styles as a terminal shows it, on a light or on a dark background: as marked text for snapshots, and as
//! an SVG picture for the documentation. Only the sequences that the program writes are understood.

use std::fmt::Write as _;

/// Background of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Light,
    Dark,
}

type Rgb = (u8, u8, u8);

impl Theme {
    pub const ALL: [Self; 2] = [Theme::Light, Theme::Dark];

    pub fn as_str(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    fn background(self) -> Rgb {
        match self {
            Theme::Light => (0xff, 0xff, 0xff),
            Theme::Dark => (0x16, 0x1c, 0x23),
        }
    }

    fn text(self) -> Rgb {
        match self {
            Theme::Light => (0x1f, 0x24, 0x2b),
            Theme::Dark => (0xe3, 0xe8, 0xee),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Style {
    colour: Option<u8>,
    background: Option<u8>,
    is_bold: bool,
    is_dim: bool,
    is_reversed: bool,
}

impl Style {
    /// Text colour and background on a theme.
    fn colours(self, theme: Theme) -> (Rgb, Rgb) {
        let mut text = self.colour.map_or(theme.text(), of_table);
        let background = self.background.map_or(theme.background(), of_table);
        if self.is_dim {
            let middle = |one: u8, other: u8| one.midpoint(other);
            let (red, green, blue) = background;
            text = (
                middle(text.0, red),
                middle(text.1, green),
                middle(text.2, blue),
            );
        }
        match self.is_reversed {
            true => (background, text),
            false => (text, background),
        }
    }

    /// Applies the numbers of a sequence such as `1;38;5;166`.
    fn apply(&mut self, numbers: &str) {
        let mut numbers = numbers.split(';').map(|number| number.parse().unwrap_or(0));
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                7 => self.is_reversed = true,
                // Underlines need no colour.
                4 | 24 => {}
                22 => (self.is_bold, self.is_dim) = (false, false),
                27 => self.is_reversed = false,
                30..=37 => self.colour = Some(number - 30),
                90..=97 => self.colour = Some(number - 82),
                39 => self.colour = None,
                49 => self.background = None,
                38 | 48 => {
                    assert_eq!(numbers.next(), Some(5), "a number of the table follows");
                    let colour = numbers.next();
                    match number {
                        38 => self.colour = colour,
                        _ => self.background = colour,
                    }
                }
                other => panic!("the style {other} is not understood"),
            }
        }
    }
}

/// Colour of the terminal's table of 256 colours.
fn of_table(number: u8) -> Rgb {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    const FIRST: [Rgb; 16] = [
        (0, 0, 0),
        (205, 0, 0),
        (0, 205, 0),
        (205, 205, 0),
        (0, 0, 238),
        (205, 0, 205),
        (0, 205, 205),
        (229, 229, 229),
        (127, 127, 127),
        (255, 0, 0),
        (0, 255, 0),
        (255, 255, 0),
        (92, 92, 255),
        (255, 0, 255),
        (0, 255, 255),
        (255, 255, 255),
    ];
    match number {
        0..16 => FIRST[usize::from(number)],
        16..232 => {
            let cube = usize::from(number - 16);
            (LEVELS[cube / 36], LEVELS[cube / 6 % 6], LEVELS[cube % 6])
        }
        _ => {
            let grey = 8 + 10 * (number - 232);
            (grey, grey, grey)
        }
    }
}

/// Lines of text, in parts of one style.
#[derive(Debug)]
pub struct Screen(Vec<Vec<(Style, String)>>);

impl Screen {
    /// Reads text with ANSI styles.
    pub fn read(text: &str) -> Self {
        let mut style = Style::default();
        let mut lines = Vec::new();
        for line in text.replace('\r', "").lines() {
            let mut parts: Vec<(Style, String)> = Vec::new();
            let mut rest = line.split("\u{1b}[");
            let mut put = |style: Style, text: &str| {
                if text.is_empty() {
                    return;
                }
                match parts.last_mut() {
                    Some((last, known)) if *last == style => known.push_str(text),
                    _ => parts.push((style, text.to_owned())),
                }
            };
            put(style, rest.next().unwrap_or_default());
            for part in rest {
                let (numbers, text) = part.split_once('m').expect("a sequence of style");
                style.apply(numbers);
                put(style, text);
            }
            lines.push(parts);
        }
        Self(lines)
    }

    /// The text with the colours that a theme gives it in front of each part, and without trailing blanks.
    pub fn marked(&self, theme: Theme) -> String {
        let mut marked = String::new();
        for line in &self.0 {
            let mut text = String::new();
            for (style, part) in line {
                match *style == Style::default() {
                    true => text.push_str(part),
                    false => {
                        let ((text_colour, background), bold) = (
                            style.colours(theme),
                            if style.is_bold { "bold " } else { "" },
                        );
                        let colour = hex(text_colour);
                        let on = match background == theme.background() {
                            true => String::new(),
                            false => format!(" on {}", hex(background)),
                        };
                        let _ = write!(text, "‹{bold}{colour}{on}:{part}›");
                    }
                }
            }
            marked.push_str(text.trim_end());
            marked.push('\n');
        }
        marked
    }

    /// Lowest contrast between a text and its background, by the formula of WCAG 2.
    pub fn lowest_contrast(&self, theme: Theme) -> f64 {
        let parts = self.0.iter().flatten();
        let parts = parts.filter(|(_, text)| !text.trim().is_empty());
        let contrasts = parts.map(|(style, _)| {
            let (text, background) = style.colours(theme);
            let (one, other) = (luminance(text), luminance(background));
            (one.max(other) + 0.05) / (one.min(other) + 0.05)
        });
        contrasts.fold(21.0, f64::min)
    }

    /// Number of columns of the widest line.
    pub fn width(&self) -> usize {
        let width = |line: &Vec<(Style, String)>| {
            let line: String = line.iter().map(|(_, part)| part.as_str()).collect();
            unicode_width::UnicodeWidthStr::width(line.trim_end())
        };
        self.0.iter().map(width).max().unwrap_or(0)
    }

    /// A picture of the screen below the command that printed it. Each part of a line has its place and length, so that any
    /// fixed-width font shows the same.
    pub fn svg(&self, theme: Theme, command: &str) -> String {
        const COLUMN: f64 = 8.4;
        const LINE: usize = 18;
        const MARGIN: usize = 16;
        let columns = self.width().max(command.len() + 2);
        #[expect(clippy::cast_precision_loss, reason = "a picture has few columns")]
        let pixels = |columns: usize| columns as f64 * COLUMN;
        let width = pixels(columns) + 2.0 * 16.0;
        let height = (self.0.len() + 2) * LINE + 2 * MARGIN;
        let (background, ink) = (hex(theme.background()), hex(theme.text()));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height}\" viewBox=\"0 0 {width:.0} {height}\" role=\"img\">\n\
             <title>{}</title>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{background}\"/>\n\
             <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" fill=\"{ink}\">\n",
            escaped(command)
        );
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{}\" font-weight=\"bold\">$ {}</text>",
            MARGIN + 12,
            escaped(command)
        );
        for (place, line) in self.0.iter().enumerate() {
            let y = MARGIN + 12 + (place + 2) * LINE;
            let mut column = 0;
            for (style, part) in line {
                let length = unicode_width::UnicodeWidthStr::width(part.as_str());
                let (x, long) = (pixels(column) + 16.0, pixels(length));
                column += length;
                let (colour, behind) = style.colours(theme);
                if behind != theme.background() {
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{x:.1}\" y=\"{}\" width=\"{long:.1}\" height=\"{LINE}\" fill=\"{}\"/>",
                        y - 13,
                        hex(behind)
                    );
                }
                if part.trim().is_empty() {
                    continue;
                }
                let fill = match colour == theme.text() {
                    true => String::new(),
                    false => format!(" fill=\"{}\"", hex(colour)),
                };
                let bold = if style.is_bold {
                    " font-weight=\"bold\""
                } else {
                    ""
                };
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y}\" textLength=\"{long:.1}\"{fill}{bold}>{}</text>",
                    escaped(part)
                );
            }
        }
        svg.push_str("</g>\n</svg>\n");
        svg
    }
}

fn hex((red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    // Browsers merge blanks at the ends and in rows.
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace(' ', "\u{a0}")
}

/// Relative luminance by WCAG 2.
fn luminance((red, green, blue): Rgb) -> f64 {
    let linear = |level: u8| {
        let level = f64::from(level) / 255.0;
        match level <= 0.03928 {
            true => level / 12.92,
            false => ((level + 0.055) / 1.055).powf(2.4),
        }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}
