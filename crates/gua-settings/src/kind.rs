//! Kinds of values. A kind parses a text (variable or flag) or a TOML value, and writes both.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::duration;
use gua_model::server_url::{ServerUrl, Unencrypted};
use gua_model::text::in_message;
use gua_model::{ContainerOwners, CountGraphics, DriverPids, Percent};
use toml::de::DeValue;

use crate::name::shown;

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

/// Parser for one kind of value.
pub trait Kind {
    type Value;
    /// Accepted values, to follow "expected".
    const WHAT: &'static str;

    fn parse(raw: Raw<'_>, home: &Home) -> Result<Self::Value, String>;
}

/// A kind whose values can be displayed. Values in arrays are displayed by their rows.
pub trait Written: Kind {
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

/// A parsed value, or the reason why it is invalid. `None` means "expected WHAT, found VALUE".
pub(crate) type Parsed<T> = Result<T, Option<String>>;

/// Declares kinds: the type of the value, the accepted values in words, the parser, and, for settings, the value as JSON.
macro_rules! kinds {
    ($( $(#[doc = $doc:literal])* $Kind:ident: $Value:ty, $what:expr, $parse:expr $(, $json:expr)?; )*) => { $(
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub struct $Kind;

        impl $crate::kind::Kind for $Kind {
            type Value = $Value;
            const WHAT: &'static str = $what;

            fn parse(raw: Raw<'_>, home: &Home) -> Result<$Value, String> {
                let parse: fn(Raw<'_>, &Home) -> $crate::kind::Parsed<$Value> = $parse;
                parse(raw, home).map_err(|own| own.unwrap_or_else(|| $crate::kind::unexpected::<Self>(raw)))
            }
        }

        $(
            impl Written for $Kind {
                fn json(value: &$Value) -> serde_json::Value {
                    let json: fn(&$Value) -> serde_json::Value = $json;
                    json(value)
                }
            }
        )?
    )* };
}
pub(crate) use kinds;

/// Declares kinds of quoted strings, which the tables of arrays use. It is like [`kinds`], but the parser gets the unquoted text.
macro_rules! texts {
    ($( $(#[doc = $doc:literal])* $Kind:ident: $Value:ty, $what:expr, $parse:expr; )*) => {
        $crate::kind::kinds! { $(
            $(#[doc = $doc])*
            $Kind: $Value, $what, |raw, _| $crate::kind::quoted(raw, $what, $parse);
        )* }
    };
}
pub(crate) use texts;

kinds! {
    /// Utilisation threshold in percent. 0 is not accepted, because every GPU always reaches it.
    ActivePercent: Percent, "a whole number from 1 to 100",
        |raw, _| whole(raw, 1..=100).and_then(|number| u32::try_from(number).ok().and_then(Percent::new).ok_or(None)),
        |value| value.get().into();
    /// An amount of memory in megabytes; at most a petabyte, which is more than any GPU has and far below the overflow limit.
    Megabytes: u64, "a whole number of MB, 0 or more", |raw, _| whole(raw, 0..=1 << 30), |value| (*value).into();
    /// Maximum size of a log file.
    LogMegabytes: u64, "a whole number of MB from 1 to 1024", |raw, _| whole(raw, 1..=1024), |value| (*value).into();
    /// Number of days that a board keeps its archive; 0 would delete it.
    Days: u32, "a whole number of days from 1 to 36500",
        |raw, _| whole(raw, 1..=36_500).and_then(|number| u32::try_from(number).map_err(|_| None)),
        |value| (*value).into();
    /// Whether graphics processes count as holders.
    GraphicsSwitch: CountGraphics, "true or false",
        |raw, _| Ok(if truth(raw)? { CountGraphics::Yes } else { CountGraphics::No }),
        |value| (*value == CountGraphics::Yes).into();
    /// Whether a token may be sent over a network unencrypted.
    PlainHttp: Unencrypted, "true or false",
        |raw, _| Ok(if truth(raw)? { Unencrypted::Allowed } else { Unencrypted::LoopbackOnly }),
        |value| (*value == Unencrypted::Allowed).into();
    /// Maximum time to wait for the driver.
    ReadDeadline: Duration, "a duration from 50ms to 1h, such as 10s",
        |raw, _| length(raw, Duration::from_millis(50)..=HOUR), written;
    /// Time between two ticks.
    TickInterval: Duration, "a duration from 1ms to 31d, such as 30s",
        |raw, _| length(raw, Duration::from_millis(1)..=gua_model::sane::MAX_INTERVAL), written;
    /// Maximum age of a raw tick. The minimum is one hour, so that the daemon never loses rows that are open or were just
    /// closed.
    RawAge: Duration, "a duration of 1h or more, such as 90d", |raw, _| length(raw, HOUR..=Duration::MAX), written;
    /// Maximum length of a claim. Other users' programs would not honour a longer one.
    LeaseLength: Duration, "a duration from 1s to 7d, such as 12h",
        |raw, _| length(raw, Duration::from_secs(1)..=gua_model::claim::MAX_LEASE), written;
    /// Interval between rows of the daily CSV. Its timestamps are whole minutes, so a minute is the minimum.
    CsvPeriod: Duration, "a duration from 1m to 1d, such as 5m",
        |raw, _| length(raw, Duration::from_secs(60)..=24 * HOUR), written;
    /// Path of a file; a leading `~` is the home directory.
    FilePath: PathBuf, "a path", |raw, home| path(raw, home, FilePath::WHAT), |value| value.to_string_lossy().into();
    /// A library: a name for the system's loader, or a path.
    LibraryName: PathBuf, "the name or the path of a library", library, FilePath::json;
    /// Path of a file, or none.
    MaybeFile: Option<PathBuf>, "a path, or none",
        |raw, home| path_or(NONE, raw, home, MaybeFile::WHAT), |value| or_word(NONE, value);
    /// Directory for claims; `None` selects the host's default.
    ClaimPlace: Option<PathBuf>, "a directory, or auto",
        |raw, home| path_or("auto", raw, home, ClaimPlace::WHAT), |value| or_word("auto", value);
    /// Directory of the daily CSV; `None` when it is off.
    CsvPlace: Option<PathBuf>, "a directory, or off",
        |raw, home| path_or("off", raw, home, CsvPlace::WHAT), |value| or_word("off", value);
    /// Address of the metrics; `None` when they are off.
    MetricsPlace: Option<SocketAddr>, "an address with a port, such as 127.0.0.1:19400, or off",
        |raw, _| match text(raw).and_then(OsStr::to_str) {
            Some("off") => Ok(None),
            given => given.and_then(|given| given.parse().ok()).map(Some).ok_or(None),
        },
        |value| value.map_or_else(|| "off".into(), |address| address.to_string().into());
    /// Whether metrics have an optional label.
    LabelSwitch: bool, "true or false", |raw, _| truth(raw), |value| (*value).into();
    /// Agents of nvgpu's master.
    AgentList: Vec<String>, "agents separated by commas, each self or a URL such as http://host:1080, or none",
        agent_list, |value| if value.is_empty() { NONE.into() } else { value.join(",").into() };
    /// URL of a board, or none.
    BoardAddress: Option<ServerUrl>, "the address of a board, such as https://board.example.com, or none",
        board_address, |value| value.as_ref().map_or_else(|| NONE.into(), |url| url.to_string().into());
}

const HOUR: Duration = Duration::from_secs(3600);

/// Keyword for an absent value.
const NONE: &str = "none";

/// The agent that is this host.
pub const AGENT_SELF: &str = "self";

/// A value that is one of a few words.
pub trait Word: Copy + PartialEq + 'static {
    const WHAT: &'static str;
    const WORDS: &'static [(Self, &'static str)];
}

macro_rules! words {
    ($( $Type:ty: $what:literal, $( $value:ident = $word:literal ),+; )*) => { $(
        impl Word for $Type {
            const WHAT: &'static str = $what;
            const WORDS: &'static [(Self, &'static str)] = &[$( (<$Type>::$value, $word) ),+];
        }
    )* };
}

words! {
    ContainerOwners: "name or uid", Name = "name", Uid = "uid";
    DriverPids: "auto, host or here", Auto = "auto", Host = "host", Here = "here";
    LogFormat: "auto, text or json", Auto = "auto", Text = "text", Json = "json";
    CsvFormat: "classic or full", Classic = "classic", Full = "full";
    UserNames: "plain, hash or omit", Plain = "plain", Hash = "hash", Omit = "omit";
    OthersShown: "names, pseudonyms or totals", Names = "names", Pseudonyms = "pseudonyms", Totals = "totals";
    PushForm: "\"1.4\" or \"1.1\"", V1_4 = "1.4", V1_1 = "1.1";
}

impl<T: Word> Kind for T {
    type Value = T;
    const WHAT: &'static str = <T as Word>::WHAT;

