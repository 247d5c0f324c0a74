//! Requirements of a unit that pushes to the board: the enrolment, the settings from the installing user's environment,
//! which a service does not inherit, and read access to the files.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gua_model::failure::Failure;
use gua_model::text::sanitize;
use gua_settings::inputs::CONFIG_VARIABLE;
use gua_settings::kind::UserNames;
use gua_settings::{Loaded, Source};

use super::host_facts::own_settings;
use super::place::{Place, Scope};
use super::unit::quoted;
use crate::board::setup;

/// Board configuration of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BoardFacts {
    pub(super) enrolment: PathBuf,
    /// Whether closed days are uploaded to the board's archive.
    pub(super) archive: bool,
    /// Environment variables of the unit.
    pub(super) variables: Vec<(String, String)>,
    /// Files that the host's units get as credentials, by name.
    pub(super) credentials: Vec<(&'static str, PathBuf)>,
    /// Variables with secrets, which are not written to the unit because all users can read it.
    pub(super) withheld: Vec<&'static str>,
}

impl BoardFacts {
    pub(super) fn of(loaded: &Loaded, place: &Place) -> Result<Self, Failure> {
        let cloud = &loaded.settings.cloud;
        let mut facts = Self {
            enrolment: absolute(&cloud.config.value)?,
            ..Self::default()
        };
        facts
            .credentials
            .push(("cloud.json", facts.enrolment.clone()));
        if cloud.users.value == UserNames::Hash {
            let salt = absolute(&cloud.salt_file.value)?;
            facts.credentials.push(("cloud.salt", salt));
        }
        if let Some(file) = &cloud.ca_file.value {
            facts.credentials.push(("ca.pem", absolute(file)?));
        }
        for shown in loaded.settings.shown() {
            let is_given = matches!(shown.source, Source::Environment(_) | Source::Flag(_));
            // The URL is that of the enrolment. The host's service gets the files as credentials.
            let is_needed = match (shown.entry.key, place.scope) {
                ("url", _) | ("config" | "salt_file" | "ca_file", Scope::System) => false,
                _ => is_given,
            };
            if shown.entry.section != "cloud" || !is_needed {
                continue;
            }
            let value = match (&shown.json, shown.entry.key) {
                (serde_json::Value::String(path), "config" | "salt_file" | "ca_file")
                    if path != "none" =>
                {
                    absolute(Path::new(path))?.to_string_lossy().into_owned()
                }
                (serde_json::Value::String(text), _) => text.clone(),
                (other, _) => other.to_string(),
            };
            facts.variables.push((shown.entry.env.to_owned(), value));
        }
        if !place.is_image() {
            facts.add_surroundings(loaded, place)?;
        }
        Ok(facts)
    }

    /// Adds the configuration file and the proxies of the running system; they do not apply to an image.
    fn add_surroundings(&mut self, loaded: &Loaded, place: &Place) -> Result<(), Failure> {
        let named = loaded.inputs.variable(CONFIG_VARIABLE).is_some();
        // The host's service gets the file as a credential.
        let own = own_settings(loaded).filter(|_| named && place.scope == Scope::User);
        if let Some(path) = own {
            let path = absolute(path)?.to_string_lossy().into_owned();
            self.variables.push((CONFIG_VARIABLE.to_owned(), path));
        }
        for (name, value) in loaded.inputs.proxy_variables() {
            match value.contains('@') {
                true => self.withheld.push(name),
                false => self.variables.push((name.to_owned(), value)),
            }
        }
        Ok(())
    }

    /// Rejects a unit that could never push. Creates the salt of pseudonyms, which the service may not create.
    pub(super) fn admit(&self, loaded: &Loaded, place: &Place) -> Result<(), Failure> {
        if place.is_image() {
            return Ok(());
        }
        setup::enrolled(loaded)?;
        setup::users(&loaded.settings)?;
        let runs_as = match place.scope {
            Scope::System => 0,
            Scope::User => rustix::process::geteuid().as_raw(),
        };
        let mut secrets = vec![&self.enrolment];
        if loaded.settings.cloud.users.value == UserNames::Hash {
            secrets.push(&loaded.settings.cloud.salt_file.value);
        }
        for path in secrets {
            let facts = std::fs::metadata(path).map_err(Failure::cannot("examine", path))?;
            let owner = facts.uid();
            if owner != runs_as {
                let whose = match place.scope {
                    Scope::System => "the host's service only uses files of root",
                    Scope::User => "your service could not read it",
                };
                let message = format!("`{}` belongs to user {owner}, and {whose}", path.display());
                return Err(Failure::usage(message)
                    .hint("enrol as the user that the service runs as: with sudo for the host's service, without for --user"));
            }
        }
        Ok(())
    }

    /// Files that the host's units read.
    pub(super) fn files(&self) -> Vec<&Path> {
        let credentials = self.credentials.iter();
        credentials.map(|(_, path)| path.as_path()).collect()
    }

    /// `Environment=` lines of the unit.
    pub(super) fn environment(&self) -> String {
        let line = |(name, value): &(String, String)| {
            format!("Environment={}\n", quoted(&format!("{name}={value}")))
        };
        self.variables.iter().map(line).collect()
    }

    /// Notes about withheld variables for the user.
    pub(super) fn notes(&self) -> String {
        let note = |name: &&str| {
            format!(
                "  {name} contains a password and is not written to the unit, which everyone can read: set it with `systemctl edit` and a private EnvironmentFile\n"
            )
        };
        self.withheld.iter().map(note).collect()
    }
}

/// Absolute path for a unit, in which a path has one line.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let has_control = path.to_string_lossy().contains(char::is_control);
    if has_control {
        let shown = sanitize(&path.to_string_lossy());
        return Err(Failure::usage(format!(
            "`{shown}` has a control character, which a unit cannot contain"
        )));
    }
    std::path::absolute(path).map_err(Failure::because(format!("where is `{}`?", path.display())))
}

/// Lines of a unit that needs the network.
pub(super) fn network(scope: Scope) -> &'static str {
    match scope {
        Scope::System => "Wants=network-online.target\nAfter=network-online.target\n",
        Scope::User => "",
    }
}
