//! The table at the widths of common terminals, with its colours: `INSTA_UPDATE=always` rewrites the snapshots. The
//! sequences are the same on light and dark backgrounds; `gua_model::palette` tests that both can read them.

use std::time::Duration;

use gua_model::sample::ThrottleReasons;
use gua_model::since::Since;
use gua_model::{
    BootId, Bytes, Celsius, ContainerOwners, Driver, Gpu, Identity, Megahertz, Milliwatts, Percent,
    Pid, ProcessKind, StartTicks, Thresholds, Uid, User, Workload,
};
use jiff::Timestamp;

use super::super::ListDocument;
use super::super::row::{Terms, rows};
use super::*;

const TICKS: u64 = 100;

fn gpu(index: u32, util: u32, used_mb: u64, processes: Vec<Process>) -> Gpu {
    let uuid = format!("GPU-{index}").parse().unwrap();
    Gpu {
        name: Ok("NVIDIA A100-SXM4-80GB".to_owned()),
        util: Ok(Percent::new(util).unwrap()),
        memory_used: Ok(Bytes::from_mb(used_mb)),
        memory_total: Ok(Bytes::from_mb(81_920)),
        temperature: Ok(Celsius(54)),
        power: Ok(Milliwatts(171_400)),
        sm_clock: Ok(Megahertz(1410)),
        ecc_uncorrected: Ok(0),
        throttle: Ok(ThrottleReasons(0)),
        compute_list: Ok(()),
        processes,
        ..Gpu::without_readings(uuid, index, Missing::Unsupported)
    }
}

fn process(pid: u32, user: &str, program: &str, mb: u64) -> Process {
    let user = User {
        uid: Uid(pid),
        name: Some(user.to_owned()),
    };
    Process {
        pid: Pid(pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(mb)),
        sm_util: Ok(None),
        identity: Ok(Identity {
            key: ProcessKey {
                boot: BootId(7),
                pid: Pid(pid),
                start: StartTicks(u64::from(pid) * 100),
            },
            login: Ok(Some(user.clone())),
            claimed_login: None,
            own: Ok(user),
            workload: Workload::default(),
            comm: Ok(program.to_owned()),
        }),
    }
}

/// One GPU of each kind: active, idle-held by two people, free, free but with memory errors, and lost.
fn laboratory() -> Sample {
    let mut broken = gpu(3, 0, 0, Vec::new());
    broken.ecc_uncorrected = Ok(3);
    broken.throttle = Ok(ThrottleReasons(0x40));
    let lost = Gpu::without_readings("GPU-4".parse().unwrap(), 4, Missing::Gone);
    let notebook = process(808, "bob", "ipykernel", 11_264);
    let viewer = process(809, "margarethe", "tensorboard", 300);
    Sample {
        at: Timestamp::from_second(2_000_000).unwrap(),
        since_boot: Duration::from_secs(100_000),
        boot: Ok(BootId(7)),
        driver: Driver {
            version: Ok("560.35.05".to_owned()),
            cuda: Ok((12, 6)),
        },
        gpus: vec![
            gpu(0, 97, 71_000, vec![process(4711, "ada", "python", 70_210)]),
            gpu(1, 0, 11_600, vec![notebook, viewer]),
            gpu(2, 0, 0, Vec::new()),
            broken,
            lost,
        ],
        problems: Vec::new(),
    }
}

fn table(sample: &Sample, width: Option<usize>) -> String {
    let terms = Terms {
        thresholds: Thresholds::default(),
        ticks_per_second: TICKS,
    };
    let mut rows = rows(sample, &terms, None);
    for (row, hours) in rows.iter_mut().zip([2, 26, 400]) {
        row.since = Some(Since {
            at: sample.at - jiff::SignedDuration::from_hours(hours),
            start: Start::Seen,
        });
    }
    let commands = |key: &ProcessKey, _| Some(format!("python train.py --rank {}", key.pid));
    let options = Options {
        width,
        detail: Detail::Usual,
        ticks_per_second: TICKS,
        commands: &commands,
    };
    text(sample, &rows, options)
}

#[test]
fn the_table_at_80_and_140_columns() {
    for width in [80, 140] {
        let shown = table(&laboratory(), Some(width)).replace('\u{1b}', "^");
        insta::assert_snapshot!(format!("list-{width}"), shown);
    }
}

