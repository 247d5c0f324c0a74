//! Locations of units: of the host or of a user, on the running system or in an image.

use std::path::PathBuf;

use super::unit;
use crate::cli::ServiceScopeArgs;
use crate::config::Inputs;
use crate::failure::Failure;

/// Scope of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    System,
    User,
}

#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) scope: Scope,
    /// Root of an image to change instead of the running system.
    pub(crate) root: Option<PathBuf>,
    directory: PathBuf,
}

impl Place {
    /// Determines the scope: by the flags, else the host for root and the user for everyone else.
    pub(crate) fn of(args: &ServiceScopeArgs) -> Result<Self, Failure> {
        let is_root = rustix::process::geteuid().is_root();
        let scope = if args.system || (is_root && !args.user) {
            Scope::System
        } else {
            Scope::User
        };
        if scope == Scope::System && !is_root && args.root.is_none() {
            return Err(
                Failure::usage("the host's service can only be changed by root")
                    .hint("use sudo, or --user for a service of your own"),
            );
        }
        let directory = match scope {
            Scope::System => PathBuf::from("/etc/systemd/system"),
            Scope::User if args.root.is_some() => PathBuf::from("/etc/systemd/user"),
            Scope::User => {
                let home = Inputs::of_this_process().home.ok_or_else(|| {
                    Failure::usage("your home directory is not known").hint("set HOME")
                })?;
                home.join(".config/systemd/user")
            }
        };
        Ok(Self {
            scope,
            root: args.root.clone(),
            directory,
        })
    }

    pub(crate) fn is_image(&self) -> bool {
        self.root.is_some()
    }

    /// Time at which a service that is not started now will start.
    pub(crate) fn begins(&self) -> &'static str {
        match (self.scope, self.is_image()) {
            (Scope::System, false) => "it will be started at the next boot",
            (Scope::User, false) => "it will be started at your next login",
            (Scope::System, true) => "it will be started when the image is booted",
            (Scope::User, true) => "it will be started when a user of the image logs in",
        }
    }

    /// Path of the service's history as seen from the running system.
    pub(crate) fn history(&self) -> String {
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

    pub(crate) fn unit(&self, name: &str) -> PathBuf {
        let below = self.directory.strip_prefix("/").unwrap_or(&self.directory);
        match &self.root {
            Some(root) => root.join(below).join(name),
            None => self.directory.join(name),
        }
    }
}
