//! Calls of systemctl for the host or a user, on the running system or in an image.

use std::process::Command;

use gua_model::failure::Failure;

use super::place::{Place, Scope};

impl Place {
    /// Whether systemd is running; false for an image and in most containers.
    pub(super) fn runs_systemd(&self) -> bool {
        !self.is_image() && self.host.runs_systemd()
    }

    fn systemctl_arguments(&self, words: &[&str]) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.scope == Scope::User {
            // In an image, user units are enabled for all users.
            let scope = if self.is_image() {
                "--global"
            } else {
                "--user"
            };
            arguments.push(scope.to_owned());
        }
        if let Some(root) = &self.root {
            arguments.push(format!("--root={}", root.display()));
        }
        arguments.extend(words.iter().map(|word| (*word).to_owned()));
        arguments
    }

    /// The command line of systemctl with these arguments, for messages.
    pub(super) fn systemctl_line(&self, words: &[&str]) -> String {
        let arguments = self.systemctl_arguments(words);
        let words = arguments.iter().map(String::as_str);
        let words = shlex::try_join(words).unwrap_or_else(|_| arguments.join(" "));
        format!("systemctl {words}")
    }

    /// Runs systemctl.
    pub(super) fn systemctl(&self, words: &[&str]) -> Result<(), Failure> {
        let shown = self.systemctl_line(words);
        let done = Command::new("systemctl")
            .args(self.systemctl_arguments(words))
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
        if !self.runs_systemd() {
            return Ok(format!("  {idle}\n"));
        }
        self.systemctl(&["daemon-reload"])?;
        if no_start {
            let line = self.systemctl_line(&["start", unit]);
            return Ok(format!("  start: {line}\n"));
        }
        self.systemctl(&["restart", unit])?;
        Ok("  started\n".to_owned())
    }

    pub(super) fn property(&self, unit: &str, name: &str) -> String {
        let flag = format!("--property={name}");
        let asked = Command::new("systemctl")
            .args(self.systemctl_arguments(&["show", "--value", &flag, unit]))
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
        if self.scope == Scope::User {
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
            place.runs_systemd()
        };
        assert!(!is_running(None));
        std::fs::create_dir_all(host.path().join("run/systemd/system")).unwrap();
        assert!(is_running(None));
        assert!(!is_running(Some(host.path())));
    }
}