    fn parse(raw: Raw<'_>, _: &Home) -> Result<T, String> {
        let given = text(raw);
        let known = T::WORDS
            .iter()
            .find(|(_, word)| given.is_some_and(|given| given == *word));
        known
            .map(|(value, _)| *value)
            .ok_or_else(|| unexpected::<T>(raw))
    }
}

impl<T: Word> Written for T {
    fn json(value: &T) -> serde_json::Value {
        let known = T::WORDS.iter().find(|(known, _)| known == value);
        known.map_or(serde_json::Value::Null, |(_, word)| (*word).into())
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

/// Format of the daily CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvFormat {
    /// The columns of gpu_stats.
    Classic,
    /// One row per process, with the state, memory and owner.
    Full,
}

/// Form in which user names are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserNames {
    Plain,
    Hash,
    Omit,
}

/// Visibility of other people's use to users of this host who ask the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OthersShown {
    Names,
    Pseudonyms,
    Totals,
}

/// Release whose push format the board accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushForm {
    /// Releases 1.1 to 1.3 of gpu-usage-audit.
    V1_1,
    /// Releases 1.4 to 1.8 of gpu-usage-audit.
    V1_4,
}

pub(crate) fn unexpected<K: Kind>(raw: Raw<'_>) -> String {
    let found = match raw {
        Raw::Text(text) => format!("`{}`", in_message(&text.to_string_lossy())),
        Raw::Toml(DeValue::String(text)) => format!("the string \"{}\"", in_message(text)),
        Raw::Toml(DeValue::Integer(number)) => in_message(number.as_str()),
        Raw::Toml(DeValue::Float(number)) => in_message(number.as_str()),
        Raw::Toml(other) => match other.type_str() {
            word if word.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {word}"),
            word => format!("a {word}"),
        },
    };
    format!("expected {}, found {found}", K::WHAT)
}

