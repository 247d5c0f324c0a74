//! Enums whose values have one word each, in every output, setting and stored column.

/// Error for a word that does not exist, such as an unknown role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use one of {}", known.join(", "))]
pub struct UnknownWord {
    pub known: Vec<&'static str>,
}

/// Declares an enum and the word of each value: the values in order (`ALL`), the word of a value (`as_str` and `Display`), and the
/// value of a word (`from_word` and `FromStr`).
///
/// ```
/// gua_model::words! {
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Light {
///         Red = "red",
///         DeepGreen = "deep-green",
///     }
/// }
/// assert_eq!(Light::ALL.map(Light::as_str), ["red", "deep-green"]);
/// assert_eq!(Light::from_word("red"), Some(Light::Red));
/// let unknown = "blue".parse::<Light>().unwrap_err();
/// assert_eq!(unknown.to_string(), "use one of red, deep-green");
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])*
        $vis:vis enum $Name:ident {
            $($(#[$about_value:meta])* $Value:ident = $word:literal,)*
        }
    ) => {
        $(#[$about])*
        $vis enum $Name {
            $($(#[$about_value])* $Value,)*
        }

        impl $Name {
            /// All values, in the order of their declaration.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$Value),*];

            /// Returns the word for the value.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Value => $word,)*
                }
            }

            /// Returns the value of a word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == word)
            }
        }

        impl ::std::str::FromStr for $Name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> ::std::result::Result<Self, Self::Err> {
                let known = || Self::ALL.map(Self::as_str).to_vec();
                Self::from_word(word).ok_or_else(|| $crate::UnknownWord { known: known() })
            }
        }

        impl ::std::fmt::Display for $Name {
            fn fmt(&self, out: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                out.pad(self.as_str())
            }
        }
    };
}
