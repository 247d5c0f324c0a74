//! A home with a simulated driver in it, and a terminal that tmux plays.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use gua_probe::clock;
use nvml_sim::driver::{self, Generation};

pub(crate) const TWO_CARDS: &str = "[[card]]\nuuid = \"GPU-a\"\nname = \"NVIDIA A100\"\nutil = 50\n[[card]]\nuuid = \"GPU-b\"\nname = \"NVIDIA A100\"\n";

pub(crate) struct Host {
    pub(crate) home: tempfile::TempDir,
    pub(crate) library: PathBuf,
}

impl Host {
    pub(crate) fn new(scenario: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let library = driver::install(home.path(), Generation::LATEST).unwrap();
        let host = Self { home, library };
        host.play(scenario);
        host
    }

    pub(crate) fn play(&self, scenario: &str) {
        // A mistake in it would be another fault than the one that a test is about.
        nvml_sim::scenario::Scenario::parse(scenario).unwrap();
        nvml_sim::scenario::write_text(&self.home.path().join("nvml-sim.toml"), scenario).unwrap();
    }

    /// The variables that `gua` runs with, in the form of env(1).
    pub(crate) fn variables(&self) -> Vec<String> {
        let home = self.home.path().display();
        vec![
            format!("HOME={home}"),
            format!("GUA_NVML_LIBRARY={}", self.library.display()),
            format!("TMUX_TMPDIR={home}"),
            "PATH=/usr/bin:/bin".to_owned(),
            "TZ=UTC".to_owned(),
            "LC_ALL=C.UTF-8".to_owned(),
            "GUA_DRIVER_DEADLINE=500ms".to_owned(),
        ]
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let variables = self.variables();
        let pairs = variables.iter().filter_map(|pair| pair.split_once('='));
        command.env_clear().envs(pairs).stdin(Stdio::null());
        command
    }

    pub(crate) fn gua(&self, line: &str) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_gua"));
        command.args(line.split_whitespace()).output().unwrap()
    }

    /// Runs `gua top` in a terminal of this size, and leaves its exit code on the screen.
    pub(crate) fn top(&self, arguments: &str, size: (u16, u16)) -> Terminal<'_> {
        let gua = env!("CARGO_BIN_EXE_gua");
        self.terminal(
            &format!("{gua} top {arguments}; echo \"code=$?\"; exec cat"),
            size,
        )
    }

    pub(crate) fn terminal(&self, shell: &str, (columns, rows): (u16, u16)) -> Terminal<'_> {
        let terminal = Terminal { host: self };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.tmux(&[
            "new-session",
            "-d",
            "-s",
            "top",
            "-x",
            &columns,
            "-y",
            &rows,
            shell,
        ]);
        terminal
    }
}

/// One terminal, and the tmux that plays it.
pub(crate) struct Terminal<'a> {
    host: &'a Host,
}

impl Terminal<'_> {
    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.host.command("tmux");
        let output = command
            .args(["-u", "-f", "/dev/null"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "top"], keys].concat());
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "top"])
    }

    /// Whether the second screen is on, and whether the cursor is shown: `01` is what a shell has.
    pub(crate) fn flags(&self) -> String {
        let format = "#{alternate_on}#{cursor_flag}";
        let flags = self.tmux(&["display-message", "-p", "-t", "top", format]);
        flags.trim().to_owned()
    }

    /// Waits until the screen shows something.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let limit = clock::monotonic() + Duration::from_secs(30);
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(
                clock::monotonic() < limit,
                "waited for `{what}`; the screen shows\n{screen}"
            );
            std::thread::yield_now();
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.host.command("tmux").arg("kill-server").output();
    }
}

/// Killed with the test.
pub(crate) struct Sleeper(pub(crate) Child);

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self(
            Command::new("sleep")
                .arg("600")
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    pub(crate) fn card(&self) -> String {
        format!(
            "[[card]]\nuuid = \"GPU-a\"\nutil = 0\n[[card.process]]\npid = {}\nmemory_mib = 2048\n",
            self.0.id()
        )
    }

    pub(crate) fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