/// Parses a text in quotes; `None` means "expected WHAT, found `TEXT`".
pub(crate) fn quoted<T>(raw: Raw<'_>, what: &str, parse: impl Fn(&str) -> Parsed<T>) -> Parsed<T> {
    let text = text(raw).ok_or_else(|| "expected a text in quotes".to_owned())?;
    let text = text.to_string_lossy();
    parse(&text).map_err(|own| Some(own.unwrap_or_else(|| expected(what, &text))))
}

pub(crate) fn expected(what: &str, text: &str) -> String {
    format!("expected {what}, found `{}`", shown(text))
}

/// Parses a list of texts that is not empty.
pub(crate) fn list(raw: Raw<'_>) -> Parsed<Vec<String>> {
    let Raw::Toml(DeValue::Array(list)) = raw else {
        return Err(None);
    };
    let texts = list.iter().map(|value| value.get_ref().as_str());
    let texts: Option<Vec<String>> = texts.map(|text| Some(text?.to_owned())).collect();
    texts.filter(|texts| !texts.is_empty()).ok_or(None)
}

/// Parses an integer in a range.
pub(crate) fn whole(raw: Raw<'_>, range: RangeInclusive<u64>) -> Parsed<u64> {
    let number = match raw {
        Raw::Text(text) => {
            let digits = text
                .to_str()
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            digits.and_then(|digits| digits.parse().ok())
        }
        Raw::Toml(DeValue::Integer(number)) => {
            u64::from_str_radix(number.as_str(), number.radix()).ok()
        }
        Raw::Toml(_) => None,
    };
    number.filter(|number| range.contains(number)).ok_or(None)
}

fn truth(raw: Raw<'_>) -> Parsed<bool> {
    match raw {
        Raw::Text(text) => match text.to_str() {
            Some("true" | "yes" | "1") => Ok(true),
            Some("false" | "no" | "0") => Ok(false),
            _ => Err(None),
        },
        Raw::Toml(value) => value.as_bool().ok_or(None),
    }
}

