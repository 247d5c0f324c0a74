//! Kinds of values, one type for each. A kind parses a text (variable or flag) or a TOML value, and writes both.

mod account;
mod cloud;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::text::in_message;
use gua_model::{CountGraphics, DriverPids, Percent};
use toml::de::DeValue;

use crate::duration;

pub use self::account::{CsvFormat, CsvPeriod, CsvPlace};
pub use self::cloud::{BoardAddress, Days, MaybeFile, PlainHttp, PushForm, UserNames};

/// An unparsed value.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    /// From a variable or a flag.
    Text(&'a OsStr),
    /// From a file.
    Toml(&'a DeValue<'a>),
}

/// Home directory that `~` expands to; `None` if it is unknown.
#[derive(Clone, Debug)]
pub struct Home(pub Option<PathBuf>);

/// Parser and writer for one kind of value.
pub trait Kind {
    type Value;
    /// Accepted values, to follow "expected".
    const WHAT: &'static str;

    fn parse(raw: Raw<'_>, home: &Home) -> Result<Self::Value, String>;
    fn json(value: &Self::Value) -> serde_json::Value;

    /// Formats the value as it is written in a file.
    fn toml(value: &Self::Value) -> String {
        literal(&Self::json(value))
    }

    /// Formats a value given as text as it is written in a file. `~` is kept.
    fn toml_of_text(text: &str) -> String {
        match Self::parse(Raw::Text(OsStr::new(text)), &Home(Some("~".into()))) {
            Ok(value) => Self::toml(&value),
            Err(_) => literal(&text.into()),
        }
    }
}

fn literal(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => toml::Value::String(text.clone()).to_string(),
        other => other.to_string(),
    }
}

fn unexpected<K: Kind>(raw: Raw<'_>) -> String {
    let what = K::WHAT;
    match raw {
        Raw::Text(text) => format!(
            "expected {what}, found `{}`",
            in_message(&text.to_string_lossy())
        ),
        Raw::Toml(DeValue::String(text)) => {
            format!("expected {what}, found the string \"{}\"", in_message(text))
        }
        Raw::Toml(DeValue::Integer(number)) => {
            format!("expected {what}, found {}", in_message(number.as_str()))
        }
        Raw::Toml(DeValue::Float(number)) => {
            format!("expected {what}, found {}", in_message(number.as_str()))
        }
        Raw::Toml(other) => format!("expected {what}, found {}", with_article(other.type_str())),
    }
}

fn with_article(word: &str) -> String {
    let article = if word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {word}")
}

/// Parses a non-negative integer.
fn whole(raw: Raw<'_>) -> Option<u64> {
    match raw {
        Raw::Text(text) => {
            let text = text.to_str()?;
            text.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| text.parse().ok())?
        }
        Raw::Toml(DeValue::Integer(number)) => {
            u64::from_str_radix(number.as_str(), number.radix()).ok()
        }
        Raw::Toml(_) => None,
    }
}

/// Returns the choice with this name.
fn choice<T: Copy>(raw: Raw<'_>, choices: &[(T, &str)]) -> Option<T> {
    let text = text(raw)?;
    let known = choices.iter().find(|(_, word)| text == *word);
    known.map(|(choice, _)| *choice)
}

/// Returns the name of a choice.
fn choice_word<T: PartialEq>(value: &T, choices: &[(T, &str)]) -> serde_json::Value {
    let known = choices.iter().find(|(choice, _)| choice == value);
    known.map_or(serde_json::Value::Null, |(_, word)| (*word).into())
}

/// Parses a boolean.
fn truth(raw: Raw<'_>) -> Option<bool> {
    match raw {
        Raw::Text(text) => match text.to_str() {
            Some("true" | "yes" | "1") => Some(true),
            Some("false" | "no" | "0") => Some(false),
            _ => None,
        },
        Raw::Toml(value) => value.as_bool(),
    }
}

pub(crate) fn text<'a>(raw: Raw<'a>) -> Option<&'a OsStr> {
    match raw {
        Raw::Text(text) => Some(text),
        Raw::Toml(value) => value.as_str().map(OsStr::new),
    }
}

/// PID namespace of the driver's process IDs.
#[derive(Debug)]
pub struct DriverPidsWord;

impl Kind for DriverPidsWord {
    type Value = DriverPids;
    const WHAT: &'static str = "auto, host or here";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<DriverPids, String> {
        let word = text(raw).and_then(OsStr::to_str);
        let found = DriverPids::ALL
            .into_iter()
            .find(|pids| word == Some(pids.as_str()));
        found.ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &DriverPids) -> serde_json::Value {
        value.as_str().into()
    }
}

/// Utilisation threshold in percent. 0 is not accepted, because every GPU always reaches it.
#[derive(Debug)]
pub struct ActivePercent;

