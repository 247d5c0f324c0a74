//! Kinds of values of the `[csv]` section.

use std::path::PathBuf;
use std::time::Duration;

use super::{FilePath, Home, Kind, Raw, at_least, choice, choice_word, path_text, unexpected};
use crate::duration;

/// Directory of the daily CSV; `None` when it is off.
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

/// Interval between rows of the daily CSV. Its timestamps are whole minutes, so a minute is the minimum.
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

/// Format of the daily CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvFormat {
    /// The columns of gpu_stats.
    Classic,
    /// One row per process, with the state, memory and owner.
    Full,
}

const CSV_FORMATS: [(CsvFormat, &str); 2] =
    [(CsvFormat::Classic, "classic"), (CsvFormat::Full, "full")];

impl Kind for CsvFormat {
    type Value = CsvFormat;
    const WHAT: &'static str = "classic or full";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<CsvFormat, String> {
        choice(raw, &CSV_FORMATS).ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &CsvFormat) -> serde_json::Value {
        choice_word(value, &CSV_FORMATS)
    }
}
