//! Archive files compared with those that the real agent uploads, and CSV of any content compared with Python's csv
//! module.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use gua_wire::archive::{CsvWriter, Extent, Listing, Plan, Table, Value, prune_path};
use gua_wire::users::UserPolicy;
use gua_wire::{CloudConfig, ServerUrl};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::sent::succeed;
use gua_test::board::Board;
use gua_test::http::CLAIM_ANSWER;
use gua_test::python;
use gua_test::tape::Tape;

/// Runs a script with text on its standard input.
fn run_python(script: &str, arguments: &[&str], input: &str) -> Vec<u8> {
    let mut child = Command::new(python::system())
        .args(["-c", script])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// Copies today's rows to other days, with a text that needs quotes, and adds a run.
const AGE: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for table in ("gpu_sample", "proc_sample"):
    columns = [row[1] for row in db.execute(f"pragma table_info({table})") if row[1] != "ts"]
    names = ",".join(columns)
    rows = db.execute(f"select {names} from {table}").fetchall()
    for days in (1, 2, 3, 4):
        ts = db.execute("select strftime('%Y-%m-%dT%H:%M:%S', 'now', ?) || '.000001+00:00'", (f"-{days} day",)).fetchone()[0]
        marks = ",".join("?" * len(columns))
        if table == "gpu_sample" or days != 2:
            db.executemany(f"insert into {table} (ts,{names}) values ('{ts}',{marks})", rows)
db.execute("update proc_sample set process_name = 'say, \"x\"' || char(10), owner_user = 'root' where pid = 5678")
db.execute("insert into daemon_run (started_at, interval_seconds) values ('2026-01-01T00:00:00+00:00', 30), ('2026-01-02T00:00:00+00:00', 0.1)")
db.commit()
"#;

/// Rows of a table for a day (or all), preceded by the column names.
const ROWS: &str = r#"
import json, sqlite3, sys
path, table, day = sys.argv[1:]
db = sqlite3.connect(path)
limit = "" if day == "_full" else f" where substr(ts, 1, 10) = '{day}' order by ts"
rows = db.execute(f"select * from {table}{limit}")
print(json.dumps([[column[0] for column in rows.description]] + [list(row) for row in rows]))
"#;

fn today() -> Date {
    // The real agent reads the clock too.
    let output = Command::new("date").args(["-u", "+%s"]).output().unwrap();
    let seconds = String::from_utf8(output.stdout).unwrap();
    let now = Timestamp::from_second(seconds.trim().parse().unwrap()).unwrap();
    now.to_zoned(TimeZone::UTC).date()
}

/// Uploads of a file by the real agent.
#[derive(Serialize, Deserialize)]
struct Uploads {
    /// The day of the upload.
    today: Date,
    /// Method, path, type and unpacked content of each request.
    requests: Vec<(String, Option<String>, String)>,
}

/// The board's list of stored files.
fn listing(today: Date) -> String {
    format!(
        r#"{{"archives":[{{"date":"{}","table":"proc_sample"}},{{"date":"_full","table":"daemon_run"}}]}}"#,
        days_before(today, 1)
    )
}

fn days_before(today: Date, days: i64) -> Date {
    today.checked_sub(jiff::Span::new().days(days)).unwrap()
}

impl Uploads {
    /// Lets the real agent create a file and upload it; `None` if the day changed meanwhile.
    fn of_agent(home: &Path, database: &str) -> Option<Self> {
        let today = today();
        let board = Board::start();
        board.lists(listing(today));
        let url = ServerUrl::parse(&board.url()).unwrap();
        let config = CloudConfig::enrolled(url, CLAIM_ANSWER.as_bytes(), None).unwrap();
        let file = home.join("cloud.json");
        std::fs::write(&file, config.write()).unwrap();
        let files = ["--db", database, "--config", file.to_str().unwrap()];
        let _ = std::fs::remove_file(database);
        succeed(
            "1.8.0",
            home,
            &[&["sync-once", "--fake"], &files[..]].concat(),
        );
        run_python(AGE, &[database], "");
        board.take();
        let archive = ["sync-archive", "--retention-days", "3"];
        succeed("1.8.0", home, &[&archive[..], &files[..]].concat());
        let requests = board.take();
        let requests = requests.iter().map(|request| {
            let mut content = String::new();
            let kind = request.header("content-type").map(str::to_owned);
            if kind.as_deref() == Some("application/gzip") {
                let mut gzip = GzDecoder::new(request.body.as_slice());
                gzip.read_to_string(&mut content).unwrap();
            }
            (request.line.clone(), kind, content)
        });
        let requests = requests.collect();
        (self::today() == today).then_some(Self { today, requests })
    }
}

#[test]
fn archive_files_match_those_of_release_1_8() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("gua.db");
    let database = path.to_str().unwrap();
    let tape = Tape::open("wire-archive", &["1.8.0"]);
    // A run across midnight would see the day change in the middle; then it is repeated.
    let uploads = tape.take(|| {
        loop {
            if let Some(uploads) = Uploads::of_agent(home.path(), database) {
                break uploads;
            }
        }
    });
    tape.file(&path, || {});
    let Uploads { today, requests } = uploads;
    let days_ago = |days| days_before(today, days);
    let days = [0, 1, 2, 3, 4].map(days_ago);
    let plan = Plan::new(
        today,
        3,
        days,
        &Listing::read(listing(today).as_bytes()).unwrap(),
    );
    assert_eq!(plan.closed_days, [3, 2, 1].map(days_ago));
    let whole = Plan::whole();
    let objects: Vec<_> = plan.missing.iter().chain(&whole).collect();
    let mut lines = vec!["GET /agent/v1/archives".to_owned()];
    lines.extend(
        objects
            .iter()
            .map(|object| format!("POST {}", object.path())),
    );
    lines.push(format!("DELETE {}", prune_path(3)));
    let theirs: Vec<_> = requests.iter().map(|(line, ..)| line.clone()).collect();
    assert_eq!(lines, theirs);

    for (object, (_, kind, uploaded)) in objects.iter().zip(&requests[1..]) {
        assert_eq!(kind.as_deref(), Some("application/gzip"));
        let arguments = [database, object.table.as_str(), &object.extent.to_string()];
        let rows: Vec<Vec<Json>> =
            serde_json::from_slice(&run_python(ROWS, &arguments, "")).unwrap();
        let header: Vec<&str> = rows[0].iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(header, object.table.columns());
        let mut csv = CsvWriter::new(Vec::new(), &header, UserPolicy::Plain).unwrap();
        for row in &rows[1..] {
            csv.row(row.iter().map(value).collect()).unwrap();
        }
        let ours = String::from_utf8(csv.finish().unwrap()).unwrap();
        assert_eq!(ours, *uploaded, "{}", object.path());
        let is_empty =
            object.table == Table::ProcSample && object.extent == Extent::Day(days_ago(2));
        assert_eq!(rows.len() == 1, is_empty, "{}", object.path());
    }
}

