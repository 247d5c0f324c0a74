//! CPU time, memory, parent and command line of one process, for display on a terminal of the same host. They are never part
//! of a sample, never stored, and never in machine-readable output.

use std::fmt;
use std::time::Duration;

use gua_model::Bytes;
use gua_model::id::{Pid, ProcessKey};
use gua_model::reading::{Missing, Reading};
use gua_model::text::is_harmful;

use super::ProcRoot;
use crate::host::time::of_ticks;

/// A command line. It is untrusted: `Display` escapes control characters, and `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    /// Parses the kernel's format: words that end with a zero byte each.
    pub fn parse(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        let words = bytes
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned());
        Self(if bytes.is_empty() {
            Vec::new()
        } else {
            words.collect()
        })
    }

    /// Shortens it as nvgpu does: `jupyter`, the first word that ends in `.py`, or the first 25 characters.
    pub fn in_short(&self) -> Self {
        const SHOWN: usize = 25;
        let whole = self.0.join(" ");
        let script = self.0.iter().find(|word| word.ends_with(".py"));
        Self(vec![if whole.contains("python -m ipykernel_launcher") {
            "jupyter".to_owned()
        } else if let Some(script) = script {
            script.clone()
        } else if whole.chars().count() <= SHOWN {
            whole
        } else {
            whole.chars().take(SHOWN).chain("...".chars()).collect()
        }])
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.join(" ");
        let escaped = words.chars().map(|letter| match is_harmful(letter) {
            true => letter.escape_default().to_string(),
            false => letter.to_string(),
        });
        out.pad(&escaped.collect::<String>())
    }
}

impl fmt::Debug for CommandLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("CommandLine(hidden)")
    }
}

/// Reads the command line of exactly this process, and never of a later one with the same pid.
pub fn command_line(root: &ProcRoot, process: &ProcessKey) -> Reading<CommandLine> {
    usage(root, process)?.command
}

/// Resources of the host that a process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub parent: Pid,
    /// CPU time of the process since it started, without its children.
    pub cpu: Duration,
    /// Resident memory.
    pub memory: Bytes,
    /// `Err(Denied)` if only its user may read it.
    pub command: Reading<CommandLine>,
}

/// Reads the usage of exactly this process, and never of a later one with the same pid.
pub fn usage(root: &ProcRoot, process: &ProcessKey) -> Reading<Usage> {
    let command = root.read(process.pid, "cmdline");
    // Checked afterwards: if the pid was reused before the line was read, the start time differs now.
    let (_, stat) = root.stat(process.pid)?;
    if stat.start != process.start.0 {
        return Err(Missing::Gone);
    }
    Ok(Usage {
        parent: Pid(stat.parent),
        cpu: of_ticks(stat.own_ticks),
        memory: stat.resident(),
        command: command.map(|line| CommandLine::parse(&line)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gua_model::id::{BootId, StartTicks};

    #[test]
    fn a_command_line_is_shortened_as_nvgpu_shortens_it() {
        let check = |bytes: &str, expected: &str| {
            let line = CommandLine::parse(bytes.as_bytes());
            assert_eq!(line.in_short().to_string(), expected, "{bytes:?}");
        };
        check("python\0-m\0ipykernel_launcher\0-f\0k.json\0", "jupyter");
        check(
            "python3\0-u\0/home/ada/train.py\0--lr\0x\0",
            "/home/ada/train.py",
        );
        check("sleep\x00600\0", "sleep 600");
        check(
            "/usr/bin/something --very-long",
            "/usr/bin/something --very...",
        );
        check("ünïcödé-ünïcödé-ünïcödé-x\0", "ünïcödé-ünïcödé-ünïcödé-x");
        check("", "");
    }

    #[test]
    fn what_could_steer_a_terminal_is_escaped_and_debug_shows_nothing() {
        let line = CommandLine::parse(b"a\x1b[31m\0b\nc\0\0");
        assert_eq!(line.to_string(), "a\\u{1b}[31m b\\nc ");
        assert_eq!(format!("{line:?}"), "CommandLine(hidden)");
    }

    #[test]
    fn a_later_process_with_the_same_pid_is_not_asked() {
        let directory = tempfile::tempdir().unwrap();
        let process = directory.path().join("7");
        std::fs::create_dir(&process).unwrap();
        std::fs::write(process.join("cmdline"), b"sleep\x00600\0").unwrap();
        let stat = "7 (sleep) S 1 7 7 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 4711 1000 100\n";
        std::fs::write(process.join("stat"), stat).unwrap();
        let ask = |pid, start| {
            let key = ProcessKey {
                boot: BootId(1),
                pid: Pid(pid),
                start: StartTicks(start),
            };
            let line = command_line(&ProcRoot(directory.path().to_owned()), &key);
            line.map(|line| line.to_string())
        };
        assert_eq!(ask(7, 4711), Ok("sleep 600".to_owned()));
        assert_eq!(ask(7, 4712), Err(Missing::Gone));
        assert_eq!(ask(8, 4711), Err(Missing::Gone));
    }

    #[test]
    fn a_process_is_read_whole_and_a_reused_pid_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = ProcRoot(directory.path().to_owned());
        let own = directory.path().join("30");
        std::fs::create_dir_all(&own).unwrap();
        let stat = "30 (python) S 20 1 1 0 -1 4194560 0 0 0 0 150 50 9000 9000 20 0 1 0 77 0 256\n";
        std::fs::write(own.join("stat"), stat).unwrap();
        std::fs::write(own.join("cmdline"), "python\0train.py\0").unwrap();
        let key = |start| ProcessKey {
            boot: BootId(1),
            pid: Pid(30),
            start: StartTicks(start),
        };
        let found = usage(&root, &key(77)).unwrap();
        assert_eq!(found.parent, Pid(20));
        let hertz = u32::try_from(crate::host::time::ticks_per_second()).unwrap();
        assert_eq!(found.cpu, Duration::from_secs(200) / hertz);
        assert!(found.memory >= Bytes(256 * 4096));
        assert_eq!(found.command.unwrap().to_string(), "python train.py");
        assert_eq!(usage(&root, &key(78)), Err(Missing::Gone));
    }
}
