//! The languages of pages and charts.

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