fn value(json: &Json) -> Option<Value<'_>> {
    match json {
        Json::Number(number) if number.is_i64() => number.as_i64().map(Value::Integer),
        Json::Number(number) => number.as_f64().map(Value::Real),
        Json::String(text) => Some(text.as_str().into()),
        _ => None,
    }
}

/// Writes rows with Python's csv module. Floats are passed as their bits, so that nothing rounds them on the way.
const PYTHONS_WRITER: &str = r#"
import csv, io, json, struct, sys
def value(cell):
    if isinstance(cell, dict):
        return struct.unpack("<d", struct.pack("<Q", cell["bits"]))[0]
    return cell
out = io.StringIO(newline="")
writer = csv.writer(out)
for row in json.loads(sys.stdin.buffer.read()):
    writer.writerow([value(cell) for cell in row])
sys.stdout.buffer.write(out.getvalue().encode())
"#;

fn cell() -> impl Strategy<Value = Option<Value<'static>>> {
    let text = prop_oneof![any::<String>(), "[ ,;\"'\\\\\r\n\ta-c\0]{0,6}"];
    prop_oneof![
        Just(None),
        any::<i64>().prop_map(|number| Some(Value::Integer(number))),
        proptest::num::f64::ANY.prop_map(|number| Some(Value::Real(number))),
        (-1e6..1e6).prop_map(|number: f64| Some(Value::Real(number.round() / 1000.0))),
        (-30..30).prop_map(|power: i32| Some(Value::Real(10_f64.powi(power)))),
        text.prop_map(|text| Some(Value::Text(text.into()))),
    ]
}

fn as_json(cell: &Option<Value<'_>>) -> Json {
    match cell {
        None => Json::Null,
        Some(Value::Integer(number)) => (*number).into(),
        Some(Value::Real(number)) => serde_json::json!({ "bits": number.to_bits() }),
        Some(Value::Text(text)) => text.as_ref().into(),
    }
}

/// Rows as wide as their header.
fn table() -> impl Strategy<Value = Vec<Vec<Option<Value<'static>>>>> {
    (1..6_usize).prop_flat_map(|width| {
        proptest::collection::vec(proptest::collection::vec(cell(), width), 1..300)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn csv_matches_pythons_writer(rows in table()) {
        let header = vec!["n"; rows[0].len()];
        let mut csv = CsvWriter::new(Vec::new(), &header, UserPolicy::Plain).unwrap();
        let mut asked = vec![header.iter().map(|name| Json::from(*name)).collect::<Vec<_>>()];
        for row in &rows {
            asked.push(row.iter().map(as_json).collect());
            csv.row(row.clone()).unwrap();
        }
        let pythons = run_python(PYTHONS_WRITER, &[], &serde_json::to_string(&asked).unwrap());
        let ours = csv.finish().unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&pythons));
    }
}
