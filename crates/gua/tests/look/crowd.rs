//! Fifty processes of five users compete for eight GPUs through the program, and half of them are killed. Also: how a
//! refusal appears in the report.
//!
//! Each process that gets a GPU locks a file for that GPU. The lock is independent of claims, and the kernel releases
//! it with its process: if it cannot be taken, a GPU was granted twice.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use super::Machine;
use gua_test::{Ended, Sleeper, runs_as_root};

const GPUS: usize = 8;
const PROCESSES: usize = 50;
const USERS: u32 = 5;
const FIRST_USER: u32 = 20_001;
const TIMEOUT: Duration = Duration::from_secs(120);

/// Waits for a GPU, prints which one it got, and keeps it until its standard input closes. The process that holds the
/// GPU is the one that holds the lock.
const MEMBER: &str = r#"
card=$(./gua available -q --uuid --claim 10m --wait) || exit 4
exec flock --nonblock --close --conflict-exit-code 5 "cards/$card" sh -c "echo $card; exec cat >/dev/null"
"#;

/// A host whose files, including the program, every user can access.
fn open_host(scenario: &str) -> Machine {
    let host = Machine::new(scenario);
    host.open_to_users();
    host
}

/// The command as another user, if the tests run as root.
fn of_user(command: &mut Command, number: u32) -> &mut Command {
    if runs_as_root("several users; the test runs as one") {
        let user = FIRST_USER + number % USERS;
        command.uid(user).gid(user);
    }
    command
}

struct Crowd {
    members: Vec<Child>,
    words: Receiver<(usize, String)>,
}

