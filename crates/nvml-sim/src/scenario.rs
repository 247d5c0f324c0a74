//! The scenario file: everything that the driver simulates, as plain data.
//!
//! Parsing is pure and total: any text gives a scenario or an error, never a panic. `world` does the simulation. Every
//! type also serialises, so that a test can write a scenario in a few lines of Rust.

mod card;
mod value;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use card::{Card, Instance, Kind, Process};
pub use value::{Burst, Ramp, Square, TimeLine, Value};

use crate::code::Code;

/// A whole scenario. `Scenario::default()` is a driver without GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Every call is appended to this file as `PID TID function card`. A relative path starts at the scenario's folder.
    pub journal: Option<PathBuf>,
    /// The process is aborted when a second thread of it calls into the library.
    pub one_owner: bool,
    /// Interval at which this file is checked for changes. A check costs as much as twenty calls, which would distort
    /// the measurement of a client; with more than the default, [`Scenario::write`] returns before all clients have
    /// noticed.
    pub look_every_ms: Option<u32>,
    /// Behaviour of a process list when its size is queried with a NULL buffer.
    pub null_size_query: NullSizeQuery,
    /// Functions that exist and return FUNCTION_NOT_FOUND.
    pub symbol_answers_not_found: Vec<String>,
    pub driver: Driver,
    pub clock: Clock,
    pub buffers: Buffers,
    /// In NVML's index order.
    #[serde(rename = "card")]
    pub cards: Vec<Card>,
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Driver {
    /// Default: the version of the installed generation.
    pub version: Option<String>,
    pub nvml_version: Option<String>,
    /// As the driver counts it: 12040 is 12.4.
    pub cuda_version: Option<i32>,
    /// A client that initialised under another number holds a stale library.
    pub epoch: u64,
    /// Return code of a stale library.
    pub stale_code: Code,
    /// Return code of `nvmlInit`.
    pub init_code: Code,
    /// Duration of each real initialisation.
    pub init_delay_ms: u64,
}

impl Default for Driver {
    fn default() -> Self {
        Driver {
            version: None,
            nvml_version: None,
            cuda_version: None,
            epoch: 0,
            stale_code: Code::UNKNOWN,
            init_code: Code::SUCCESS,
            init_delay_ms: 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clock {
    /// Second 0 of every time line. Default: the scenario file's modification time, which is the same for all clients.
    pub origin_unix_ms: Option<u64>,
    /// Scenario seconds per real second.
    pub scale: f64,
    /// Time stops at this second.
    pub at: Option<f64>,
    pub stamps: Stamps,
}

impl Default for Clock {
    fn default() -> Self {
        Clock {
            origin_unix_ms: None,
            scale: 1.0,
            at: None,
            stamps: Stamps::Wall,
        }
    }
}

/// Clock of the time stamps of buffered samples; they differ only if `scale` is not 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stamps {
    /// The client's own clock.
    #[default]
    Wall,
    /// The scenario's faster or slower clock.
    Scenario,
}

/// The driver's sample buffers. A GPU can override them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Buffers {
    /// Number of samples of one kind that a GPU keeps.
    pub samples: u32,
    pub period_ms: f64,
    /// Number of periods of per-process samples that a GPU keeps.
    pub process_samples: u32,
    /// Interval in samples at which a utilisation sample is junk; 0 is never.
    pub junk_every: u32,
    pub junk: u32,
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers {
            samples: 120,
            period_ms: 167.0,
            process_samples: 100,
            junk_every: 0,
            junk: 255,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NullSizeQuery {
    /// INSUFFICIENT_SIZE and the right count, or SUCCESS and 0.
    #[default]
    Right,
    /// SUCCESS and a count that is not the right one.
    Wrong,
    /// The process is aborted.
    Crash,
}

/// A fault in some functions, on some GPUs, for some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fault {
    /// Name of a function; `*` matches any characters.
    pub function: String,
    /// Default: every GPU, and functions without one.
    pub card: Option<Selector>,
    /// Return code of the function.
    pub code: Option<Code>,
    pub from: Option<f64>,
    pub until: Option<f64>,
    /// Number of matching calls of a process that succeed first.
    pub after_calls: u64,
    pub delay_ms: u64,
    pub hang: bool,
    pub crash: bool,
    /// Outputs are filled with 0xA5 bytes and the function returns SUCCESS.
    pub garbage: bool,
}

impl Default for Fault {
    fn default() -> Self {
        Fault {
            function: "*".to_owned(),
            card: None,
            code: None,
            from: None,
            until: None,
            after_calls: 0,
            delay_ms: 0,
            hang: false,
            crash: false,
            garbage: false,
        }
    }
}

impl Fault {
    fn has_effect(&self) -> bool {
        self.code.is_some() || self.delay_ms > 0 || self.hang || self.crash || self.garbage
    }
}

/// A GPU by its position in the file, or a GPU or MIG instance by its UUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Selector {
    Index(u32),
    Uuid(String),
}

impl Scenario {
    /// Parses a scenario.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = toml::from_str(text).map_err(|error| syntax(&error, text))?;
        scenario.check()?;
        Ok(scenario)
    }

    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        toml::to_string(self).map_err(|error| ScenarioError::Syntax {
            line: None,
            message: error.to_string(),
        })
    }

    /// Writes the scenario so that a running client sees the old file or the new one, never a part; see [`write_text`].
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let text = self.to_toml().map_err(io::Error::other)?;
        // Reject here, where the mistake was made, what a client would reject.
        Scenario::parse(&text).map_err(io::Error::other)?;
        write_text(path.as_ref(), &text)
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let Clock { scale, at, .. } = self.clock;
        let is_scale = scale.is_finite() && scale > 0.0;
        require(is_scale, "clock.scale must be above 0")?;
        let is_time = at.is_none_or(f64::is_finite);
        require(is_time, "clock.at must be a number of seconds")?;
        self.buffers.check()?;
        let has_effect = self.faults.iter().all(Fault::has_effect);
        let effects = "a fault needs one of code, delay_ms, hang, crash, garbage";
        require(has_effect, effects)?;
        let mut seen = std::collections::BTreeSet::new();
        for (index, card) in self.cards.iter().enumerate() {
            card.check()
                .map_err(|error| error.within(&format!("card {index}")))?;
            let instances = card.instances.iter().map(|instance| &instance.uuid);
            for uuid in instances.chain([&card.uuid]) {
                let is_new = uuid.is_empty() || seen.insert(uuid);
                require(is_new, &format!("uuid `{uuid}` stands there twice"))?;
            }
        }
        Ok(())
    }
}

