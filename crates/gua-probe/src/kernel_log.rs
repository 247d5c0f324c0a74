//! Xid errors from the kernel log. NVML has no query for past errors, and its events reach only a program that waits for
//! them, so the log is the only record.
//!
//! The records of `/dev/kmsg` are described at <https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg>. Root may
//! read them, and other users where `kernel.dmesg_restrict` is 0. Each poll reads what is new, for ten milliseconds at
//! most, and never waits.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use gua_model::{Missing, PciId, Reading, Xid};
use jiff::Timestamp;
use rustix::fs::OFlags;

use crate::clock;

/// Maximum CPU time and size of what a poll reads. Most logs take less, once.
const TIME_LIMIT: Duration = Duration::from_millis(10);
const SIZE_LIMIT: usize = 4 << 20;
/// Size of the kernel's longest record (`PRINTK_MESSAGE_MAX` in kernel/printk/internal.h is smaller).
const MAX_RECORD: usize = 8192;

/// The kernel log, read up to some record.
#[derive(Debug)]
pub(crate) struct KernelLog {
    file: Reading<File>,
    /// Incomplete line at the end of what was read.
    rest: Vec<u8>,
    /// Whether a poll has reached the end. Before that, a record that was not read may end an error that was.
    is_read: bool,
    newest: BTreeMap<PciId, Xid>,
}

impl KernelLog {
    /// Opens the log at its oldest record. Without a path nothing is read.
    pub(crate) fn open(path: Option<&Path>) -> Self {
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = path.ok_or(Missing::Unsupported).and_then(|path| {
            options.open(path).map_err(|error| match error.kind() {
                ErrorKind::PermissionDenied => Missing::Denied,
                ErrorKind::NotFound => Missing::Unsupported,
                _ => Missing::Failed,
            })
        });
        Self {
            file,
            rest: Vec::new(),
            is_read: false,
            newest: BTreeMap::new(),
        }
    }

    /// Reads new records.
    pub(crate) fn poll(&mut self) {
        let Ok(file) = &mut self.file else {
            return;
        };
        let (now, uptime) = (clock::now(), clock::monotonic());
        let (started, mut size) = (clock::processor_time(), 0);
        let mut record = [0; MAX_RECORD];
        for reads in 0_u32.. {
            // The clock costs about as much as a record.
            let is_late =
                reads % 64 == 63 && clock::processor_time().saturating_sub(started) >= TIME_LIMIT;
            if size >= SIZE_LIMIT || is_late {
                return;
            }
            match file.read(&mut record) {
                Ok(length @ 1..) => {
                    size += length;
                    self.rest.extend_from_slice(&record[..length]);
                    take_lines(&mut self.rest, |line| {
                        take(&mut self.newest, line, (now, uptime));
                    });
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The next records were overwritten. Reading continues with the oldest record that is left.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    self.file = Err(Missing::Failed);
                    return;
                }
                Ok(0) | Err(_) => {
                    self.is_read = true;
                    return;
                }
            }
        }
    }

    /// Returns the last error of a GPU that means trouble with it, since the host was booted or the driver was loaded.
    pub(crate) fn xid(&self, gpu: Reading<PciId>) -> Reading<Option<Xid>> {
        if let Err(why) = &self.file {
            return Err(*why);
        }
        let gpu = gpu?;
        match self.is_read {
            true => Ok(self.newest.get(&gpu).copied()),
            false => Err(Missing::Failed),
        }
    }
}

/// Passes on the complete lines of the buffer and keeps the rest.
fn take_lines(buffer: &mut Vec<u8>, mut take: impl FnMut(&[u8])) {
    let end = buffer.iter().rposition(|byte| *byte == b'\n');
    if let Some(end) = end {
        buffer[..end]
            .split(|byte| *byte == b'\n')
            .for_each(&mut take);
        buffer.drain(..=end);
    }
    if buffer.len() > MAX_RECORD {
        buffer.clear();
    }
}

/// Adds a record of the log to the newest errors.
fn take(newest: &mut BTreeMap<PciId, Xid>, line: &[u8], (now, uptime): (Timestamp, Duration)) {
    match parsed(line) {
        // The driver resets all GPUs when it is loaded.
        Some((_, Message::Loaded)) => newest.clear(),
        Some((_, Message::Recovered(gpu))) => {
            newest.remove(&gpu);
        }
        Some((since_boot, Message::Xid(gpu, code))) => {
            let at = now.checked_sub(uptime.saturating_sub(since_boot));
            // In whole seconds, as it is stored: the clocks differ by fractions of one between two reads.
            let at = Timestamp::from_second(at.unwrap_or(now).as_second()).unwrap_or(now);
            let xid = Xid { at, code };
            if code == Xid::RECOVERY {
                // It follows the error that is its reason, which says more.
                newest.entry(gpu).or_insert(xid);
            } else if Xid::is_fault(code) {
                newest.insert(gpu, xid);
            }
        }
        None => {}
    }
}

/// A message of the driver.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Loaded,
    Xid(PciId, u16),
    /// The GPU needs no action any more.
    Recovered(PciId),
}

