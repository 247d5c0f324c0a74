//! Owners that need more than processes of several users: containers, pods, a uid that is given to another user, and a
//! login uid that a process set itself. The files of the kernel, of the passwd source and of the runtimes are the script's
//! own; the probe, the history and the report are those of `gua`. It takes no time: the moments of the samples are set.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gua_model::{DriverPids, OwnerPolicy, Tick};
use gua_probe::clock;
use gua_probe::host::HostRoot;
use gua_probe::probe::{Probe, ProbeOptions};
use gua_probe::process::{Passwd, ProcRoot};
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use gua_test::SimulatedDriver;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::script::Hours;
use crate::tools::{Books, hours_of};

const INTERVAL: Duration = Duration::from_secs(30);
/// Ticks of each half of the script, an hour.
const HALF: i32 = 120;
const CONTAINER: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";
const POD: &str = "57e67067-89e4-4001-bdd4-8632d39ea02b";

/// Hours in the script and in the report, and what is wrong with the books.
pub(crate) fn play() -> (Hours, Hours, Option<String>) {
    let host = SimulatedDriver::new(&scenario());
    let write = |name: &str, text: &str| write(host.directory(), name, text);
    write(
        "proc/sys/kernel/random/boot_id",
        "8b1fe9c8-6d3a-4b4e-9c39-0d6d8ab1c001\n",
    );
    fs::create_dir_all(host.path("proc/self/ns")).expect("a directory");
    symlink("pid:[4026531836]", host.path("proc/self/ns/pid")).expect("a link");
    let docker = format!("var/lib/docker/containers/{CONTAINER}/config.v2.json");
    write(&docker, r#"{"Name":"/web"}"#);
    write(&format!("var/log/pods/ml_train-0_{POD}/main/0.log"), "");
    let names = |user: &str| {
        let text = format!(
            "{user}:x:1001:1001::/:/bin/sh\neve:x:1002:1002::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n"
        );
        write("passwd", &text);
    };
    names("ada");
    let slice = "/user.slice/user-1001.slice/session-3.scope";
    let pod = format!(
        "/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{CONTAINER}.scope",
        POD.replace('-', "_")
    );
    process(&host, 101, (1001, 1001), 50, slice);
    process(
        &host,
        102,
        (33, u32::MAX),
        51,
        &format!("/system.slice/docker-{CONTAINER}.scope"),
    );
    process(&host, 103, (1001, u32::MAX), 52, &pod);
    process(&host, 104, (1002, 1001), 53, "/system.slice/cron.service");

    let mut probe = Probe::new(ProbeOptions {
        library: Some(host.library().to_owned()),
        proc_root: ProcRoot(host.path("proc")),
        passwd: Passwd::File(host.path("passwd")),
        driver_pids: DriverPids::Auto,
        state_root: HostRoot(host.directory().to_owned()),
        owners: OwnerPolicy::default(),
        kernel_log: None,
    });
    let database = host.path("gua.db");
    let mut store = Store::open(&database, OpenMode::Create, &WriterOptions::default())
        .expect("the history can be created");
    let until = Timestamp::from_second(clock::now().as_second()).expect("it is now");
    let from = until - SignedDuration::from_hours(2);
    let run = store
        .begin_run(&NewRun {
            started: from,
            interval: INTERVAL,
            host: "node1".to_owned(),
            version: "0.1.0".to_owned(),
            boot: None,
        })
        .expect("a run begins");
    for number in 0..2 * HALF {
        if number == HALF {
            // Another user has the uid now, and another process the GPU.
            names("bob");
            process(&host, 101, (1001, 1001), 99, slice);
        }
        let mut sample = probe.sample().expect("the simulated driver answers");
        sample.at = from + SignedDuration::from_secs(30) * number;
        sample.since_boot = Duration::from_secs(1000) + INTERVAL * number.unsigned_abs();
        let tick = Tick {
            sample,
            interval: INTERVAL,
        };
        store.record(run, &tick).expect("the tick is stored");
    }
    store.close().expect("the history closes");
    let script = [
        ("ada", 1.0),
        ("bob", 1.0),
        ("container:web", 2.0),
        ("eve", 2.0),
        ("pod:ml/train-0", 2.0),
    ];
    let owners = BTreeMap::from(script.map(|(name, hours)| (name.to_owned(), hours)));
    // Each GPU has one holder, who does not use it.
    let truth = Hours {
        states: BTreeMap::from([("idle-held".to_owned(), owners.values().sum())]),
        held: owners.clone(),
        charged: owners,
    };
    let report = report(&database, from, until);
    let capacity = truth.states.values().sum();
    let breach = Books::of(&report).breach(capacity);
    (truth, hours_of(&report, 1.0), breach)
}

fn scenario() -> String {
    let gpu = |pid: u32| {
        format!(
            "[[gpu]]\nutil = 0\nmemory_total_mib = 40000\n[[gpu.process]]\npid = {pid}\nmemory_mib = 900\n"
        )
    };
    [101, 102, 103, 104].map(gpu).concat()
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    let directory = path.parent().expect("it is below the root");
    fs::create_dir_all(directory).expect("a directory");
    fs::write(path, text).expect("a file");
}

fn process(host: &SimulatedDriver, pid: u32, (uid, login): (u32, u32), start: u64, cgroup: &str) {
    let zeros = "0 ".repeat(16);
    let files = [
        ("stat", format!("{pid} (python) S 1 1 {zeros}{start} 0 0\n")),
        (
            "status",
            format!("Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"),
        ),
        ("loginuid", login.to_string()),
        ("sessionid", "9".to_owned()),
        ("cgroup", format!("0::{cgroup}\n")),
    ];
    for (name, text) in files {
        write(host.directory(), &format!("proc/{pid}/{name}"), &text);
    }
}

fn report(database: &Path, from: Timestamp, until: Timestamp) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_gua"))
        .args(["report", "--format", "json", "--db"])
        .arg(database)
        .args(["--since", &from.to_string(), "--until", &until.to_string()])
        .output()
        .expect("the report runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "gua report: {error}");
    serde_json::from_slice(&output.stdout).expect("the report is JSON")
}
