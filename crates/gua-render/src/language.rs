//! The languages of pages and charts, and sentences with numbers in them.

use maud::{Markup, html};

use crate::markup::{Escaped, number_of};
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

/// Declares texts in each language: English, then Korean.
macro_rules! labels {
    ($($NAME:ident = $english:literal, $korean:literal;)*) => {
        $(pub(crate) const $NAME: $crate::language::Label = $crate::language::Label($english, $korean);)*
    };
}

/// Declares functions that return a text with values, in the language that is their last argument.
macro_rules! phrases {
    ($($(#[$doc:meta])* $name:ident($($value:ident: $type:ty),*) = $english:literal, $korean:literal;)*) => { $(
        $(#[$doc])*
        pub(crate) fn $name($($value: $type,)* language: $crate::language::Language) -> String {
            $crate::language::say!(language, $english, $korean)
        }
    )* };
}

/// Formats a text in a language: English, then Korean.
macro_rules! say {
    ($language:expr, $english:literal, $korean:literal $(,)?) => {
        match $language {
            $crate::language::Language::English => format!($english),
            $crate::language::Language::Korean => format!($korean),
        }
    };
}

pub(crate) use {labels, phrases, say};

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
        let text = |part| match part {
            Part::Words(words) => words.to_owned(),
            Part::Number(_, _, cell) => cell.shown(),
        };
        self.parts(language).into_iter().map(text).collect()
    }

    /// The sentence with an initial capital, a full stop, and the exact value of each number as an attribute.
    pub(crate) fn html(&self, language: Language) -> Markup {
        html! {
            @for (place, part) in self.parts(language).into_iter().enumerate() {
                @match part {
                    Part::Words(words) if place == 0 => { (Escaped(capital(words))) }
                    Part::Words(words) => { (Escaped(words)) }
                    Part::Number(key, true, cell) => { strong { (number_of(key, cell)) } }
                    Part::Number(key, false, cell) => { (number_of(key, cell)) }
                }
            }
            "."
        }
    }

    fn parts(&self, language: Language) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        for piece in self.words.of(language).split('{') {
            let Some((key, rest)) = piece.split_once('}') else {
                parts.push(Part::Words(piece));
                continue;
            };
            let name = key.trim_start_matches('!');
            let number = self.numbers.iter().find(|(known, _)| *known == name);
            let (_, cell) = number.expect("every key in the words has a number");
            parts.push(Part::Number(name, key != name, cell));
            parts.push(Part::Words(rest));
        }
        parts
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
