//! `gua serve`: the pages of one host, and nvgpu's agent and master.

use gua_test::recorded::{MINUTE, record};
use gua_test::{Ended, Running, TestHost, python};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::served::{answer, url};
use crate::{TWO_GPUS, host, without_driver};

const SERVE: &str = "serve --listen 127.0.0.1:0";

fn start(host: &TestHost) -> (Running, String) {
    let running = host.foreground(SERVE);
    let url = url(&running);
    (running, url)
}

fn get(url: &str, path: &str) -> (u16, String) {
    answer(url, &format!("GET {path}"), &[("Accept", "text/html")], b"")
}

fn document(url: &str, path: &str) -> Value {
    let (status, body) = answer(url, &format!("GET {path}"), &[], b"");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn the_agent_reports_the_gpus_and_nvgpu_reads_them() {
    let host = host(TWO_GPUS);
    let (_running, url) = start(&host);
    let report = document(&url, "/gpu_status");
    let gpu = &report["gpus"][0];
    assert_eq!(gpu["utilization"], 50);
    assert_eq!(gpu["is_available"], true);
    assert_eq!(
        (&gpu["pids"], &gpu["users"], &gpu["running_since"]),
        (&json!(""), &json!(""), &Value::Null)
    );
    let memory = &gpu["memory"];
    let sum = memory["free"].as_u64().unwrap() + memory["used"].as_u64().unwrap();
    assert_eq!(memory["total"].as_u64().unwrap(), sum);
    assert_eq!(document(&url, "/cluster_status"), json!([report]));

    // nvgpu's own master, without its page, which no agent of that release can serve.
    let script = format!(
        "import json, nvgpu.master as m; print(json.dumps(m.gather_reports(['{url}', 'http://127.0.0.1:9'])))"
    );
    let output = host
        .command(python::PEERS.program("python"))
        .args(["-W", "ignore", "-c", &script])
        .output()
        .unwrap();
    let Ended {
        code,
        stdout,
        stderr,
    } = Ended::from(output);
    assert_eq!(code, 0, "{stderr}");
    let read: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(read, json!([report, {"error": "Host not available"}]));
}

#[test]
fn the_master_shows_every_agent_and_says_which_one_is_dead() {
    let other = host(TWO_GPUS);
    let (_other, agent) = start(&other);
    let mut host = without_driver();
    let config = host.write(
        "cluster.cfg",
        format!("AGENTS = [\n    '{agent}',  # a host\n    'http://127.0.0.1:9',\n]\n"),
    );
    host.set("NVGPU_CLUSTER_CFG", &config);
    let (running, url) = start(&host);
    let cluster = document(&url, "/cluster_status");
    assert_eq!(cluster[0], document(&agent, "/gpu_status"));
    assert_eq!(cluster[1], json!({"error": "Host not available"}));
    let (status, page) = get(&url, "/");
    assert_eq!(status, 200);
    assert!(
        page.contains(&format!("{agent} (")) && page.contains("Host not available"),
        "{page}"
    );
    drop(running);

    // A setting overrides the file.
    host.set("GUA_SERVE_AGENTS", "none");
    let (running, url) = start(&host);
    assert_eq!(document(&url, "/cluster_status"), json!([]));
    drop(running);

    // The file is never executed.
    let mut host = without_driver();
    let config = host.write("evil.cfg", "AGENTS = __import__('os').listdir('/')\n");
    host.set("NVGPU_CLUSTER_CFG", &config);
    let refused = host.gua(SERVE);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("AGENTS must be a list of quoted texts"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_pages_show_the_gpus_the_report_and_the_people() {
    let host = host(TWO_GPUS);
    let (_running, url) = start(&host);
    // This host comes first, then the table of nvgpu's master.
    let (status, page) = get(&url, "/");
    assert_eq!(status, 200);
    let own = page.find("data-part=\"host\"").unwrap();
    let table = page.find("<h2>self (").unwrap();
    assert!(own < table, "{page}");
    assert!(
        page.contains("1 of 2 free") && !page.contains("GPU board"),
        "{page}"
    );
    let (status, page) = get(&url, "/w/default");
    assert_eq!(status, 200);
    assert!(page.contains("Free now: 1"), "{page}");
    // There is no history yet.
    let (status, page) = get(&url, "/report");
    assert_eq!(status, 503);
    assert!(page.contains("no history"), "{page}");
    let (status, _) = get(&url, "/report?since=soon");
    assert_eq!(status, 422);
    for page in ["report", "people"] {
        let (status, _) = get(&url, &format!("/{page}?since=1d&since=7d"));
        assert_eq!(status, 400, "{page}");
    }
    let (status, _) = get(&url, "/w/default/members");
    assert_eq!(status, 404);
    let (status, _) = answer(&url, "POST /gpu_status", &[], b"");
    assert_eq!(status, 405);
}

#[test]
fn the_pages_begin_with_the_last_day_of_the_history() {
    let host = host("[[gpu]]\nuuid = \"GPU-0\"\n[[gpu]]\nuuid = \"GPU-1\"\n");
    let now = gua_probe::clock::now();
    let begin = now - SignedDuration::from_hours(3);
    // GPU 0 is held without use until a moment ago; GPU 1 is free all the time.
    record(&host.path(".gua/gua.db"), begin, 180, |_| {
        vec![(0, &["ada"]), (0, &[])]
    });
    let (_running, url) = start(&host);
    let page = document(&url, "/api/v1/workspaces/default/availability");
    let row = |uuid: &str| {
        let rows = page["rows"].as_array().unwrap().iter();
        let mut rows = rows.filter(|row| row["uuid"] == uuid);
        rows.next()
            .unwrap_or_else(|| panic!("{uuid}: {page}"))
            .clone()
    };
    let [held, free] = ["GPU-0", "GPU-1"].map(row);
    let quarters = |row: &Value, group: &str| {
        let day = row["day"].as_array().unwrap().iter();
        day.filter(|cell| **cell == group).count()
    };
    for (row, group) in [(&held, "idle-held"), (&free, "free")] {
        let found = quarters(row, group);
        assert!((11..=13).contains(&found), "{group}: {row}");
    }
    let curve = free["curve"].as_array().unwrap().iter();
    let known = curve.filter(|point| !point.is_null()).count();
    assert!(known > 20, "{free}");
    let since: Timestamp = free["since"]["at"].as_str().unwrap().parse().unwrap();
    assert!(since.duration_since(begin).abs() < MINUTE, "{free}");
    assert_eq!(free["since"]["isExact"], false);
}

#[test]
fn strangers_need_a_token_and_foreign_names_are_refused() {
    let host = host(TWO_GPUS);
    let refused = host.gua("serve --listen 0.0.0.0:0");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("--token-file FILE"),
        "{}",
        refused.stderr
    );

    let (running, url) = start(&host);
    let (status, body) = answer(&url, "GET /gpu_status", &[("Host", "evil.example")], b"");
    assert_eq!(status, 403, "{body}");
    drop(running);

    host.write("short", "secret\n");
    let refused = host.gua("serve --listen 127.0.0.1:0 --token-file short");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("fewer than 16 characters"),
        "{}",
        refused.stderr
    );

    host.write("token", "0123456789abcdef\n");
    let running = host.foreground("serve --listen 127.0.0.1:0 --token-file token");
    let url = super::served::url(&running);
    let status = |headers: &[(&str, &str)]| answer(&url, "GET /gpu_status", headers, b"").0;
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("Authorization", "Bearer wrong")]), 401);
    assert_eq!(status(&[("Authorization", "Bearer 0123456789abcdef")]), 200);
    // Any user name with the token as the password.
    assert_eq!(
        status(&[("Authorization", "Basic eDowMTIzNDU2Nzg5YWJjZGVm")]),
        200
    );
    assert!(!running.stderr().contains("0123456789abcdef"));
}
