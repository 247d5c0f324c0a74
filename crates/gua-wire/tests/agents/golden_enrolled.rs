//! Golden files of what an enrolled host and its board exchange beside snapshots: the claim, `cloud.json`, the archive.
//! The archive files were written by Python's csv module.

use std::collections::BTreeSet;
use std::path::Path;

use gua_wire::archive::{CsvWriter, Extent, Listing, Object, Plan, Table, Value};
use gua_wire::enroll::AboutHost;
use gua_wire::users::{Salt, UserPolicy};
use gua_wire::{ClaimRequest, CloudConfig, LiveReport, ServerUrl, Token};
use serde_json::Value as Json;

use crate::golden::check;

fn golden(name: &str) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(directory.join(name)).unwrap()
}

#[test]
fn the_claim_does_not_change() {
    let request = |about| {
        let token = Token::new("gua_enroll_example").unwrap();
        ClaimRequest::new(token, about).unwrap().body()
    };
    let about = AboutHost {
        hostname: "gpu-box",
        agent_version: "1.8.0",
        driver_version: "580.95.05",
    };
    check("claim-request.json", &request(about));
    check("claim-request-bare.json", &request(AboutHost::default()));
    let url = ServerUrl::parse("https://board.example.com/").unwrap();
    let config = CloudConfig::enrolled(url.clone(), &golden("claim-answer.json"), None).unwrap();
    let expected = CloudConfig {
        server_url: url,
        host_id: "0b6e3d0c-9a41-4c5c-8f6d-2f1f5a7f0c11".to_owned(),
        display_name: "lab \u{e9} 1".to_owned(),
        agent_token: Token::new("gua_agent_example").unwrap(),
        token_prefix: "gua_agent_ex".to_owned(),
        pin: None,
    };
    assert_eq!(config, expected);
}

#[test]
fn the_enrolment_file_does_not_change() {
    let url = ServerUrl::parse("https://board.example.com/gpus/").unwrap();
    let config = CloudConfig::enrolled(url, &golden("claim-answer.json"), None).unwrap();
    let file = golden("cloud.json");
    assert_eq!(config.write().as_bytes(), file);
    assert_eq!(CloudConfig::read(&file).unwrap(), config);
}

#[test]
fn archive_lists_are_still_read() {
    let listing = Listing::read(&golden("archive-listing.json")).unwrap();
    let day = |text: &str| text.parse().unwrap();
    let days = ["2026-11-14", "2026-11-15"].map(day);
    let plan = Plan::new(day("2026-11-16"), 30, days, &listing);
    let lacking = Object {
        extent: Extent::Day(days[1]),
        table: Table::ProcSample,
    };
    assert_eq!(plan.missing, [lacking]);
    assert!(Plan::whole().iter().all(|object| listing.has(*object)));
}

/// Writes rows of a table and compares them byte for byte.
fn check_table(name: &str, table: Table, users: &UserPolicy, rows: &[Vec<Option<Value<'_>>>]) {
    let mut csv = CsvWriter::new(Vec::new(), table.columns(), users.clone()).unwrap();
    for row in rows {
        csv.row(row.clone()).unwrap();
    }
    let written = String::from_utf8(csv.finish().unwrap()).unwrap();
    let golden = String::from_utf8(golden(name)).unwrap();
    assert_eq!(written, golden, "{name}");
}

fn text(text: &str) -> Option<Value<'_>> {
    Some(Value::from(text))
}

fn number(number: i64) -> Option<Value<'static>> {
    Some(Value::Integer(number))
}

const FIRST: &str = "2026-11-15T02:44:34.554909+00:00";
const SECOND: &str = "2026-11-15T02:45:04.554909+00:00";