impl Crowd {
    fn start(host: &Machine, script: &str) -> Self {
        let (sender, words) = channel();
        let mut members = Vec::new();
        for number in 0..PROCESSES {
            let mut command = host.command("sh");
            command.args(["-c", script]);
            of_user(&mut command, u32::try_from(number).unwrap());
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in out.lines().map_while(Result::ok) {
                    let _ = sender.send((number, line));
                }
            });
            members.push(child);
        }
        Self { members, words }
    }

    fn next(&self) -> (usize, String) {
        self.words
            .recv_timeout(TIMEOUT)
            .expect("a process got a GPU in time")
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

#[test]
fn concurrent_users_never_get_a_gpu_twice_and_killed_ones_leak_none() {
    let host = crowded_host();
    let mut crowd = Crowd::start(&host, MEMBER);
    let mut first: Vec<_> = (0..GPUS).map(|_| crowd.next()).collect();
    first.sort_by(|one, other| one.1.cmp(&other.1));
    let names: Vec<_> = first.iter().map(|(_, gpu)| gpu.as_str()).collect();
    assert_eq!(
        names,
        [
            "GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5", "GPU-6", "GPU-7"
        ]
    );
    let is_killed = |number: usize| number.is_multiple_of(2);
    for number in (0..PROCESSES).filter(|number| is_killed(*number)) {
        crowd.members[number].kill().unwrap();
        crowd.members[number].wait().unwrap();
    }
    // The others are served one after the other, each when an earlier one exits.
    let mut served = Vec::new();
    let mut waiting: Vec<usize> = first.into_iter().map(|(number, _)| number).collect();
    while served.len() < PROCESSES / 2 {
        let number = waiting.pop().unwrap_or_else(|| crowd.next().0);
        if is_killed(number) || served.contains(&number) {
            continue;
        }
        drop(crowd.members[number].stdin.take());
        let status = crowd.members[number].wait().unwrap();
        assert!(status.success(), "member {number}: {status}");
        served.push(number);
    }
    // Programs whose shell was killed notice that they have no caller left.
    assert_nothing_is_left(&host);
}

fn crowded_host() -> Machine {
    let gpus = (0..GPUS).map(|gpu| format!("[[gpu]]\nuuid = \"GPU-{gpu}\"\n"));
    let host = open_host(&gpus.collect::<String>());
    fs::create_dir(host.path("cards")).unwrap();
    for gpu in 0..GPUS {
        fs::write(host.path(&format!("cards/GPU-{gpu}")), "").unwrap();
    }
    // Members of every user write their answers here.
    fs::set_permissions(host.path(""), fs::Permissions::from_mode(0o1777)).unwrap();
    host
}

/// Checks that no claim and no waiter, and that all GPUs can be claimed at once.
fn assert_nothing_is_left(host: &Machine) {
    let listed = || -> Value {
        let ended = host.gua("claim list --json");
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let mut left = listed();
    for _ in 0..200 {
        if is_empty(&left["queue"]) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        left = listed();
    }
    assert!(
        is_empty(&left["claims"]) && is_empty(&left["queue"]),
        "{left}"
    );
    assert!(is_empty(&left["problems"]), "{left}");
    let holder = Sleeper::new();
    let all = host.gua(&format!(
        "available -q --claim 1m --count 8 --for {}",
        holder.pid()
    ));
    assert_eq!(
        (all.code, all.stdout.as_str()),
        (0, "0,1,2,3,4,5,6,7\n"),
        "{}",
        all.stderr
    );
}

/// Runs gua in the background, so that it can be killed while its shell lives on. Prints the outcome, and exits when
/// its standard input closes. The process with the GPU has locked the file for that GPU.
const ASKER: &str = r#"
./gua available -q --uuid --claim 10m --wait >out.$$ &
echo "asks $!"
wait $! || { echo "killed -"; exec cat >/dev/null; }
card=$(cat out.$$)
exec flock --nonblock --close --conflict-exit-code 5 "cards/$card" sh -c "echo got $card; exec cat >/dev/null"
"#;

/// Kills a program of ours, and no other process that may have reused its pid.
fn kill_program(host: &Machine, pid: i32) {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let Ok(process) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else {
        return;
    };
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    if program.is_ok_and(|program| program == host.path("gua")) {
        let _ = pidfd_send_signal(&process, Signal::KILL);
    }
}

#[test]
fn kill_9_at_any_moment_grants_no_gpu_twice_and_leaks_none_to_the_shell() {
    let host = crowded_host();
    let mut crowd = Crowd::start(&host, ASKER);
    let is_killed = |number: usize| number.is_multiple_of(2);
    let mut dice: u64 = 0x9e37_79b9_7f4a_7c15;
    let (mut got, mut killed) = (0, 0);
    std::thread::scope(|threads| {
        while got + killed < PROCESSES {
            let (number, words) = crowd.next();
            match words.split_once(' ').unwrap() {
                ("asks", pid) if is_killed(number) => {
                    // The delays reach from before it starts until after it is served.
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let pause = Duration::from_millis((dice >> 33) % 1500);
                    let (host, pid) = (&host, pid.parse().unwrap());
                    threads.spawn(move || {
                        std::thread::sleep(pause);
                        kill_program(host, pid);
                    });
                }
                ("asks", _) => {}
                ("killed", _) => {
                    assert!(is_killed(number), "member {number} failed by itself");
                    killed += 1;
                }
                ("got", _) => {
                    got += 1;
                    drop(crowd.members[number].stdin.take());
                    let status = crowd.members[number].wait().unwrap();
                    assert!(status.success(), "member {number}: {status}");
                }
                _ => panic!("member {number}: {words}"),
            }
        }
    });
    assert!(killed > 0, "some were killed in time");
    // The shells of the killed programs live on, and hold nothing.
    assert_nothing_is_left(&host);
}

#[test]
fn a_user_who_holds_the_lock_does_not_end_a_wait() {
    let host = open_host("[[gpu]]\nuuid = \"GPU-a\"\n");
    let mut command = host.command("flock");
    command.args(["--shared", "claims", "sh", "-c"]);
    command.arg("echo locked; exec cat >/dev/null");
    of_user(&mut command, 0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut locked = String::new();
    let mut out = BufReader::new(holder.stdout.take().unwrap());
    out.read_line(&mut locked).unwrap();
    assert_eq!(locked, "locked\n");

    let mut waiting = host.start("available --wait 10m");
    let errors = BufReader::new(waiting.stderr.take().unwrap());
    let mut errors = errors.lines().map(|line| line.unwrap());
    // After the time that a request without --wait has for the lock.
    let message = errors.find(|line| line.ends_with("still waiting"));
    assert!(message.unwrap().contains("the lock is held by pid "));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let served = Ended::from(waiting.wait_with_output().unwrap());
    assert_eq!((served.code, served.stdout.as_str()), (0, "0\n"));
}

#[test]
fn a_ticket_that_names_pid_1_delays_nobody() {
    let host = open_host("[[gpu]]\nuuid = \"GPU-a\"\n");
    let mut command = host.command("sh");
    let forge = r#"mkdir -m 755 claims/gua-claims-0 && set -- $(sed 's/.*) //' /proc/1/stat) && shift 19 &&
        echo '{"version":1,"wanted":1,"arrived_us":1,"asked_us":1,"acceptable":["GPU-a"],
        "waiter":{"boot":"'$(cat /proc/sys/kernel/random/boot_id)'","pid":1,"start":'$1'}}' \
        > claims/gua-claims-0/wait-00000000"#;
    command.args(["-c", forge]);
    assert!(of_user(&mut command, 0).status().unwrap().success());
    let leased = host.gua("available -q --claim 10m");
    assert_eq!(
        (leased.code, leased.stdout.as_str()),
        (0, "0\n"),
        "{leased:?}"
    );
}

#[test]
fn an_unwritable_directory_is_reported() {
    if !runs_as_root("a directory of another user") {
        return;
    }
    let host = open_host("[[gpu]]\nuuid = \"GPU-a\"\n");
    fs::set_permissions(host.path("claims"), fs::Permissions::from_mode(0o755)).unwrap();
    let run = |line: &str| {
        let mut command = host.command(host.path("gua"));
        command.args(line.split_whitespace());
        Ended::from(of_user(&mut command, 0).output().unwrap())
    };
    for line in ["available --claim 1m", "available --wait 1m"] {
        let claim = run(line);
        assert_eq!(
            (claim.code, claim.stdout.as_str()),
            (1, ""),
            "{}",
            claim.stderr
        );
        assert!(
            claim
                .stderr
                .contains("cannot write in the claims directory"),
            "{}",
            claim.stderr
        );
    }
    assert_eq!(run("available -q").stdout, "0\n");
    // Only the user who made a claim can release it.
    fs::set_permissions(host.path("claims"), fs::Permissions::from_mode(0o1777)).unwrap();
    let holder = Sleeper::new();
    let leased = host.gua(&format!(
        "available -q --json --claim 1m --for {}",
        holder.pid()
    ));
    let leased: Value = serde_json::from_str(&leased.stdout).unwrap();
    let id = leased["claim"]["id"].as_str().unwrap();
    let release = run(&format!("claim release {id}"));
    assert_eq!(release.code, 1);
    assert!(
        release.stderr.contains("belongs to uid 0"),
        "{}",
        release.stderr
    );
    assert_eq!(run("available -q").code, 3);
}

#[test]
fn a_report_shows_whose_idle_gpu_caused_a_refusal() {
    if !runs_as_root("one user in another's way") {
        return;
    }
    let host = open_host(
        "[clock]\nat = 100\n\
         [[gpu]]\nuuid = \"GPU-a\"\nutil = 0\n[[gpu.process]]\npid = ONE\nmemory_mib = 2048\n\
         [[gpu]]\nuuid = \"GPU-b\"\nutil = 90\n[[gpu.process]]\npid = OTHER\nmemory_mib = 2048\n",
    );
    let fine = |line: &str| {
        let ended = host.gua(line);
        assert_eq!(ended.code, 0, "{line}: {}", ended.stderr);
        ended.stdout
    };
    fine("start --db gua.db --interval 50ms");
    fine("stop");
    for _ in 0..2 {
        let mut ask = host.command(host.path("gua"));
        // The daemon's directory in HOME is private to its owner.
        ask.args(["available", "--claim", "10m"])
            .env("HOME", host.path("requester"));
        let refused = Ended::from(of_user(&mut ask, 0).output().unwrap());
        assert_eq!(refused.code, 3, "{}", refused.stderr);
    }
    // A starting collector reads the events that were left for it.
    fine("start --db gua.db --append --interval 50ms");
    fine("stop");
    let text = fine("report --since 1h --db gua.db");
    let sentence = "  root's idle-held GPU 0 blocked uid 20001 2 times\n";
    assert!(text.contains(sentence), "{text}");
    assert!(!text.contains("GPU 1 stood"), "{text}");
    let report: Value =
        serde_json::from_str(&fine("report --since 1h --db gua.db --json")).unwrap();
    assert_eq!(report["refused"]["requests"], 2);
    assert_eq!(report["refused"]["in_the_way"][0]["gpu_index"], 0);
    fine("db check --db gua.db");
    let forgotten = host.gua("db forget 20001 --yes --db gua.db");
    let note = "note: 2 events of uid 20001 in `";
    assert!(forgotten.stderr.contains(note), "{forgotten:?}");
    let text = fine("report --since 1h --db gua.db");
    assert!(text.contains("blocked forgotten-1 2 times"), "{text}");
}