/// Returns a line without its colours.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, text)| text));
    rest.fold(first, |line, part| line + part)
}

#[test]
fn every_width_keeps_the_state_and_fits() {
    let sample = laboratory();
    for width in 20..200 {
        for line in table(&sample, Some(width)).lines() {
            let length = gua_model::text::columns(&plain(line));
            assert!(length <= width, "{width}: {line}");
        }
        assert!(table(&sample, Some(width)).contains("idle-held 1d2h"));
    }
}

#[test]
fn eighty_columns_show_user_program_and_memory_of_each_process() {
    let shown = table(&laboratory(), Some(80));
    let lines: Vec<String> = shown.lines().map(plain).collect();
    assert!(lines[0].starts_with("GPU  state"), "{shown}");
    for (line, words) in [
        (1, ["active 2h00m", "ada", "python", "68.5 GB"]),
        (2, ["idle-held 1d2h", "bob", "ipyker", "11.0 GB"]),
        (3, ["", "marg", "tensor", "0.2 GB"]),
        (4, ["free 16d16h", "ok", "", ""]),
        (5, ["free", "ECC 3", "", ""]),
        (6, ["lost", "lost", "", ""]),
    ] {
        for word in words {
            assert!(lines[line].contains(word), "{word} in {}", lines[line]);
        }
    }
}

#[test]
fn the_job_pod_or_container_of_a_process_is_shown() {
    const POD: &str = "8f6e2c1a-3c5d-4f7b-9a43-1d2e3f4a5b6c";
    const CONTAINER: &str = "3f1c09a7b2d4e6f83f1c09a7b2d4e6f83f1c09a7b2d4e6f83f1c09a7b2d4e6f8";
    let of = |pid: u32, workload: Workload| {
        let mut process = process(pid, "ada", "python", 900);
        let identity = process.identity.as_mut().unwrap();
        // The processes of containers and jobs have no login.
        identity.login = Ok(None);
        identity.workload = workload;
        process
    };
    let pod = Workload {
        pod: Some(POD.parse().unwrap()),
        pod_name: Some("vision/train-0".to_owned()),
        container: Some(CONTAINER.parse().unwrap()),
        ..Workload::default()
    };
    let holders = vec![
        of(
            1,
            Workload {
                job: Some("4711".parse().unwrap()),
                ..Workload::default()
            },
        ),
        of(2, pod.clone()),
        of(
            3,
            Workload {
                containers: ContainerOwners::Uid,
                ..pod
            },
        ),
        of(
            4,
            Workload {
                container: Some(CONTAINER.parse().unwrap()),
                container_name: Some("web".to_owned()),
                ..Workload::default()
            },
        ),
    ];
    let mut sample = laboratory();
    sample.gpus = vec![gpu(0, 0, 4_000, holders)];
    let shown = table(&sample, Some(200));
    let users = [
        "ada (job 4711)",
        "pod:vision/train-0",
        "ada (pod vision/train-0)",
        "container:web",
    ];
    for (line, user) in shown.lines().skip(1).map(plain).zip(users) {
        assert!(line.contains(user), "{user} in {line}");
    }

    let terms = Terms {
        thresholds: Thresholds::default(),
        ticks_per_second: TICKS,
    };
    let document = ListDocument::new(&sample, &rows(&sample, &terms, None), None, TICKS);
    let json = serde_json::to_value(&document).unwrap();
    let name = "vision/train-0";
    for (place, [owner, source, job, pod, pod_name, container, container_name]) in [
        ["ada", "job", "4711", "", "", "", ""],
        ["pod:vision/train-0", "pod", "", POD, name, CONTAINER, ""],
        ["ada", "process", "", POD, name, CONTAINER, ""],
        ["container:web", "container", "", "", "", CONTAINER, "web"],
    ]
    .into_iter()
    .enumerate()
    {
        let holder = &json["gpus"][0]["holders"][place];
        for (key, value) in [
            ("owner", owner),
            ("owner_source", source),
            ("job", job),
            ("pod", pod),
            ("pod_name", pod_name),
            ("container", container),
            ("container_name", container_name),
        ] {
            assert_eq!(holder[key].as_str().unwrap_or_default(), value, "{key}");
        }
    }
}
