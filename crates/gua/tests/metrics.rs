//! Metrics as Prometheus reads them: the daemon's address, `gua metrics`, the shipped rules, and a real Prometheus where it
//! is installed.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gua_probe::clock;
use gua_test::{Ended, Running, Sleeper, TestHost, not_tested, wait_for};

use crate::{TWO_GPUS, host};

const POD: &str = "8f6e2c1a-3c5d-4f7b-9a43-1d2e3f4a5b6c";
const CONTAINER: &str = "3f1c09a7b2d4e6f83f1c09a7b2d4e6f83f1c09a7b2d4e6f83f1c09a7b2d4e6f8";

const HANG: &str = "[[fault]]\nfunction = \"nvmlDeviceGetPowerUsage\"\nhang = true\n";

/// Starts a daemon that serves metrics on a free port, and returns its address.
fn serving(host: &TestHost, line: &str) -> (Running, String) {
    let daemon = host.foreground(&format!("daemon --foreground --metrics 127.0.0.1:0 {line}"));
    let address = wait_for("the address", || {
        let log = daemon.stderr();
        let line = log.lines().find(|line| line.contains("serving metrics"))?;
        let address = line.split("address=").nth(1)?;
        Some(address.trim_end_matches(')').to_owned())
    });
    (daemon, address)
}

/// Requests a path and returns the header and the body.
fn get(address: &str, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (header, body) = answer.split_once("\r\n\r\n")?;
    Some((header.to_owned(), body.to_owned()))
}

fn page(address: &str) -> Option<String> {
    let (header, body) = get(address, "/metrics")?;
    header.starts_with("HTTP/1.1 200 ").then_some(body)
}

/// The value of the first sample that begins with these words.
fn value(page: &str, sample: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.starts_with(sample))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Whether a program is installed. Its tests are skipped otherwise, and say so.
fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let is_there = found.is_ok();
    if !is_there {
        not_tested("no Debian package prometheus", program);
    }
    is_there
}

fn contrib(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../contrib")
        .join(path)
}

#[test]
fn a_thousand_requests_while_the_driver_hangs_delay_no_tick() {
    let host = host(TWO_GPUS).variable("GUA_DRIVER_DEADLINE", "300ms");
    let (mut daemon, address) = serving(&host, "--interval 50ms");
    let is_read = |page: &String| value(page, "gua_gpu_utilization_ratio{gpu=\"0\"") == Some(0.5);
    wait_for("readings", || page(&address).filter(is_read));

    host.play(&format!("{TWO_GPUS}{HANG}"));
    let ticks = |page: &str| value(page, "gua_collector_ticks_total").unwrap();
    let is_hung = |page: &String| {
        value(
            page,
            "gua_collector_outage{gua_collector_outage=\"driver-hung\"",
        ) == Some(1.0)
    };
    let first = ticks(&wait_for("the outage", || page(&address).filter(is_hung)));
    // While the driver hangs, a tick waits for its deadline of 300 ms and no longer. This is the pace with few requests.
    let began = clock::monotonic();
    let is_later = |page: &String| ticks(page) >= first + 5.0;
    let before = ticks(&wait_for("five ticks", || page(&address).filter(is_later)));
    let quiet = (clock::monotonic() - began).as_secs_f64() / (before - first);
    let began = clock::monotonic();
    let mut last = before;
    let mut requests = 0;
    while requests < 1000 || last - before < 10.0 {
        let page = wait_for("an answer", || page(&address));
        assert!(is_hung(&page), "{page}");
        assert!(
            !page.contains("gua_gpu_power_watts"),
            "an old reading: {page}"
        );
        requests += 1;
        last = ticks(&page);
    }
    let (passed, due) = (clock::monotonic() - began, last - before);
    assert!(
        passed.as_secs_f64() / due < 3.0 * quiet,
        "{due} ticks in {passed:?}; {quiet} s per tick with few requests"
    );
    host.play(TWO_GPUS);
    let gap = "gua_gpu_unobserved_seconds_total{gpu=\"0\",uuid=\"GPU-a\"";
    let has_gap = |line: &str| line.starts_with(gap) && line.contains("reason=\"driver-hung\"");
    let page = wait_for("readings again, and the gap before them", || {
        let page = page(&address).filter(is_read)?;
        page.lines().any(has_gap).then_some(page)
    });
    assert!(value(&page, "gua_collector_ticks_lost_total").unwrap() > 0.0);
    daemon.stop();
}

