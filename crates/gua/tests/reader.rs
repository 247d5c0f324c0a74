//! The reader child as in production: this program executed again, with a driver that may be faulty.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use gua_model::{DriverPids, Percent, Sample};
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::probe::ProbeOptions;
use gua_probe::reader::{READER_ARGUMENT, Reader, ReaderOptions};
use gua_test::{SimulatedDriver, is_running};

use crate::GUA;

/// Readers of a host's driver.
trait Readers {
    fn options(&self, program: &str) -> ReaderOptions;

    fn reader(&self) -> Reader;
}

impl Readers for SimulatedDriver {
    fn options(&self, program: &str) -> ReaderOptions {
        ReaderOptions {
            program: program.into(),
            arguments: vec![READER_ARGUMENT.into()],
            probe: ProbeOptions {
                library: Some(self.library().to_owned()),
                driver_pids: DriverPids::Here,
                ..ProbeOptions::default()
            },
            deadline: Duration::from_millis(300),
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_millis(200),
        }
    }

    fn reader(&self) -> Reader {
        Reader::new(self.options(GUA))
    }
}

/// Requests samples until the answer is as expected.
#[track_caller]
fn until(
    reader: &mut Reader,
    mut wished: impl FnMut(&Result<Sample, DriverFault>) -> bool,
) -> Result<Sample, DriverFault> {
    let limit = clock::monotonic() + Duration::from_secs(20);
    loop {
        let answer = reader.sample();
        if wished(&answer) {
            return answer;
        }
        assert!(
            clock::monotonic() < limit,
            "no such answer within twenty seconds; the last answer was {answer:?}"
        );
    }
}