impl Kind for ActivePercent {
    type Value = Percent;
    const WHAT: &'static str = "a whole number from 1 to 100";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Percent, String> {
        whole(raw)
            .filter(|number| *number >= 1)
            .and_then(|number| Percent::new(u32::try_from(number).ok()?))
            .ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &Percent) -> serde_json::Value {
        value.get().into()
    }
}

/// An amount of memory in megabytes.
#[derive(Debug)]
pub struct Megabytes;

impl Kind for Megabytes {
    type Value = u64;
    const WHAT: &'static str = "a whole number of MB, 0 or more";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<u64, String> {
        // A petabyte: more than any GPU has, and far below the overflow limit.
        const MOST: u64 = 1 << 30;
        whole(raw)
            .filter(|number| *number <= MOST)
            .ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &u64) -> serde_json::Value {
        (*value).into()
    }
}

/// Whether graphics processes count as holders.
#[derive(Debug)]
pub struct GraphicsSwitch;

impl Kind for GraphicsSwitch {
    type Value = CountGraphics;
    const WHAT: &'static str = "true or false";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<CountGraphics, String> {
        match truth(raw) {
            Some(true) => Ok(CountGraphics::Yes),
            Some(false) => Ok(CountGraphics::No),
            None => Err(unexpected::<Self>(raw)),
        }
    }

    fn json(value: &CountGraphics) -> serde_json::Value {
        (*value == CountGraphics::Yes).into()
    }
}

/// Maximum time to wait for the driver.
#[derive(Debug)]
pub struct ReadDeadline;

impl Kind for ReadDeadline {
    type Value = Duration;
    const WHAT: &'static str = "a duration from 50ms to 1h, such as 10s";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Duration, String> {
        let Some(text) = text(raw) else {
            return Err(unexpected::<Self>(raw));
        };
        let duration =
            duration::parse(&text.to_string_lossy()).map_err(|error| error.to_string())?;
        let sensible = Duration::from_millis(50)..=Duration::from_secs(3600);
        if sensible.contains(&duration) {
            Ok(duration)
        } else {
            Err(unexpected::<Self>(raw))
        }
    }

    fn json(value: &Duration) -> serde_json::Value {
        duration::written(*value).into()
    }
}

/// Time between two ticks.
#[derive(Debug)]
pub struct TickInterval;

impl Kind for TickInterval {
    type Value = Duration;
    const WHAT: &'static str = "a duration of 1ms or more, such as 30s";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Duration, String> {
        at_least::<Self>(raw, Duration::from_millis(1))
    }

    fn json(value: &Duration) -> serde_json::Value {
        duration::written(*value).into()
    }
}

/// Maximum age of a raw tick. The minimum is one hour, so that the daemon never loses rows that are open or were just
/// closed.
#[derive(Debug)]
pub struct RawAge;

impl Kind for RawAge {
    type Value = Duration;
    const WHAT: &'static str = "a duration of 1h or more, such as 90d";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Duration, String> {
        at_least::<Self>(raw, Duration::from_secs(3600))
    }

    fn json(value: &Duration) -> serde_json::Value {
        duration::written(*value).into()
    }
}

fn at_least<K: Kind>(raw: Raw<'_>, least: Duration) -> Result<Duration, String> {
    let Some(text) = text(raw) else {
        return Err(unexpected::<K>(raw));
    };
    let duration = duration::parse(&text.to_string_lossy()).map_err(|error| error.to_string())?;
    if duration >= least {
        Ok(duration)
    } else {
        Err(unexpected::<K>(raw))
    }
}

/// Maximum size of a log file.
#[derive(Debug)]
pub struct LogMegabytes;

impl Kind for LogMegabytes {
    type Value = u64;
    const WHAT: &'static str = "a whole number of MB from 1 to 1024";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<u64, String> {
        whole(raw)
            .filter(|number| (1..=1024).contains(number))
            .ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &u64) -> serde_json::Value {
        (*value).into()
    }
}

/// Format of the daemon's log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Journal lines with a priority under systemd, text otherwise.
    Auto,
    Text,
    Json,
}

const LOG_FORMATS: [(LogFormat, &str); 3] = [
    (LogFormat::Auto, "auto"),
    (LogFormat::Text, "text"),
    (LogFormat::Json, "json"),
];

impl Kind for LogFormat {
    type Value = LogFormat;
    const WHAT: &'static str = "auto, text or json";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<LogFormat, String> {
        choice(raw, &LOG_FORMATS).ok_or_else(|| unexpected::<Self>(raw))
    }

    fn json(value: &LogFormat) -> serde_json::Value {
        choice_word(value, &LOG_FORMATS)
    }
}

