//! A terminal that tmux plays: a test types keys and reads the screen.

use crate::{TestHost, wait_for};

/// One tmux server with one window. Ends with the value.
#[derive(Debug)]
pub struct Terminal<'a> {
    host: &'a TestHost,
}

impl<'a> Terminal<'a> {
    /// Runs a shell line in a terminal of this size.
    pub fn new(host: &'a TestHost, shell: &str, (columns, rows): (u16, u16)) -> Self {
        let terminal = Self { host };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let session = ["new-session", "-d", "-s", "top"];
        let size = ["-x", &columns, "-y", &rows, shell];
        terminal.tmux(&[&session[..], &size].concat());
        terminal
    }

    /// Runs a tmux command and returns what it prints.
    #[track_caller]
    pub fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.host.command("tmux");
        let output = command
            .args(["-u", "-f", "/dev/null"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types keys, by tmux's names.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "top"], keys].concat());
    }

    /// Types a text and Enter.
    pub fn line(&self, text: &str) {
        self.keys(&["-l", text]);
        self.keys(&["Enter"]);
    }

    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "top"])
    }

    /// Whether the alternate screen is on and whether the cursor is visible: `01` in a shell.
    pub fn flags(&self) -> String {
        let format = "#{alternate_on}#{cursor_flag}";
        let flags = self.tmux(&["display-message", "-p", "-t", "top", format]);
        flags.trim().to_owned()
    }

    /// Waits until the screen shows a text, and returns the screen.
    #[track_caller]
    pub fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Waits until the screen satisfies a condition, and returns the screen.
    #[track_caller]
    pub fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        wait_for(what, || Some(self.screen()).filter(|screen| holds(screen)))
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.host.command("tmux").arg("kill-server").output();
    }
}