fn status_number(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_sample_arrives_from_the_child_complete() {
    let host = SimulatedDriver::new(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 37\n[[gpu]]\nutil = 41\n[[gpu.process]]\npid = 1\nmemory_mib = 9\n",
    );
    let mut reader = host.reader();
    let sample = reader.sample().unwrap();
    assert_eq!(sample.gpus.len(), 2);
    assert_eq!(sample.gpus[0].uuid.as_str(), "GPU-a");
    assert_eq!(sample.gpus[0].util, Ok(Percent::new(37).unwrap()));
    assert_eq!(sample.gpus[1].processes[0].pid.0, 1);
}

#[test]
fn one_child_with_one_driver_thread_answers_all_requests_and_sleeps_in_between() {
    let journal = |host: &SimulatedDriver| {
        format!("journal = {:?}\none_owner = true\n", host.path("journal"))
    };
    let host = SimulatedDriver::new("");
    host.play(&format!(
        "{}[[gpu]]\n[[gpu.process]]\npid = 1\nmemory_mib = 9\n",
        journal(&host)
    ));
    let mut reader = host.reader();
    for _ in 0..20 {
        reader.sample().unwrap();
    }
    let child = reader.child_pid().unwrap();
    let journal = fs::read_to_string(host.path("journal")).unwrap();
    let caller = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let callers: BTreeSet<String> = journal.lines().map(caller).collect();
    assert_eq!(
        callers,
        BTreeSet::from([format!("{child} {child}")]),
        "only its first thread"
    );
    assert_eq!(
        journal
            .lines()
            .filter(|line| line.contains("nvmlInit"))
            .count(),
        1
    );
    // One more thread waits for the parent to exit, and one looks up names.
    assert!(status_number(child, "Threads:") <= 3);

    let wakes = status_number(child, "voluntary_ctxt_switches:");
    wait(Duration::from_millis(500));
    assert!(
        status_number(child, "voluntary_ctxt_switches:") - wakes <= 2,
        "it woke without a request"
    );
}

#[test]
fn a_hung_driver_costs_the_deadline_and_is_retried_later() {
    let host = SimulatedDriver::new("[[gpu]]\nutil = 5\n");
    let mut reader = host.reader();
    reader.sample().unwrap();
    let first_child = reader.child_pid().unwrap();
    host.play(
        "[[gpu]]\nutil = 5\n[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n",
    );
    let fault = until(&mut reader, Result::is_err).unwrap_err();
    assert!(matches!(fault, DriverFault::Hung { .. }), "{fault}");
    assert!(fault.hint().is_some());
    assert!(!is_running(first_child), "the hung child is gone");

    let asked = clock::monotonic();
    let fault = reader.sample().unwrap_err();
    assert!(matches!(fault, DriverFault::BackingOff { .. }), "{fault}");
    assert!(
        clock::monotonic() - asked < Duration::from_millis(50),
        "no request waits during the pause"
    );

    // A child that has never answered gets three times the deadline.
    let fault = until(&mut reader, |answer| {
        matches!(answer, Err(DriverFault::Hung { .. }))
    });
    assert!(fault.is_err());

    host.play("[[gpu]]\nutil = 66\n");
    let sample = until(&mut reader, Result::is_ok).unwrap();
    assert_eq!(sample.gpus[0].util, Ok(Percent::new(66).unwrap()));
    assert_ne!(reader.child_pid(), Some(first_child));
}

#[test]
fn an_answer_never_takes_longer_than_the_deadline() {
    let host = SimulatedDriver::new("[[gpu]]\n[[fault]]\nfunction = \"nvmlInit*\"\nhang = true\n");
    let mut reader = host.reader();
    let asked = clock::monotonic();
    assert!(matches!(reader.sample(), Err(DriverFault::Hung { .. })));
    let took = clock::monotonic() - asked;
    assert!(
        took >= Duration::from_millis(900),
        "the first answer has three times the deadline: {took:?}"
    );
    assert!(took < Duration::from_millis(2500), "{took:?}");
}

#[test]
fn a_caller_with_less_time_than_the_deadline_waits_no_longer() {
    let host = SimulatedDriver::new("[[gpu]]\n[[fault]]\nfunction = \"nvmlInit*\"\nhang = true\n");
    let mut options = host.options(GUA);
    options.deadline = Duration::from_secs(600);
    let began = clock::monotonic();
    let longest = Duration::from_millis(200);
    let fault = Reader::new(options).sample_within(longest).unwrap_err();
    assert!(
        matches!(fault, DriverFault::Hung { deadline } if deadline == longest),
        "{fault}"
    );
    assert!(clock::monotonic() - began < Duration::from_secs(300));
}

#[test]
fn a_crashing_driver_ends_the_child_and_nothing_else() {
    let host = SimulatedDriver::new(
        "[[gpu]]\n[[fault]]\nfunction = \"nvmlDeviceGetTemperature\"\ncrash = true\n",
    );
    let mut reader = host.reader();
    let fault = reader.sample().unwrap_err();
    let DriverFault::ReaderDied { how } = &fault else {
        panic!("{fault:?}")
    };
    assert!(how.contains("crashed (signal 6)"), "{how}");
    assert!(
        how.contains("last output: "),
        "its last output is kept: {how}"
    );
    host.play("[[gpu]]\n");
    until(&mut reader, Result::is_ok).unwrap();
}

#[test]
fn a_child_killed_from_outside_is_replaced() {
    let host = SimulatedDriver::new("[[gpu]]\n");
    let mut reader = host.reader();
    reader.sample().unwrap();
    let child = reader.child_pid().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(child).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let fault = until(&mut reader, Result::is_err).unwrap_err();
    assert!(matches!(fault, DriverFault::ReaderDied { .. }), "{fault}");
    until(&mut reader, Result::is_ok).unwrap();
    assert_ne!(reader.child_pid(), Some(child));
}

#[test]
fn the_child_exits_with_its_reader() {
    let host = SimulatedDriver::new("[[gpu]]\n");
    let mut reader = host.reader();
    reader.sample().unwrap();
    let child = reader.child_pid().unwrap();
    assert!(is_running(child));
    drop(reader);
    assert!(!is_running(child), "exited and reaped");
}

#[test]
fn a_child_in_a_hung_driver_exits_when_its_parent_is_killed() {
    let host = SimulatedDriver::new("[[gpu]]\n[[fault]]\nfunction = \"nvmlInit*\"\nhang = true\n");
    let home = tempfile::tempdir().unwrap();
    let mut doctor = Command::new(GUA)
        .args(["doctor", "--sample"])
        .env_clear()
        .env("HOME", home.path())
        .env("GUA_NVML_LIBRARY", host.library())
        .env("GUA_DRIVER_DEADLINE", "1h")
        .env("GUA_TEST_SYSTEM_CONFIG", "/nonexistent")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = wait_for(|| reader_below(doctor.id()));
    doctor.kill().unwrap();
    doctor.wait().unwrap();
    wait_for(|| has_ended(child).then_some(()));
}

fn reader_below(parent: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let child = children.split_whitespace().next()?.parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
    (name.trim() == "gua-reader").then_some(child)
}

/// Whether a process has exited. It may still be listed as a zombie, because no process here may reap an orphan.
fn has_ended(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z')),
        Err(_) => true,
    }
}

