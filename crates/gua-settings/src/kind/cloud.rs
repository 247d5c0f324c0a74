//! Kinds of values of the `[cloud]` section.

use std::path::PathBuf;

use gua_model::server_url::{ServerUrl, Unencrypted};

use super::{
    FilePath, Home, Kind, Raw, choice, choice_word, path_text, text, truth, unexpected, whole,
};

/// Keyword for an absent value.
const NONE: &str = "none";

/// URL of a board, or none.
#[derive(Debug)]
pub struct BoardAddress;

impl Kind for BoardAddress {
    type Value = Option<ServerUrl>;
    const WHAT: &'static str = "the address of a board, such as https://board.example.com, or none";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Option<ServerUrl>, String> {
        let Some(text) = text(raw) else {
            return Err(unexpected::<Self>(raw));
        };
        match text.to_string_lossy().trim() {
            NONE => Ok(None),
            // The error omits the text: it may contain a password.
            address => ServerUrl::parse(address)
                .map(Some)
                .map_err(|error| error.to_string()),
        }
    }

    fn json(value: &Option<ServerUrl>) -> serde_json::Value {
        match value {
            Some(url) => url.to_string().into(),
            None => NONE.into(),
        }
    }
}

/// Path of a file, or none.
#[derive(Debug)]
pub struct MaybeFile;

impl Kind for MaybeFile {
    type Value = Option<PathBuf>;
    const WHAT: &'static str = "a path, or none";

    fn parse(raw: Raw<'_>, home: &Home) -> Result<Option<PathBuf>, String> {
        if path_text::<Self>(raw)? == NONE {
            return Ok(None);
        }
        FilePath::parse(raw, home).map(Some)
    }

    fn json(value: &Option<PathBuf>) -> serde_json::Value {
        match value {
            Some(path) => FilePath::json(path),
            None => NONE.into(),
        }
    }
}

/// Whether a token may be sent over a network unencrypted.
#[derive(Debug)]
pub struct PlainHttp;

impl Kind for PlainHttp {
    type Value = Unencrypted;
    const WHAT: &'static str = "true or false";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Unencrypted, String> {
        match truth(raw) {
            Some(true) => Ok(Unencrypted::Allowed),
            Some(false) => Ok(Unencrypted::LoopbackOnly),
            None => Err(unexpected::<Self>(raw)),
        }
    }

    fn json(value: &Unencrypted) -> serde_json::Value {
        (*value == Unencrypted::Allowed).into()
    }
}

/// Form in which user names are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserNames {
    Plain,
    Hash,
    Omit,
}

const USER_NAMES: [(UserNames, &str); 3] = [
    (UserNames::Plain, "plain"),
    (UserNames::Hash, "hash"),
    (UserNames::Omit, "omit"),
];
const PUSH_FORMS: [(PushForm, &str); 2] = [(PushForm::V1_4, "1.4"), (PushForm::V1_1, "1.1")];

impl Kind for UserNames {
    type Value = UserNames;
    const WHAT: &'static str = "plain, hash or omit";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<UserNames, String> {
        choice(raw, &USER_NAMES).ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &UserNames) -> serde_json::Value {
        choice_word(value, &USER_NAMES)
    }
}

/// Release whose push format the board accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushForm {
    /// Releases 1.1 to 1.3 of gpu-usage-audit.
    V1_1,
    /// Releases 1.4 to 1.8 of gpu-usage-audit.
    V1_4,
}

impl Kind for PushForm {
    type Value = PushForm;
    const WHAT: &'static str = "\"1.4\" or \"1.1\"";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<PushForm, String> {
        choice(raw, &PUSH_FORMS).ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &PushForm) -> serde_json::Value {
        choice_word(value, &PUSH_FORMS)
    }
}

/// Number of days that a board keeps its archive; 0 would delete it.
#[derive(Debug)]
pub struct Days;

impl Kind for Days {
    type Value = u32;
    const WHAT: &'static str = "a whole number of days from 1 to 36500";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<u32, String> {
        whole(raw)
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| (1..=36_500).contains(number))
            .ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &u32) -> serde_json::Value {
        (*value).into()
    }
}
