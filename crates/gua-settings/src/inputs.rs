//! Inputs of the process: environment variables, the home directory and file locations. No other module reads the
//! environment.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the environment"
)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gua_model::run_variables::{DESCRIPTOR_VARIABLE, PIPE_VARIABLE, RUN_VARIABLE};

use crate::kind::{self, Home};
use crate::{ENTRIES, Layer, Problem, name};

/// Environment variable with the path of a configuration file that replaces the user's.
pub const CONFIG_VARIABLE: &str = "GUA_CONFIG";

/// Conventional names of the proxy variables. The first name that is set takes precedence.
const PROXY_VARIABLES: [[&str; 2]; 4] = [
    ["http_proxy", "HTTP_PROXY"],
    ["https_proxy", "HTTPS_PROXY"],
    ["all_proxy", "ALL_PROXY"],
    ["no_proxy", "NO_PROXY"],
];

/// Environment variable with the one-time token of `gua enroll`. It is a secret, so [`Inputs`] does not store it.
pub const TOKEN_VARIABLE: &str = "GUA_ENROLLMENT_TOKEN";

/// Environment variable with the API token of a board. It is a secret, so [`Inputs`] does not store it.
pub const BOARD_TOKEN_VARIABLE: &str = "GUA_BOARD_TOKEN";

/// Variables in the environment of a job: its GPUs, and how it communicates with the surrounding `gua run`.
pub const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";
/// Environment variable with the path of nvgpu's configuration file.
pub const NVGPU_CLUSTER: &str = "NVGPU_CLUSTER_CFG";
const RUN_VARIABLES: [&str; 3] = [RUN_VARIABLE, DESCRIPTOR_VARIABLE, PIPE_VARIABLE];

/// Variables of the locale of messages. The first one that is set takes precedence (locale(7)).
const LOCALE_VARIABLES: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

/// Whether `FORCE_COLOR` asks for color without a terminal. `NO_COLOR` takes precedence.
pub fn is_color_forced() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("FORCE_COLOR").is_some_and(|value| value != "0")
}

/// The host's configuration file.
const SYSTEM_FILE: &str = "/etc/gua/config.toml";

/// Environment variable with another path of the host's configuration file, for tests. Only builds with debug assertions read it:
/// otherwise users could evade the host's settings.
const SYSTEM_FILE_VARIABLE: &str = "GUA_TEST_SYSTEM_CONFIG";

/// Maximum size of a configuration file. A larger file is a mistake.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// Proxies from the environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// `http_proxy`.
    pub http: Option<String>,
    /// `https_proxy`.
    pub https: Option<String>,
    /// `all_proxy`, the fallback for the two above.
    pub all: Option<String>,
    /// `no_proxy`: hosts that are reached without a proxy.
    pub none_for: Option<String>,
}

impl fmt::Debug for Proxies {
    /// Omits the values: a proxy URL may contain a password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Proxies").finish_non_exhaustive()
    }
}

fn system_file() -> PathBuf {
    let of_test = cfg!(debug_assertions).then(|| std::env::var_os(SYSTEM_FILE_VARIABLE));
    of_test
        .flatten()
        .unwrap_or_else(|| SYSTEM_FILE.into())
        .into()
}

/// Everything that determines the settings, except the flags. Tests build their own.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub variables: BTreeMap<&'static str, OsString>,
    pub home: Option<PathBuf>,
    pub system_file: PathBuf,
}

impl Inputs {
    /// Reads the environment of this process. Only variables that gua uses are read.
    pub fn of_this_process() -> Self {
        let names = ENTRIES
            .iter()
            .map(|entry| entry.env)
            .chain([CONFIG_VARIABLE, "HOME", "PATH", "TMPDIR", "JOURNAL_STREAM"])
            .chain(LOCALE_VARIABLES)
            .chain(PROXY_VARIABLES.into_iter().flatten())
            .chain(RUN_VARIABLES)
            .chain([CUDA_VISIBLE_DEVICES, NVGPU_CLUSTER]);
        let variables = names
            .filter_map(|name| Some((name, std::env::var_os(name)?)))
            .collect();
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY");
        let variables = with_credentials(variables, credentials.map(PathBuf::from).as_deref());
        // `home_dir` returns $HOME or, if that is unset, the home directory in the passwd entry.
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        Self {
            variables,
            home,
            system_file: system_file(),
        }
    }

    /// Returns a variable that is set. An empty variable counts as unset.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(name)
            .map(OsString::as_os_str)
            .filter(|text| !text.is_empty())
    }

    /// Whether the locale of messages is Korean.
    pub fn is_korean(&self) -> bool {
        let locale = LOCALE_VARIABLES.iter().find_map(|name| self.variable(name));
        let language = locale.and_then(OsStr::to_str).unwrap_or_default();
        let language = language.split(['_', '.', '@']).next();
        language == Some("ko")
    }

    /// Returns the proxies that the environment configures.
    pub fn proxies(&self) -> Proxies {
        let mut set = BTreeMap::from_iter(self.proxy_variables());
        Proxies {
            http: set.remove("http_proxy"),
            https: set.remove("https_proxy"),
            all: set.remove("all_proxy"),
            none_for: set.remove("no_proxy"),
        }
    }

    /// Returns the proxies by variable name, to pass on to child processes. Programs look for the lower-case name
    /// first.
    pub fn proxy_variables(&self) -> Vec<(&'static str, String)> {
        let value = |names: &[&str; 2]| {
            let set = names.iter().find_map(|name| self.variable(name));
            set.map(|text| text.to_string_lossy().into_owned())
        };
        let named = PROXY_VARIABLES.iter();
        named
            .filter_map(|names| Some((names[0], value(names)?)))
            .collect()
    }

    /// Directory for temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.variable("TMPDIR")
            .map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
    }

    /// Returns the configuration files in descending priority.
    pub fn candidates(&self) -> Vec<Candidate> {
        let named = self.variable(CONFIG_VARIABLE).map(|text| {
            let path = kind::expand(text, &Home(self.home.clone()));
            Candidate::named(path.unwrap_or_else(|_| text.into()))
        });
        let optional = |layer, path| Candidate {
            path,
            layer,
            is_required: false,
        };
        let own = self.home.as_ref();
        let own = own.map(|home| optional(Layer::User, home.join(".gua/config.toml")));
        let system = optional(Layer::Host, self.system_file.clone());
        named.or(own).into_iter().chain([system]).collect()
    }
}

