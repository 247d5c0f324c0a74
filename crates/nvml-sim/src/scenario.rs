//! The scenario file: everything that the driver simulates, as plain data.
//!
//! Parsing is pure and total: any text gives a scenario or an error, never a panic. `world` does the simulation. Every
//! type also serialises, so that a test can write a scenario in a few lines of Rust.

mod gpu;
mod value;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use gpu::Sensors;
pub use gpu::{Gpu, Instance, Kind, Process};
pub use value::{Burst, Ramp, Square, TimeLine, Value};

use crate::code::Code;

/// A whole scenario. `Scenario::default()` is a driver without GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Every call is appended to this file as `PID TID function GPU`. A relative path starts at the scenario's folder.
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
    #[serde(rename = "gpu")]
    pub gpus: Vec<Gpu>,
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
}

/// Declares tables of the file, with the default of each key.
macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        pub struct $Name:ident { $( $(#[$key_doc:meta])* $key:ident: $type:ty = $default:expr, )* }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $Name { $( $(#[$key_doc])* pub $key: $type, )* }

        impl Default for $Name {
            fn default() -> Self {
                Self { $( $key: $default, )* }
            }
        }
    )* };
}
use tables;

tables! {
    pub struct Driver {
        /// Default: the version of the installed generation.
        version: Option<String> = None,
        nvml_version: Option<String> = None,
        /// As the driver counts it: 12040 is 12.4.
        cuda_version: Option<i32> = None,
        /// A client that initialised under another number holds a stale library.
        epoch: u64 = 0,
        /// Return code of a stale library.
        stale_code: Code = Code::UNKNOWN,
        /// Return code of `nvmlInit`.
        init_code: Code = Code::SUCCESS,
        /// Duration of each real initialisation.
        init_delay_ms: u64 = 0,
    }

    pub struct Clock {
        /// Second 0 of every time line. Default: the scenario file's modification time, which is the same for all clients.
        origin_unix_ms: Option<u64> = None,
        /// Scenario seconds per real second.
        scale: f64 = 1.0,
        /// Time stops at this second.
        at: Option<f64> = None,
        stamps: Stamps = Stamps::Wall,
    }

    /// The driver's sample buffers. A GPU can override them.
    pub struct Buffers {
        /// Number of samples of one kind that a GPU keeps.
        samples: u32 = 120,
        period_ms: f64 = 167.0,
        /// Number of periods of per-process samples that a GPU keeps.
        process_samples: u32 = 100,
        /// Interval in samples at which a utilisation sample is junk; 0 is never.
        junk_every: u32 = 0,
        junk: u32 = 255,
    }

    /// A fault in some functions, on some GPUs, for some time.
    pub struct Fault {
        /// Name of a function; `*` matches any characters.
        function: String = "*".to_owned(),
        /// Default: every GPU, and functions without one.
        gpu: Option<Selector> = None,
        /// Return code of the function.
        code: Option<Code> = None,
        from: Option<f64> = None,
        until: Option<f64> = None,
        /// Number of matching calls of a process that succeed first.
        after_calls: u64 = 0,
        delay_ms: u64 = 0,
        hang: bool = false,
        crash: bool = false,
        /// Outputs are filled with 0xA5 bytes and the function returns SUCCESS.
        garbage: bool = false,
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

impl Fault {
    /// Reports whether the fault decides how a call ends.
    pub(crate) fn decides(&self) -> bool {
        self.code.is_some() || self.hang || self.crash || self.garbage
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
        scenario.check().map_err(ScenarioError)?;
        Ok(scenario)
    }

    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        toml::to_string(self).map_err(|error| ScenarioError(error.to_string()))
    }

    /// Writes the scenario so that a running client sees the old file or the new one, never a part; see [`write_text`].
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let text = self.to_toml().map_err(io::Error::other)?;
        // Reject here, where the mistake was made, what a client would reject.
        Scenario::parse(&text).map_err(io::Error::other)?;
        write_text(path.as_ref(), &text)
    }

    fn check(&self) -> Result<(), String> {
        let Clock { scale, at, .. } = self.clock;
        let is_scale = scale.is_finite() && scale > 0.0;
        require(is_scale, "clock.scale must be above 0")?;
        let is_time = at.is_none_or(f64::is_finite);
        require(is_time, "clock.at must be a number of seconds")?;
        self.buffers.check()?;
        let has_effect = |fault: &Fault| fault.decides() || fault.delay_ms > 0;
        let effects = "a fault needs one of code, delay_ms, hang, crash, garbage";
        require(self.faults.iter().all(has_effect), effects)?;
        let mut seen = std::collections::BTreeSet::new();
        for (index, gpu) in self.gpus.iter().enumerate() {
            gpu.check()
                .map_err(|message| format!("GPU {index}: {message}"))?;
            let instances = gpu.instances.iter().map(|instance| &instance.uuid);
            for uuid in instances.chain([&gpu.uuid]) {
                let is_new = uuid.is_empty() || seen.insert(uuid);
                require(is_new, &format!("uuid `{uuid}` occurs twice"))?;
            }
        }
        Ok(())
    }
}

impl Buffers {
    fn check(&self) -> Result<(), String> {
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

/// Reason why a text is not a scenario: with the line if it is not TOML, or has an unknown key or type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

fn require(holds: bool, message: &str) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(message.to_owned()),
    }
}

fn syntax(error: &toml::de::Error, text: &str) -> ScenarioError {
    let before = error
        .span()
        .and_then(|span| text.as_bytes().get(..span.start));
    // One line: it is printed on the standard error of a program that is unaware of scenarios.
    let message = error.message().split_whitespace();
    let message = message.collect::<Vec<_>>().join(" ");
    ScenarioError(match before {
        Some(before) => {
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line}: {message}")
        }
        None => message,
    })
}
