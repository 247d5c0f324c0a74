//! Claims through the program, as scripts request them: granted once, ended with their holder, served in order of
//! arrival.

use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use super::Machine;
use crate::GUA;
use gua_test::{Ended, Sleeper, wait_until};

/// GPU 0 is held by an idle process; 1 and 2 are free.
fn lab() -> Machine {
    Machine::new(
        "[clock]\nat = 100\n\
         [[gpu]]\nname = \"NVIDIA A100\"\nuuid = \"GPU-a\"\n[[gpu.process]]\npid = ONE\nmemory_mib = 2048\n\
         [[gpu]]\nname = \"NVIDIA A100\"\nuuid = \"GPU-b\"\n\
         [[gpu]]\nname = \"NVIDIA A100\"\nuuid = \"GPU-c\"\n",
    )
}

impl Machine {
    /// Requests a claim that ends with the sleeper.
    pub(crate) fn lease(&self, holder: &Sleeper, line: &str) -> Ended {
        self.gua(&format!(
            "available --claim 10m --for {} {line}",
            holder.pid()
        ))
    }

    pub(crate) fn claims(&self) -> Value {
        let ended = self.gua("claim list --json");
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        serde_json::from_str(&ended.stdout).unwrap()
    }

    pub(crate) fn start(&self, line: &str) -> Child {
        let mut command = self.command(GUA);
        command.args(line.split_whitespace());
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Polls until the queue has this length.
    pub(crate) fn wait_for_queue(&self, length: usize) {
        wait_until("the queue", || {
            self.claims()["queue"].as_array().unwrap().len() == length
        });
    }

    fn events(&self) -> Vec<Value> {
        let user_dirs = std::fs::read_dir(self.path("claims")).unwrap();
        let mut files: Vec<_> = user_dirs
            .flat_map(|user_dir| std::fs::read_dir(user_dir.unwrap().path()).unwrap())
            .map(|file| file.unwrap().path())
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("event-")
            })
            .collect();
        files.sort();
        let read = |path| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap();
        files
            .into_iter()
            .map(read)
            .map(|event| event["body"].clone())
            .collect()
    }
}