/// Files that systemd copies for a service (`LoadCredential=`, systemd.exec(5)), and the variables that they replace.
const CREDENTIALS: [(&str, &str); 4] = [
    ("config.toml", CONFIG_VARIABLE),
    ("cloud.json", "GUA_CLOUD_CONFIG"),
    ("cloud.salt", "GUA_CLOUD_SALT_FILE"),
    ("ca.pem", "GUA_CA_FILE"),
];

/// Adds the credentials of a service to the variables. A variable that is set takes precedence.
fn with_credentials(
    mut variables: BTreeMap<&'static str, OsString>,
    directory: Option<&Path>,
) -> BTreeMap<&'static str, OsString> {
    for (name, variable) in CREDENTIALS {
        let file = directory.map(|directory| directory.join(name));
        if let Some(file) = file.filter(|file| file.is_file()) {
            variables.entry(variable).or_insert_with(|| file.into());
        }
    }
    variables
}

/// Returns the one-time token from the environment, if it is set.
pub fn enrollment_token() -> Option<String> {
    secret(TOKEN_VARIABLE)
}

/// Returns the API token of a board from the environment, if it is set.
pub fn board_token() -> Option<String> {
    secret(BOARD_TOKEN_VARIABLE)
}

fn secret(variable: &str) -> Option<String> {
    let token = std::env::var_os(variable)?;
    Some(token.to_string_lossy().into_owned()).filter(|token| !token.is_empty())
}

/// Returns a message for every `GUA_` variable that is set but unknown, with the name that was probably meant.
pub fn unknown_variables() -> Vec<String> {
    let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    unknown(set.map(|(name, _)| name))
}

pub(crate) fn unknown(names: impl Iterator<Item = OsString>) -> Vec<String> {
    const PREFIX: &str = "GUA_";
    let known = || {
        let settings = ENTRIES.iter().map(|entry| entry.env);
        // Compare names without the prefix: the common part would make all of them similar.
        let all = settings
            .chain([CONFIG_VARIABLE, TOKEN_VARIABLE, BOARD_TOKEN_VARIABLE])
            .chain(RUN_VARIABLES)
            .chain(cfg!(debug_assertions).then_some(SYSTEM_FILE_VARIABLE));
        all.filter_map(|name| name.strip_prefix(PREFIX))
    };
    let mut unknown: Vec<String> = names
        .filter_map(|name| {
            let name = name.to_string_lossy();
            let rest = name.strip_prefix(PREFIX)?;
            if known().any(|known| known == rest) {
                return None;
            }
            let shown = name::shown(&name);
            Some(match name::nearest(rest, known()) {
                Some(near) => format!("{shown}: unknown variable; did you mean {PREFIX}{near}?"),
                None => format!("{shown}: unknown variable"),
            })
        })
        .collect();
    unknown.sort();
    unknown
}

/// A file that may contain settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub path: PathBuf,
    pub layer: Layer,
    /// Whether the file must exist.
    pub is_required: bool,
}

impl Candidate {
    /// A file that `GUA_CONFIG` or the command line names. It must exist.
    pub(crate) fn named(path: PathBuf) -> Self {
        Self {
            path,
            layer: Layer::User,
            is_required: true,
        }
    }

    /// Reads the file. `None` if it is optional and does not exist.
    pub fn read(&self) -> Result<Option<Vec<u8>>, Problem> {
        match gua_files::read_regular(&self.path, MAX_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => {
                let message = match error.kind() {
                    ErrorKind::NotFound | ErrorKind::NotADirectory if !self.is_required => {
                        return Ok(None);
                    }
                    ErrorKind::FileTooLarge => {
                        "is larger than 1 MiB, the maximum for a configuration file".to_owned()
                    }
                    _ => format!("cannot be read: {error}"),
                };
                Err(Problem::of_file(&self.path, None, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_service_replace_variables_that_are_not_set() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["cloud.json", "ca.pem", "other"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let set = BTreeMap::from([("GUA_CA_FILE", OsString::from("/set.pem"))]);
        let found = with_credentials(set.clone(), Some(directory.path()));
        let cloud = directory.path().join("cloud.json");
        let expected = BTreeMap::from([
            ("GUA_CA_FILE", OsString::from("/set.pem")),
            ("GUA_CLOUD_CONFIG", cloud.into()),
        ]);
        assert_eq!(found, expected);
        assert_eq!(with_credentials(set.clone(), None), set);
    }
}
