//! Calls of systemctl for the host or a user, on the running system or in an image.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::place::{Place, Scope};
use crate::failure::{Exit, Failure};

/// Runs systemctl for one scope.
pub(crate) struct Systemctl<'a> {
    pub(crate) place: &'a Place,
}

impl Systemctl<'_> {
    /// Whether systemd is running; false for an image and in most containers.
    pub(crate) fn is_running(&self) -> bool {
        !self.place.is_image() && Path::new("/run/systemd/system").is_dir()
    }

    fn arguments(&self, words: &[&str]) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.place.scope == Scope::User {
            // In an image, user units are enabled for all users.
            let scope = if self.place.is_image() {
                "--global"
            } else {
                "--user"
            };
            arguments.push(scope.to_owned());
        }
        if let Some(root) = &self.place.root {
            arguments.push(format!("--root={}", root.display()));
        }
        arguments.extend(words.iter().map(|word| (*word).to_owned()));
        arguments
    }

    pub(crate) fn shown(&self, words: &[&str]) -> String {
        let arguments = self.arguments(words);
        let words = arguments.iter().map(String::as_str);
        let words = shlex::try_join(words).unwrap_or_else(|_| arguments.join(" "));
        format!("systemctl {words}")
    }

    pub(crate) fn run(&self, words: &[&str]) -> anyhow::Result<()> {
        let shown = self.shown(words);
        let done = Command::new("systemctl")
            .args(self.arguments(words))
            .output()
            .with_context(|| format!("cannot run `{shown}`"))?;
        if done.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&done.stderr);
        let message = format!("`{shown}` failed: {}", words.trim());
        Err(Failure {
            exit: Exit::Failed,
            message,
            hint: None,
        }
        .into())
    }

    pub(crate) fn property(&self, unit: &str, name: &str) -> String {
        let flag = format!("--property={name}");
        let asked = Command::new("systemctl")
            .args(self.arguments(&["show", "--value", &flag, unit]))
            .output();
        match asked {
            Ok(answer) if answer.status.success() => {
                String::from_utf8_lossy(&answer.stdout).trim().to_owned()
            }
            _ => "unknown".to_owned(),
        }
    }
}
