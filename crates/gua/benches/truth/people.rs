//! The processes of the script: real ones of several users, so that a collector finds their owners as usual.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::script::{Gpu, Hold, PEOPLE, Who};

/// Processes of all GPUs, in the order of their holds. They are killed on drop.
pub(crate) struct People {
    children: Vec<Child>,
    pub(crate) pids: Vec<Vec<u32>>,
}

impl People {
    pub(crate) fn start(gpus: &[Gpu]) -> Self {
        let mut people = Self {
            children: Vec::new(),
            pids: Vec::new(),
        };
        for gpu in gpus {
            let mut pids = Vec::new();
            for hold in &gpu.holds {
                pids.push(people.pid(hold, gpu.reuses_pid && !pids.is_empty(), &pids));
            }
            people.pids.push(pids);
        }
        people
    }

    fn pid(&mut self, hold: &Hold, comes_later: bool, before: &[u32]) -> u32 {
        match hold.who {
            // It is started when the first one has ended.
            _ if comes_later => before[0],
            Who::Person(person) => {
                let child = sleeper(PEOPLE[person]);
                let pid = child.id();
                self.children.push(child);
                pid
            }
            // The highest possible pid: the kernel does not reach it while this runs.
            Who::Gone => 4_194_303,
        }
    }

    /// Ends the process with this pid and starts one of another user that gets the same pid.
    pub(crate) fn hand_over(&mut self, pid: u32, to: &str) -> Result<(), String> {
        let first = self.children.iter_mut().find(|child| child.id() == pid);
        end(first.ok_or("there is no such process")?);
        for _ in 0..200 {
            // The kernel assigns the pid after the last one next (pid_namespaces(7)).
            fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
                .map_err(|error| format!("cannot choose the number of a process: {error}"))?;
            let mut child = sleeper(to);
            if child.id() == pid {
                self.children.push(child);
                return Ok(());
            }
            end(&mut child);
        }
        Err(format!("the number {pid} was not given again"))
    }
}

impl Drop for People {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(end);
    }
}

/// A process of a user, from a login session of that user.
fn sleeper(user: &str) -> Child {
    let script = format!(
        "uid=$(id -u {user}); echo $uid > /proc/self/loginuid; exec setpriv --reuid {user} --clear-groups sleep 600"
    );
    Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell is everywhere")
}

fn end(child: &mut Child) {
    // A process that has already exited is fine.
    let _ = child.kill();
    let _ = child.wait();
}
