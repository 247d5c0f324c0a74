//! The configuration of `gua`. A value comes from a flag, else from an environment variable, else from the user's file,
//! else from the host's file, else from the default.
//!
//! [`Inputs::of_this_process`] reads the environment once; [`Loaded::from`] reads the files and returns the settings in
//! force, each with its source, together with every mistake that was found. An invalid value does not stop the program:
//! the next lower layer applies, and the mistake is one of the returned problems. All settings are declared in [`table`].
//!
//! This crate does not parse the command line: callers pass flags as [`FlagValue`]. It is the only crate that reads the
//! environment.

mod alert;
pub mod array;
pub mod describe;
pub mod edit;
pub mod file;
pub mod group;
pub mod inputs;
pub mod kind;
mod name;
pub mod owner;
mod price;
pub mod problem;
pub mod quota;
pub mod table;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use gua_files::Untrusted;
use gua_model::Thresholds;
use gua_model::failure::Failure;
use gua_model::state::ThresholdOverrides;

pub use array::{Layer, Listed};
pub use inputs::{CUDA_VISIBLE_DEVICES, Candidate, Inputs, Proxies};
pub use name::nearest;
pub use problem::{Place, Position, Problem};
pub use table::{ARRAYS, ArrayEntry, ENTRIES, Entry, Settings};

use kind::{Home, Raw};

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub source: Source,
}

impl<T: Copy> Setting<T> {
    /// Returns the value if a flag set it.
    fn if_flag(&self) -> Option<T> {
        matches!(self.source, Source::Flag(_)).then_some(self.value)
    }
}

/// Layer that a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    File { path: PathBuf, line: usize },
    Environment(&'static str),
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => out.write_str("default"),
            Source::File { path, line } => write!(out, "{}:{line}", path.display()),
            Source::Environment(name) => write!(out, "environment {name}"),
            Source::Flag(flag) => write!(out, "flag {flag}"),
        }
    }
}

/// A command-line flag that sets a setting.
#[derive(Clone, Debug)]
pub struct FlagValue {
    pub flag: String,
    pub section: &'static str,
    pub key: &'static str,
    pub value: OsString,
}

impl FlagValue {
    /// Returns the flag if it was given.
    pub fn of(
        flag: impl Into<String>,
        section: &'static str,
        key: &'static str,
        value: Option<impl Into<OsString>>,
    ) -> Option<Self> {
        Some(Self {
            flag: flag.into(),
            section,
            key,
            value: value?.into(),
        })
    }
}

/// The settings in force, with the mistakes found in their sources.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub settings: Settings,
    pub problems: Vec<Problem>,
    /// The configuration files, in descending priority.
    pub files: Vec<FileSeen>,
    /// Environment and file locations that the settings were loaded from.
    pub inputs: Inputs,
}

/// A configuration file and whether it could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSeen {
    pub path: PathBuf,
    pub state: FileState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    Absent,
    Fine,
    Faulty,
}

impl FileState {
    /// State of a file with these mistakes; `None` if it is absent.
    fn of(problems: Option<&[Problem]>) -> Self {
        match problems {
            None => FileState::Absent,
            Some([]) => FileState::Fine,
            Some(_) => FileState::Faulty,
        }
    }
}

impl Loaded {
    /// Loads the settings of this process with these flags.
    pub fn of_this_process(flags: &[FlagValue]) -> Self {
        Self::from(&Inputs::of_this_process(), flags)
    }

    /// Returns the settings, or the first mistake in them as a usage error.
    pub fn checked(&self) -> Result<&Settings, Failure> {
        self.check_flags()?;
        let hint = match self.problems.len() {
            0 => return Ok(&self.settings),
            1 => "`gua config check` explains".to_owned(),
            all => format!("`gua config check` lists this and {} more", all - 1),
        };
        Err(Failure::usage(self.problems[0].to_string()).hint(hint))
    }

