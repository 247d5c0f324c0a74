//! The kinds of values that say how a board is reached, and what it is told.

use std::path::PathBuf;

use gua_wire::ServerUrl;
use gua_wire::server_url::Unencrypted;
use gua_wire::snapshot::Form;

use super::{FilePath, Home, Kind, Raw, path_text, text, truth, unexpected, whole};

/// The word for what is not wished.
const NONE: &str = "none";

/// The address of a board, or none.
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
            // The text is not told again: it may carry a password.
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

/// A file, or none.
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

/// Whether a token may cross a network unencrypted.
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

/// How much of a user's name may leave the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserNames {
    Plain,
    Hash,
    Omit,
}

/// The words of the settings that are a choice.
const USER_NAMES: [(UserNames, &str); 3] = [
    (UserNames::Plain, "plain"),
    (UserNames::Hash, "hash"),
    (UserNames::Omit, "omit"),
];
const FORMS: [(Form, &str); 2] = [(Form::V1_4, "1.4"), (Form::V1_1, "1.1")];

impl Kind for UserNames {
    type Value = UserNames;
    const WHAT: &'static str = "plain, hash or omit";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<UserNames, String> {
        chosen(raw, &USER_NAMES).ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &UserNames) -> serde_json::Value {
        word(value, &USER_NAMES)
    }
}

/// Which form of a push a board has been taught.
#[derive(Debug)]
pub struct WireForm;

impl Kind for WireForm {
    type Value = Form;
    const WHAT: &'static str = "\"1.4\" or \"1.1\"";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Form, String> {
        chosen(raw, &FORMS).ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &Form) -> serde_json::Value {
        word(value, &FORMS)
    }
}

/// How long a board keeps an archive. None at all would delete it.
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

fn chosen<T: Copy>(raw: Raw<'_>, choices: &[(T, &str)]) -> Option<T> {
    let text = text(raw)?;
    let known = choices.iter().find(|(_, word)| text == *word);
    known.map(|(choice, _)| *choice)
}

fn word<T: PartialEq>(value: &T, choices: &[(T, &str)]) -> serde_json::Value {
    let known = choices.iter().find(|(choice, _)| choice == value);
    known.map_or(serde_json::Value::Null, |(_, word)| (*word).into())
}
