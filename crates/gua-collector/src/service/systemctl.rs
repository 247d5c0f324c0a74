//! Calls of systemctl for the host or a user, on the running system or in an image.

use std::process::Command;

use gua_model::failure::Failure;

use super::place::{Place, Scope};

/// Runs systemctl for one scope.
pub(super) struct Systemctl<'a> {
    pub(super) place: &'a Place,
}

impl Systemctl<'_> {
    /// Whether systemd is running; false for an image and in most containers.
    pub(super) fn is_running(&self) -> bool {
        !self.place.is_image() && self.place.host.runs_systemd()
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

    pub(super) fn shown(&self, words: &[&str]) -> String {
        let arguments = self.arguments(words);
        let words = arguments.iter().map(String::as_str);
        let words = shlex::try_join(words).unwrap_or_else(|_| arguments.join(" "));
        format!("systemctl {words}")
    }

    pub(super) fn run(&self, words: &[&str]) -> Result<(), Failure> {
        let shown = self.shown(words);
        let done = Command::new("systemctl")
            .args(self.arguments(words))
            .output()
            .map_err(Failure::because(format!("cannot run `{shown}`")))?;
        if done.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&done.stderr);
        Err(Failure::failed(format!(
            "`{shown}` failed: {}",
            words.trim()
        )))
    }

    /// Starts an enabled unit, and returns a line about it. A restart also applies a changed unit after an update. `idle` is
    /// the line if systemd is not running.
    pub(super) fn activate(
        &self,
        unit: &str,
        no_start: bool,
        idle: &str,
    ) -> Result<String, Failure> {
        if !self.is_running() {
            return Ok(format!("  {idle}\n"));
        }
        self.run(&["daemon-reload"])?;
        if no_start {
            return Ok(format!("  start: {}\n", self.shown(&["start", unit])));
        }
        self.run(&["restart", unit])?;
        Ok("  started\n".to_owned())
    }

    pub(super) fn property(&self, unit: &str, name: &str) -> String {
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

    /// Last lines of a unit's log, or the command that shows them.
    pub(super) fn last_log_lines(&self, unit: &str) -> String {
        let mut words = vec!["--unit", unit];
        if self.place.scope == Scope::User {
            words.insert(0, "--user");
        }
        let shown = Command::new("journalctl")
            .args(&words)
            .args(["--lines=5", "--output=cat", "--no-pager", "--quiet"])
            .output();
        match shown {
            Ok(log) if log.status.success() && !log.stdout.is_empty() => {
                String::from_utf8_lossy(&log.stdout).into_owned()
            }
            _ => format!("see `journalctl {}`", words.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gua_probe::host::HostRoot;

    use super::*;

    #[test]
    fn systemd_is_running_if_it_has_made_its_directory_and_no_image_is_changed() {
        let host = tempfile::tempdir().unwrap();
        let is_running = |root: Option<&Path>| {
            let root = root.map(Path::to_owned);
            let mut place = Place::new(Some(Scope::User), root, Some(host.path())).unwrap();
            place.host = HostRoot(host.path().to_owned());
            Systemctl { place: &place }.is_running()
        };
        assert!(!is_running(None));
        std::fs::create_dir_all(host.path().join("run/systemd/system")).unwrap();
        assert!(is_running(None));
        assert!(!is_running(Some(host.path())));
    }
}
