//! Comparison with the released original: the same input gives the same numbers, except where the original is wrong;
//! the same calls give the same lines; and it reads our files.
//!
//! The original is installed once into a Python environment beside the build. If that fails, the test fails with a
//! message.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gua_run::{Fields, RunLog, build_resource_summary};
use gua_wire::run::metrics;
use serde_json::{Map, Value, json};

/// Loads only this module of the original, without the numerical packages that its siblings need.
const LOAD: &str = r#"
import importlib.util, json, pathlib, sys, sysconfig
place = pathlib.Path(sysconfig.get_paths()["purelib"]) / "pytyche/diagnostics/run_monitor.py"
spec = importlib.util.spec_from_file_location("run_monitor", place)
original = importlib.util.module_from_spec(spec)
sys.modules["run_monitor"] = original
spec.loader.exec_module(original)
"#;

/// Output of the original.
fn run_original(script: &str, arguments: &[&str]) -> String {
    let output = Command::new(gua_test::python::RUN_MONITOR.program("python"))
        .arg("-c")
        .arg(format!("{LOAD}{script}"))
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Names of a run's files in the order in which the summary takes them.
const FILES: [&str; 3] = ["gpu", "cpu", "dmon"];

fn ours(folder: &Path) -> String {
    let paths = FILES.map(|name| folder.join(name));
    let there = |place: usize| paths[place].exists().then_some(paths[place].as_path());
    let summary = build_resource_summary(there(0), there(1), there(2)).unwrap();
    let mut fields = Fields::new();
    for (name, value) in summary.entries() {
        fields = fields.with(name, value);
    }
    fields.to_json()
}

/// The original's dictionaries for directories with such files, one per line.
fn theirs(folders: &[PathBuf]) -> Vec<String> {
    let script = r#"
for folder in map(pathlib.Path, sys.argv[1:]):
    paths = [folder / name for name in ("gpu", "cpu", "dmon")]
    summary = original.build_resource_summary(*[path if path.exists() else None for path in paths])
    print(json.dumps(summary.to_dict()))
"#;
    let folders: Vec<&str> = folders.iter().map(|path| path.to_str().unwrap()).collect();
    run_original(script, &folders)
        .lines()
        .map(str::to_owned)
        .collect()
}

fn gpu(util: &str, memory: &str, power: &str) -> String {
    format!("2026/05/11 00:00:00.000, {util}, 5, {memory}, 40960, {power}, 41, 1410, 1215\n")
}

/// Contents of the three files; empty for a missing file.
fn same_cases() -> Vec<[String; 3]> {
    let file = |gpu: String, cpu: &str, dmon: &str| [gpu, cpu.to_owned(), dmon.to_owned()];
    let head = "timestamp,usr_pct,idle_pct\n";
    vec![
        file(String::new(), "", ""),
        file(
            gpu("10", "100", "50.25") + &gpu("21", "191.25", "60"),
            "",
            "",
        ),
        // Ties, in mean and in maximum.
        file(
            gpu("0", "191.25", "0.25") + &gpu("1", "191.25", "0.25"),
            "",
            "",
        ),
        // Complete lines that are not rows.
        file(gpu("7", "8", "9") + "\n\nshort, line\n, , ,\n", "", ""),
        file(
            gpu("7", "8", "9").trim().to_owned() + ", more, fields\n",
            "",
            "",
        ),
        // Without a final newline, and with Windows line ends.
        file(gpu("7", "8", "9").trim().to_owned(), "", ""),
        file(gpu("7", "8", "9").replace('\n', "\r\n"), "", ""),
        // A line without any usable value.
        file(
            gpu("[N/A]", "[N/A]", "[N/A]") + &gpu("30", "70", "10"),
            "",
            "",
        ),
        // A missing value costs the whole line.
        file(
            gpu("40", "40536", "50") + &gpu("60", "100", "60") + &gpu("100", "99999", "[N/A]"),
            "",
            "",
        ),
        file(
            gpu("[N/A]", "100", "50") + &gpu("40", "[Not Supported]", "60") + &gpu("9", "1", "2"),
            "",
            "",
        ),
        file(
            String::new(),
            &format!("{head}t,30.0,60.0\nt,10.0,65.0\nt,-,1.0\nt,20.0,x\n"),
            "",
        ),
        file(gpu("-5", "-1", "-3"), "", ""),
        file(
            String::new(),
            &format!(
                "{head}2026-05-11T00:00:00.000+00:00,12.3,80.0\n2026-05-11T00:00:02.000+00:00,1.2,90.4\n"
            ),
            "",
        ),
        file(
            String::new(),
            &format!("{head}t,3.0,x\nt,5\nt,1.0,2.0,9\n"),
            "",
        ),
        file(String::new(), head, ""),
        // `dmon -s um`: the column that the original takes is the right one.
        file(
            String::new(),
            "",
            "# gpu     sm    mem    enc    dec     fb   bar1\n# Idx      %      %      %      %     MB     MB\n    0     50     12      0      0   1024     10\n    0      -      -      -      -   1024     10\n    1     60     31      0      0   1024     10\n",
        ),
        file(String::new(), "", "0 50 12 0\n0 50 12\n"),
        file(
            String::new(),
            "",
            "# gpu sm mem enc\n# Idx % % %\n 0 0 0 0\n",
        ),
    ]
}

fn write(folder: &Path, contents: &[String; 3]) {
    fs::create_dir_all(folder).unwrap();
    for (name, content) in FILES.iter().zip(contents) {
        if !content.is_empty() {
            fs::write(folder.join(name), content).unwrap();
        }
    }
}

#[test]
fn the_same_files_give_the_same_dictionary() {
    let folder = tempfile::tempdir().unwrap();
    let cases = same_cases();
    let folders: Vec<PathBuf> = (0..cases.len())
        .map(|number| folder.path().join(number.to_string()))
        .collect();
    for (folder, contents) in folders.iter().zip(&cases) {
        write(folder, contents);
    }
    let theirs = theirs(&folders);
    assert_eq!(theirs.len(), cases.len());
    for ((folder, theirs), contents) in folders.iter().zip(theirs).zip(&cases) {
        assert_eq!(ours(folder), theirs, "{contents:?}");
    }
}

#[test]
fn where_the_original_is_wrong_we_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let number = |text: &str, name: &str| {
        let parsed: Map<String, Value> = serde_json::from_str(text).unwrap();
        parsed.get(name).and_then(Value::as_f64)
    };
    let check = |name: &str, contents: [String; 3], field: &str, expected: [Option<f64>; 2]| {
        let place = folder.path().join(name);
        write(&place, &contents);
        let theirs = &theirs(std::slice::from_ref(&place))[0];
        let found = [number(&ours(&place), field), number(theirs, field)];
        assert_eq!(found, expected, "{name}: ours and the original's {field}");
    };
    // `dmon -s mu`, as the original itself requests: its third column is BAR1 memory.
    let dmon = "# gpu     fb   bar1   ccpm     sm    mem    enc\n# Idx     MB     MB     MB      %      %      %\n    0   1024     10      0     45     12      0\n";
    check(
        "the wrong column",
        [String::new(), String::new(), dmon.to_owned()],
        "mem_util_mean_pct",
        [Some(12.0), Some(10.0)],
    );
}