pub(crate) fn end(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

#[track_caller]
pub(crate) fn check(ended: &Ended, code: i32, stdout: &str) {
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (code, stdout),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_gpu_is_claimed_once_and_free_again_when_its_holder_exits() {
    let host = lab();
    let (ada, bob) = (Sleeper::new(), Sleeper::new());
    let first = host.lease(&ada, "");
    check(&first, 0, "1\n");
    assert!(first.stderr.contains(": gpu 1 until "), "{}", first.stderr);
    check(&host.lease(&bob, "--uuid"), 0, "GPU-c\n");
    let refused = host.lease(&bob, "");
    check(&refused, 3, "");
    let expected = format!("gpu 1 is claimed by root (pid {} sleep) until ", ada.pid());
    if first.stderr.contains(" of root ends") {
        assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    }
    assert!(
        refused.stderr.contains("gpu 0 is held by "),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("no GPU is free"),
        "{}",
        refused.stderr
    );

    let listed = host.claims();
    assert_eq!(listed["claims"].as_array().unwrap().len(), 2);
    let of_ada = |claim: &&Value| claim["for_pid"] == ada.pid();
    let claim = listed["claims"]
        .as_array()
        .unwrap()
        .iter()
        .find(of_ada)
        .unwrap();
    assert_eq!(claim["gpus"][0]["index"], 1);
    assert_eq!(claim["gpus"][0]["in_use"], false);
    let text = host.gua("claim list").stdout;
    assert!(
        text.contains(&format!("(pid {} sleep)", bob.pid())),
        "{text}"
    );

    drop(ada);
    check(&host.lease(&bob, ""), 0, "1\n");
}

#[test]
fn claimed_gpus_are_not_available_except_under_the_nvgpu_rule() {
    let host = lab();
    let ada = Sleeper::new();
    check(&host.lease(&ada, "-q"), 0, "1\n");
    let plain = host.gua("available");
    check(&plain, 0, "2\n");
    assert!(
        plain.stderr.contains("gpu 1 is claimed by "),
        "{}",
        plain.stderr
    );
    check(&host.gua("available -q --rule nvgpu"), 0, "0,1,2\n");
    check(&host.named("nvgpu", "available"), 0, "0,1,2\n");
    let json: Value = serde_json::from_str(&host.gua("available -q --json").stdout).unwrap();
    assert_eq!(json["not_available"][1]["why"], "claimed");
    assert_eq!(json["not_available"][1]["claims"][0]["for_pid"], ada.pid());
    let me = Ended::from(host.command("id").arg("-un").output().unwrap()).stdout;
    let as_free = format!("available -q --account-as-free {}", me.trim());
    check(&host.gua(&as_free), 0, "0,1,2\n");
    assert_eq!(host.events(), Vec::<Value>::new());
}

#[test]
fn the_listing_shows_who_has_claimed_a_free_gpu() {
    let host = lab();
    let ada = Sleeper::new();
    check(&host.lease(&ada, "-q"), 0, "1\n");
    let text = host.gua("list").stdout;
    let line = text.lines().nth(2).unwrap();
    assert!(line.starts_with("1    claimed "), "{text}");
    assert!(
        line.contains(&format!("(pid {} sleep) until ", ada.pid())),
        "{text}"
    );
    let listed = host.listing();
    assert_eq!(listed["gpus"][1]["status"], "free");
    assert_eq!(listed["gpus"][1]["claims"][0]["for_pid"], ada.pid());
    assert_eq!(listed["gpus"][2]["claims"], Value::Array(Vec::new()));
    // Once the holder is on the GPU, the line shows the process instead.
    host.play(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\n[[gpu]]\nuuid = \"GPU-b\"\n[[gpu.process]]\npid = {}\nmemory_mib = 2048\n",
        ada.pid()
    ));
    let listed = host.claims();
    assert_eq!(listed["claims"][0]["gpus"][0]["in_use"], true);
    assert_eq!(host.listing()["gpus"][1]["status"], "held");
    assert!(!host.gua("list").stdout.contains("claimed"));
}

#[test]
fn the_holder_is_the_calling_shell() {
    let host = lab();
    let script = format!(
        "cards=$({GUA} available -q --claim 10m --count 2) || exit; echo $cards $$; {GUA} claim list --json"
    );
    let output = host.command("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (first, listed) = text.split_once('\n').unwrap();
    let listed: Value = serde_json::from_str(listed).unwrap();
    let pid = listed["claims"][0]["for_pid"].to_string();
    assert_eq!(first, format!("1,2 {pid}"));
    // The shell has exited, and with it the claim has ended.
    assert_eq!(host.claims()["claims"], Value::Array(Vec::new()));
}

#[test]
fn a_shell_killed_while_the_driver_answers_leaves_no_claim_to_its_new_parent() {
    let host = lab();
    host.play("[[gpu]]\nuuid = \"GPU-a\"\n[[fault]]\nfunction = \"nvmlDeviceGetCount*\"\ndelay_ms = 1500\n");
    let script = format!(
        "{GUA} available --claim 10m >out 2>err & echo $! >pid.new; mv pid.new pid; wait; true"
    );
    let mut shell = host.command("sh").args(["-c", &script]).spawn().unwrap();
    let pid = host.path("pid");
    wait_until("the pid", || pid.exists());
    let pid = std::fs::read_to_string(pid).unwrap().trim().to_owned();
    // It has started its reader child, so it has already determined its caller.
    let asks = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut children =
            threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")));
        children.any(|children| children.is_ok_and(|children| !children.is_empty()))
    };
    wait_until("the question to the driver", asks);
    shell.kill().unwrap();
    shell.wait().unwrap();
    wait_until("the condition", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
    let output = std::fs::read_to_string(host.path("err")).unwrap();
    assert!(
        output.contains("has ended, so no process would hold"),
        "{output}"
    );
    assert_eq!(host.claims()["claims"], Value::Array(Vec::new()));
}

#[test]
fn pid_1_holds_no_claim_unless_it_is_named() {
    let host = lab();
    let in_its_own = |line: &str| {
        let script = format!("{GUA} available -q {line}; exit $?");
        let mut command = host.command("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", &script]);
        command.output()
    };
    match in_its_own("--claim 1m --for 1") {
        Ok(output) if output.status.success() => {}
        _ => {
            eprintln!("SKIPPED: this host cannot create a pid namespace");
            return;
        }
    }
    let refused = Ended::from(in_its_own("--claim 1m").unwrap());
    check(&refused, 2, "");
    assert!(refused.stderr.contains("--for PID"), "{}", refused.stderr);
    // The named process has another pid here, so its exit cannot be observed: its claim counts until the deadline.
    let ada = Sleeper::new();
    check(&host.lease(&ada, "-q"), 0, "2\n");
    assert_eq!(host.claims()["claims"].as_array().unwrap().len(), 2);
}

#[test]
fn claims_are_released_by_id_or_all_at_once() {
    let host = lab();
    let ada = Sleeper::new();
    for gpu in ["1\n", "2\n"] {
        check(&host.lease(&ada, "-q"), 0, gpu);
    }
    let id = host.claims()["claims"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let released = host.gua(&format!("claim release {id}"));
    check(&released, 0, "");
    assert_eq!(released.stderr, "gua claim release: released 1\n");
    let again = host.gua(&format!("claim release {id}"));
    check(&again, 1, "");
    assert!(
        again.stderr.contains(&format!("no claim {id}")),
        "{}",
        again.stderr
    );
    let released = host.gua("claim release --all-mine");
    check(&released, 0, "");
    assert_eq!(released.stderr, "gua claim release: released 1\n");
    check(&host.gua("claim list"), 0, "no claims\n");
    check(&host.gua("available -q"), 0, "1,2\n");
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    let host = lab();
    let holders = [Sleeper::new(), Sleeper::new(), Sleeper::new()];
    check(&host.lease(&holders[0], "-q --count 2"), 0, "1,2\n");
    let ask = |holder: &Sleeper| {
        host.start(&format!(
            "available --claim 10m --wait --for {}",
            holder.pid()
        ))
    };
    let first = ask(&holders[1]);
    host.wait_for_queue(1);
    let second = ask(&holders[2]);
    host.wait_for_queue(2);
    let queue = host.claims()["queue"].clone();
    assert_eq!(queue[0]["pid"], first.id());
    assert_eq!(queue[1]["pid"], second.id());
    let text = host.gua("claim list").stdout;
    assert!(text.contains("\n2      1 GPU      "), "{text}");
    // Both are freed at once: the first waiter gets the first of them.
    check(&host.gua("claim release --all-mine"), 0, "");
    let first = Ended::from(end(first));
    check(&first, 0, "1\n");
    assert!(
        first.stderr.contains("waiting for 1 GPU\n"),
        "{}",
        first.stderr
    );
    check(&Ended::from(end(second)), 0, "2\n");
    let events = host.events();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[0]["outcome"], "granted");
}

#[test]
fn a_free_gpu_is_kept_for_waiters() {
    let host = lab();
    let (ada, bob) = (Sleeper::new(), Sleeper::new());
    check(&host.lease(&ada, "-q"), 0, "1\n");
    let mut waiting = host.start("available --wait --count 2");
    host.wait_for_queue(1);
    let plain = host.gua("available");
    check(&plain, 3, "");
    assert!(
        plain
            .stderr
            .contains("gpu 2 is not free: kept for those who wait"),
        "{}",
        plain.stderr
    );
    check(&host.lease(&bob, "-q"), 3, "");
    waiting.kill().unwrap();
    end(waiting);
    check(&host.lease(&bob, "-q"), 0, "2\n");
}

#[test]
fn a_timeout_exits_with_3_and_a_signal_leaves_the_queue() {
    let host = lab();
    let ada = Sleeper::new();
    check(&host.lease(&ada, "-q --count 2"), 0, "1,2\n");
    check(&host.gua("available --wait 300ms"), 3, "");
    let gave_up = &host.events()[0];
    assert_eq!(gave_up["outcome"], "gave-up");
    assert_eq!(gave_up["wanted"], 1);
    let blocked = gave_up["blocked_by"].as_array().unwrap();
    assert_eq!(blocked.len(), 3);
    assert_eq!(blocked[0]["gpu"], "GPU-a");
    assert!(blocked[0]["idle_since"].is_string(), "{blocked:?}");

    let waiting = host.start("available --wait 10m");
    host.wait_for_queue(1);
    let pid = waiting.id().to_string();
    assert!(
        host.command("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = end(waiting);
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(2)
    );
    let user_dir = std::fs::read_dir(host.path("claims"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let tickets = std::fs::read_dir(user_dir.path()).unwrap();
    let names = tickets.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("wait-")).count(), 0);
}

#[test]
fn an_impossible_request_does_not_wait() {
    let host = lab();
    let output = host.gua("available --wait --count 4");
    check(&output, 3, "");
    assert!(
        output.stderr.contains("4 wanted, but only 3"),
        "{}",
        output.stderr
    );
    check(&host.gua("available --wait --gpu-model h100"), 3, "");
    let json: Value =
        serde_json::from_str(&host.gua("available --claim 1m --count 4 --json").stdout).unwrap();
    assert_eq!(json["available"], Value::Array(Vec::new()));
}

#[test]
fn usage_errors_are_refused() {
    let host = lab();
    for line in [
        "available --claim",
        "available --claim 10",
        "available --claim 0s",
        "available --claim 8d",
        "available --for 1",
        "available --claim 1m --for 0",
        "available --claim 1m --rule nvgpu",
        "available --wait --rule nvgpu",
        "claim",
        "claim release",
        "claim release xyz",
        "claim release 00000000 --all-mine",
    ] {
        let ended = host.gua(line);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (2, ""),
            "{line}: {}",
            ended.stderr
        );
    }
}

#[test]
fn an_unusable_directory_is_reported_and_costs_only_claims() {
    let host = lab();
    let ada = Sleeper::new();
    let missing = host.path("nowhere");
    let file = host.path("file");
    std::fs::write(&file, "").unwrap();
    let open = host.path("open");
    std::fs::create_dir(&open).unwrap();
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&open, everyone).unwrap();
    for (place, sentence) in [
        (&missing, "cannot open the claims directory"),
        (&file, "is a link or not a directory"),
        (&open, "has no sticky bit"),
    ] {
        let run = |line: &str| {
            let mut command = host.command(GUA);
            command
                .env("GUA_CLAIM_DIR", place)
                .args(line.split_whitespace());
            Ended::from(command.output().unwrap())
        };
        let claim = run(&format!("available --claim 1m --for {}", ada.pid()));
        check(&claim, 1, "");
        assert!(claim.stderr.contains(sentence), "{}", claim.stderr);
        check(&run("claim list"), 1, "");
        let plain = run("available");
        check(&plain, 0, "1,2\n");
        assert!(plain.stderr.contains(sentence), "{}", plain.stderr);
        for line in ["list --csv", "list"] {
            let listed = run(line);
            assert_eq!(listed.code, 0, "{line}");
            assert!(listed.stderr.contains(sentence), "{}", listed.stderr);
        }
        let listed: Value = serde_json::from_str(&run("list --json").stdout).unwrap();
        assert_eq!(listed["gpus"][1]["claims"], Value::Null, "not: none");
        assert!(listed["problems"].to_string().contains(sentence));
    }
}