/// Path of a file; a leading `~` is the home directory.
#[derive(Debug)]
pub struct FilePath;

impl Kind for FilePath {
    type Value = PathBuf;
    const WHAT: &'static str = "a path";

    fn parse(raw: Raw<'_>, home: &Home) -> Result<PathBuf, String> {
        let path = path_text::<Self>(raw)?;
        let expanded = expand(path, home)?;
        match raw {
            Raw::Toml(_) if expanded.is_relative() && home_is_absolute(home) => Err(relative(path)),
            _ => Ok(expanded),
        }
    }

    fn json(value: &PathBuf) -> serde_json::Value {
        value.to_string_lossy().into()
    }
}

/// A library: a name for the system's loader, or a path.
#[derive(Debug)]
pub struct LibraryName;

impl Kind for LibraryName {
    type Value = PathBuf;
    const WHAT: &'static str = "the name or the path of a library";

    fn parse(raw: Raw<'_>, home: &Home) -> Result<PathBuf, String> {
        let path = path_text::<Self>(raw)?;
        if path.as_bytes().contains(&b'/') {
            FilePath::parse(raw, home)
        } else {
            Ok(path.into())
        }
    }

    fn json(value: &PathBuf) -> serde_json::Value {
        FilePath::json(value)
    }
}

/// Directory for claims; `None` selects the host's default.
#[derive(Debug)]
pub struct ClaimPlace;

impl Kind for ClaimPlace {
    type Value = Option<PathBuf>;
    const WHAT: &'static str = "a directory, or auto";

    fn parse(raw: Raw<'_>, home: &Home) -> Result<Option<PathBuf>, String> {
        match path_text::<Self>(raw)?.as_bytes() {
            b"auto" => Ok(None),
            _ => FilePath::parse(raw, home).map(Some),
        }
    }

    fn json(value: &Option<PathBuf>) -> serde_json::Value {
        match value {
            Some(path) => FilePath::json(path),
            None => "auto".into(),
        }
    }
}

/// Maximum length of a claim. Other users' programs would not honour a longer one.
#[derive(Debug)]
pub struct LeaseLength;

impl Kind for LeaseLength {
    type Value = Duration;
    const WHAT: &'static str = "a duration from 1s to 7d, such as 12h";

    fn parse(raw: Raw<'_>, _: &Home) -> Result<Duration, String> {
        match at_least::<Self>(raw, Duration::from_secs(1))? {
            longest if longest <= gua_model::claim::LONGEST_LEASE => Ok(longest),
            _ => Err(unexpected::<Self>(raw)),
        }
    }

    fn json(value: &Duration) -> serde_json::Value {
        duration::written(*value).into()
    }
}

fn path_text<K: Kind>(raw: Raw<'_>) -> Result<&OsStr, String> {
    match text(raw) {
        Some(path) if path.is_empty() => Err(format!("expected {}, found nothing", K::WHAT)),
        Some(path) if path.as_bytes().contains(&0) => {
            Err("a path cannot contain a NUL character".to_owned())
        }
        Some(path) => Ok(path),
        None => Err(unexpected::<K>(raw)),
    }
}

fn home_is_absolute(home: &Home) -> bool {
    home.0.as_deref().is_none_or(Path::is_absolute)
}

fn relative(path: &OsStr) -> String {
    format!(
        "`{}` is relative; in a file, write it from / or ~/",
        in_message(&path.to_string_lossy())
    )
}

/// Expands a leading `~`. Other users' home directories (`~alice`) are rejected instead of being read as a file name.
pub fn expand(path: &OsStr, home: &Home) -> Result<PathBuf, String> {
    let Some(below) = path.as_bytes().strip_prefix(b"~") else {
        return Ok(path.into());
    };
    match below {
        [] | [b'/', ..] => {
            let home = home
                .0
                .as_ref()
                .ok_or("`~` cannot be expanded: the home directory is not known")?;
            let below = below.strip_prefix(b"/").unwrap_or(below);
            let below = OsStr::from_bytes(below.trim_ascii_start_slashes());
            Ok(if below.is_empty() {
                home.clone()
            } else {
                home.join(below)
            })
        }
        _ => Err(format!(
            "`{}`: only ~ and ~/ are expanded; write the whole path",
            in_message(&path.to_string_lossy())
        )),
    }
}

trait TrimSlashes {
    fn trim_ascii_start_slashes(&self) -> &Self;
}

impl TrimSlashes for [u8] {
    /// Without this, `~//x` would join an absolute path and lose the home directory.
    fn trim_ascii_start_slashes(&self) -> &Self {
        let slashes = self.iter().take_while(|byte| **byte == b'/').count();
        self.get(slashes..).unwrap_or_default()
    }
}
