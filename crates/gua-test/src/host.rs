//! A temporary home with a simulated driver, in which the real program runs.

use std::ffi::{OsStr, OsString};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nvml_sim::driver::Generation;

use crate::{Ended, Running, SimulatedDriver};

/// A home of its own for the program under test. Its directory is also that of the driver, see [`SimulatedDriver`].
///
/// Commands get these variables and no others: `HOME`, `PATH`, `TMPDIR`, `TZ`, a UTF-8 locale, the driver, the directory of
/// claims, and those that [`TestHost::variable`] adds.
#[derive(Debug)]
pub struct TestHost {
    driver: SimulatedDriver,
    program: PathBuf,
    variables: Vec<(String, OsString)>,
}

impl TestHost {
    /// A home for this program: `env!("CARGO_BIN_EXE_gua")`, which only the tests of its crate know.
    pub fn new(program: impl Into<PathBuf>, scenario: &str) -> Self {
        Self::of(program, Generation::LATEST, scenario)
    }

    pub fn of(program: impl Into<PathBuf>, generation: Generation, scenario: &str) -> Self {
        let driver = SimulatedDriver::of(generation, scenario);
        for name in ["claims", "tmp"] {
            std::fs::create_dir(driver.path(name)).unwrap();
        }
        Self {
            driver,
            program: program.into(),
            variables: Vec::new(),
        }
    }

    /// A machine without a driver.
    pub fn without_driver(program: impl Into<PathBuf>) -> Self {
        let mut host = Self::new(program, "");
        host.driver.remove_library();
        host
    }

    /// Adds a variable, or replaces one.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.set(name, value);
        self
    }

    /// Adds a variable, or replaces one.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// Lets other users use this home: its files, a copy of the program as `gua`, the driver and the directory of claims.
    pub fn open_to_users(&self) {
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(self.directory(), 0o755);
        // Claims of several users need a directory of root.
        if rustix::process::geteuid().is_root() {
            set_mode(&self.path("claims"), 0o1777);
        }
        // The build directory may be closed to other users.
        std::fs::copy(&self.program, self.path("gua")).unwrap();
        for path in [&self.path("gua"), self.library(), &self.scenario()] {
            set_mode(path, 0o755);
        }
    }

    /// The program under test.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Links to the program under another name in the home, and returns the link.
    pub fn link(&self, name: &str) -> PathBuf {
        let link = self.path(name);
        symlink(&self.program, &link).unwrap();
        link
    }

    /// Path of a file in the state directory.
    pub fn state(&self, name: &str) -> PathBuf {
        self.path(".gua").join(name)
    }

    /// The log of a background daemon.
    pub fn log(&self) -> String {
        self.read(".gua/gua.log")
    }

    /// The number in the PID file.
    pub fn pid(&self) -> Option<u32> {
        self.read(".gua/gua.pid").trim().parse().ok()
    }

    /// All variables of a command; a later one replaces an earlier one.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        let home = self.directory();
        let fixed: [(&str, OsString); 15] = [
            ("HOME", home.into()),
            ("PATH", "/usr/bin:/bin".into()),
            ("TMPDIR", self.path("tmp").into()),
            ("TMUX_TMPDIR", home.into()),
            ("TZ", "UTC".into()),
            ("LC_ALL", "C.UTF-8".into()),
            ("LD_LIBRARY_PATH", home.into()),
            ("GUA_NVML_LIBRARY", self.library().into()),
            // The pids in scenarios are those of real processes, also in a pid namespace of its own.
            ("GUA_DRIVER_PIDS", "here".into()),
            ("GUA_TEST_SYSTEM_CONFIG", self.path("system.toml").into()),
            ("GUA_CLAIM_DIR", self.path("claims").into()),
            // Not that of a service on the machine that runs the tests.
            ("GUA_SERVICE_DB", self.path("service.db").into()),
            ("GUA_SOCKET", self.path("service.sock").into()),
            ("GUA_CLOUD_SOCKET", self.path("link.sock").into()),
            ("GUA_KERNEL_LOG", self.path("kmsg").into()),
        ];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value));
        fixed.into_iter().chain(self.variables.clone()).collect()
    }

    /// Any program in this home.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.environment())
            .current_dir(self.directory())
            .stdin(Stdio::null());
        command
    }

    /// The program under test with arguments separated by spaces.
    pub fn gua_command(&self, line: &str) -> Command {
        let mut command = self.command(&self.program);
        command.args(line.split_whitespace());
        command
    }

    /// Runs the program under test, with arguments separated by spaces, to its end.
    #[track_caller]
    pub fn gua(&self, line: &str) -> Ended {
        self.gua_command(line).output().unwrap().into()
    }

    /// Runs another program, with arguments separated by spaces, to its end.
    #[track_caller]
    pub fn run(&self, program: impl AsRef<OsStr>, line: &str) -> Ended {
        let mut command = self.command(program);
        let output = command.args(line.split_whitespace()).output();
        output.unwrap().into()
    }

    /// Runs the program under test, which must succeed, and returns its standard output.
    #[track_caller]
    pub fn fine(&self, line: &str) -> String {
        let ended = self.gua(line);
        assert_eq!(ended.code, 0, "gua {line}: {ended:?}");
        ended.stdout
    }

    /// Runs the program under test, which must succeed and print JSON.
    #[track_caller]
    pub fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.fine(line)).unwrap()
    }

    /// Starts the program under test in the foreground.
    pub fn foreground(&self, line: &str) -> Running {
        self.start(self.gua_command(line))
    }

    /// Starts a command of this host in the foreground.
    pub fn start(&self, command: Command) -> Running {
        let (out, err) = (self.path("foreground.out"), self.path("foreground.err"));
        Running::start(command, out, err)
    }
}

impl Deref for TestHost {
    type Target = SimulatedDriver;

    fn deref(&self) -> &SimulatedDriver {
        &self.driver
    }
}

impl DerefMut for TestHost {
    fn deref_mut(&mut self) -> &mut SimulatedDriver {
        &mut self.driver
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        if self.pid().is_some() {
            self.gua("stop");
        }
    }
}
