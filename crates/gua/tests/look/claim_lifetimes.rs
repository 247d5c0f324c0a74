//! Edge cases of claim lifetimes, through the program: a kill before the answer is printed, a shell that exits before
//! its job, a job that exits, a caller that dies while the driver hangs.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::claims::{check, end};

use super::Machine;
use crate::GUA;
use gua_test::{Ended, Sleeper, wait_until};

/// Scenario of one free GPU.
const FREE: &str = "[[gpu]]\nuuid = \"GPU-a\"\n";
/// Scenario of one GPU, held by an idle process.
const HELD: &str = "[[gpu]]\nuuid = \"GPU-a\"\n[[gpu.process]]\npid = ONE\nmemory_mib = 2048\n";

fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

fn first_claim(host: &Machine) -> Value {
    host.claims()["claims"][0].clone()
}

#[test]
fn a_kill_between_grant_and_answer_leaks_no_claim() {
    let host = Machine::new(FREE);
    let ada = Sleeper::new();
    for is_killed in [true, false] {
        // A full pipe blocks gua while it prints its answer.
        let (mut reading, mut writing) = std::io::pipe().unwrap();
        let full = vec![b'.'; 1 << 16];
        writing.write_all(&full).unwrap();
        let pid = ada.pid().to_string();
        let mut asks = host
            .command(GUA)
            .args(["available", "-q", "--claim", "10m", "--for", &pid])
            .stdout(writing)
            .spawn()
            .unwrap();
        wait_until("the claim", || first_claim(&host)["for_pid"] == asks.id());
        if is_killed {
            asks.kill().unwrap();
            asks.wait().unwrap();
            assert_eq!(first_claim(&host), Value::Null);
        } else {
            let mut text = String::new();
            reading.read_to_string(&mut text).unwrap();
            assert!(text.ends_with(".0\n"));
            assert!(asks.wait().unwrap().success());
            assert_eq!(first_claim(&host)["for_pid"], ada.pid());
        }
    }
}

#[test]
fn a_claim_outlives_its_shell_while_its_job_is_on_the_gpu() {
    let host = Machine::new(FREE);
    let script = format!(
        "{GUA} available -q --claim 10m || exit; nohup sleep 600 >/dev/null 2>&1 & echo $!; read word"
    );
    let mut shell = host
        .command("setsid")
        .args(["--wait", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(shell.stdout.take().unwrap());
    let mut line = || {
        let mut text = String::new();
        std::io::BufRead::read_line(&mut out, &mut text).unwrap();
        text.trim().to_owned()
    };
    let lines = [line(), line()];
    let job = lines.iter().find(|line| *line != "0").unwrap().clone();
    let on_gpu = |pid: &str| format!("{FREE}[[gpu.process]]\npid = {pid}\nmemory_mib = 2048\n");
    host.play(&on_gpu(&job));
    assert_eq!(first_claim(&host)["gpus"][0]["in_use"], true);
    drop(shell.stdin.take());
    shell.wait().unwrap();
    let claim = first_claim(&host);
    assert_eq!(claim["gpus"][0]["in_use"], true, "{claim}");
    assert_eq!(claim["until"], Value::Null);
    // Another user's process on the GPU does not keep the claim.
    host.play(HELD);
    assert_eq!(first_claim(&host), Value::Null);
    host.play(&on_gpu(&job));
    let text = host.gua("claim list").stdout;
    assert!(text.contains("while in use"), "{text}");
    Command::new("kill").args(["-9", &job]).status().unwrap();
    host.play(FREE);
    assert_eq!(first_claim(&host), Value::Null);
}

#[test]
fn a_gpu_released_by_a_job_goes_to_the_first_waiter() {
    let host = Machine::new(HELD);
    let (ada, bob) = (Sleeper::new(), Sleeper::new());
    let waiting = host.start(&format!(
        "available -q --claim 10m --wait --for {}",
        ada.pid()
    ));
    host.wait_for_queue(1);
    host.play(FREE);
    // The GPU is freed before or after the waiter's next poll.
    check(&host.lease(&bob, "-q"), 3, "");
    check(&Ended::from(end(waiting)), 0, "0\n");
}

#[test]
fn a_waiter_whose_caller_died_exits_even_while_the_driver_hangs() {
    for named in [false, true] {
        let host = Machine::new(HELD);
        let ada = Sleeper::new();
        let target = if named {
            format!("--for {}", ada.pid())
        } else {
            String::new()
        };
        let script = format!(
            "{GUA} available -q --wait {target} 2>err & echo $! >pid.new; mv pid.new pid; wait; true"
        );
        let mut shell = host
            .command("sh")
            .env("GUA_DRIVER_DEADLINE", "200ms")
            .args(["-c", &script])
            .spawn()
            .unwrap();
        wait_until("the pid", || host.path("pid").exists());
        let pid: u32 = std::fs::read_to_string(host.path("pid"))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        host.wait_for_queue(1);
        host.play(&format!(
            "{HELD}[[fault]]\nfunction = \"nvmlDevice*\"\nhang = true\n"
        ));
        match named {
            true => drop(ada),
            false => shell.kill().unwrap(),
        }
        wait_until("the end of the process", || is_gone(pid));
        let _ = shell.kill();
        shell.wait().unwrap();
        let output = std::fs::read_to_string(host.path("err")).unwrap();
        assert!(output.contains("has ended"), "{output}");
    }
}