/// Returns a message of the driver and its time since boot; `None` for every other record.
fn parsed(line: &[u8]) -> Option<(Duration, Message)> {
    let (head, text) = std::str::from_utf8(line).ok()?.split_once(';')?;
    let mut head = head.split(',');
    // The number is eight times the facility, plus the level. Programs that write to the log cannot use the kernel's
    // facility, which is 0.
    head.next()?
        .parse()
        .ok()
        .filter(|number: &u32| *number < 8)?;
    let since_boot = Duration::from_micros(head.nth(1)?.parse().ok()?);
    let text = text.strip_prefix("NVRM: ")?;
    if text.starts_with("loading NVIDIA") {
        return Some((since_boot, Message::Loaded));
    }
    let (address, text) = text.strip_prefix("Xid (")?.split_once("): ")?;
    let gpu = PciId::parse(address.strip_prefix("PCI:").unwrap_or(address))?;
    let digits = text.find(|letter: char| !letter.is_ascii_digit());
    let code = text[..digits.unwrap_or(text.len())].parse().ok()?;
    let is_over = code == Xid::RECOVERY && text.trim_end().ends_with("(None)");
    let message = match is_over {
        true => Message::Recovered(gpu),
        false => Message::Xid(gpu, code),
    };
    Some((since_boot, message))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const GPU: PciId = PciId {
        domain: 0,
        bus: 0x3b,
        device: 0,
    };

    /// The code of the last error after these messages.
    fn check(messages: &[&str], expected: Option<u16>) {
        let mut newest = BTreeMap::new();
        for (number, text) in messages.iter().enumerate() {
            let line = format!("4,{number},{},-;{text}", 1_000_000 * number);
            let (now, uptime) = (Timestamp::UNIX_EPOCH, Duration::from_secs(100));
            take(&mut newest, line.as_bytes(), (now, uptime));
        }
        let found = newest.get(&GPU).map(|xid: &Xid| xid.code);
        assert_eq!(found, expected, "{messages:?}");
    }

    #[test]
    fn the_newest_error_that_means_trouble_with_the_gpu_counts() {
        let lost =
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, name=python, GPU has fallen off the bus.";
        let program = "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, MMU Fault";
        let old_form = "NVRM: Xid (0000:3b:00): 48, DBE";
        let other_gpu = "NVRM: Xid (PCI:0000:5e:00): 48, DBE";
        check(&[], None);
        check(&[program, other_gpu], None);
        check(&[lost, program, other_gpu], Some(79));
        check(&[lost, old_form], Some(48));
        for damaged in [
            "NVRM: Xid (PCI:0000:3b): 79, x",
            "NVRM: Xid (PCI:0000:3b:00): x, 79",
            "NVRM: Xid (PCI:0000:3b:00): 99999999, x",
            "note: NVRM: Xid (PCI:0000:3b:00): 79, x",
        ] {
            check(&[damaged], None);
        }
    }

    #[test]
    fn an_error_ends_with_a_recovery_and_when_the_driver_is_loaded() {
        let lost = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.";
        let action = |from, to| {
            format!(
                "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from {from} to {to}"
            )
        };
        let reset = &action("0x0 (None)", "0x1 (GPU Reset Required)");
        let over = &action("0x1 (GPU Reset Required)", "0x0 (None)");
        let loaded = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  560.35.05";
        check(&[reset], Some(154));
        check(&[lost, reset], Some(79));
        check(&[lost, reset, over], None);
        check(&[lost, loaded], None);
        check(&[loaded, lost], Some(79));
    }

    #[test]
    fn what_programs_write_to_the_log_does_not_count() {
        let line = |priority| format!("{priority},1,5,-;NVRM: Xid (PCI:0000:3b:00): 79, x");
        assert!(parsed(line(7).as_bytes()).is_some());
        assert!(parsed(line(12).as_bytes()).is_none());
        assert!(parsed(b"4,1,5,-;NVRM: Xid (PCI:0000:3b:00): 79 \xff").is_none());
    }

    #[test]
    fn a_log_is_read_on_from_where_the_last_poll_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kmsg");
        std::fs::write(&path, "6,1,1,-;booted\n SUBSYSTEM=x\n4,2,2,-;NVRM: Xid (PC").unwrap();
        let mut log = KernelLog::open(Some(&path));
        assert_eq!(log.xid(Ok(GPU)), Err(Missing::Failed));
        log.poll();
        assert_eq!(log.xid(Ok(GPU)), Ok(None));
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"I:0000:3b:00): 79, lost\n").unwrap();
        log.poll();
        let xid = log.xid(Ok(GPU)).unwrap().unwrap();
        assert_eq!(xid.code, 79);
        let booted = clock::now() - clock::monotonic();
        assert!(xid.at.duration_since(booted).unsigned_abs() < Duration::from_secs(5));
        assert_eq!(log.xid(Err(Missing::Gone)), Err(Missing::Gone));
    }

    #[test]
    fn a_log_that_cannot_be_read_has_a_reason() {
        let directory = tempfile::tempdir().unwrap();
        let check = |path: Option<&Path>, expected| {
            let mut log = KernelLog::open(path);
            log.poll();
            assert_eq!(log.xid(Ok(GPU)), Err(expected));
        };
        check(None, Missing::Unsupported);
        check(Some(&directory.path().join("none")), Missing::Unsupported);
        check(Some(directory.path()), Missing::Failed);
    }

    #[test]
    fn an_error_counts_once_the_rest_of_the_log_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kmsg");
        let lost = "4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 79, lost\n";
        let noise = "6,2,2,-;noise\n".repeat(SIZE_LIMIT / 10);
        let loaded = "6,3,3,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module\n";
        std::fs::write(&path, format!("{lost}{noise}{loaded}")).unwrap();
        let mut log = KernelLog::open(Some(&path));
        log.poll();
        assert_eq!(log.xid(Ok(GPU)), Err(Missing::Failed));
        for _ in 0..1000 {
            log.poll();
        }
        assert_eq!(log.xid(Ok(GPU)), Ok(None));
    }

    #[test]
    fn a_log_without_an_end_takes_a_moment_only() {
        let mut log = KernelLog::open(Some(Path::new("/dev/zero")));
        log.poll();
        assert!(log.rest.len() <= MAX_RECORD);
        assert_eq!(log.xid(Ok(GPU)), Err(Missing::Failed));
    }
}
