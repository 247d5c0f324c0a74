//! `gua available` and `gua claim list` as text, JSON and CSV: the same numbers in each, in the published schema.

use serde_json::Value;

use super::Machine;
use super::formats::{HELD_BY_TWO, Line, lines, take, without_time};
use gua_test::Sleeper;
use gua_test::schema;

/// GPUs beside the held one: two free, one in MIG mode, one lost.
const OTHER_KINDS: &str = r#"
    [[gpu]]
    uuid = "GPU-b"
    [[gpu]]
    uuid = "GPU-c"
    [[gpu]]
    uuid = "GPU-d"
    [[gpu.mig]]
    uuid = "MIG-d"
    profile = "3g.40gb"
    [[gpu]]
    lost = [[0, inf]]
"#;

fn host_of_all_kinds() -> Machine {
    Machine::new(&format!("{HELD_BY_TWO}{OTHER_KINDS}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn json(host: &Machine, line: &str, form: &str) -> Value {
    let text = host.gua(&format!("{line} --json")).stdout;
    schema::check(form, &text);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn available_has_the_same_numbers_in_json_and_csv() {
    let host = host_of_all_kinds();
    let ada = Sleeper::new();
    host.lease(&ada, "-q");
    schema::check("gua.list.v1", &host.gua("list --json").stdout);
    for line in [
        "available -q",
        "available -q --uuid",
        "available -q --rule nvgpu",
    ] {
        let shown = json(&host, line, "gua.available.v1");
        let mut expected = Vec::new();
        let mut put = |gpu: &Value, is_available: bool, holder: &Value, claim: &Value| {
            let mut line = Line::new();
            take(&mut line, "", &shown);
            line.remove("schema");
            line.insert("available".to_owned(), is_available.to_string());
            take(&mut line, "", gpu);
            take(&mut line, "holder_", holder);
            take(&mut line, "claim_", claim);
            expected.push(line);
        };
        for gpu in list(&shown["available"]) {
            put(gpu, true, &Value::Null, &shown["claim"]);
        }
        for gpu in list(&shown["not_available"]) {
            let (holders, claims) = (list(&gpu["holders"]), list(&gpu["claims"]));
            for holder in holders {
                put(gpu, false, holder, &Value::Null);
            }
            for claim in claims {
                put(gpu, false, &Value::Null, claim);
            }
            if holders.is_empty() && claims.is_empty() {
                put(gpu, false, &Value::Null, &Value::Null);
            }
        }
        for csv in ["--csv", "--format csv"] {
            let csv = host.gua(&format!("{line} {csv}")).stdout;
            let found = without_time(lines(&csv));
            assert_eq!(found, without_time(expected.clone()), "{line}");
        }
    }
    let text = host.gua("available -q --format text").stdout;
    assert_eq!(text, "2\n");
}

#[test]
fn a_claim_is_shown_in_every_format() {
    let host = Machine::new("[[gpu]]\nuuid = \"GPU-a\"\n[[gpu]]\nuuid = \"GPU-b\"\n");
    let (ada, bob) = (Sleeper::new(), Sleeper::new());
    let ask = |holder: &Sleeper| format!("available -q --claim 10m --for {}", holder.pid());
    let shown = json(&host, &ask(&ada), "gua.available.v1");
    assert_eq!(shown["claim"]["for_pid"], ada.pid());
    let csv = host.gua(&format!("{} --csv", ask(&bob))).stdout;
    let lines = lines(&csv);
    let granted: Vec<_> = lines
        .iter()
        .filter(|line| line["available"] == "true")
        .collect();
    assert_eq!(granted.len(), 1, "{csv}");
    assert_eq!(granted[0]["uuid"], "GPU-b");
    assert_eq!(granted[0]["claim_for_pid"], bob.pid().to_string());
    // With nothing left, the unavailable GPUs are listed as well.
    let shown = json(&host, &ask(&bob), "gua.available.v1");
    assert_eq!(shown["claim"], Value::Null);
    assert_eq!(host.gua(&format!("{} --csv", ask(&bob))).code, 3);
}

#[test]
fn claims_have_the_same_numbers_in_text_json_and_csv() {
    let host = host_of_all_kinds();
    let ada = Sleeper::new();
    host.lease(&ada, "-q --count 2");
    let mut waiting = host.start(&format!("available -q --wait --for {}", ada.pid()));
    host.wait_for_queue(1);
    let shown = json(&host, "claim list", "gua.claims.v1");
    let mut expected = Vec::new();
    for claim in list(&shown["claims"]) {
        for gpu in list(&claim["gpus"]) {
            let mut line = Line::new();
            take(&mut line, "", claim);
            for (ours, theirs) in [("pid", "for_pid"), ("comm", "for_comm")] {
                let value = line.remove(theirs).unwrap();
                line.insert(ours.to_owned(), value);
            }
            take(&mut line, "gpu_", gpu);
            let in_use = line.remove("gpu_in_use").unwrap();
            line.insert("in_use".to_owned(), in_use);
            line.insert("row".to_owned(), "claim".to_owned());
            line.insert("at".to_owned(), String::new());
            expected.push(line);
        }
    }
    for (place, waiter) in (1..).zip(list(&shown["queue"])) {
        let mut line = Line::new();
        take(&mut line, "", waiter);
        line.insert("row".to_owned(), "waiting".to_owned());
        line.insert("place".to_owned(), format!("{place}"));
        line.insert("at".to_owned(), String::new());
        expected.push(line);
    }
    assert_eq!(expected.len(), 3);
    for csv in ["claim list --csv", "claim list --format csv"] {
        let found = without_time(lines(&host.gua(csv).stdout));
        assert_eq!(found, without_time(expected.clone()));
    }
    let text = host.gua("claim list --format text").stdout;
    for line in &expected {
        assert!(text.contains(&format!("(pid {} ", line["pid"])), "{text}");
        if let Some(id) = line.get("id") {
            assert!(text.contains(id.as_str()), "{text}");
        }
    }
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}
