//! Values for what accounts are kept by: the daily CSV.

use std::path::PathBuf;
use std::time::Duration;

use gua_wire::gpu_stats::Form;

use super::{FilePath, Home, Kind, Raw, at_least, path_text, text, unexpected};
use crate::duration;

/// A directory for the daily CSV; `None` where none is written.
#[derive(Debug)]
pub struct CsvPlace;

impl Kind for CsvPlace {
    type Value = Option<PathBuf>;
    const WHAT: &'static str = "a directory, or off";

    fn parse(raw: Raw<'_>, home: &Home) -> Result<Option<PathBuf>, String> {
        match path_text::<Self>(raw)?.to_str() {
            Some("off") => Ok(None),
            _ => FilePath::parse(raw, home).map(Some),
        }
    }

    fn json(value: &Option<PathBuf>) -> serde_json::Value {
        match value {
            Some(path) => FilePath::json(path),
            None => "off".into(),
        }
    }
}

/// How often the daily CSV gets rows. Their stamps are whole minutes, so less than one makes no sense.
#[derive(Debug)]
pub struct CsvPeriod;

impl Kind for CsvPeriod {
    type Value = Duration;
    const WHAT: &'static str = "a duration from 1m to 1d, such as 5m";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Duration, String> {
        let period = at_least::<Self>(raw, Duration::from_secs(60))?;
        match period <= Duration::from_secs(86_400) {
            true => Ok(period),
            false => Err(unexpected::<Self>(raw)),
        }
    }

    fn json(value: &Duration) -> serde_json::Value {
        duration::written(*value).into()
    }
}

/// The form of the daily CSV.
#[derive(Debug)]
pub struct CsvForm;

impl Kind for CsvForm {
    type Value = Form;
    const WHAT: &'static str = "classic or full";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Form, String> {
        match text(raw).and_then(|word| word.to_str()) {
            Some("classic") => Ok(Form::Classic),
            Some("full") => Ok(Form::Full),
            _ => Err(unexpected::<Self>(raw)),
        }
    }

    fn json(value: &Form) -> serde_json::Value {
        match value {
            Form::Classic => "classic",
            Form::Full => "full",
        }
        .into()
    }
}