pub(crate) fn text<'a>(raw: Raw<'a>) -> Option<&'a OsStr> {
    match raw {
        Raw::Text(text) => Some(text),
        Raw::Toml(value) => value.as_str().map(OsStr::new),
    }
}

/// Parses a duration in a range.
pub(crate) fn length(raw: Raw<'_>, range: RangeInclusive<Duration>) -> Parsed<Duration> {
    let text = text(raw).ok_or(None)?;
    let length =
        duration::parse(&text.to_string_lossy()).map_err(|error| Some(error.to_string()))?;
    range.contains(&length).then_some(length).ok_or(None)
}

fn written(length: &Duration) -> serde_json::Value {
    duration::written(*length).into()
}

fn board_address(raw: Raw<'_>, _: &Home) -> Parsed<Option<ServerUrl>> {
    match text(raw).ok_or(None)?.to_string_lossy().trim() {
        NONE => Ok(None),
        // The error omits the text: it may contain a password.
        address => ServerUrl::parse(address)
            .map(Some)
            .map_err(|error| Some(error.to_string())),
    }
}

fn agent_list(raw: Raw<'_>, _: &Home) -> Parsed<Vec<String>> {
    let text = text(raw).ok_or(None)?.to_string_lossy();
    if text.trim() == NONE {
        return Ok(Vec::new());
    }
    let agents: Vec<String> = text
        .split(',')
        .map(|agent| agent.trim().to_owned())
        .collect();
    for agent in agents.iter().filter(|agent| *agent != AGENT_SELF) {
        ServerUrl::parse(agent).map_err(|error| Some(error.to_string()))?;
    }
    Ok(agents)
}

fn library(raw: Raw<'_>, home: &Home) -> Parsed<PathBuf> {
    let name = path_text(raw, LibraryName::WHAT)?;
    match name.as_bytes().contains(&b'/') {
        true => path(raw, home, LibraryName::WHAT),
        false => Ok(name.into()),
    }
}

fn path(raw: Raw<'_>, home: &Home, what: &str) -> Parsed<PathBuf> {
    let written = path_text(raw, what)?;
    let expanded = expand(written, home)?;
    let is_home_absolute = home.0.as_deref().is_none_or(Path::is_absolute);
    match raw {
        Raw::Toml(_) if expanded.is_relative() && is_home_absolute => Err(Some(format!(
            "`{}` is relative; in a file, write it from / or ~/",
            in_message(&written.to_string_lossy())
        ))),
        _ => Ok(expanded),
    }
}

/// Parses a path, or the word for its absence.
fn path_or(absent: &str, raw: Raw<'_>, home: &Home, what: &str) -> Parsed<Option<PathBuf>> {
    match path_text(raw, what)? == absent {
        true => Ok(None),
        false => path(raw, home, what).map(Some),
    }
}

fn or_word(absent: &str, value: &Option<PathBuf>) -> serde_json::Value {
    value.as_ref().map_or_else(|| absent.into(), FilePath::json)
}

fn path_text<'a>(raw: Raw<'a>, what: &str) -> Parsed<&'a OsStr> {
    match text(raw).ok_or(None)? {
        path if path.is_empty() => Err(Some(format!("expected {what}, found nothing"))),
        path if path.as_bytes().contains(&0) => {
            Err(Some("a path cannot contain a NUL character".to_owned()))
        }
        path => Ok(path),
    }
}

/// Expands a leading `~`. Other users' home directories (`~alice`) are rejected instead of being read as a file name.
pub fn expand(path: &OsStr, home: &Home) -> Result<PathBuf, String> {
    let Some(below) = path.as_bytes().strip_prefix(b"~") else {
        return Ok(path.into());
    };
    if !matches!(below, [] | [b'/', ..]) {
        return Err(format!(
            "`{}`: only ~ and ~/ are expanded; write the whole path",
            in_message(&path.to_string_lossy())
        ));
    }
    let home = home
        .0
        .as_ref()
        .ok_or("`~` cannot be expanded: the home directory is unknown")?;
    // Without this, `~//x` would join an absolute path and lose the home directory.
    let slashes = below.iter().take_while(|byte| **byte == b'/').count();
    match OsStr::from_bytes(&below[slashes..]) {
        below if below.is_empty() => Ok(home.clone()),
        below => Ok(home.join(below)),
    }
}
