//! Locations of units: of the host or of a user, on the running system or in an image.

use std::path::{Path, PathBuf};

use gua_model::failure::Failure;
use gua_probe::host::HostRoot;

use super::{collector, unit};
use crate::location::OF_THE_HOST;

/// Default history of a user's service, for display.
const OF_A_USER: &str = "~/.gua/gua.db";

/// Directory of the units of packages. A unit of the same name in `/etc/systemd/system` replaces one of these (systemd.unit(5)).
const PACKAGED_UNITS: &str = "/usr/lib/systemd/system";

/// Scope of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    System,
    User,
}

/// Location of the units.
#[derive(Clone, Debug)]
pub struct Place {
    pub scope: Scope,
    /// Root of an image to change instead of the running system.
    pub(super) root: Option<PathBuf>,
    /// The running system.
    pub(super) host: HostRoot,
    directory: PathBuf,
}

impl Place {
    /// Determines the location. Without a scope, it is the host for root and the user for everyone else.
    pub fn new(
        scope: Option<Scope>,
        root: Option<PathBuf>,
        home: Option<&Path>,
    ) -> Result<Self, Failure> {
        let is_root = rustix::process::geteuid().is_root();
        let scope = scope.unwrap_or(if is_root { Scope::System } else { Scope::User });
        let directory = match (scope, &root, home) {
            (Scope::System, None, _) if !is_root => {
                return Err(
                    Failure::usage("the host's service can only be changed by root")
                        .hint("use sudo, or --user for a service of your own"),
                );
            }
            (Scope::System, ..) => PathBuf::from(super::SYSTEM_UNITS),
            (Scope::User, Some(_), _) => PathBuf::from("/etc/systemd/user"),
            (Scope::User, None, Some(home)) => home.join(".config/systemd/user"),
            (Scope::User, None, None) => {
                return Err(Failure::usage("the home directory is unknown").hint("set HOME"));
            }
        };
        Ok(Self {
            scope,
            root,
            host: HostRoot::real(),
            directory,
        })
    }

    pub fn is_image(&self) -> bool {
        self.root.is_some()
    }

    /// Time at which a service that is not started now will start.
    pub(super) fn begins(&self) -> &'static str {
        match (self.scope, self.is_image()) {
            (Scope::System, false) => "it will be started at the next boot",
            (Scope::User, false) => "it will be started at your next log-in",
            (Scope::System, true) => "it will be started when the image is booted",
            (Scope::User, true) => "it will be started when a user of the image logs in",
        }
    }

    /// Status line of a service on a system that systemd does not run.
    pub(super) fn not_running(&self) -> String {
        match self.is_image() {
            true => format!("  {}\n", self.begins()),
            false => "  systemd is not running here\n".to_owned(),
        }
    }

    /// Path of the history of a unit: the given one, that of the installed unit of the collector, or the default of the
    /// host. `None` leaves it to the configuration of the user.
    pub(super) fn database(&self, given: Option<&Path>, default: &Path) -> Option<PathBuf> {
        let installed = || {
            let text = std::fs::read_to_string(self.unit(collector::NAME)).ok()?;
            let is_ours = text.starts_with(unit::FIRST_LINE);
            is_ours.then(|| unit::database_of(&text)).flatten()
        };
        let default = || (self.scope == Scope::System).then(|| default.to_owned());
        let given = given.map(Path::to_owned);
        given.or_else(installed).or_else(default)
    }

    /// Path of the service's history as seen from the running system.
    pub(super) fn history(&self) -> String {
        match (self.database(None, Path::new(OF_THE_HOST)), &self.root) {
            (Some(path), _) => self.file(path).display().to_string(),
            (None, None) => OF_A_USER.to_owned(),
            (None, Some(_)) => format!("{OF_A_USER} of each user of the image"),
        }
    }

    pub(super) fn unit(&self, name: &str) -> PathBuf {
        self.file(self.directory.join(name))
    }

    /// Path of a unit that a package installed for the host.
    pub(super) fn packaged(&self, name: &str) -> Option<PathBuf> {
        let path = self.file(Path::new(PACKAGED_UNITS).join(name));
        (self.scope == Scope::System && path.exists()).then_some(path)
    }

    /// Path that a file of the running system has on the system of the units. A file below the root of an image is named as the
    /// image sees it.
    pub(super) fn inside(&self, path: PathBuf) -> PathBuf {
        let root = self
            .root
            .as_deref()
            .and_then(|root| root.canonicalize().ok());
        match root.as_deref().map(|root| path.strip_prefix(root)) {
            Some(Ok(inner)) => Path::new("/").join(inner),
            _ => path,
        }
    }

    /// Path of a file of the system, which may be an image.
    pub(super) fn file(&self, path: impl Into<PathBuf>) -> PathBuf {
        let path = path.into();
        match &self.root {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(&path)),
            None => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_an_image_is_named_as_the_image_sees_it() {
        let image = tempfile::tempdir().unwrap();
        let root = image.path().canonicalize().unwrap();
        let link = image.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        for given in [image.path(), &link] {
            let place = Place::new(Some(Scope::System), Some(given.into()), None).unwrap();
            assert_eq!(
                place.inside(root.join("usr/bin/gua")),
                Path::new("/usr/bin/gua")
            );
            assert_eq!(
                place.inside("/opt/gua".into()),
                Path::new("/opt/gua"),
                "not in the image"
            );
        }
    }
}
