//! Charts as PNG, with an embedded font, so that the picture is the same on every host, including hosts without fonts.
//! System fonts are searched only for characters that the embedded font lacks, such as Hangul. Characters that no font
//! has are drawn as boxes.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, ID, Query, Weight};
use resvg::usvg::{self, Font, FontResolver, Options, Tree};

/// Family of the embedded font.
const OWN: &str = "DejaVu Sans";

/// Reason why a chart could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    #[error("cannot read the chart as SVG")]
    Svg(#[from] usvg::Error),
    /// The picture has no pixels, or too many.
    #[error("cannot make a picture of {width:.0} x {height:.0} pixels")]
    Size { width: f64, height: f64 },
    #[error("cannot encode the picture")]
    Encode(String),
}

/// Maximum size of a picture, in pixels. Drawing it takes 400 megabytes.
const MAX_PIXELS: f64 = 1e8;

/// Renders a chart with a fixed theme, at `scale` pixels per SVG unit.
pub fn to_png(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    let mut options = Options {
        font_family: OWN.to_owned(),
        font_resolver: FontResolver {
            select_font: Box::new(own_font),
            select_fallback: Box::new(font_with),
        },
        ..Options::default()
    };
    let fonts = options.fontdb_mut();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family(OWN);
    if svg.chars().any(may_be_missing) {
        fonts.load_system_fonts();
    }
    let tree = Tree::from_str(svg, &options)?;
    let (width, height) = (
        f64::from(tree.size().width() * scale).ceil(),
        f64::from(tree.size().height() * scale).ceil(),
    );
    let wrong_size = || PngError::Size { width, height };
    if !(width >= 1.0 && height >= 1.0 && width * height <= MAX_PIXELS) {
        return Err(wrong_size());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "both are whole, at least 1 and at most 1e8"
    )]
    let (columns, rows) = (width as u32, height as u32);
    let mut pixels = Pixmap::new(columns, rows).ok_or_else(wrong_size)?;
    resvg::render(
        &tree,
        Transform::from_scale(scale, scale),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|error| PngError::Encode(error.to_string()))
}

/// Whether the embedded font may lack a character: it covers European scripts and symbols.
fn may_be_missing(letter: char) -> bool {
    !matches!(letter, '\0'..='\u{58f}' | '\u{1e00}'..='\u{2bff}' | '\u{fffd}')
}

/// Selects the embedded font, whatever font the text specifies.
fn own_font(font: &Font, fonts: &mut Arc<Database>) -> Option<ID> {
    fonts.query(&Query {
        families: &[Family::Name(OWN)],
        weight: if font.weight() >= 600 {
            Weight::BOLD
        } else {
            Weight::NORMAL
        },
        ..Query::default()
    })
}

/// Finds a font for a character that the embedded font lacks. Fonts of a similar style are preferred.
fn font_with(letter: char, tried: &[ID], fonts: &mut Arc<Database>) -> Option<ID> {
    const UNLIKE: [&str; 10] = [
        "Serif", "Mono", "Coding", "Myeongjo", "Mincho", "Song", "Brush", "Pen", "Emoji", "Barun",
    ];
    let is_unlike = |family: &str| UNLIKE.iter().any(|word| family.contains(word));
    let unlike = fonts
        .faces()
        .filter(|face| face.families.iter().any(|(family, _)| is_unlike(family)))
        .map(|face| face.id);
    let unlike: Vec<ID> = tried.iter().copied().chain(unlike).collect();
    let any = FontResolver::default_fallback_selector();
    any(letter, &unlike, fonts).or_else(|| any(letter, tried, fonts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::standalone;
    use crate::chart::{Frame, HoursBars, HoursRow, StateHours, Theme};

    #[test]
    fn a_picture_shows_its_texts_without_fonts_of_the_system() {
        let draw = |title: &str| {
            let rows = vec![HoursRow {
                name: "ada".to_owned(),
                hours: StateHours {
                    active: 3.0,
                    ..StateHours::default()
                },
            }];
            let chart = HoursBars {
                rows,
                top: 5,
                value_title: "held GPU-hours".to_owned(),
                observed: true,
            };
            let frame = Frame {
                theme: Theme::Light,
                width: 400,
                ..standalone("png", title)
            };
            to_png(&chart.draw(&frame), 2.0).unwrap()
        };
        let (named, unnamed) = (draw("GPU-hours by person"), draw(""));
        assert!(named.starts_with(b"\x89PNG"));
        assert_ne!(named, unnamed, "the title is drawn");
        let columns = u32::from_be_bytes(named[16..20].try_into().unwrap());
        assert_eq!(columns, 800);
    }

    #[test]
    fn only_letters_that_our_font_may_lack_make_it_look_for_others() {
        for (text, expected) in [
            ("GPU-hours · 12.5 % – Žluťoučký κόσμος Привет → ▒", false),
            ("사용자", true),
            ("利用者", true),
            ("مستخدم", true),
        ] {
            assert_eq!(text.chars().any(may_be_missing), expected, "{text}");
        }
    }

    #[test]
    fn an_invalid_or_too_large_chart_is_refused() {
        assert!(matches!(to_png("no chart", 1.0), Err(PngError::Svg(_))));
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"/>";
        for scale in [0.0, -1.0, 1e9, f32::NAN] {
            assert!(
                matches!(to_png(svg, scale), Err(PngError::Size { .. })),
                "{scale}"
            );
        }
    }
}