/// The only file or directory in a directory.
fn only_entry(folder: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(folder).unwrap();
    let only = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none(), "{}", folder.display());
    only
}

#[test]
fn use_by_a_process_of_another_pid_namespace_is_unknown() {
    let host = lab();
    let ada = Sleeper::new();
    check(&host.lease(&ada, "-q"), 0, "1\n");
    let in_use = || host.claims()["claims"][0]["gpus"][0]["in_use"].clone();
    assert_eq!(in_use(), false);
    let file = only_entry(&only_entry(&host.path("claims")));
    let mut claim: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    claim["for_process"]["pid_namespace"] = 1.into();
    std::fs::write(&file, claim.to_string()).unwrap();
    assert_eq!(in_use(), Value::Null);
}

#[test]
fn planted_files_are_reported_and_ignored() {
    let host = lab();
    let ada = Sleeper::new();
    check(&host.lease(&ada, "-q"), 0, "1\n");
    let user_dir = only_entry(&host.path("claims"));
    std::fs::write(user_dir.join("claim-00000000"), "{}").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", user_dir.join("claim-11111111")).unwrap();
    let listed = host.gua("claim list");
    assert_eq!(listed.code, 0);
    assert!(
        listed.stderr.contains("`claim-00000000`"),
        "{}",
        listed.stderr
    );
    assert!(
        listed.stderr.contains("`claim-11111111`"),
        "{}",
        listed.stderr
    );
    check(&host.gua("available -q"), 0, "2\n");
    check(&host.lease(&ada, "-q"), 0, "2\n");
}

