//! Whether a process is alive, and its ancestors: for claims, which end with their holder.
//!
//! Queries single processes, by boot, pid and start time, and remembers nothing.

use std::os::unix::fs::MetadataExt as _;

pub use gua_model::id::Life;
use gua_model::id::{BootId, Pid, ProcessKey, StartTicks, Uid};
use gua_model::reading::Missing;

use super::ProcRoot;
use super::parse;

impl ProcRoot {
    /// Returns the inode of this process's pid namespace; `None` if the kernel does not report it.
    pub fn pid_namespace(&self) -> Option<u64> {
        let facts = std::fs::metadata(self.0.join("self/ns/pid"));
        facts.ok().map(|facts| facts.ino())
    }

    /// Returns the process that has this pid now; `None` if none is visible.
    pub fn process(&self, pid: Pid, boot: BootId) -> Option<ProcessKey> {
        let (_, found) = self.stat(pid).ok()?;
        Some(ProcessKey {
            boot,
            pid,
            start: StartTicks(found.start),
        })
    }

    /// Returns the state of a process. The caller checks that it belongs to this boot.
    pub fn life(&self, process: &ProcessKey) -> Life {
        match self.stat(process.pid) {
            Ok((_, found)) if found.start != process.start.0 || found.has_ended() => Life::Ended,
            Ok((_, found)) if matches!(found.state, b'T' | b't') => Life::Stopped,
            Ok(_) => Life::Running,
            Err(_) if self.absent(process.pid) == Missing::Gone => Life::Ended,
            Err(_) => Life::Unknown,
        }
    }

    /// Reports whether `ancestor` started the process, directly or through others that are still alive. A parent that
    /// has ended is not found: its children have another parent by then.
    pub fn descends(&self, process: &ProcessKey, ancestor: &ProcessKey) -> bool {
        let mut chain = self.chain(process.pid, Pid(1));
        let first = chain.next().map(|(_, _, found)| found.start);
        if first != Some(process.start.0) || process.boot != ancestor.boot {
            return false;
        }
        let mut youngest = process.start.0;
        for (pid, _, found) in chain {
            // A child is never older than its parent: this pid was reused.
            if found.start > youngest {
                return false;
            }
            if pid == ancestor.pid {
                return found.start == ancestor.start.0;
            }
            youngest = found.start;
        }
        false
    }

    /// Returns the session of a process, which stays the same when its parents end; `None` if the process has ended or
    /// is hidden, or the session began outside of this pid namespace.
    pub fn session(&self, process: &ProcessKey) -> Option<u32> {
        let (_, found) = self.stat(process.pid).ok()?;
        let is_it = found.start == process.start.0 && found.session != 0;
        is_it.then_some(found.session)
    }

