//! Where units lie: the host's or the user's, on this system or in an image.

use std::path::PathBuf;

use super::unit;
use crate::cli::ServiceScopeArgs;
use crate::config::Inputs;
use crate::failure::Failure;

/// For whom the service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    System,
    User,
}

#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) scope: Scope,
    /// An image that is being prepared, instead of this system.
    pub(crate) root: Option<PathBuf>,
    directory: PathBuf,
}

impl Place {
    /// For root the host's service, for everyone else their own, unless they say otherwise.
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

    /// When the service will begin, as far as it is not started now.
    pub(crate) fn begins(&self) -> &'static str {
        match (self.scope, self.is_image()) {
            (Scope::System, false) => "it will be started at the next boot",
            (Scope::User, false) => "it will be started at your next login",
            (Scope::System, true) => "it will be started when the image is booted",
            (Scope::User, true) => "it will be started when a user of the image logs in",
        }
    }

    /// Where the service keeps its history, as seen from here.
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
