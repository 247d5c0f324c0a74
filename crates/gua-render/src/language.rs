//! The languages of pages and charts, and sentences with numbers in them.

use crate::markup::Markup;
use crate::table::Cell;

/// Language of the text that a page or a chart adds to its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    English,
    Korean,
}

impl Language {
    pub(crate) fn pick<T>(self, english: T, korean: T) -> T {
        match self {
            Language::English => english,
            Language::Korean => korean,
        }
    }
}

/// One text in each language: English, then Korean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(pub(crate) &'static str, pub(crate) &'static str);

impl Label {
    pub(crate) fn of(self, language: Language) -> &'static str {
        language.pick(self.0, self.1)
    }
}

/// A sentence in each language with numbers in it: `{key}` is replaced by the number with that key, and
/// `{!key}` by one that a page prints in bold.
#[derive(Clone, Debug)]
pub(crate) struct Sentence<const N: usize> {
    pub(crate) words: Label,
    pub(crate) numbers: [(&'static str, Cell); N],
}

impl<const N: usize> Sentence<N> {
    /// The sentence with rounded numbers.
    pub(crate) fn text(&self, language: Language) -> String {
        let mut text = String::new();
        self.each(language, |part| match part {
            Part::Words(words) => text.push_str(words),
            Part::Number(_, _, cell) => text.push_str(&cell.shown()),
        });
        text
    }

    /// Writes the sentence with an initial capital, a full stop, and the exact value of each number as an attribute.
    pub(crate) fn write(&self, html: &mut Markup, language: Language) {
        let mut is_first = true;
        self.each(language, |part| match part {
            Part::Words(words) if std::mem::take(&mut is_first) => html.words(&capital(words)),
            Part::Words(words) => html.words(words),
            Part::Number(key, true, cell) => {
                html.element("strong", &[], |html| html.number(key, cell));
            }
            Part::Number(key, false, cell) => html.number(key, cell),
        });
        html.words(".");
    }

    fn each(&self, language: Language, mut take: impl FnMut(Part<'_>)) {
        for piece in self.words.of(language).split('{') {
            let Some((key, rest)) = piece.split_once('}') else {
                take(Part::Words(piece));
                continue;
            };
            let name = key.trim_start_matches('!');
            let number = self.numbers.iter().find(|(known, _)| *known == name);
            let (_, cell) = number.expect("every key in the words has a number");
            take(Part::Number(name, key != name, cell));
            take(Part::Words(rest));
        }
    }
}

/// Adds an initial capital.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// Adds an initial capital and a full stop.
pub(crate) fn sentence(words: &str) -> String {
    capital(words) + "."
}

enum Part<'a> {
    Words(&'a str),
    /// With its key, and whether it is bold.
    Number(&'a str, bool, &'a Cell),
}
