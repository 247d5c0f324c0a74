//! Runs another program, such as `nvidia-smi`, an independent source about the GPUs. It may be missing, fail or hang; none of that
//! stops the caller.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::process::wait_for_end;

/// Maximum number of bytes kept of each stream. nvidia-smi prints 10 KB on a host with 16 GPUs and 112 MIG instances.
const KEEP: u64 = 1 << 20;
/// Polling interval for the end of the program, on kernels that cannot report it.
const PACE: Duration = Duration::from_millis(50);
/// Maximum time to wait for a killed program. One that hangs in the kernel is not waited for.
const GRACE: Duration = Duration::from_millis(300);

/// A run of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub path: PathBuf,
    pub end: End,
    /// Its output, truncated.
    pub stdout: String,
    pub stderr: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It could not be started.
    NotStarted(String),
    TimedOut(Duration),
    /// It exited by itself, with this code or the negated signal, as Python's `subprocess` reports it.
    Code(i32),
}

/// Finds a program on the search path. A file that is not executable is skipped, as a shell does.
pub fn find(search_path: &OsStr, name: &str) -> Option<PathBuf> {
    use rustix::fs::{Access, access};
    std::env::split_paths(search_path)
        .filter(|directory| !directory.as_os_str().is_empty())
        .map(|directory| directory.join(name))
        .find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// Runs a program with these arguments, and kills it after `limit`. It stays in this process group, so that Ctrl-C ends it too.
/// Returns `None` if there is no such program.
pub fn ask(path: PathBuf, arguments: &[&str], limit: Duration) -> Option<Run> {
    let started = Command::new(&path)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            return Some(Run {
                path,
                end: End::NotStarted(error.to_string()),
                stdout: String::new(),
                stderr: String::new(),
            });
        }
    };
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child, limit);
    if status.is_none() {
        // An error means that it has already exited.
        let _ = child.kill();
        let _ = wait(&mut child, GRACE);
    }
    // A process that the program left behind may hold the pipe open: use the output so far.
    let text = |stream: &Receiver<Vec<u8>>| {
        let bytes = stream.recv_timeout(GRACE).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let code = |status: ExitStatus| status.code().or(status.signal().map(|signal| -signal));
    Some(Run {
        path,
        end: status.map_or(End::TimedOut(limit), |status| {
            End::Code(code(status).unwrap_or(-1))
        }),
        stdout: text(&stdout),
        stderr: text(&stderr),
    })
}

/// Reads a stream to its end on a separate thread, so that the program never blocks, and keeps its beginning.
fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut kept = Vec::new();
        // Output that was read before an error is kept.
        let _ = stream.by_ref().take(KEEP).read_to_end(&mut kept);
        let _ = io::copy(&mut stream, &mut io::sink());
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn check(script: &str, limit: Duration) -> Run {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nvidia-smi");
        let text = directory.path().join("text");
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&text, PermissionsExt::from_mode(0o755)).unwrap();
        // Copied by another process: a file that this process has open for writing, even in a child forked by another
        // test, cannot be executed.
        let copied = Command::new("cp").arg(&text).arg(&path).status().unwrap();
        assert!(copied.success());
        let found = find(directory.path().as_os_str(), "nvidia-smi");
        assert_eq!(found.as_ref(), Some(&path));
        ask(path, &["-L"], limit).unwrap()
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn what_it_prints_and_how_it_ends_is_kept() {
        let run = check("echo \"GPU 0: $1\"; echo oops >&2; exit 9", LONG);
        assert_eq!(
            (run.end, run.stdout.as_str(), run.stderr.as_str()),
            (End::Code(9), "GPU 0: -L\n", "oops\n")
        );
        assert_eq!(check("kill -9 $$", LONG).end, End::Code(-9));
    }

    #[test]
    fn one_that_hangs_is_killed() {
        let before = clock::monotonic();
        let answer = check("exec sleep 600", Duration::from_millis(100));
        assert!(matches!(answer.end, End::TimedOut(_)), "{answer:?}");
        assert!(clock::monotonic() - before < Duration::from_secs(10));
    }

    #[test]
    fn endless_output_is_cut_and_does_not_block() {
        let run = check("head -c 2000000 /dev/zero", LONG);
        assert_eq!(run.end, End::Code(0));
        assert_eq!(u64::try_from(run.stdout.len()), Ok(KEEP));
    }

    #[test]
    fn a_missing_one_is_not_found_and_a_broken_one_is_not_started() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(find(directory.path().as_os_str(), "nvidia-smi"), None);
        let path = directory.path().join("nvidia-smi");
        assert_eq!(ask(path.clone(), &[], LONG), None);
        std::fs::write(&path, "\u{7f}ELF no program").unwrap();
        assert_eq!(find(directory.path().as_os_str(), "nvidia-smi"), None);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let found = find(directory.path().as_os_str(), "nvidia-smi").unwrap();
        assert!(matches!(
            ask(found, &[], LONG).unwrap().end,
            End::NotStarted(_)
        ));
    }
}
