//! Where units lie: the host's or the user's, on this system or in an image.

use std::path::PathBuf;

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

    pub(crate) fn unit(&self, name: &str) -> PathBuf {
        let below = self.directory.strip_prefix("/").unwrap_or(&self.directory);
        match &self.root {
            Some(root) => root.join(below).join(name),
            None => self.directory.join(name),
        }
    }
}
