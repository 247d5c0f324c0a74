//! A job under `gua run` ends as it would without it: its output, exit code, signals and orphans.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Jobs, host};
use crate::{GUA, without_driver};
use gua_test::{Ended, TestHost, runs_as_root, wait_until};

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Runs the script without `gua run` and with it, and returns both results.
fn both(host: &TestHost, script: &str) -> [Ended; 2] {
    let mut bare = host.command("sh");
    bare.args(["-c", script]);
    let watched = host.job("--quiet --out out", script);
    [bare, watched].map(|mut command| command.output().unwrap().into())
}

#[test]
fn output_and_exit_code_are_the_jobs_own() {
    let host = host("[[gpu]]\n");
    for script in [
        "true",
        "exit 7",
        "exit 255",
        "echo out; echo err >&2; exit 1",
        "printf 'no line end'; cat",
        "kill -TERM $$",
        "kill -KILL $$",
        "kill -SEGV $$",
        "kill -PIPE $$",
        "kill -INT $$; sleep 10",
        "nohup true; exit 3",
        "umask; ulimit -c; pwd",
        "yes | head -n 1",
    ] {
        let [bare, watched] = both(&host, script);
        assert_eq!(watched, bare, "{script}");
    }
}

#[test]
fn the_job_inherits_what_it_would_without_gua_except_one_descriptor() {
    let host = host("[[gpu]]\n");
    // The C library keeps signals 32 and 33 for itself and may change them.
    let script = "grep -E '^(SigIgn|SigBlk|SigCgt)' /proc/$$/status | sed 's/\\t........./ /; s/ [0-9a-f]/ /'; ls -l /proc/$$/fd > fds; grep -c pipe fds; env | grep -v ^GUA_RUN_ | grep -v '^_=' | sort";
    let [bare, watched] = both(&host, script);
    let count = |text: &str| text.lines().nth(3).unwrap().parse::<u32>().unwrap();
    let rest = |text: &str| {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        [&lines[..3], &lines[4..]].concat()
    };
    assert_eq!(rest(&watched.stdout), rest(&bare.stdout));
    assert_eq!(
        count(&watched.stdout),
        count(&bare.stdout) + 1,
        "{}",
        watched.stdout
    );
}

#[test]
fn ignored_signals_stay_ignored_in_the_job() {
    let host = host("[[gpu]]\n");
    // Set by another program: a shell may refuse to ignore or block a signal.
    let start = "import os, signal, sys\n\
        of = lambda names: [getattr(signal, 'SIG' + name) for name in names.split(',') if name]\n\
        for name in 'PIPE', 'XFSZ': signal.signal(getattr(signal, 'SIG' + name), signal.SIG_DFL)\n\
        for number in of(sys.argv[1]): signal.signal(number, signal.SIG_IGN)\n\
        signal.pthread_sigmask(signal.SIG_SETMASK, of(sys.argv[2]))\n\
        os.execvp(sys.argv[3], sys.argv[3:])";
    let seen = ["cat", "/proc/self/status"];
    let job = [&[GUA, "run", "-q", "--"], &seen[..]].concat();
    let leased = [&[GUA, "run", "-q", "--claim", "1", "--"], &seen[..]].concat();
    let check = |ignored: &str, blocked: &str, [ign, blk]: [u64; 2]| {
        let of = |command: &[&str]| {
            let mut python = host.command("python3");
            python.args(["-c", start, ignored, blocked]).args(command);
            let ended = Ended::from(python.output().unwrap());
            ["SigIgn:", "SigBlk:", "SigCgt:"].map(|name| {
                let mut lines = ended.stdout.lines();
                let mask = lines.find_map(|line| line.strip_prefix(name)).unwrap();
                // The C library keeps signals 32 and 33 for itself and may change them.
                u64::from_str_radix(mask.trim(), 16).unwrap() & 0x7fff_ffff
            })
        };
        assert_eq!(of(&seen), [ign, blk, 0], "{ignored} {blocked}");
        assert_eq!(of(&job), [ign, blk, 0], "{ignored} {blocked}");
        assert_eq!(of(&leased), [ign, blk, 0], "{ignored} {blocked}");
    };
    check("", "", [0, 0]);
    check("PIPE", "", [0x1000, 0]);
    check("HUP,INT,PIPE,CHLD", "", [0x11003, 0]);
    check("", "USR1,PIPE", [0, 0x1200]);
    check("USR2", "USR1", [0x800, 0x200]);
}

