//! The board under load: a process of its own, whose start, memory and processor time are measured.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::client::exchange;
use crate::wait::now;
use crate::wait_until;

/// A running board.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    /// Time from the start of the process to the first answer.
    pub(super) took: Duration,
}

/// Resources that a process has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    pub(super) memory_kib: u64,
}

impl Server {
    /// Starts a board on its data and waits until it answers.
    pub(super) fn start(gua: &Path, directory: &Path, port: u16) -> Self {
        let began = now();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(directory.join("log"))
            .unwrap();
        let mut child = Command::new(gua)
            .args(["board", "serve", "--data"])
            .arg(directory)
            .arg("--listen")
            .arg(format!("127.0.0.1:{port}"))
            .env_clear()
            .env("HOME", directory)
            .env("GUA_TEST_SYSTEM_CONFIG", "/nonexistent")
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let url = { output }.lines().find_map(|line| {
            let line = line.unwrap();
            Some(line.split_once(": serving http://")?.1.to_owned())
        });
        let address = url.expect("the board states its address");
        let address: SocketAddr = address.parse().unwrap();
        let request =
            format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        wait_until("a ready board", || {
            matches!(exchange(address, request.as_bytes()), Ok((200, _)))
        });
        Self {
            child,
            address,
            took: now() - began,
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let read = |name: &str| {
            let path = format!("/proc/{}/{name}", self.child.id());
            std::fs::read_to_string(path).unwrap()
        };
        let stat = read("stat");
        // Fields after the name, which may contain spaces (proc_pid_stat(5)).
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks: u64 = [11, 12]
            .iter()
            .map(|at| fields[*at].parse::<u64>().unwrap())
            .sum();
        let per_second = rustix::param::clock_ticks_per_second();
        let status = read("status");
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.unwrap().trim().trim_end_matches(" kB");
        Usage {
            cpu: Duration::from_millis(ticks * 1000 / per_second),
            memory_kib: memory.parse().unwrap(),
        }
    }

    /// Ends the process without a warning (SIGKILL).
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the board in order.
    pub(super) fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failed check leaves no board behind. One that was stopped has been reaped.
        if let Ok(None) = self.child.try_wait() {
            self.kill();
        }
    }
}

/// Mean number of processes that wanted a processor in the last minute.
pub(super) fn machine_load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
