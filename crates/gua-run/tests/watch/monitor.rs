//! The monitor with a simulated driver that answers, one that hangs, and none at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::VisibleDevices;
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::keeper::Keeper;
use gua_probe::probe::ProbeOptions;
use gua_run::{HwMonitor, build_resource_summary};
use nvml_sim::driver::{self, Generation};

const TWO_GPUS: &str = "[[gpu]]\nutil = 40\nmemory_util = 7\nmemory_used_mib = 2048\npower_w = 51.5\n[[gpu]]\nutil = 80\n";

const INTERVAL: Duration = Duration::from_millis(20);

/// A driver in a directory, which plays the scenario.
fn driver(folder: &Path, scenario: &str) -> Keeper {
    let library = driver::install(folder, Generation::LATEST).unwrap();
    nvml_sim::scenario::write_text(&folder.join(nvml_sim::BESIDE), scenario).unwrap();
    keeper(library)
}

fn keeper(library: PathBuf) -> Keeper {
    let options = ProbeOptions {
        library: Some(library),
        ..ProbeOptions::default()
    };
    Keeper::start(options, Duration::from_secs(60)).unwrap()
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Waits until the condition holds; a minute means never.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = clock::monotonic() + Duration::from_secs(60);
    while !is_so() {
        assert!(clock::monotonic() < end, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the thread of this name has used no processor time for a while: a running one wakes every 20 ms.
fn is_caught(name: &str) -> bool {
    let switches = || {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let of = |task: fs::DirEntry| {
            let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            (read("comm").trim() == name).then(|| read("status"))
        };
        let status = tasks.filter_map(of).next().unwrap_or_default();
        let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
        lines.collect::<Vec<_>>().join(" ")
    };
    let before = switches();
    std::thread::sleep(Duration::from_millis(300));
    !before.is_empty() && switches() == before
}

#[test]
fn gpus_and_processors_are_recorded_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/out");
    let driver = driver(folder.path(), TWO_GPUS);
    let monitor = HwMonitor::start(&out, INTERVAL, driver, None).unwrap();
    until("lines", || {
        lines(&out.join("hw_metrics.csv")).len() >= 6
            && lines(&out.join("cpu_metrics.csv")).len() >= 2
    });
    let files = monitor.stop();
    assert!(
        files.fault.is_none() && files.write_error.is_none(),
        "{files:?}"
    );

    let gpu = lines(&out.join("hw_metrics.csv"));
    assert!(
        gpu.iter().all(|line| line.split(", ").count() == 9),
        "{gpu:?}"
    );
    assert_eq!(gpu.len() % 2, 0, "one line for each GPU: {gpu:?}");
    let dmon = lines(&out.join("hw_dmon.csv"));
    assert_eq!(dmon[0], "# gpu     sm    mem     fb");
    assert_eq!(dmon.len(), gpu.len() + 2);
    let cpu = lines(&out.join("cpu_metrics.csv"));
    assert_eq!(cpu[0], "timestamp,usr_pct,idle_pct");

    let summary = build_resource_summary(
        files.gpu.as_deref(),
        files.cpu.as_deref(),
        files.dmon.as_deref(),
    );
    let summary = summary.unwrap();
    assert_eq!(summary.gpu_util_mean_pct, 60.0);
    assert_eq!(summary.gpu_util_max_pct, 80.0);
    assert_eq!(summary.mem_util_max_pct, 7.0);
}

#[test]
fn only_the_gpus_that_a_program_was_given_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let driver = driver(folder.path(), TWO_GPUS);
    let visible = Some(VisibleDevices::parse("1"));
    let monitor = HwMonitor::start(&out, INTERVAL, driver, visible).unwrap();
    until("lines", || !lines(&out.join("hw_metrics.csv")).is_empty());
    let files = monitor.stop();
    let summary = build_resource_summary(files.gpu.as_deref(), None, None).unwrap();
    assert_eq!(summary.gpu_util_mean_pct, 80.0);
}

#[test]
fn without_a_driver_only_processors_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let driver = keeper("/nonexistent/libnvidia-ml.so.1".into());
    let monitor = HwMonitor::start(folder.path(), INTERVAL, driver, None).unwrap();
    let cpu = folder.path().join("cpu_metrics.csv");
    until("a line", || lines(&cpu).len() >= 2);
    let files = monitor.stop();
    assert_eq!((files.gpu, files.dmon), (None, None));
    assert_eq!(files.cpu.as_deref(), Some(cpu.as_path()));
    assert!(matches!(
        files.fault,
        Some(DriverFault::LibraryNotFound { .. })
    ));
    // As the original leaves them.
    assert!(folder.path().join("hw_metrics.csv").exists());
    assert!(folder.path().join("hw_dmon.csv").exists());
}

#[test]
fn it_stops_within_five_seconds_while_the_driver_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let driver = driver(folder.path(), TWO_GPUS);
    let monitor = HwMonitor::start(&out, INTERVAL, driver, None).unwrap();
    until("lines", || !lines(&out.join("hw_metrics.csv")).is_empty());
    let hang = format!("{TWO_GPUS}[[fault]]\nfunction = \"nvmlDeviceGet*\"\nhang = true\n");
    // The running driver has taken the new scenario when this returns.
    nvml_sim::scenario::write_text(&folder.path().join(nvml_sim::BESIDE), &hang).unwrap();
    until("the hang", || is_caught("gua-gpu"));
    let began = clock::monotonic();
    let files = monitor.stop();
    assert!(clock::monotonic() - began < Duration::from_secs(5));
    assert!(
        matches!(files.fault, Some(DriverFault::Hung { .. })),
        "{files:?}"
    );
    assert!(files.gpu.is_some(), "rows written before count");
}
