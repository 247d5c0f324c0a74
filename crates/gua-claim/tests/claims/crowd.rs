//! Many concurrent processes of several users, half of which are killed.
//!
//! Each process that gets a GPU also locks a file for that GPU. The lock is independent of claims, and the kernel
//! releases it with its process: if it cannot be taken, a GPU was granted twice.

use gua_test::runs_as_root;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use gua_claim::{
    Answer, Claim, ClaimDir, ClaimError, Kernel, Life, Moment, Observed, Offer, PidNamespace,
    Request, Session,
};
use gua_model::{BootId, GpuUuid, Pid, ProcessKey, StartTicks, Uid};

use crate::host::{gpu, gpus, is_root, real_wall, shared_folder};

const GPUS: usize = 8;
const PROCESSES: usize = 50;
const USERS: u32 = 5;
const FIRST_USER: u32 = 20_001;
const MAX_TEST_TIME: Duration = Duration::from_secs(120);

/// The real processes of this machine.
struct ProcFiles;

/// Whether a process has ended, and its start time. A process whose first thread has ended is shown as a zombie (`Z`)
/// while its other threads still run and hold its files, so the threads are counted (field 20).
fn stat(pid: u32) -> Option<(bool, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let threads: u32 = fields[17].parse().ok()?;
    let ended = matches!(fields[0], "X" | "x") || (fields[0] == "Z" && threads <= 1);
    Some((ended, fields[19].parse().ok()?))
}

impl Kernel for ProcFiles {
    fn now(&self) -> Moment {
        observed().at
    }

    fn session(&self, _: &ProcessKey) -> Option<Session> {
        None
    }

    fn namespace(&self) -> Option<PidNamespace> {
        None
    }

    fn standing(&self, process: &ProcessKey) -> Life {
        match stat(process.pid.0) {
            Some((false, start)) if start == process.start.0 => Life::Running,
            _ => Life::Ended,
        }
    }

    fn user(&self, process: &ProcessKey) -> Option<Uid> {
        let text = fs::read_to_string(format!("/proc/{}/status", process.pid)).ok()?;
        let uids = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        let effective = uids.split_ascii_whitespace().nth(1)?;
        effective.parse().ok().map(Uid)
    }

    fn descends(&self, _: &ProcessKey, _: &ProcessKey) -> bool {
        false
    }
}

fn boot() -> BootId {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    text.parse().unwrap()
}

fn this_process() -> ProcessKey {
    let pid = std::process::id();
    ProcessKey {
        boot: boot(),
        pid: Pid(pid),
        start: StartTicks(stat(pid).unwrap().1),
    }
}

fn observed() -> Observed {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let since_boot = Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap(),
    );
    Observed {
        at: Moment {
            boot: boot(),
            since_boot,
            wall: real_wall(),
        },
        free: gpus(0..GPUS),
        acceptable: gpus(0..GPUS),
        vacant: gpus(0..GPUS),
        gpus: GPUS,
        on_gpus: Vec::new(),
        unread: Vec::new(),
    }
}

fn request(count: usize) -> Request {
    Request {
        at_least: count,
        at_most: count,
        lease: Duration::from_hours(1),
        for_process: this_process(),
        requester: this_process(),
    }
}

/// Not a test by itself: the processes of the crowd are this test executable, started to run this function with a job.
#[test]
fn member_of_the_crowd() {
    if let Some(job) =
        std::env::args().find_map(|argument| argument.strip_prefix("job=").map(str::to_owned))
    {
        let (folder, mode) = job.rsplit_once('=').unwrap();
        Member::new(Path::new(folder), mode).work();
    }
}

struct Member {
    dir: ClaimDir,
    lock_files: PathBuf,
    mode: String,
    stop: Arc<AtomicBool>,
}

impl Member {
    fn new(folder: &Path, mode: &str) -> Self {
        Self {
            dir: ClaimDir::open(&folder.join("shared")).unwrap(),
            lock_files: folder.join("gpus"),
            mode: mode.to_owned(),
            stop: Arc::default(),
        }
    }