#[test]
fn without_a_driver_nothing_is_claimed_and_claims_are_still_listed() {
    let host = lab();
    let ada = Sleeper::new();
    check(&host.lease(&ada, "-q"), 0, "1\n");
    for (name, value, why) in [
        (
            "GUA_NVML_LIBRARY",
            "/nonexistent/libnvidia-ml.so.1",
            "was not found",
        ),
        ("GUA_DRIVER_DEADLINE", "200ms", "did not answer within"),
    ] {
        if name == "GUA_DRIVER_DEADLINE" {
            host.play("[[gpu]]\nuuid = \"GPU-a\"\n[[fault]]\nfunction = \"nvmlDeviceGetCount_v2\"\nhang = true\n");
        }
        let run = |line: &str| {
            let mut command = host.command(GUA);
            command.env(name, value).args(line.split_whitespace());
            Ended::from(command.output().unwrap())
        };
        let claim = run(&format!("available --claim 1m --wait --for {}", ada.pid()));
        check(&claim, 1, "");
        assert!(
            claim.stderr.starts_with("gua available: ") && claim.stderr.contains(why),
            "{}",
            claim.stderr
        );
        // The processes on the GPU could not be read, which is unknown rather than none.
        let listed: Value = serde_json::from_str(&run("claim list --json").stdout).unwrap();
        assert_eq!(listed["claims"][0]["gpus"][0]["in_use"], Value::Null);
        let listed = run("claim list");
        assert!(listed.stdout.contains("not known"), "{}", listed.stdout);
        assert_eq!(listed.code, 1, "{}", listed.stderr);
        assert!(listed.stdout.contains("GPU-b"), "{}", listed.stdout);
        assert!(listed.stderr.contains("left out"), "{}", listed.stderr);
    }
}
