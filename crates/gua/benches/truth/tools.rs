//! Both collectors, started and stopped by the script, and their reports afterwards.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gua_probe::clock;
use jiff::Timestamp;
use serde_json::Value;

use crate::script::{Gpu, Hours, SCALE, Span, TICK};

/// A collector that can be started and stopped.
pub(crate) struct Tool {
    program: PathBuf,
    arguments: Vec<String>,
    home: PathBuf,
    library: PathBuf,
    /// Socket for messages to systemd.
    notify: Option<PathBuf>,
    child: Option<Child>,
}

impl Tool {
    pub(crate) fn new(program: &Path, arguments: &str, home: PathBuf, library: &Path) -> Self {
        std::fs::create_dir_all(&home).expect("a home directory can be created");
        Self {
            program: program.to_owned(),
            arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            home,
            library: library.to_owned(),
            notify: None,
            child: None,
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .env("GUA_NVML_LIBRARY", &self.library)
            .env("GUA_DRIVER_PIDS", "here")
            .envs(
                self.library
                    .parent()
                    .map(|folder| ("LD_LIBRARY_PATH", folder)),
            )
            // A hundredth of what suits ticks of 30 s.
            .env("GUA_DRIVER_DEADLINE", "50ms")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn start(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.home.join("log"))
            .expect("a log can be created");
        let mut command = self.command();
        command
            .args(&self.arguments)
            .envs(self.notify.iter().map(|path| ("NOTIFY_SOCKET", path)))
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log);
        self.child = Some(command.spawn().expect("the collector starts"));
    }

    /// Starts the collector and waits until it has taken its first tick, which it tells systemd. Returns the time that it took.
    pub(crate) fn start_and_wait(&mut self) -> Duration {
        let path = self.home.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket can be made");
        let timeout = Some(Duration::from_secs(5));
        socket.set_read_timeout(timeout).expect("a time limit");
        self.notify = Some(path);
        let started = clock::monotonic();
        self.start();
        let mut message = [0; 512];
        while let Ok(length) = socket.recv(&mut message) {
            if message[..length].starts_with(b"READY=1") {
                break;
            }
        }
        clock::monotonic().saturating_sub(started)
    }

