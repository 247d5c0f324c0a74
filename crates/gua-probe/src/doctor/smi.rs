//! Runs `nvidia-smi` to list the GPUs, as an independent source. It may be missing, fail or hang; none of that stops
//! doctor.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::process::wait_for_end;

/// Maximum number of bytes kept of each stream; a host with 16 GPUs and 112 MIG instances prints 10 KB.
const KEEP: usize = 64 * 1024;
/// Polling interval for the end of the program, on kernels that cannot report it.
const PACE: Duration = Duration::from_millis(50);
/// Maximum time to wait for a killed program. One that hangs in the kernel is not waited for.
const GRACE: Duration = Duration::from_millis(300);

/// Result of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Smi {
    /// It is not on the search path.
    NotFound,
    /// It exists but could not be started.
    NotStarted { path: PathBuf, error: String },
    TimedOut {
        path: PathBuf,
        limit: Duration,
        output: Output,
    },
    /// It exited by itself.
    Ended {
        path: PathBuf,
        code: i32,
        output: Output,
    },
}

/// Its output, truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
}

/// Finds `nvidia-smi` on the search path. A file that is not executable is skipped, as a shell does.
#[must_use]
pub fn find(search_path: &OsStr) -> Option<PathBuf> {
    use rustix::fs::{Access, access};
    std::env::split_paths(search_path)
        .filter(|directory| !directory.as_os_str().is_empty())
        .map(|directory| directory.join("nvidia-smi"))
        .find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// Runs `nvidia-smi -L`, and kills it after `limit`. It stays in this process group, so that Ctrl-C ends it too.
#[must_use]
pub fn ask(path: Option<PathBuf>, limit: Duration) -> Smi {
    let Some(path) = path else {
        return Smi::NotFound;
    };
    let started = Command::new(&path)
        .arg("-L")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Smi::NotFound,
        Err(error) => {
            return Smi::NotStarted {
                path,
                error: error.to_string(),
            };
        }
    };
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child, limit);
    if status.is_none() {
        kill(&mut child);
    }
    // A process that the program left behind may hold the pipe open: use the output so far.
    let text = |stream: &Receiver<Vec<u8>>| {
        let bytes = stream.recv_timeout(GRACE).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let output = Output {
        stdout: text(&stdout),
        stderr: text(&stderr),
    };
    match status {
        Some(status) => Smi::Ended {
            path,
            code: code(status),
            output,
        },
        None => Smi::TimedOut {
            path,
            limit,
            output,
        },
    }
}

/// Reads a stream to its end on a separate thread, so that the program never blocks, and keeps its beginning.
fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut kept = Vec::new();
        let mut block = [0; 8 * 1024];
        while let Ok(read @ 1..) = stream.read(&mut block) {
            let room = KEEP.saturating_sub(kept.len());
            kept.extend_from_slice(&block[..read.min(room)]);
        }
        let _ = sender.send(kept);
    });
    receiver
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = clock::monotonic() + limit;
    loop {
        let left = deadline.saturating_sub(clock::monotonic());
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if left.is_zero() => return None,
            Ok(None) => {
                if wait_for_end(child, left).is_err() {
                    thread::sleep(PACE.min(left));
                }
            }
            Err(_) => return None,
        }
    }
}

fn kill(child: &mut Child) {
    // An error means that it has already exited.
    let _ = child.kill();
    let _ = wait(child, GRACE);
}

/// Returns the exit code, or the negated signal, as Python's `subprocess` does.
fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| -signal))
        .unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn check(script: &str, limit: Duration) -> Smi {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nvidia-smi");
        let text = directory.path().join("text");
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&text, PermissionsExt::from_mode(0o755)).unwrap();
        // Copied by another process: a file that this process has open for writing, even in a child forked by another
        // test, cannot be executed.
        let copied = Command::new("cp").arg(&text).arg(&path).status().unwrap();
        assert!(copied.success());
        let found = find(directory.path().as_os_str());
        assert_eq!(found.as_ref(), Some(&path));
        ask(found, limit)
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn what_it_prints_and_how_it_ends_is_kept() {
        let Smi::Ended { code, output, .. } =
            check("echo \"GPU 0: $1\"; echo oops >&2; exit 9", LONG)
        else {
            panic!("it ends by itself");
        };
        assert_eq!(
            (code, output.stdout.as_str(), output.stderr.as_str()),
            (9, "GPU 0: -L\n", "oops\n")
        );
        assert!(matches!(
            check("kill -9 $$", LONG),
            Smi::Ended { code: -9, .. }
        ));
    }

    #[test]
    fn one_that_hangs_is_killed() {
        let before = clock::monotonic();
        let answer = check("exec sleep 600", Duration::from_millis(100));
        assert!(matches!(answer, Smi::TimedOut { .. }), "{answer:?}");
        assert!(clock::monotonic() - before < Duration::from_secs(10));
    }

    #[test]
    fn endless_output_is_cut_and_does_not_block() {
        let Smi::Ended { output, .. } = check("head -c 1000000 /dev/zero", LONG) else {
            panic!("it ends by itself");
        };
        assert_eq!(output.stdout.len(), KEEP);
    }

    #[test]
    fn a_missing_one_is_not_found_and_a_broken_one_is_not_started() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(find(directory.path().as_os_str()), None);
        assert_eq!(ask(None, LONG), Smi::NotFound);
        let path = directory.path().join("nvidia-smi");
        std::fs::write(&path, "\u{7f}ELF no program").unwrap();
        assert_eq!(find(directory.path().as_os_str()), None);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(matches!(
            ask(find(directory.path().as_os_str()), LONG),
            Smi::NotStarted { .. }
        ));
    }
}