#[test]
fn counters_continue_after_a_restart_and_equal_those_of_the_command() {
    let host = host(TWO_GPUS);
    let active = "gua_gpu_state_seconds_total{gpu=\"0\",uuid=\"GPU-a\"";
    let (mut daemon, address) = serving(&host, "--interval 100ms");
    let first = wait_for("active time", || {
        page(&address)
            .and_then(|page| value(&page, active))
            .filter(|seconds| *seconds > 0.3)
    });
    daemon.stop();
    let printed = host.fine("metrics");
    let after = value(&printed, active).unwrap();
    assert!(after >= first, "{after} after {first}");
    let (mut daemon, address) = serving(&host, "--append --interval 100ms");
    let again = wait_for("the first tick", || {
        page(&address).and_then(|page| value(&page, active))
    });
    assert!(again >= after, "{again} after {after}");
    daemon.stop();
}

#[test]
fn an_address_in_use_is_logged_and_ticks_continue() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let host = host(TWO_GPUS);
    let line = format!("daemon --foreground --interval 50ms --metrics {address}");
    let mut daemon = host.foreground(&line);
    wait_for("the warning", || {
        daemon
            .stderr()
            .contains("cannot serve metrics")
            .then_some(())
    });
    wait_for("ticks", || {
        (host.ticks(".gua/gua.db").len() > 2).then_some(())
    });
    daemon.stop();
    drop(taken);
    let wrong = host.gua("daemon --foreground --metrics example.org");
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.stderr.contains("127.0.0.1:19400"), "{wrong:?}");
}

