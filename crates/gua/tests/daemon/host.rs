//! A home with a simulated driver in it. What runs there ends with the test.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use gua_model::period::Period;
use gua_model::{Outage, Tick};
use gua_probe::clock;
use gua_store::{History, ReadError};
use jiff::Timestamp;
use nvml_sim::driver::{self, Generation};
use rustix::process::{Pid, Signal};

/// Two healthy cards.
pub(crate) const TWO_CARDS: &str =
    "[[card]]\nuuid = \"GPU-a\"\nutil = 50\n[[card]]\nuuid = \"GPU-b\"\n";

pub(crate) struct Host {
    home: tempfile::TempDir,
    library: PathBuf,
    variables: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Host {
    pub(crate) fn new(scenario: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let library = driver::install(home.path(), Generation::LATEST).unwrap();
        let host = Self {
            home,
            library,
            variables: Vec::new(),
        };
        host.play(scenario);
        host
    }

    /// A machine without a driver.
    pub(crate) fn without_driver() -> Self {
        let mut host = Self::new("");
        host.library = "/nonexistent/libnvidia-ml.so.1".into();
        host
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What the cards do from now on.
    pub(crate) fn play(&self, scenario: &str) {
        nvml_sim::scenario::write_text(&self.path("nvml-sim.toml"), scenario).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A file of the state directory.
    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.path(".gua").join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn log(&self) -> String {
        self.read(".gua/gua.log")
    }

    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", "/usr/bin:/bin")
            .env("GUA_NVML_LIBRARY", &self.library)
            .env("TZ", "UTC")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs `gua` with arguments separated by spaces, to its end.
    pub(crate) fn gua(&self, line: &str) -> Ended {
        let output = self
            .command(env!("CARGO_BIN_EXE_gua"))
            .args(line.split_whitespace())
            .output()
            .unwrap();
        ended(output)
    }

    /// Runs it and holds that it was content.
    #[track_caller]
    pub(crate) fn fine(&self, line: &str) -> String {
        let ended = self.gua(line);
        assert_eq!(ended.code, 0, "gua {line}: {ended:?}");
        ended.stdout
    }

    /// Starts a collector in the foreground.
    pub(crate) fn foreground(&self, line: &str) -> Running {
        self.launch(env!("CARGO_BIN_EXE_gua").as_ref(), line)
    }

    pub(crate) fn launch(&self, program: &Path, line: &str) -> Running {
        let mut command = self.command(program);
        command.args(line.split_whitespace());
        Running::start(self, command)
    }

    /// The number in the pid file.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.read(".gua/gua.pid").trim().parse().ok()
    }

    pub(crate) fn ticks(&self, name: &str) -> Vec<Tick> {
        let mut ticks = Vec::new();
        if let Ok(history) = History::open(&self.path(name)) {
            let read: Result<(), ReadError> = history.ticks(always(), |tick| {
                ticks.push(tick?.tick);
                Ok(())
            });
            if let Err(ReadError::Changed) = read {
                return self.ticks(name);
            }
            read.unwrap();
        }
        ticks
    }

    pub(crate) fn outages(&self, name: &str) -> Vec<Outage> {
        let history = History::open(&self.path(name)).unwrap();
        history.outages(always()).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.pid().is_some() {
            self.gua("stop");
        }
    }
}

pub(crate) fn always() -> Period {
    Period::new(Timestamp::MIN, Timestamp::MAX)
}

/// A collector in the foreground; killed if the test forgets it.
pub(crate) struct Running {
    pub(crate) child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// Starts a command of this host, with its words in files.
    pub(crate) fn start(host: &Host, mut command: Command) -> Self {
        let (out, err) = (host.path("foreground.out"), host.path("foreground.err"));
        let child = command
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(std::fs::File::create(&err).unwrap())
            .spawn()
            .unwrap();
        Self { child, out, err }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    /// Asks it to end, and returns how long that took.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> Duration {
        let asked = clock::monotonic();
        self.signal(Signal::TERM);
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
        clock::monotonic() - asked
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

pub(crate) fn exists(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub(crate) fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code().expect("no signal ended it"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Looks again until it is so.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = clock::monotonic() + Duration::from_secs(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock::monotonic() < limit, "not within 20 s: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A process that carries the mark of the Python tool's collector, and does nothing.
pub(crate) fn python_shaped(script: &str) -> Child {
    Command::new("/bin/bash")
        .args(["-c", script, "-m", "gpu_usage_audit", "daemon"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap()
}
