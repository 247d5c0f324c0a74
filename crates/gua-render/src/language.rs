//! The languages of pages and charts.

gua_model::words! {
    /// Language of the text that a page or a chart adds to its numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Language {
        English = "en",
        Korean = "ko",
    }
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
            match language {
                $crate::language::Language::English => format!($english),
                $crate::language::Language::Korean => format!($korean),
            }
        }
    )* };
}

pub(crate) use {labels, phrases};

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