    /// Stops the collector with a signal. One that cannot stop, because a driver call blocks it, is killed.
    pub(crate) fn stop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        if let Ok(pid) = i32::try_from(child.id()) {
            let pid = rustix::process::Pid::from_raw(pid).expect("a child has a pid");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let patience = clock::monotonic() + Duration::from_secs(2);
        while clock::monotonic() < patience {
            if let Ok(Some(_)) = child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A gap of the report, in seconds of the script.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    pub(crate) when: Span,
    pub(crate) reason: String,
    /// Missing part, if only a part was missing.
    pub(crate) missing: f64,
}

/// Content of our report.
pub(crate) struct Ours {
    pub(crate) hours: Hours,
    /// Share of the observed time of the first GPU that is based on the driver's sample buffer.
    pub(crate) buffered: f64,
    pub(crate) books: Books,
    /// For each GPU in the order of the script: gaps and observed hours of the physical GPU.
    pub(crate) gpus: Vec<(Vec<Gap>, f64)>,
}

/// Runs our report for a span of the script, which began at `origin`.
pub(crate) fn ours(tool: &Tool, gpus: &[Gpu], window: Span, origin: Timestamp) -> Ours {
    let at = |second: f64| {
        let offset = jiff::SignedDuration::from_secs_f64(second);
        origin
            .checked_add(offset)
            .expect("the bench is short")
            .to_string()
    };
    let ask = |more: &[&str]| -> Value {
        let (since, until) = (at(window.from), at(window.to));
        let mut command = tool.command();
        command.args([
            "report", "--format", "json", "--since", &since, "--until", &until,
        ]);
        let output = command.args(more).output().expect("the report runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "gua report: {stderr}");
        serde_json::from_slice(&output.stdout).expect("the report is JSON")
    };
    let second = |value: &Value| {
        let at: Timestamp = value
            .as_str()
            .unwrap_or_default()
            .parse()
            .expect("a moment");
        at.duration_since(origin).as_secs_f64()
    };
    let hours = |value: &Value| value.as_f64().unwrap_or(0.0) * SCALE;
    let whole = ask(&[]);
    let by_gpu = gpus.iter().map(|gpu| {
        let report = ask(&["--gpu", gpu.physical()]);
        let gaps = report["coverage"]["gaps"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let gap = |row: &Value| Gap {
            when: Span {
                from: second(&row["from"]),
                to: second(&row["to"]),
            },
            reason: row["reason"].as_str().unwrap_or_default().to_owned(),
            missing: row["hours"].as_f64().unwrap_or(0.0) * 3600.0,
        };
        (
            gaps.iter().map(gap).collect(),
            hours(&report["coverage"]["observed_hours"]),
        )
    });
    let first = ask(&["--gpu", gpus[0].uuid]);
    let covered = |key: &str| first["coverage"][key].as_f64().unwrap_or(0.0);
    Ours {
        books: Books::of(&whole),
        buffered: covered("driver_samples_hours") / covered("observed_hours"),
        gpus: by_gpu.collect(),
        hours: hours_of(&whole, SCALE),
    }
}

/// Hours of a report as JSON.
pub(crate) fn hours_of(report: &Value, scale: f64) -> Hours {
    let hours = |value: &Value| value.as_f64().unwrap_or(0.0) * scale;
    let mut found = Hours::default();
    for row in report["states"].as_array().into_iter().flatten() {
        let state = row["state"].as_str().unwrap_or_default();
        if state != "gap" {
            found.states.insert(state.to_owned(), hours(&row["hours"]));
        }
    }
    for row in report["users"].as_array().into_iter().flatten() {
        let name = row["user"].as_str().unwrap_or_default().to_owned();
        found.held.insert(name.clone(), hours(&row["held_hours"]));
        found.charged.insert(name, hours(&row["charged_hours"]));
    }
    found
}

/// Capacity in GPU-hours, and what states and gaps leave of it. A report has six decimals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Books {
    capacity: f64,
    rest: f64,
}

impl Books {
    pub(crate) fn of(report: &Value) -> Self {
        let sum = |key: &str| report["coverage"][key].as_f64().unwrap_or(f64::NAN);
        let states: f64 = hours_of(report, 1.0).states.values().sum();
        let capacity = sum("capacity_hours");
        Self {
            capacity,
            rest: capacity - states - sum("gap_hours"),
        }
    }

    /// Returns what is wrong, if anything is.
    pub(crate) fn breach(self, expected: f64) -> Option<String> {
        let is_exact = |difference: f64| difference.abs() <= 1e-5;
        let Self { capacity, rest } = self;
        (!is_exact(capacity - expected) || !is_exact(rest)).then(|| {
            format!("the capacity is {capacity} GPU-hours instead of {expected}, and {rest} of it is in no state and no gap")
        })
    }
}

/// Reads the replaced tool's report by state and identity, in hours of the script. Its text is parsed: an interval ten
/// thousand times longer than the ticks makes its two decimals precise enough.
pub(crate) fn theirs(tool: &Tool, since: f64) -> Result<Hours, String> {
    const LONGER: f64 = 10_000.0;
    let mut command = tool.command();
    let interval = format!("{}s", TICK * LONGER);
    command.args([
        "report",
        "--since",
        &format!("{since}s"),
        "--interval",
        &interval,
    ]);
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let hours = |word: &str| {
        word.trim_start_matches('~')
            .parse::<f64>()
            .ok()
            .map(|hours| hours / LONGER * SCALE)
    };
    let mut found = Hours::default();
    let mut samples = 0.0;
    let mut in_identities = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        in_identities = match line.chars().next() {
            Some('§') => line.starts_with("§4"),
            _ => in_identities,
        };
        match words.as_slice() {
            [count, "samples)"] if !in_identities => {
                samples = count.trim_start_matches('(').parse::<f64>().unwrap_or(0.0);
            }
            [
                state @ ("idle-held:" | "truly-idle:"),
                number,
                "GPU-hours,",
                ..,
            ] => {
                let state = state.trim_end_matches(':').to_owned();
                found.states.insert(state, hours(number).unwrap_or(0.0));
            }
            [name, number, share, _] if in_identities && share.ends_with('%') => {
                found
                    .held
                    .insert((*name).to_owned(), hours(number).unwrap_or(0.0));
            }
            _ => {}
        }
    }
    let others: f64 = found.states.values().sum();
    found.states.insert(
        "active".to_owned(),
        samples * TICK / 3600.0 * SCALE - others,
    );
    Ok(found)
}

/// Roll-up of the fine states for the tool that has only three. States that belong to none of them are left out.
pub(crate) fn rolled_up(states: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for (state, hours) in states {
        let into = match state.as_str() {
            "active" | "stalled" | "ghost" => "active",
            "idle-held" | "orphan-held" => "idle-held",
            "truly-idle" => "truly-idle",
            _ => continue,
        };
        *sums.entry(into.to_owned()).or_default() += hours;
    }
    sums
}
