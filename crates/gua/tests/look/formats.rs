//! `gua list` as text, JSON and CSV: the same numbers in each, in the published schema, and command lines only in the
//! table.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Machine;
use gua_test::schema;

pub(crate) type Line = BTreeMap<String, String>;

/// A GPU with two holders, at one moment of the simulated clock.
pub(crate) const HELD_BY_TWO: &str = r#"
    [clock]
    at = 100
    [[gpu]]
    uuid = "GPU-a"
    name = "NVIDIA A100, 80 GB"
    util = 50
    temperature_c = 61
    power_w = 271.4
    clock_sm_mhz = 1695
    [[gpu.process]]
    pid = ONE
    memory_mib = 2048
    [[gpu.process]]
    pid = OTHER
    memory_mib = 300
"#;

/// Further GPUs: without a reading, in MIG mode, lost.
const OTHER_KINDS: &str = r#"
    [[gpu]]
    uuid = "GPU-b"
    util = "unsupported"
    [[gpu]]
    uuid = "GPU-c"
    [[gpu.mig]]
    uuid = "MIG-c"
    profile = "3g.40gb"
    [[gpu.mig.process]]
    pid = 4194303
    memory_mib = 512
    [[gpu]]
    lost = [[0, inf]]
"#;

/// Lines of a CSV as maps from column to field, without empty fields.
pub(crate) fn lines(csv: &str) -> Vec<Line> {
    let mut lines = csv.lines().map(fields);
    let columns = lines.next().unwrap();
    let of_line = |fields: Vec<String>| {
        assert_eq!(fields.len(), columns.len(), "{fields:?}");
        let pairs = columns.iter().cloned().zip(fields);
        pairs.filter(|(_, field)| !field.is_empty()).collect()
    };
    lines.map(of_line).collect()
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            letter => fields.last_mut().unwrap().push(letter),
        }
    }
    fields
}

/// Adds the scalar values of an object, with a prefix before their names.
pub(crate) fn take(into: &mut Line, prefix: &str, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        let text = match value {
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        into.insert(format!("{prefix}{key}"), text);
    }
}

/// A JSON listing as CSV lines: every key of every GPU and holder except the lists themselves.
fn flattened(listing: &Value) -> Vec<Line> {
    let mut lines = Vec::new();
    for gpu in listing["gpus"].as_array().unwrap() {
        let mut of_gpu = Line::new();
        take(&mut of_gpu, "", listing);
        of_gpu.remove("schema");
        take(&mut of_gpu, "", gpu);
        let holders = gpu["holders"].as_array().unwrap();
        for holder in holders {
            let mut line = of_gpu.clone();
            take(&mut line, "holder_", holder);
            lines.push(line);
        }
        if holders.is_empty() {
            lines.push(of_gpu);
        }
    }
    lines
}

/// Removes ages and times, which change between two runs.
pub(crate) fn without_time(mut lines: Vec<Line>) -> Vec<Line> {
    for line in &mut lines {
        for column in [
            "at",
            "holder_age_seconds",
            "oldest_holder_seconds",
            "waited_seconds",
            "until",
            "claim_until",
        ] {
            if let Some(field) = line.get_mut(column) {
                "some time".clone_into(field);
            }
        }
    }
    lines
}

fn host_of_all_kinds() -> Machine {
    Machine::new(&format!("{HELD_BY_TWO}{OTHER_KINDS}"))
}

#[test]
fn json_and_csv_have_the_same_numbers_for_every_gpu_and_holder() {
    let host = host_of_all_kinds();
    let json = host.gua("list --format json").stdout;
    schema::check("gua.list.v1", &json);
    let listing: Value = serde_json::from_str(&json).unwrap();
    let csv = host.gua("list --format csv").stdout;
    let found = without_time(lines(&csv));
    assert_eq!(found, without_time(flattened(&listing)));
    assert_eq!(found.len(), 6, "two holders and four more lines: {csv}");
    for (flag, format) in [("--json", &json), ("--csv", &csv)] {
        let short = host.gua(&format!("list {flag}")).stdout;
        assert_eq!(short.lines().count(), format.lines().count(), "{flag}");
    }
}

#[test]
fn the_table_shows_the_same_numbers_rounded_for_people() {
    let host = host_of_all_kinds();
    let listing = host.listing();
    let text = host.gua("list").stdout;
    let mut table = text.lines().skip(1);
    for gpu in listing["gpus"].as_array().unwrap() {
        let holders = gpu["holders"].as_array().unwrap();
        let lines: Vec<&str> = table.by_ref().take(holders.len().max(1)).collect();
        let line = lines[0];
        let number = |key: &str| gpu[key].as_u64();
        let gigabytes = |bytes: u64| {
            // Rounded down: a GPU that is not quite full does not look full.
            let tenths = (u128::from(bytes) * 10) >> 30;
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        let memory = number("memory_used_bytes").zip(number("memory_total_bytes"));
        let wanted = [
            number("util_percent").map(|util| util.to_string()),
            memory.map(|(used, total)| format!("{}/{} GB", gigabytes(used), gigabytes(total))),
            number("temperature_celsius").map(|heat| format!("{heat}C")),
            number("sm_clock_megahertz").map(|clock| clock.to_string()),
            number("power_milliwatts").map(|power| format!("{} W", (power + 500) / 1000)),
        ];
        for wanted in wanted.into_iter().flatten() {
            assert!(line.contains(&wanted), "{wanted} in {line}");
        }
        for (holder, line) in holders.iter().zip(lines) {
            assert!(line.contains(&holder["pid"].to_string()), "{line}");
            let memory = gigabytes(holder["memory_used_bytes"].as_u64().unwrap());
            assert!(line.contains(&format!("{memory} GB")), "{line}");
        }
    }
    assert_eq!(text.lines().count(), 1 + 6, "{text}");
}

#[test]
fn command_lines_are_only_in_the_table() {
    let host = host_of_all_kinds();
    assert!(host.gua("list").stdout.contains("sleep 600"));
    for format in ["json", "csv"] {
        let text = host.gua(&format!("list --format {format}")).stdout;
        assert!(
            text.contains("sleep") && !text.contains("sleep 600"),
            "{text}"
        );
    }
}
