//! Our own ticks, exported for the old tool.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use gua_compat::gpu_usage_audit::{Days, LegacyError, OldCell, OldFile, OldForm, OldTables};
use gua_model::{
    BootId, Bytes, Celsius, Driver, Gpu, Identity, Milliwatts, Missing, Percent, Pid, Process,
    ProcessKey, ProcessKind, Sample, StartTicks, Tick, Uid, User, Workload,
};
use gua_store::{History, NewRun, OpenMode, Store, WriterOptions};
use jiff::Timestamp;
use rusqlite::types::Value;

use crate::rows::{content, dump, export};
use gua_test::originals::{release, run};
use gua_test::tape::Tape;

fn user(uid: u32, name: &str) -> User {
    User {
        uid: Uid(uid),
        name: Some(name.to_owned()),
    }
}

fn process(pid: u32, kind: ProcessKind, memory: Option<u64>) -> Process {
    let key = ProcessKey {
        boot: BootId(7),
        pid: Pid(pid),
        start: StartTicks(1),
    };
    Process {
        pid: Pid(pid),
        kind,
        memory: memory.map(Bytes).ok_or(Missing::Unsupported),
        sm_util: Err(Missing::Unsupported),
        identity: Ok(Identity {
            key,
            login: Ok((pid == 7).then(|| user(1000, "ada"))),
            claimed_login: None,
            own: Ok(user(33, "www-data")),
            workload: Workload::default(),
            comm: Ok("python".to_owned()),
        }),
    }
}

fn gpu(index: u32, util: Option<u32>, processes: Vec<Process>) -> Gpu {
    let uuid = format!("GPU-{index}").parse().unwrap();
    let mut gpu = Gpu::without_readings(uuid, index, Missing::Unsupported);
    gpu.util = util.and_then(Percent::new).ok_or(Missing::Unsupported);
    gpu.name = Ok("NVIDIA RTX A6000".to_owned());
    gpu.memory_total = Ok(Bytes::from_mb(49_140));
    gpu.memory_used = Ok(Bytes(3 * Bytes::PER_MB - 1));
    gpu.temperature = Ok(Celsius(61));
    gpu.power = Ok(Milliwatts(271_999));
    gpu.compute_list = Ok(());
    gpu.graphics_list = Ok(());
    gpu.processes = processes;
    gpu
}

/// Twelve ticks of three GPUs, of which the last has no utilisation.
fn write(path: &Path, first: Timestamp) {
    let every = Duration::from_millis(500);
    write_ticks(path, first, (12, every), &WriterOptions::default());
}