#[test]
fn the_same_calls_give_the_same_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.jsonl");
    let script = r#"
log = original.RunLog()
log.log_phase("fit", 1.23456, chains=4, note="größer \U0001f600", rates=[1, 2.5, None, True, 1e-7, 1e22])
log.log_phase("tie", 0.0005)
log.log_event("empty")
log.log_event("empty", {})
log.log_event("data", {"z": 1, "a": {"y": [], "x": {}}, "path": pathlib.Path("/x")})
log.write(pathlib.Path(sys.argv[1]))
"#;
    run_original(script, &[path.to_str().unwrap()]);
    let at = "2026-05-11T00:00:00Z".parse().unwrap();
    let mut log = RunLog::new();
    let extra = Fields::new()
        .with("chains", 4)
        .with("note", "größer \u{1f600}")
        .with("rates", json!([1, 2.5, null, true, 1e-7, 1e22]));
    log.phase(at, "fit", 1.23456, &extra);
    log.phase(at, "tie", 0.0005, &Fields::new());
    log.event(at, "empty", &Fields::new());
    log.event(at, "empty", &Fields::new());
    let mut data = Fields::new().with("z", 1);
    data.insert_json("a", r#"{"y": [], "x": {}}"#).unwrap();
    log.event(at, "data", &data.with("path", "/x"));
    let without_time = |line: &str| {
        let rest = line.strip_prefix(r#"{"ts": ""#).unwrap();
        let (stamp, rest) = rest.split_once('"').unwrap();
        assert_eq!(stamp.len(), "2026-05-11T00:00:00.000+00:00".len());
        rest.to_owned()
    };
    let theirs = fs::read_to_string(path).unwrap();
    let theirs: Vec<String> = theirs.lines().map(without_time).collect();
    let ours = log.lines().unwrap();
    let ours: Vec<String> = ours.iter().map(|line| without_time(line)).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn the_original_reads_our_files_and_finds_the_right_column() {
    let folder = tempfile::tempdir().unwrap();
    let dmon = format!(
        "{}\n    0     45     12   1024\n    1      -      -      -\n",
        metrics::DMON_HEADER
    );
    let at: jiff::Timestamp = "2026-05-11T00:00:00Z".parse().unwrap();
    let cpu = format!(
        "{}\n{}\n",
        metrics::CPU_HEADER,
        metrics::cpu_line(at, 12.5, 80.25)
    );
    let place = folder.path().join("ours");
    write(&place, &[gpu("40", "1024", "50.25"), cpu, dmon]);
    let theirs = &theirs(std::slice::from_ref(&place))[0];
    assert_eq!(*theirs, ours(&place));
    assert!(theirs.contains("\"mem_util_mean_pct\": 12.0"), "{theirs}");
}