    /// Rejects a configuration file or driver library that another user can change, if this process runs as root. For commands
    /// that run for a long time or on behalf of everyone.
    pub fn safe_for_root(&self) -> Result<(), Failure> {
        let files = self.files.iter();
        let files = files.filter(|file| file.state != FileState::Absent);
        let library = &self.settings.driver.library.value;
        // A bare name is found by the system's loader, in directories of root.
        let is_path = library.as_os_str().as_encoded_bytes().contains(&b'/');
        let library = is_path.then_some(library.as_path());
        for path in files.map(|file| file.path.as_path()).chain(library) {
            gua_files::safe_for_root(path)
                .map_err(|error| Failure::usage(error.to_string()).hint(Untrusted::HINT))?;
        }
        Ok(())
    }

    /// Reports an invalid flag, for commands that also work with an invalid configuration. There is no hint, because
    /// `gua config check` does not see flags.
    pub fn check_flags(&self) -> Result<(), Failure> {
        let is_flag = |problem: &&Problem| matches!(problem.place, Place::Flag(_));
        match self.problems.iter().find(is_flag) {
            Some(problem) => Err(Failure::usage(problem.to_string())),
            None => Ok(()),
        }
    }

    /// Reads the files that `inputs` names and merges all layers.
    pub fn from(inputs: &Inputs, flags: &[FlagValue]) -> Self {
        let home = Home(inputs.home.clone());
        let mut settings = Settings::defaults(&home);
        let mut problems = Vec::new();
        if inputs.home.is_none() {
            problems.push(Problem::new(
                Place::Home,
                "the home directory is unknown; set HOME",
            ));
        }

        let mut files = Vec::new();
        // Lowest priority first, so that later layers overwrite earlier ones.
        for candidate in inputs.candidates().iter().rev() {
            let (layer, path) = (candidate.layer, candidate.path.clone());
            let found = match candidate.read() {
                Ok(None) => None,
                Ok(Some(bytes)) => Some(file::apply_as(layer, &mut settings, &bytes, &path, &home)),
                Err(problem) => Some(vec![problem]),
            };
            let state = FileState::of(found.as_deref());
            problems.extend(found.unwrap_or_default());
            files.insert(0, FileSeen { path, state });
        }
        problems.extend(settings.alerts.iter().filter_map(alert::of_wrong_file));

        let variables = ENTRIES.iter().filter_map(|entry| {
            let text = inputs.variable(entry.env)?;
            let place = Place::Environment(entry.env);
            let source = Source::Environment(entry.env);
            Some((entry.section, entry.key, text, source, place))
        });
        let flags = flags.iter().map(|given| {
            let (source, place) = (
                Source::Flag(given.flag.clone()),
                Place::Flag(given.flag.clone()),
            );
            let text = given.value.as_os_str();
            (given.section, given.key, text, source, place)
        });
        for (section, key, text, source, place) in variables.chain(flags) {
            let set = settings.set(section, key, Raw::Text(text), &home, source);
            if let Some(Err(message)) = set {
                problems.push(Problem::new(place, message));
            }
        }
        Self {
            settings,
            problems,
            files,
            inputs: inputs.clone(),
        }
    }
}

/// Checks one file as if it were the only one.
pub fn check_file(path: &Path, inputs: &Inputs) -> (Vec<Problem>, FileSeen) {
    let home = Home(inputs.home.clone());
    let problems = match Candidate::named(path.to_owned()).read() {
        Ok(bytes) => file::apply(
            &mut Settings::defaults(&home),
            &bytes.unwrap_or_default(),
            path,
            &home,
        ),
        Err(problem) => vec![problem],
    };
    let state = FileState::of(Some(&problems));
    let path = path.to_owned();
    (problems, FileSeen { path, state })
}

impl Settings {
    /// Returns the state thresholds in the form that the model uses.
    pub fn thresholds(&self) -> Thresholds {
        Thresholds {
            active_util: self.states.active_util.value,
            held_mb: self.states.held_mb.value,
            count_graphics: self.states.count_graphics.value,
        }
    }

    /// Returns the state thresholds that flags set.
    pub fn threshold_flags(&self) -> ThresholdOverrides {
        let states = &self.states;
        ThresholdOverrides {
            active_util: states.active_util.if_flag(),
            held_mb: states.held_mb.if_flag(),
            count_graphics: states.count_graphics.if_flag(),
        }
    }
}

/// Default path of a user's history file.
pub fn default_db(home: &Path) -> PathBuf {
    home.join(".gua/gua.db")
}

#[cfg(test)]
mod tests;