    fn work(&self) {
        print_word("ready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        let stop = Arc::clone(&self.stop);
        std::thread::spawn(move || {
            // The end of the input is the signal to stop.
            while std::io::stdin()
                .read_line(&mut String::new())
                .is_ok_and(|length| length > 0)
            {}
            stop.store(true, Ordering::SeqCst);
        });
        while !self.stop.load(Ordering::SeqCst) {
            let wanted = 1 + usize::try_from(std::process::id() % 2).unwrap();
            let Some(claim) = self.ask(wanted) else {
                continue;
            };
            let locks: Vec<_> = claim.gpus.iter().map(|gpu| self.lock(gpu)).collect();
            print_word("got");
            if self.mode == "keep" {
                loop {
                    std::thread::park();
                }
            }
            for _ in 0..3 {
                self.dir.survey(&observed(), &ProcFiles).unwrap();
            }
            drop(locks);
            self.dir.release(&claim.id).unwrap();
        }
        print_word("done");
    }

    fn ask(&self, wanted: usize) -> Option<Claim> {
        let request = request(wanted);
        if self.mode != "wait" {
            return match unless_busy(self.dir.take(&request, &observed(), &ProcFiles))? {
                Answer::Offered(offer) => Some(self.finish(offer)),
                Answer::Short(_) | Answer::StaleSample => {
                    std::thread::sleep(Duration::from_millis(5));
                    None
                }
            };
        }
        let mut ticket = unless_busy(self.dir.join(&request, &observed(), &ProcFiles))?;
        while !self.stop.load(Ordering::SeqCst) {
            let answer = self
                .dir
                .advance(&mut ticket, &request, &observed(), &ProcFiles);
            match unless_busy(answer) {
                Some(Answer::Offered(offer)) => return Some(self.finish(offer)),
                Some(Answer::Short(_) | Answer::StaleSample) | None => {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        None
    }

    fn finish(&self, offer: Offer) -> Claim {
        let grant = offer.confirm(&self.dir, &observed(), &ProcFiles).unwrap();
        if self.mode == "stall" {
            print_word("got");
            loop {
                std::thread::park();
            }
        }
        grant.hand_over(&self.dir, &ProcFiles).unwrap()
    }

    fn lock(&self, gpu: &GpuUuid) -> File {
        let file = File::open(self.lock_files.join(gpu.as_str())).unwrap();
        if file.try_lock().is_err() {
            print_word(&format!("twice {gpu}"));
        }
        file
    }
}

/// `None` if others held the lock for five seconds: with fifty processes on a slow machine that can happen, and the
/// process asks again.
fn unless_busy<T>(asked: Result<T, ClaimError>) -> Option<T> {
    match asked {
        Err(ClaimError::Busy { .. }) => None,
        other => Some(other.unwrap()),
    }
}

fn print_word(word: &str) {
    let mut out = std::io::stdout().lock();
    // On its own line, whatever the test harness has begun to print.
    let _ = writeln!(out, "\n@{word}");
    let _ = out.flush();
}

struct Crowd {
    folder: tempfile::TempDir,
    children: Vec<(Child, Option<ChildStdin>)>,
    words: Receiver<(usize, String)>,
    sender: Sender<(usize, String)>,
    got: Vec<usize>,
}

impl Crowd {
    fn new() -> Self {
        let folder = shared_folder();
        let inside = |name: &str| folder.path().join(name);
        fs::create_dir(inside("shared")).unwrap();
        fs::create_dir(inside("gpus")).unwrap();
        let set_mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        if is_root() {
            set_mode(&inside("shared"), 0o1777);
        }
        // The members must be able to read these whatever the umask.
        set_mode(&inside("gpus"), 0o755);
        for number in 0..GPUS {
            let file = inside("gpus").join(gpu(number).as_str());
            fs::write(&file, "").unwrap();
            set_mode(&file, 0o644);
        }
        // The build directory may be closed to other users.
        let program = inside("member");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let (sender, words) = channel();
        Self {
            folder,
            children: Vec::new(),
            words,
            sender,
            got: Vec::new(),
        }
    }

    fn start(&mut self, mode: &str) {
        let number = self.children.len();
        let mut command = Command::new(self.folder.path().join("member"));
        let job = format!("job={}={mode}", self.folder.path().display());
        command
            .args(["--exact", "crowd::member_of_the_crowd", "--nocapture", &job])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if is_root() {
            let user = FIRST_USER + u32::try_from(number).unwrap() % USERS;
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(word) = line.strip_prefix('@') {
                    let _ = sender.send((number, word.to_owned()));
                }
            }
        });
        let input = child.stdin.take();
        self.children.push((child, input));
        self.got.push(0);
        self.wait_until(|_, word| word == "ready");
    }

    fn go(&mut self) {
        for (_, input) in &mut self.children {
            input.as_mut().unwrap().write_all(b"go\n").unwrap();
        }
    }

    /// Reads the members' output until the condition holds. No GPU may be granted twice meanwhile.
    fn wait_until(&mut self, so: impl Fn(&Self, &str) -> bool) {
        loop {
            let (number, word) = self
                .words
                .recv_timeout(MAX_TEST_TIME)
                .expect("output from the crowd");
            assert!(!word.starts_with("twice"), "member {number}: {word}");
            if word == "got" {
                self.got[number] += 1;
            }
            if so(self, &word) {
                return;
            }
        }
    }

    fn kill(&mut self, number: usize) {
        let (child, _) = &mut self.children[number];
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn dir(&self) -> ClaimDir {
        ClaimDir::open(&self.folder.path().join("shared")).unwrap()
    }

    fn assert_nothing_leaked(&self) {
        let survey = self.dir().survey(&observed(), &ProcFiles).unwrap();
        assert_eq!(survey.claims, []);
        assert_eq!(survey.queue, []);
        assert_eq!(survey.problems, []);
        let all = self
            .dir()
            .take(&request(GPUS), &observed(), &ProcFiles)
            .unwrap();
        assert!(matches!(all, Answer::Offered(_)), "{all:?}");
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (child, _) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn check(mode: impl Fn(usize) -> &'static str) {
    let _ = runs_as_root("the crowd of several users; it runs as one");
    let mut crowd = Crowd::new();
    for number in 0..PROCESSES {
        crowd.start(mode(number));
    }
    crowd.go();
    crowd.wait_until(|crowd, _| crowd.got.iter().sum::<usize>() >= 150);
    for number in (0..PROCESSES).step_by(2) {
        crowd.kill(number);
    }
    let before: usize = crowd.got.iter().sum();
    crowd.wait_until(|crowd, _| crowd.got.iter().sum::<usize>() >= before + 150);
    for number in (1..PROCESSES).step_by(2) {
        // Closing its input makes it stop.
        drop(crowd.children[number].1.take());
    }
    for number in (1..PROCESSES).step_by(2) {
        let status = crowd.children[number].0.wait().unwrap();
        assert!(status.success(), "member {number}: {status}");
    }
    while let Ok((number, word)) = crowd.words.try_recv() {
        assert!(!word.starts_with("twice"), "member {number}: {word}");
    }
    crowd.assert_nothing_leaked();
}

#[test]
fn concurrent_users_never_get_a_gpu_twice_and_killed_ones_leak_none() {
    check(|_| "take");
}

#[test]
fn the_same_holds_when_half_of_them_wait_in_the_queue() {
    check(|number| if number % 4 < 2 { "wait" } else { "take" });
}

#[test]
fn gpus_of_processes_killed_before_the_hand_over_are_free_at_once() {
    let mut crowd = Crowd::new();
    for number in 0..PROCESSES {
        crowd.start(if number % 2 == 0 { "keep" } else { "stall" });
    }
    crowd.go();
    // Members take one or two GPUs: eight GPUs are gone when five to eight members have some.
    let dir = crowd.dir();
    crowd.wait_until(|_, _| {
        dir.survey(&observed(), &ProcFiles).unwrap().claimed().len() >= GPUS - 1
    });
    for number in 0..PROCESSES {
        crowd.kill(number);
    }
    crowd.assert_nothing_leaked();
}