pub(crate) fn write_ticks(
    path: &Path,
    first: Timestamp,
    (ticks, every): (u32, Duration),
    options: &WriterOptions,
) {
    let mut store = Store::open(path, OpenMode::CreateOrAppend, options).unwrap();
    let run = NewRun {
        started: first,
        interval: every,
        host: "node07".to_owned(),
        version: "0.1.0".to_owned(),
        boot: Some(BootId(7)),
    };
    let run = store.begin_run(&run).unwrap();
    for tick in 0..ticks {
        let at = first + every * tick;
        let util = if tick == 0 { 80 } else { 2 };
        let held = process(7, ProcessKind::Both, Some(200 * Bytes::PER_MB + 5));
        let desktop = process(8, ProcessKind::Graphics, None);
        let sample = Sample {
            at,
            since_boot: Duration::from_secs(100) + every * tick,
            boot: Ok(BootId(7)),
            driver: Driver {
                version: Ok("580.95.05".to_owned()),
                cuda: Err(Missing::Unsupported),
            },
            gpus: vec![
                gpu(0, Some(util), vec![held.clone(), desktop.clone()]),
                gpu(1, Some(0), vec![desktop]),
                gpu(2, None, vec![held]),
            ],
            problems: Vec::new(),
        };
        store
            .record(
                run,
                &Tick {
                    sample,
                    interval: every,
                },
            )
            .unwrap();
    }
    while store.maintain(first + every * ticks).unwrap().more {}
    store.close().unwrap();
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn our_ticks_become_rows_of_the_old_schema_and_nothing_is_invented() {
    let directory = tempfile::tempdir().unwrap();
    let ours = directory.path().join("ours.db");
    write(&ours, "2026-11-15T10:00:00Z".parse().unwrap());
    let exported = export(&ours, "exported.db");
    let number = Value::Integer;
    let gpu_rows = dump(&exported, "gpu_sample");
    assert_eq!(
        gpu_rows.len(),
        24,
        "the GPU without utilisation is left out"
    );
    let first = vec![
        number(1),
        text("2026-11-15T10:00:00+00:00"),
        text("GPU-0"),
        number(80),
        number(1),
        text("active"),
        number(0),
        number(2),
        number(61),
        number(271),
    ];
    assert_eq!(gpu_rows[0], first);
    assert_eq!(gpu_rows[2][1], text("2026-11-15T10:00:00.500000+00:00"));
    let states = |gpu: &str| {
        let rows = gpu_rows.iter().filter(|row| row[2] == text(gpu));
        rows.map(|row| row[5].clone()).collect::<Vec<_>>()
    };
    // Active once, then quiet for eleven ticks: idle-held from the tenth on.
    assert_eq!(
        states("GPU-0"),
        [vec![text("active"); 10], vec![text("idle_held"); 2]].concat()
    );
    assert_eq!(states("GPU-1"), vec![text("idle"); 12]);
    let processes = dump(&exported, "proc_sample");
    assert_eq!(processes.len(), 36);
    let held = vec![
        number(1),
        text("2026-11-15T10:00:00+00:00"),
        text("GPU-0"),
        number(7),
        number(200),
        text("ada"),
        text("www-data"),
        number(1),
        number(0),
        text("python"),
        text("compute"),
    ];
    assert_eq!(processes[0], held);
    assert_eq!(
        (&processes[1][4], &processes[1][5], &processes[1][10]),
        (&Value::Null, &Value::Null, &text("graphics"))
    );
    assert_eq!(
        dump(&exported, "host"),
        [[
            number(1),
            text("node07"),
            text("bare"),
            text("580.95.05"),
            text("2026-11-15T10:00:00+00:00"),
            text("2026-11-15T10:00:05.500000+00:00"),
        ]]
    );
    let run = [
        number(1),
        number(1),
        text("2026-11-15T10:00:00+00:00"),
        Value::Real(0.5),
    ];
    assert_eq!(dump(&exported, "daemon_run"), [run]);
    assert_eq!(dump(&exported, "gpu_device").len(), 2);
}

#[test]
fn the_real_tool_reads_our_ticks() {
    let directory = tempfile::tempdir().unwrap();
    let ours = directory.path().join("ours.db");
    // The report counts back from now, so the ticks must not be older than its longest window.
    write(&ours, "2026-11-15T10:00:00Z".parse().unwrap());
    let exported = export(&ours, "exported.db");
    let report = |version: &str| {
        let output = run(release(version)
            .args(["report", "--since", "36500d", "--db"])
            .arg(&exported));
        String::from_utf8(output.stdout).unwrap()
    };
    let tape = Tape::open("store-own-ticks", &["1.1.0", "1.8.0"]);
    tape.input(&content(&exported));
    let sections = tape.take(|| report("1.1.0"));
    for piece in [
        "node07 (bare, driver 580.95.05)",
        "(24 samples)",
        "active       █    4.2%",
        "idle-held    ▒   45.8%",
        "ada ",
    ] {
        assert!(sections.contains(piece), "{piece}: {sections}");
    }
    let action = tape.take(|| report("1.8.0"));
    assert!(
        action.contains("node07 (bare, driver 580.95.05)") && action.contains("ada"),
        "{action}"
    );
}

fn rows(tables: &OldTables<'_>, table: &str) -> Vec<Vec<Value>> {
    let mut found = Vec::new();
    let read: Result<(), LegacyError> = tables.rows(table, &mut |row| {
        let cells = row.iter().map(|cell| match cell {
            None => Value::Null,
            Some(OldCell::Integer(number)) => Value::Integer(*number),
            Some(OldCell::Real(number)) => Value::Real(*number),
            Some(OldCell::Text(text)) => Value::Text(text.to_string()),
        });
        found.push(cells.collect());
        Ok(())
    });
    read.unwrap();
    found
}

#[test]
fn day_by_day_exports_have_the_rows_of_the_whole_export() {
    let directory = tempfile::tempdir().unwrap();
    let ours = directory.path().join("gua.db");
    // Four ticks before midnight and eight after it, whose states depend on the very first.
    write(&ours, "2026-11-14T23:59:58Z".parse().unwrap());
    let exported = export(&ours, "exported.db");
    let days = ["2026-11-14", "2026-11-15"].map(|day| day.parse().unwrap());
    let go_on = || |_| ControlFlow::Continue(());
    // Read before the file is opened, because a connection counts as a writer. Each row starts with its number.
    let tables = ["gpu_sample", "proc_sample", "daemon_run", "gpu_device"];
    let [gpu_rows, processes, runs, devices] = tables.map(|table| {
        let rows = dump(&exported, table).into_iter();
        let rows: Vec<Vec<Value>> = rows.map(|row| row[1..].to_vec()).collect();
        (table, rows)
    });
    let forms = [
        OldForm::ours(History::open(&ours).unwrap()).unwrap(),
        OldForm::theirs(OldFile::open(&exported).unwrap()),
    ];
    for form in &forms {
        let found = form.days(days[0], "2026-11-16".parse().unwrap()).unwrap();
        assert_eq!(found.whole.into_iter().collect::<Vec<_>>(), days);
        assert!(found.cut.is_empty());
        let none = form.days("2026-11-16".parse().unwrap(), "2027-01-01".parse().unwrap());
        assert_eq!(none.unwrap(), Days::default());
        for (table, whole) in [&gpu_rows, &processes] {
            let mut parts = Vec::new();
            for day in days {
                let tables = form.day(day, &mut go_on()).unwrap();
                assert!(tables.has_rows(table).unwrap());
                parts.extend(rows(&tables, table));
            }
            assert_eq!(parts, *whole, "{table}");
        }
        for (table, whole) in [&runs, &devices] {
            let lists = form.lists(&mut go_on()).unwrap();
            assert_eq!(rows(&lists, table), *whole, "{table}");
        }
    }
}

#[test]
fn days_from_which_retention_removed_ticks_are_marked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gua.db");
    let options = WriterOptions {
        keep_raw: Some(Duration::from_secs(12 * 3600)),
        ..WriterOptions::default()
    };
    // Until two o'clock on the sixteenth: ticks before the afternoon of the fifteenth are gone.
    let first = "2026-11-14T20:00:00Z".parse().unwrap();
    write_ticks(&path, first, (30 * 60, Duration::from_secs(60)), &options);
    let form = OldForm::ours(History::open(&path).unwrap()).unwrap();
    let day = |text: &str| text.parse::<jiff::civil::Date>().unwrap();
    let days = form.days(day("2026-11-01"), day("2026-12-01")).unwrap();
    assert_eq!(days.whole, [day("2026-11-16")].into());
    assert_eq!(days.cut, [day("2026-11-14"), day("2026-11-15")].into());
    let raw_from = days.raw_from.unwrap().to_string();
    assert!(raw_from.starts_with("2026-11-15T1"), "{raw_from}");
    let later = form.days(day("2026-11-15"), day("2026-12-01")).unwrap();
    assert_eq!(later.cut, [day("2026-11-15")].into());
}