#[test]
fn the_command_writes_a_file_as_a_whole_and_keeps_no_old_reading() {
    let host = host(TWO_GPUS);
    host.fine("metrics -o gua.prom");
    let text = host.read("gua.prom");
    assert_eq!(
        value(&text, "gua_gpu_utilization_ratio{gpu=\"0\""),
        Some(0.5)
    );
    // Of the families of the collector, a command knows only its own cost.
    let own: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("gua_collector_"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let expected = [
        "gua_collector_cpu_seconds_total{process=\"command\"}",
        "gua_collector_cpu_seconds_total{process=\"reader\"}",
        "gua_collector_resident_memory_bytes{process=\"command\"}",
        "gua_collector_resident_memory_bytes{process=\"reader\"}",
    ];
    assert_eq!(own, expected);
    for sample in expected {
        assert!(value(&text, sample) > Some(0.0), "{text}");
    }
    let open = host.fine("metrics --format openmetrics");
    assert!(
        open.contains("# UNIT gua_gpu_utilization_ratio ratio\n"),
        "{open}"
    );
    assert!(open.ends_with("# EOF\n"));
    host.play("[[gpu]]\n[[fault]]\nfunction = \"nvmlInit*\"\ncode = 9\n");
    let failed = host.gua("metrics -o gua.prom");
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(!host.read("gua.prom").contains("gua_gpu_"));
    let nowhere = host.gua("metrics --dashboard -o missing/gua.json");
    assert_eq!(nowhere.code, 1, "{nowhere:?}");
}

#[test]
fn promtool_accepts_the_metrics_and_the_rules() {
    if !has("promtool") {
        return;
    }
    let sleeper = Sleeper::new();
    let held = format!(
        "[[gpu]]\nuuid = \"GPU-a\"\n[[gpu.process]]\npid = {}\nmemory_mib = 900\n",
        sleeper.pid()
    );
    let host = host(&held)
        .variable("GUA_METRICS_USERS", "true")
        .variable("GUA_METRICS_WORKLOADS", "true");
    let (mut daemon, address) = serving(&host, "--interval 50ms");
    let text = wait_for("counters", || {
        page(&address).filter(|page| page.contains("gua_user_held_seconds_total"))
    });
    daemon.stop();
    let mut texts = vec![text, host.fine("metrics")];
    if gua_test::can_mount("the metrics of a pod") {
        // Only this command sees the process in the cgroup of a pod.
        host.write(
            "cgroup",
            format!("0::/kubepods/burstable/pod{POD}/{CONTAINER}\n"),
        );
        let script = format!(
            "mount --bind cgroup /proc/{}/cgroup && exec {} metrics",
            sleeper.pid(),
            crate::GUA
        );
        let mut inside = host.command("unshare");
        inside.args(["--mount", "/bin/sh", "-ec", &script]);
        let text = Ended::from(inside.output().unwrap()).success();
        let workload = format!(
            "gua_gpu_workload_holders{{gpu=\"0\",uuid=\"GPU-a\",model=\"NVIDIA A100-SXM4-80GB\",namespace=\"\",\
             pod=\"{POD}\",container=\"{CONTAINER}\",slurm_job=\"\"}} 1\n"
        );
        assert!(text.contains(&workload), "{text}");
        texts.push(text);
    }
    for text in texts {
        let file = host.write("page.prom", &text);
        let mut check = Command::new("promtool");
        check
            .args(["check", "metrics"])
            .stdin(std::fs::File::open(file).unwrap());
        let output = check.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
    }
    for (command, file) in [
        ("check", "prometheus/gua.rules.yml"),
        ("test", "prometheus/gua.rules.test.yml"),
    ] {
        let output = Command::new("promtool")
            .args([command, "rules"])
            .arg(contrib(file))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_real_prometheus_scrapes_the_daemon() {
    if !has("prometheus") {
        return;
    }
    let host = host(TWO_GPUS);
    let (mut daemon, address) = serving(&host, "--interval 100ms");
    let rules = std::fs::canonicalize(contrib("prometheus/gua.rules.yml")).unwrap();
    let config = format!(
        "global:\n  scrape_interval: 1s\nrule_files:\n  - {}\nscrape_configs:\n  - job_name: gua\n    \
         static_configs:\n      - targets: ['{address}']\n",
        rules.display()
    );
    let config = host.write("prometheus.yml", config);
    let mut command = host.command("prometheus");
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            host.path("tsdb").display()
        ))
        .arg("--web.listen-address=127.0.0.1:0");
    let mut prometheus = host.start(command);
    // It chooses a free port itself and logs it, so that no other program can take the port before.
    let port = wait_for("the address of Prometheus", || {
        let log = prometheus.stderr();
        let line = log.lines().find(|line| line.contains("Listening on"))?;
        let address = line.split("address=").nth(1)?;
        Some(address.trim_matches('"').to_owned())
    });
    let ask = |query: &str| {
        let (_, body) = get(&port, &format!("/api/v1/query?query={query}"))?;
        body.contains("\"status\":\"success\"").then_some(body)
    };
    let states = wait_for("a scrape", || {
        ask("gua_gpu_state==1").filter(|body| body.contains("GPU-b"))
    });
    assert!(states.contains("\"gua_gpu_state\":\"ghost\""), "{states}");
    assert!(
        states.contains("\"gua_gpu_state\":\"truly-idle\""),
        "{states}"
    );
    wait_for("a target that is up", || {
        ask("up").filter(|body| body.contains("\"1\"]"))
    });
    // Each query of the dashboard is valid, and those about GPUs that are read have an answer.
    let dashboard = std::fs::read_to_string(contrib("grafana/gua.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let mut answered = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        let query = panel["targets"][0]["expr"].as_str().unwrap();
        let query = query.replace("$instance", ".*");
        assert!(!query.contains('$'), "{query}");
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let body = ask(&encoded).unwrap_or_else(|| panic!("Prometheus refuses {query}"));
        answered += u32::from(!body.contains("\"result\":[]"));
    }
    assert!(answered >= 4, "{answered}");
    assert_eq!(ask("sum("), None);
    // OpenMetrics was negotiated: only it has units.
    wait_for("the unit of a metric", || {
        let path = "/api/v1/targets/metadata?metric=gua_gpu_held_seconds";
        let (_, body) = get(&port, path)?;
        body.contains("\"unit\":\"seconds\"").then_some(())
    });
    prometheus.stop();
    daemon.stop();
}