impl Buffers {
    fn check(&self) -> Result<(), ScenarioError> {
        require(
            self.period_ms.is_finite() && self.period_ms >= 0.001,
            "period_ms must be 0.001 or more",
        )?;
        require(
            self.samples <= 100_000 && self.process_samples <= 10_000,
            "a buffer holds at most 100000 samples, and 10000 periods of process samples",
        )
    }
}

/// Writes any text, even a broken one, by renaming a finished file. Returns when every running client notices it at its
/// next call, so that tests need no sleep.
pub fn write_text(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let fresh = path.with_file_name(name);
    let mut file = File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    // File systems use a coarse clock: two versions in a row could otherwise look alike.
    file.set_modified(crate::clock::wall())?;
    std::fs::rename(&fresh, path)?;
    // Twice the required time: the wall clock may run slightly slower than the clock of the sleep.
    crate::clock::sleep(Duration::from_secs_f64(2.0 * crate::state::LOOK_EVERY));
    Ok(())
}

/// Reason why a text is not a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioError {
    /// Not TOML, or an unknown key or type.
    Syntax {
        line: Option<usize>,
        message: String,
    },
    /// Well formed, but cannot be simulated.
    Meaning(String),
}

impl ScenarioError {
    fn within(self, place: &str) -> ScenarioError {
        match self {
            ScenarioError::Meaning(message) => {
                ScenarioError::Meaning(format!("{place}: {message}"))
            }
            syntax @ ScenarioError::Syntax { .. } => syntax,
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScenarioError::Syntax {
                line: Some(line),
                message,
            } => write!(f, "line {line}: {message}"),
            ScenarioError::Syntax {
                line: None,
                message,
            }
            | ScenarioError::Meaning(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ScenarioError {}

fn require(holds: bool, message: &str) -> Result<(), ScenarioError> {
    if holds {
        Ok(())
    } else {
        Err(ScenarioError::Meaning(message.to_owned()))
    }
}

fn syntax(error: &toml::de::Error, text: &str) -> ScenarioError {
    let line = error
        .span()
        .and_then(|span| text.as_bytes().get(..span.start))
        .map(|before| before.iter().filter(|byte| **byte == b'\n').count() + 1);
    // One line: it is printed on the standard error of a program that is unaware of scenarios.
    let message = error.message().split_whitespace();
    let message = message.collect::<Vec<_>>().join(" ");
    ScenarioError::Syntax { line, message }
}
