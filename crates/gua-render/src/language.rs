//! The languages of pages and charts, and sentences with numbers in them.

use maud::{Markup, PreEscaped, Render as _, html};

use crate::markup::{Escaped, number_of};
use crate::table::Cell;

/// Language of the text that a page or a chart adds to its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    English,
    Korean,
}

impl Language {
    /// Returns the first value for English, the second for Korean.
    pub fn pick<T>(self, english: T, korean: T) -> T {
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
        self.filled(language, str::to_owned, |_, _, cell| cell.shown())
    }

    /// The sentence with an initial capital, a full stop, and the exact value of each number as an attribute.
    pub(crate) fn html(&self, language: Language) -> Markup {
        let words = |words: &str| Escaped(words).render().into_string();
        let number = |key: &str, is_bold: bool, cell: &Cell| {
            let number = number_of(key, cell);
            let number = html! { @if is_bold { strong { (number) } } @else { (number) } };
            number.into_string()
        };
        PreEscaped(sentence(&self.filled(language, words, number)))
    }

    /// Returns the sentence, with `words` and `number` applied to its words and its numbers. `number` gets the key of a number,
    /// whether it is bold, and its value.
    fn filled(
        &self,
        language: Language,
        words: impl Fn(&str) -> String,
        number: impl Fn(&str, bool, &Cell) -> String,
    ) -> String {
        let mut pieces = self.words.of(language).split('{');
        let mut text = pieces.next().map(&words).unwrap_or_default();
        for (key, rest) in pieces.filter_map(|piece| piece.split_once('}')) {
            let name = key.trim_start_matches('!');
            let known = self.numbers.iter().find(|(known, _)| *known == name);
            let (_, cell) = known.expect("every key in the words has a number");
            text += &number(name, key != name, cell);
            text += &words(rest);
        }
        text
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
