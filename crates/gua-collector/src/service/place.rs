//! Locations of units: of the host or of a user, on the running system or in an image.

use std::path::{Path, PathBuf};

use gua_model::failure::Failure;

use super::unit;

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
            (Scope::System, ..) => PathBuf::from("/etc/systemd/system"),
            (Scope::User, Some(_), _) => PathBuf::from("/etc/systemd/user"),
            (Scope::User, None, Some(home)) => home.join(".config/systemd/user"),
            (Scope::User, None, None) => {
                return Err(Failure::usage("the home directory is unknown").hint("set HOME"));
            }
        };
        Ok(Self {
            scope,
            root,
            directory,
        })
    }

    #[must_use]
    pub fn is_image(&self) -> bool {
        self.root.is_some()
    }

    /// Time at which a service that is not started now will start.
    pub(super) fn begins(&self) -> &'static str {
        match (self.scope, self.is_image()) {
            (Scope::System, false) => "it will be started at the next boot",
            (Scope::User, false) => "it will be started at your next login",
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

    /// Path of the service's history as seen from the running system.
    pub(super) fn history(&self) -> String {
        let path = unit::database(self.scope);
        match (&self.root, self.scope) {
            (None, _) => path.to_owned(),
            (Some(root), Scope::System) => root
                .join(path.trim_start_matches('/'))
                .display()
                .to_string(),
            (Some(_), Scope::User) => format!("{path} of each user of the image"),
        }
    }

    pub(super) fn unit(&self, name: &str) -> PathBuf {
        self.file(self.directory.join(name))
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