#[test]
fn a_signal_sent_to_gua_reaches_the_job_once() {
    let host = host("[[gpu]]\n");
    let script = "for s in HUP INT QUIT TERM USR1 USR2; do trap \"echo $s >> heard\" $s; done; \
                  echo ready > ready; while [ ! -e stop ]; do sleep 0.01; done; exit 5";
    let mut child = host.job("--quiet", script).spawn().unwrap();
    wait_until("the job", || host.path("ready").exists());
    let signals = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    let mut expected = String::new();
    for (number, name) in signals {
        signal(&child, number);
        expected.push_str(&format!("{name}\n"));
        wait_until(name, || host.read("heard") == expected);
    }
    fs::write(host.path("stop"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!(host.read("heard"), expected);
}

#[test]
fn a_job_that_ignores_sigterm_keeps_running() {
    let host = host("[[gpu]]\n");
    let script =
        "trap '' TERM; echo ready > ready; while [ ! -e stop ]; do sleep 0.01; done; exit 6";
    let mut child = host.job("--quiet", script).spawn().unwrap();
    wait_until("the job", || host.path("ready").exists());
    signal(&child, Signal::TERM);
    signal(&child, Signal::TERM);
    fs::write(host.path("stop"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

#[test]
fn a_job_killed_from_outside_ends_gua_by_the_same_signal() {
    let host = host("[[gpu]]\n");
    let script = "echo $$ > ready.new; mv ready.new ready; exec sleep 600";
    let mut child = host
        .job("--out out", script)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the job", || host.path("ready").exists());
    let pid: i32 = host.read("ready").trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9));
    let summary = host.summary();
    assert_eq!(summary["run"]["exit_code"], 137);
    assert_eq!(summary["run"]["signal"], 9);
}

#[test]
fn a_daemon_outlives_the_run_that_started_it() {
    let host = host("[[gpu]]\n");
    let script = "setsid sh -c 'echo $$ > pid.new; mv pid.new pid; while [ ! -e stop ]; do sleep 0.01; done; echo done > done' \
                  >/dev/null 2>&1 </dev/null & while [ ! -e pid ]; do sleep 0.01; done; exit 4";
    let ended = host.run_job("--quiet", script);
    assert_eq!(ended.code, 4);
    let pid = host.read("pid");
    let stat = || fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let lives = !stat().is_empty() && !stat().contains(") Z ");
    assert!(lives, "{}", stat());
    fs::write(host.path("stop"), "").unwrap();
    wait_until("the end of the daemon", || host.path("done").exists());
}

#[test]
fn orphans_are_counted_and_reaped() {
    let host = without_driver();
    // An orphan that uses a processor for half a second, and then exits while the run continues.
    let script = "(sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done > done' &) ; \
                  while [ ! -e done ]; do sleep 0.01; done; sleep 0.3; ps -o stat= --ppid $PPID | grep -c Z";
    let ended = host.run_job("--quiet --out out --interval 50ms", script);
    assert_eq!(ended.stdout.trim(), "0", "no zombie is left: {ended:?}");
    let tree = &host.summary()["tree"];
    assert!(tree["cpu_seconds"].as_f64().unwrap() > 0.05, "{tree}");
}

#[test]
fn orphans_are_reaped_long_before_the_next_sample() {
    let host = without_driver();
    let script = "sleep 0.3; (sh -c 'echo $$ > pid.new; mv pid.new pid' &) ; \
                  n=0; while [ ! -e pid ] || [ -e /proc/$(cat pid) ]; do n=$((n+1)); [ $n -lt 600 ] || exit 1; sleep 0.1; done";
    let ended = host.run_job("--quiet --interval 1h", script);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn if_gua_is_killed_the_job_continues_and_its_files_stay() {
    let host = host("[[gpu]]\nutil = 50\n");
    let script = "echo $$ > ready.new; mv ready.new ready; while [ ! -e stop ]; do sleep 0.01; done; echo done > done";
    let mut child = host
        .job("--quiet --out out --gpus all --interval 20ms", script)
        .spawn()
        .unwrap();
    wait_until("samples", || {
        host.read("out/hw_metrics.csv").lines().count() > 3
    });
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(host.path("stop"), "").unwrap();
    wait_until("the end of the job", || host.path("done").exists());
    let log = host.events();
    assert!(log.len() > 3, "{log:?}");
    let ended = Ended::from(
        host.command(GUA)
            .args(["summarize", "out", "--json"])
            .output()
            .unwrap(),
    );
    assert!(
        ended.stdout.contains("\"gpu_util_mean_pct\": 50.0"),
        "{ended:?}"
    );
}

#[test]
fn a_mark_after_gua_was_killed_does_not_harm_the_job() {
    let host = host("[[gpu]]\n");
    let script = "echo $$ > ready.new; mv ready.new ready; while [ ! -e stop ]; do sleep 0.01; done; \
                  echo one >&$GUA_RUN_FD; $GUA phase two 2> said; echo $? > done.new; mv done.new done";
    let mut child = host.job("--quiet", script).spawn().unwrap();
    wait_until("the job", || host.path("ready").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let status = format!("/proc/{}/stat", host.read("ready").trim());
    let lives = || fs::read_to_string(&status).is_ok_and(|text| !text.contains(") Z "));
    assert!(lives());
    fs::write(host.path("stop"), "").unwrap();
    wait_until("the end of the job", || {
        host.path("done").exists() || !lives()
    });
    assert_eq!(host.read("done"), "0\n", "{}", host.read("said"));
}

#[test]
fn a_mark_that_nobody_reads_neither_blocks_nor_fails() {
    let host = host("[[gpu]]\n");
    let script = "kill -STOP $PPID; head -c 200000 /dev/zero | tr '\\0' '\\n' >&$GUA_RUN_FD 2> /dev/null; \
                  $GUA phase late 2> said; code=$?; $GUA phase -q late 2> quiet; kill -CONT $PPID; exit $code";
    let ended = host.run_job("--quiet --gpus all --interval 20ms", script);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        host.read("said").contains("does not read marks"),
        "{}",
        host.read("said")
    );
    assert_eq!(host.read("quiet"), "");
}

#[test]
fn a_job_that_floods_marks_is_served_and_ends_normally() {
    let host = without_driver();
    let flood = "import os\n\
        while os.path.exists('flood.py') and not os.path.exists('stop'):\n\
        \x20   for _ in range(1000):\n\
        \x20       try: os.write(int(os.environ['GUA_RUN_FD']), b'x\\n' * 2048)\n\
        \x20       except BlockingIOError: pass\n\
        open('dry', 'w')";
    fs::write(host.path("flood.py"), flood).unwrap();
    let script = "trap 'echo heard > heard' USR1; setsid python3 flood.py >/dev/null 2>&1 & echo began > began; \
                  while [ ! -e heard ] || [ $(wc -l < out/cpu_metrics.csv) -lt 4 ]; do sleep 0.02; done; echo ended > ended; exit 3";
    let mut child = host
        .job("--quiet --out out --interval 20ms", script)
        .spawn()
        .unwrap();
    wait_until("the job", || host.path("began").exists());
    wait_until("a flood", || host.read("out/run.jsonl").len() > 1 << 18);
    signal(&child, Signal::USR1);
    wait_until("the end of the job", || host.path("ended").exists());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    fs::write(host.path("stop"), "").unwrap();
    wait_until("the end of the flood", || host.path("dry").exists());
}

#[test]
fn a_job_stopped_and_continued_alone_continues_with_gua() {
    let host = without_driver();
    let script =
        "echo $$ > ready.new; mv ready.new ready; while [ ! -e stop ]; do sleep 0.01; done; exit 8";
    let mut child = host
        .job("--quiet --out out --interval 20ms", script)
        .spawn()
        .unwrap();
    wait_until("the job", || host.path("ready").exists());
    let pid = host.read("ready").trim().to_owned();
    let number = Pid::from_raw(pid.parse().unwrap()).unwrap();
    kill_process(number, Signal::STOP).unwrap();
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    wait_until("the halt", || stat().contains(") T "));
    let samples = || host.read("out/cpu_metrics.csv").lines().count();
    let before = samples();
    wait_until("further samples", || samples() > before + 3);
    kill_process(number, Signal::CONT).unwrap();
    fs::write(host.path("stop"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(8));
}

#[test]
fn time_in_which_gua_was_stopped_is_a_gap() {
    let host = host("[[gpu]]\nutil = 50\n");
    let script = "sleep 0.5; kill -STOP $PPID; sleep 4; kill -CONT $PPID; sleep 0.3";
    let ended = host.run_job("--out out --gpus all --interval 20ms", script);
    let gpu = &host.summary()["gpus"][0];
    let seconds = |name: &str| gpu[name].as_f64().unwrap();
    assert!(seconds("gap_seconds") > 3.5, "{gpu:#}");
    assert!(
        seconds("observed_seconds") < seconds("gap_seconds"),
        "{gpu:#}"
    );
    let whole = seconds("gap_seconds") + seconds("observed_seconds");
    let run = host.summary()["run"]["seconds"].as_f64().unwrap();
    assert!(
        whole > 4.2 && whole < run + 0.2,
        "{whole} of {run}: {gpu:#}"
    );
    assert!(ended.stderr.contains("no GPU was observed"), "{ended:?}");
}

#[test]
fn a_run_that_never_starts_keeps_the_files_of_the_one_before() {
    let host = host("[[gpu]]\nutil = 50\n");
    host.run_job("--out out --gpus all --interval 20ms", "sleep 0.3");
    let names = [
        "run.jsonl",
        "hw_metrics.csv",
        "hw_dmon.csv",
        "cpu_metrics.csv",
        "summary.json",
    ];
    let files = || names.map(|name| host.read(&format!("out/{name}")));
    let before = files();
    assert!(before.iter().all(|file| !file.is_empty()), "{before:?}");
    let check = |line: &str, code: i32| {
        let mut command = host.command(GUA);
        let ended = Ended::from(command.args(line.split(' ')).output().unwrap());
        assert_eq!(ended.code, code, "{ended:?}");
        assert_eq!(files(), before, "{line}");
    };
    check("run --out out -- no-such-command", 127);
    check("run --out out --claim 9 -- true", 3);
    check("run --out out --gpus 77 -- true", 2);
    check("run --out out --json -- true", 2);
}

#[test]
fn a_full_disk_costs_the_files_and_not_the_job() {
    let host = host("[[gpu]]\nutil = 50\n");
    for name in [
        "run.jsonl",
        "hw_metrics.csv",
        "hw_dmon.csv",
        "cpu_metrics.csv",
    ] {
        fs::create_dir_all(host.path("out")).unwrap();
        // Every write to it fails as on a full disk (full(4)).
        std::os::unix::fs::symlink("/dev/full", host.path("out").join(name)).unwrap();
    }
    let ended = host.run_job(
        "--out out --gpus all --interval 20ms",
        "sleep 0.3; echo mine; exit 3",
    );
    assert_eq!((ended.code, ended.stdout.as_str()), (3, "mine\n"));
    assert!(
        ended.stderr.contains("No space left on device"),
        "{ended:?}"
    );
    let notes = host.summary()["notes"].to_string();
    assert!(
        notes.contains("lines could not be written: No space"),
        "{notes}"
    );
}

#[test]
fn without_a_driver_only_processors_are_watched_and_one_message_says_so() {
    let host = without_driver();
    let ended = host.run_job("--out out --interval 20ms", "sleep 0.4; exit 2");
    assert_eq!(ended.code, 2);
    assert_eq!(
        ended.stderr.matches("no GPU was read").count(),
        1,
        "{ended:?}"
    );
    let kinds = |name: &str| {
        host.events()
            .iter()
            .filter(|line| line["event"] == name)
            .count()
    };
    assert_eq!(kinds("driver_unavailable"), 1);
    assert!(host.read("out/cpu_metrics.csv").lines().count() > 2);
    assert_eq!(host.read("out/hw_metrics.csv"), "");
    assert_eq!(host.summary()["gpus"], serde_json::json!([]));
}

#[test]
fn a_hung_driver_does_not_delay_the_end() {
    let host = host("[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGet*\"\nhang = true\n");
    // A sample takes at least 10 ms on average, so these take more than a second, and less than the driver's deadline.
    let script = "n=0; while [ $n -lt 80 ] && [ $(wc -l < out/cpu_metrics.csv) -lt 150 ]; do n=$((n+1)); sleep 0.1; done; exit 9";
    let began = gua_probe::clock::monotonic();
    let ended = host.run_job("--out out --interval 20ms", script);
    let took = (gua_probe::clock::monotonic() - began).as_secs_f64();
    assert_eq!(ended.code, 9);
    let run = host.summary()["run"]["seconds"].as_f64().unwrap();
    assert!(took < run + 8.0, "{took} of {run}");
    let notes = host.summary()["notes"].to_string();
    assert!(
        notes.contains("no GPU was read: the driver did not answer"),
        "{notes}"
    );
    let processors = host.read("out/cpu_metrics.csv").lines().count();
    assert!(processors > 2, "{processors}");
    let tree = &host.summary()["tree"];
    assert!(tree["memory_max_mb"].is_number(), "{tree}");
}

#[test]
fn an_unwritable_directory_is_a_usage_error_and_nothing_is_started() {
    let host = host("[[gpu]]\n");
    fs::write(host.path("file"), "").unwrap();
    let check = |flags: &str, part: &str| {
        let ended = host.run_job(flags, "echo started > started");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(part), "{ended:?}");
        assert!(!host.path("started").exists(), "{flags}");
    };
    check("--out file", "cannot write to `file`");
    check("--out file/below", "cannot write to");
    check("--out /proc/nowhere", "cannot write to `/proc/nowhere`");
    check("--interval 1ms", "at least 10ms");
    check("--gpus 0,x", "expected auto, all, or GPUs");
    let ended = Ended::from(host.command(GUA).arg("run").output().unwrap());
    assert_eq!(ended.code, 2);
}

#[test]
fn a_directory_of_another_user_is_refused_too() {
    if !runs_as_root("a directory that another user may not write") {
        return;
    }
    let host = host("[[gpu]]\n");
    let closed = host.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(host.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let mut job = host.job("--out closed/out", "echo started");
    let ended = Ended::from(job.uid(65534).gid(65534).output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
    assert!(ended.stderr.contains("Permission denied"), "{ended:?}");
}

#[test]
fn a_command_that_cannot_be_started_ends_as_in_a_shell() {
    let host = host("[[gpu]]\n");
    fs::write(host.path("plain"), "").unwrap();
    let run = |program: &str| {
        let mut command: Command = host.command(GUA);
        Ended::from(command.args(["run", "--", program]).output().unwrap())
    };
    let ended = |line: &str| {
        let mut command: Command = host.command(GUA);
        Ended::from(command.args(line.split(' ')).output().unwrap())
    };
    // An unknown flag is not mistaken for the command; flags after the command belong to it.
    let flag = ended("run --json -- true");
    assert_eq!(flag.code, 2, "{flag:?}");
    assert!(
        flag.stderr.contains("unexpected argument '--json'"),
        "{flag:?}"
    );
    assert_eq!(ended("run -q sh -c true --json -- x").code, 0);
    assert_eq!(ended("run -- -x").code, 127);
    assert_eq!(run("no-such-command").code, 127);
    assert_eq!(run("./plain").code, 126);
    assert!(run("./plain").stderr.contains("cannot start `./plain`"));
}