#[test]
fn archive_files_do_not_change() {
    let mut full = vec![text(FIRST), text("GPU-0"), number(83), number(1)];
    full.extend([text("active"), number(0), number(24_576)]);
    full.extend([number(71), number(250)]);
    let mut bare = vec![text(SECOND), text("GPU-1"), number(0)];
    bare.resize(Table::GpuSample.columns().len(), None);
    let plain = UserPolicy::Plain;
    check_table(
        "archive-gpu_sample.csv",
        Table::GpuSample,
        &plain,
        &[full, bare],
    );

    let mut known = vec![text(FIRST), text("GPU-0"), number(1234), number(8000)];
    known.extend([text("ada"), text("root"), number(1), number(0)]);
    known.extend([text("python"), text("compute")]);
    let mut odd = vec![text(SECOND), text("GPU-1"), number(5678), None];
    odd.extend([None, text("b,o\"b"), number(1), number(1)]);
    odd.extend([text("say, \"x\"\n"), text("graphics")]);
    let processes = [known, odd];
    let hash = UserPolicy::Hash(Salt::new(&[7; 16]).unwrap());
    for (name, users) in [
        ("archive-proc_sample.csv", &plain),
        ("archive-proc_sample-hash.csv", &hash),
        ("archive-proc_sample-omit.csv", &UserPolicy::Omit),
    ] {
        check_table(name, Table::ProcSample, users, &processes);
    }

    let run = |id, started, seconds| vec![number(id), text(started), Some(Value::Real(seconds))];
    let runs = [
        run(1, "2026-11-14T00:00:00+00:00", 30.0),
        run(2, "2026-11-15T00:00:00+00:00", 0.1),
    ];
    check_table("archive-daemon_run.csv", Table::DaemonRun, &plain, &runs);
    let device = vec![
        text("GPU-0"),
        text("NVIDIA A100, 80GB"),
        number(81_920),
        text(FIRST),
        text(SECOND),
    ];
    check_table(
        "archive-gpu_device.csv",
        Table::GpuDevice,
        &plain,
        &[device],
    );
}

#[test]
fn a_live_report_has_every_field_of_its_golden_file() {
    let text = golden("live.json");
    let report: LiveReport = serde_json::from_slice(&text).unwrap();
    assert_eq!(report.body().as_bytes(), text.trim_ascii_end());
    assert!(report.gpus[0].is_free() && !report.gpus[1].counts());
}

/// The release that added quotas sends them in reports that have them.
#[test]
fn a_live_report_with_quotas_has_every_field_of_its_golden_file() {
    let text = golden("live-quotas.json");
    let report: LiveReport = serde_json::from_slice(&text).unwrap();
    assert_eq!(report.body().as_bytes(), text.trim_ascii_end());
    assert_eq!(report.quotas.len(), 3);
}

/// Names of all fields of a golden file, at any depth.
fn fields(value: &Json, names: &mut BTreeSet<String>) {
    match value {
        Json::Object(object) => {
            names.extend(object.keys().cloned());
            object.values().for_each(|value| fields(value, names));
        }
        Json::Array(list) => list.iter().for_each(|value| fields(value, names)),
        _ => {}
    }
}

#[test]
fn the_documented_fields_are_exactly_those_that_leave_a_host() {
    let mut sent = BTreeSet::new();
    for name in [
        "claim-request.json",
        "snapshot-1.1.json",
        "snapshot-1.4.json",
        "heartbeat.json",
        "live.json",
        "live-quotas.json",
        "stream.json",
    ] {
        fields(&serde_json::from_slice(&golden(name)).unwrap(), &mut sent);
    }
    let tables = Table::DAILY.into_iter().chain(Table::WHOLE);
    sent.extend(tables.flat_map(|table| table.columns().iter().map(|name| (*name).to_owned())));

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire.md");
    let page = std::fs::read_to_string(page).unwrap();
    let begin = page.find("| when | fields |").unwrap();
    let table = &page[begin..begin + page[begin..].find("\n\n").unwrap()];
    // Every second part is between backticks.
    let documented = table.split('`').skip(1).step_by(2).map(str::to_owned);
    assert_eq!(documented.collect::<BTreeSet<String>>(), sent);
}