#[track_caller]
fn wait_for<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let limit = clock::monotonic() + Duration::from_secs(10);
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(clock::monotonic() < limit, "not within ten seconds");
        std::thread::yield_now();
    }
}

#[test]
fn a_child_that_is_not_a_reader_is_reported() {
    let host = SimulatedDriver::new("[[gpu]]\n");
    for (program, expected) in [
        ("/bin/true", "ended unexpectedly"),
        ("/bin/cat", "invalid answer"),
        ("/nonexistent/gua", "could not be started"),
    ] {
        let options = ReaderOptions {
            arguments: Vec::new(),
            ..host.options(program)
        };
        let fault = Reader::new(options).sample().unwrap_err();
        assert!(fault.to_string().contains(expected), "{program}: {fault}");
    }
}

#[test]
fn a_refusing_driver_is_reported_and_the_child_keeps_running() {
    let host = SimulatedDriver::new("[driver]\ninit_code = 18\n");
    let mut reader = host.reader();
    assert!(matches!(
        reader.sample(),
        Err(DriverFault::Init { code: 18, .. })
    ));
    let child = reader.child_pid().unwrap();
    host.play("[[gpu]]\n");
    until(&mut reader, Result::is_ok).unwrap();
    assert_eq!(reader.child_pid(), Some(child));
}

#[test]
fn waiting_for_a_child_with_closed_stderr_uses_no_processor_time() {
    let host = SimulatedDriver::new("[[gpu]]\n");
    let arguments = ["-c", "exec 2>&-; exec sleep 60"].map(Into::into).to_vec();
    let options = ReaderOptions {
        arguments,
        deadline: Duration::from_millis(500),
        ..host.options("/bin/sh")
    };
    let before = clock::processor_time();
    let fault = Reader::new(options).sample().unwrap_err();
    assert!(matches!(fault, DriverFault::Hung { .. }), "{fault}");
    // Other tests may run in this process, but none uses half a second of processor time in a second and a half.
    let used = clock::processor_time() - before;
    assert!(used < Duration::from_millis(750), "{used:?}");
}

#[test]
fn output_of_a_refusing_library_is_passed_on() {
    let host = SimulatedDriver::new("[[gpu]\n");
    let fault = host.reader().sample().unwrap_err();
    assert!(
        matches!(fault, DriverFault::Init { code: 999, .. }),
        "{fault}"
    );
    let sentence = fault.to_string();
    assert!(
        sentence.contains("last output: ") && sentence.contains("nvml-sim.toml"),
        "{sentence}"
    );
}

#[test]
fn buffers_are_drained_between_requests() {
    // Three seconds of buffered samples, and more than four seconds between two requests.
    let host =
        SimulatedDriver::new("[buffers]\nsamples = 30\nperiod_ms = 100\n[[gpu]]\nutil = 50\n");
    let mut reader = host.reader();
    until(&mut reader, |answer| {
        let window = answer.as_ref().unwrap().gpus[0].window.unwrap();
        window.samples() > 0
    })
    .unwrap();
    // Until the buffer is full once, its reach is unknown.
    wait(Duration::from_millis(3200));
    let before = reader.sample().unwrap();
    wait(Duration::from_millis(4500));
    let after = reader.sample().unwrap();
    let passed = (after.since_boot - before.since_boot).as_secs_f64();
    let window = after.gpus[0].window.unwrap();
    let covered = window.covered.as_secs_f64();
    assert!(
        (covered - passed).abs() < 0.3,
        "{covered} of {passed} seconds"
    );
    assert_eq!(window.mean(), Some(50.0));
}

fn wait(time: Duration) {
    let until = clock::monotonic() + time;
    while clock::monotonic() < until {
        std::thread::park_timeout(until - clock::monotonic());
    }
}