    /// Returns the effective user of a process; `None` if it has ended or is hidden.
    pub fn user(&self, process: &ProcessKey) -> Option<Uid> {
        let uids = parse::status_uids(&self.read(process.pid, "status").ok()?)?;
        // Read last: the pid may have been reused meanwhile.
        let (_, found) = self.stat(process.pid).ok()?;
        let is_it = found.start == process.start.0;
        is_it.then_some(Uid(uids.effective))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    const BOOT: BootId = BootId(1);

    fn key(pid: u32, start: u64) -> ProcessKey {
        ProcessKey {
            boot: BOOT,
            pid: Pid(pid),
            start: StartTicks(start),
        }
    }

    /// Writes a tree of processes: pid, state, parent, threads, start.
    fn tree(processes: &[(u32, char, u32, u32, u64)]) -> (tempfile::TempDir, ProcRoot) {
        let folder = tempfile::tempdir().unwrap();
        for (pid, state, parent, threads, start) in processes {
            let place = folder.path().join(pid.to_string());
            fs::create_dir(&place).unwrap();
            let zeros = "0 ".repeat(13);
            // The group is the pid, the session that of the parent.
            let line = format!(
                "{pid} (a) b) {state} {parent} {pid} {parent} {zeros}{threads} 0 {start} 0 0\n"
            );
            fs::write(place.join("stat"), line).unwrap();
        }
        let proc = ProcRoot(folder.path().to_owned());
        (folder, proc)
    }

    #[test]
    fn a_process_lives_until_its_last_thread_has_ended() {
        let (_folder, proc) = tree(&[
            (10, 'S', 1, 1, 100),
            (11, 'T', 1, 1, 100),
            (12, 'Z', 1, 1, 100),
            (13, 'Z', 1, 4, 100),
        ]);
        let cases = [
            (10, 100, Life::Running),
            (10, 99, Life::Ended),
            (11, 100, Life::Stopped),
            (12, 100, Life::Ended),
            (13, 100, Life::Running),
            (14, 100, Life::Ended),
        ];
        for (pid, start, expected) in cases {
            assert_eq!(proc.life(&key(pid, start)), expected, "{pid} {start}");
        }
    }

    #[test]
    fn descent_goes_through_living_parents_and_not_through_a_reused_pid() {
        let (_folder, proc) = tree(&[
            (1, 'S', 0, 1, 1),
            (10, 'S', 1, 1, 100),
            (11, 'S', 10, 1, 200),
            (12, 'S', 11, 1, 300),
            (20, 'S', 1, 1, 900),
            (21, 'S', 20, 1, 400),
        ]);
        let cases = [
            ((12, 300), (10, 100), true),
            ((12, 300), (1, 1), true),
            ((12, 300), (10, 99), false),
            ((12, 299), (10, 100), false),
            ((10, 100), (12, 300), false),
            ((10, 100), (10, 100), false),
            ((21, 400), (20, 900), false),
            ((99, 1), (1, 1), false),
        ];
        for ((pid, start), (above, since), expected) in cases {
            let found = proc.descends(&key(pid, start), &key(above, since));
            assert_eq!(found, expected, "{pid} of {above}");
        }
    }

    #[test]
    fn a_session_is_that_of_the_process_with_this_start() {
        let (_folder, proc) = tree(&[(10, 'S', 7, 1, 100), (11, 'S', 0, 1, 100)]);
        assert_eq!(proc.session(&key(10, 100)), Some(7));
        assert_eq!(proc.session(&key(10, 99)), None);
        assert_eq!(proc.session(&key(11, 100)), None);
    }

    #[test]
    fn a_real_process_that_leads_a_session_is_in_it() {
        // The session of the test may have begun outside of its pid namespace, where it has no number.
        let mut leader = Command::new("setsid")
            .arg("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Once `cat` answers, `setsid` has created the session.
        let mut ask = leader.stdin.take().unwrap();
        ask.write_all(b"there?\n").unwrap();
        let mut answer = [0; 7];
        let mut found = leader.stdout.take().unwrap();
        found.read_exact(&mut answer).unwrap();

        let proc = ProcRoot::default();
        let pid = leader.id();
        let it = proc.process(Pid(pid), BOOT).unwrap();
        assert_eq!(proc.session(&it), Some(pid));
        drop(ask);
        assert!(leader.wait().unwrap().success());
        assert_eq!(proc.session(&it), None);
    }

    #[test]
    fn this_process_lives_and_descends_from_its_parent() {
        let proc = ProcRoot::default();
        let me = proc.process(Pid(std::process::id()), BOOT).unwrap();
        let parent = std::os::unix::process::parent_id();
        let parent = proc.process(Pid(parent), BOOT).unwrap();
        assert_eq!(proc.life(&me), Life::Running);
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(proc.user(&me), Some(Uid(user)));
        assert_eq!(proc.user(&key(me.pid.0, me.start.0 + 1)), None);
        assert!(proc.descends(&me, &parent));
        assert!(!proc.descends(&parent, &me));
        assert_eq!(proc.life(&key(0, 0)), Life::Ended);
    }
}
