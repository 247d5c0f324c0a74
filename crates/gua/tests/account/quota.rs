//! `gua quota`: limits are set, stored, shown and checked. Ada holds both GPUs for two hours; root shares the second,
//! which is idle.

use std::os::unix::fs::PermissionsExt as _;

use gua_probe::clock;
use jiff::SignedDuration;
use serde_json::Value;

use crate::{GUA, host};
use gua_test::TestHost;
use gua_test::recorded::record;

/// A history of two hours up to now: ada holds 4 h (2 idle, 3 charged), root 2 h (2 idle, 1 charged).
fn two_hours() -> TestHost {
    let host = host("");
    let from = clock::now() - SignedDuration::from_hours(2);
    record(&host.path(".gua/gua.db"), from, 120, |_| {
        vec![(90, &["ada"]), (0, &["ada", "root"])]
    });
    host
}

/// Rows of `quota show` as (name, measure, used, status).
fn shown(host: &TestHost, rest: &str) -> Vec<(String, String, f64, String)> {
    let output = host.fine(&format!("quota show --json {rest}"));
    let json: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(json["schema_version"], 1);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let rows = json["quotas"].as_array().unwrap().iter();
    rows.map(|row| {
        let used = row["used"].as_f64().unwrap_or(-1.0);
        (
            text(&row["name"]),
            text(&row["measure"]),
            (used * 100.0).round() / 100.0,
            text(&row["status"]),
        )
    })
    .collect()
}

#[track_caller]
fn check(host: &TestHost, rest: &str, expected: &[(&str, &str, f64, &str)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, measure, used, status)| {
            (
                (*name).to_owned(),
                (*measure).to_owned(),
                *used,
                (*status).to_owned(),
            )
        })
        .collect();
    assert_eq!(shown(host, rest), expected);
}

#[test]
fn limits_are_set_shown_checked_and_removed() {
    let host = two_hours();
    assert!(host.fine("quota show").starts_with("no limits are set"));
    let output = host.fine("quota set --everyone --held 3h --idle-held 5h --per 5d");
    assert!(
        output
            .contains("everyone: held at most 3h per 5d\neveryone: idle-held at most 5h per 5d\n"),
        "{output}"
    );
    check(
        &host,
        "",
        &[
            ("ada", "held", 4.0, "over"),
            // Two hours used in five days extrapolate to far more than the limit.
            ("root", "held", 2.0, "pace"),
            ("ada", "idle-held", 2.0, "pace"),
            ("root", "idle-held", 2.0, "pace"),
        ],
    );
    let ended = host.gua("quota check");
    assert_eq!(ended.code, 1);
    assert!(
        ended.stdout.contains("OVER") && !ended.stdout.contains("root"),
        "{ended:?}"
    );
    // Her own limit takes precedence over the limit for everyone.
    host.fine("quota set --user ada --held 100d --per 5d");
    let ended = host.gua("quota check");
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "nobody is over a limit; 3 limits checked\n")
    );
    assert_eq!(host.gua("quota check --forecast").code, 1);
    check(
        &host,
        "--user root",
        &[
            ("root", "held", 2.0, "pace"),
            ("root", "idle-held", 2.0, "pace"),
        ],
    );
    assert_eq!(
        host.fine("quota remove --user ada"),
        format!(
            "removed 1 limit from {}\n",
            host.path(".gua/config.toml").display()
        )
    );
    assert_eq!(host.gua("quota check").code, 1);
    // Two hours are less than a hundredth of a month: too little for a forecast, and the output says so.
    host.fine("quota remove --everyone");
    host.fine("quota set --user root --held 3h --per 30d");
    check(&host, "", &[("root", "held", 2.0, "fine")]);
    let shown = host.fine("quota show");
    assert!(shown.contains("too early"), "{shown}");
    let json = host.fine("quota show --json");
    assert!(json.contains("\"no_forecast\": \"too_early\""), "{json}");
    let ended = host.gua("quota check --forecast");
    assert_eq!(ended.code, 0);
    assert!(
        ended.stderr.contains("1 limit without a forecast"),
        "{ended:?}"
    );
    let gone = host.gua("quota remove --user ada");
    assert_eq!(gone.code, 1);
    assert!(gone.stderr.contains("no such limit"), "{gone:?}");
}

#[test]
fn a_limit_for_everyone_applies_to_a_person_without_use() {
    let host = two_hours();
    host.fine("quota set --user ada --held 1h --per day --force");
    let show = "quota show --user daemon";
    assert_eq!(host.fine(show), "no limit applies to daemon\n");
    host.fine("quota set --everyone --held 2h --per day");
    let expected =
        "daemon: no use is recorded yet; limits that apply:\n  everyone: held at most 2h per day\n";
    assert_eq!(host.fine(show), expected);
}

#[test]
fn charged_hours_energy_groups_and_totals_match_the_report() {
    let host = two_hours();
    host.fine("quota set --group root --charged 2h --per month --each");
    host.fine("quota set --group root --held 1h --per 30d");
    host.fine("quota set --everyone --charged 3h --per 30d --together");
    host.fine("quota set --user ada --energy 1kWh --per 5d");
    let rows = shown(&host, "--tz UTC");
    let of = |measure: &str, name: &str| {
        let found = rows.iter().find(|row| row.1 == measure && row.0 == name);
        found.map(|row| (row.2, row.3.clone()))
    };
    // The group `root` contains the user root on every system; together the two exceed the limit.
    assert_eq!(
        of("held", "root"),
        Some((2.0, "over".to_owned())),
        "{rows:?}"
    );
    assert_eq!(
        of("charged", "-"),
        Some((4.0, "over".to_owned())),
        "{rows:?}"
    );
    let report = host.fine("report --since 30d --json");
    let report: Value = serde_json::from_str(&report).unwrap();
    let people = report["users"]
        .as_array()
        .or(report["people"].as_array())
        .unwrap();
    let ada = people.iter().find(|row| row["user"] == "ada").unwrap();
    let energy = ada["energy_kwh"].as_f64().unwrap();
    let (used, status) = of("energy", "ada").unwrap();
    assert!(
        (used - energy).abs() < 0.006 && used > 0.2,
        "{used} {energy}"
    );
    assert_eq!(status, "pace");
    // All formats have the same numbers.
    let csv = host.fine("quota show --csv");
    assert_eq!(csv.lines().count(), 1 + rows.len(), "{csv}");
    assert!(
        csv.starts_with("subject,name,share,measure,unit,per,from,to,used,limit,left,"),
        "{csv}"
    );
    assert!(host.fine("quota show").contains("group root"), "the text");
}

#[test]
fn set_keeps_comments_and_does_not_touch_a_broken_file() {
    let host = two_hours();
    let before = "# ours\n[states]\nheld_mb = 100 # as ever\n";
    let file = host.write(".gua/config.toml", before);
    host.fine("quota set --everyone --held 20h --per day");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        text,
        format!("{before}\n[[quota]]\nheld = \"20h\"\nper = \"day\"\n")
    );
    host.fine("config check");
    let shown = host.fine("config show");
    assert!(
        shown.contains("[[quota]]\nheld = \"20h\"\nper = \"day\"\n"),
        "{shown}"
    );
    host.fine("quota set --everyone --held 30h --per day");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        text.replace("20h", "30h")
    );

    let broken = "[[quota]]\nuser = \"ada\"\nheld = \"many\"\n";
    std::fs::write(&file, broken).unwrap();
    for line in [
        "quota set --everyone --held 1h --per day",
        "quota show",
        "quota check",
    ] {
        let ended = host.gua(line);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("quota"), "{ended:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), broken);
    let checked = host.gua("config check");
    assert!(
        checked
            .stdout
            .contains("config.toml:1:1: quota: per is missing"),
        "{checked:?}"
    );
    assert!(
        checked
            .stdout
            .contains("config.toml:3:8: quota.held: expected GPU hours such as 100h, found `many`"),
        "{checked:?}"
    );
}

#[test]
fn limits_set_concurrently_are_all_kept() {
    let host = host("");
    let mut setting: Vec<_> = (1..=20)
        .map(|hours| {
            let line = format!("quota set --user u{hours} --held {hours}h --per day --force");
            let mut command = host.command(GUA);
            let command = command.args(line.split_whitespace());
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for child in &mut setting {
        assert!(child.wait().unwrap().success());
    }
    let text = host.read(".gua/config.toml");
    for hours in 1..=20 {
        let limit = format!("[[quota]]\nuser = \"u{hours}\"\nheld = \"{hours}h\"\n");
        assert!(text.contains(&limit), "{hours}: {text}");
    }
    let left = std::fs::read_dir(host.path(".gua")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".config.toml.lock", "config.toml"]);
}

#[test]
fn a_new_file_of_the_host_is_readable_by_every_user_and_a_users_directory_is_private() {
    let host = host("");
    let host = host.variable("GUA_TEST_SYSTEM_CONFIG", "etc/gua/config.toml");
    for place in ["--system", ""] {
        let line = format!("umask 077; {GUA} quota set {place} --everyone --held 1h --per day");
        let mut shell = host.command("/bin/sh");
        let ended = shell.args(["-c", &line]).output();
        assert!(ended.unwrap().status.success(), "{place}");
    }
    let mode = |name: &str| host.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("etc/gua"), 0o755);
    assert_eq!(mode("etc/gua/config.toml"), 0o644);
    assert_eq!(mode(".gua"), 0o700);
}

#[test]
fn invalid_arguments_are_refused_with_one_sentence() {
    let host = two_hours();
    for (line, words) in [
        (
            "quota set --user nobody-like-this --held 1h --per day",
            "unknown user `nobody-like-this`: neither on this host nor in the history",
        ),
        (
            "quota set --group nobody-like-this --held 1h --per day",
            "unknown group `nobody-like-this`",
        ),
        (
            "quota set --user ada --held 10 --per day",
            "--held: expected GPU hours such as 100h, found `10`",
        ),
        (
            "quota set --user ada --energy 10h --per day",
            "--energy: expected an energy such as 50kWh, found `10h`",
        ),
        (
            "quota set --user ada --held 10h --per year",
            "--per: expected day, week, month, or a duration",
        ),
        ("quota set --user ada --per day", "required"),
        ("quota set --held 1h --per day", "required"),
        (
            "quota set --user ada --everyone --held 1h --per day",
            "cannot be used",
        ),
        (
            "quota check --formula percent",
            "does not support --formula percent",
        ),
        (
            "quota show --formula percent --db nowhere.db",
            "hint: `gua daemon` creates one",
        ),
        ("quota show --tz Nowhere", "no time zone"),
    ] {
        let ended = host.gua(line);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        assert!(ended.stderr.contains(words), "{line}: {ended:?}");
    }
    assert!(!host.path(".gua/config.toml").exists());
    // A user who does not exist yet: the limit is listed as unmatched until then.
    host.fine("quota set --user nobody-like-this --held 1h --per day --force");
    let ended = host.gua("quota check");
    assert_eq!(ended.code, 0);
    assert!(
        ended
            .stderr
            .contains("config.toml:1: unknown user `nobody-like-this`"),
        "{ended:?}"
    );
    let missing = host.gua("quota check --db nowhere.db");
    assert_eq!(missing.code, 2, "{missing:?}");
}

#[test]
fn a_check_that_cannot_judge_does_not_report_success() {
    let host = host("");
    // gpu_stats CSV files record neither energy nor how a GPU was shared.
    let hour_ago = clock::now().as_second() - 3600;
    let rows = (0..6).map(|row| format!("{},ada,7,0,90\n", hour_ago + row * 300));
    let text = format!("timestamp,user,pid,gpu,usage\n{}", rows.collect::<String>());
    host.write("days/20261031_gpu_stats.csv", &text);
    host.fine("import --gpu-stats days");
    host.fine("quota set --user ada --held 3h --per 30d");
    assert_eq!(host.gua("quota check").code, 0);
    host.fine("quota set --user ada --energy 1kWh --charged 3h --per 30d");
    let ended = host.gua("quota check");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("not measured"), "{ended:?}");
    assert!(!ended.stdout.contains("held"), "{ended:?}");
    assert_eq!(
        ended.stderr,
        "gua quota check: 2 limits cannot be evaluated: measurements are missing\n"
    );
    check(
        &host,
        "",
        &[
            ("ada", "held", 0.5, "fine"),
            ("ada", "charged", -1.0, "unknown"),
            ("ada", "energy", -1.0, "unknown"),
        ],
    );
}

#[test]
fn percentages_match_the_formula_in_the_gpu_stats_notes() {
    let host = host("");
    // One imported hour of gpu_stats at 90 percent, beside one hour of our own at 50 percent.
    let now = clock::now();
    record(
        &host.path(".gua/gua.db"),
        now - SignedDuration::from_mins(30),
        30,
        |_| vec![(50, &["ada"])],
    );
    let output = host.fine("quota show --formula percent --csv --tz UTC");
    let mut lines = output.lines();
    assert_eq!(
        lines.next(),
        Some("user,hour_percent,day_percent,week_percent,month_percent")
    );
    let cells: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(cells[0], "ada");
    // Thirty samples of one minute at 50 sum to 1500; a month has 43200 minutes. The window can span midnight.
    let hour: f64 = cells[1].parse().unwrap();
    assert!(
        (hour - 25.0).abs() < 1.0,
        "half an hour at 50 percent: {hour}"
    );
    let month: f64 = cells[4].parse().unwrap();
    let begun = Value::from(month);
    assert!(month <= 1500.0 / 43_200.0 + 1e-6 && month > 0.0, "{begun}");
    let day: f64 = cells[2].parse().unwrap();
    assert!(day <= 1500.0 / 1440.0 + 1e-6, "{day}");
    // Two hours ago nobody was there yet.
    let before = host.fine("quota show --formula percent --csv --tz UTC --ago 2");
    assert!(!before.contains(&format!("ada,{hour}")), "{before}");
    assert_eq!(host.gua("quota show --ago 1").code, 2);
    // Time observed by our own collector counts once, although an imported file covers it too.
    host.fine("export --format gpu-usage-audit -o old.db");
    host.fine("import old.db");
    let again = host.fine("quota show --formula percent --csv --tz UTC");
    assert_eq!(again, output);
}

/// Name of the user who runs this test, as the history records it.
fn own_name() -> String {
    let output = std::process::Command::new("id")
        .arg("-un")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_limit_that_cannot_be_judged_is_reported_when_a_gpu_is_requested() {
    let host = host("[[gpu]]\nuuid = \"GPU-0\"\n");
    let user = own_name();
    let hour_ago = clock::now().as_second() - 3600;
    let rows = (0..6).map(|row| format!("{},{user},7,0,90\n", hour_ago + row * 300));
    let text = format!("timestamp,user,pid,gpu,usage\n{}", rows.collect::<String>());
    host.write("days/20261031_gpu_stats.csv", &text);
    host.fine("import --gpu-stats days");
    host.fine(&format!("quota set --user {user} --energy 1kWh --per 30d"));
    let ended = host.gua("available --respect-quota --rule gua --free-for 0s");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "0\n"), "{ended:?}");
    let expected = "gua available: 1 limit cannot be evaluated: measurements are missing\n";
    assert!(ended.stderr.contains(expected), "{ended:?}");
}

#[test]
fn a_user_over_quota_gets_no_gpu_when_quotas_are_enforced() {
    let user = own_name();
    let user = user.as_str();
    let host = host("[[gpu]]\nuuid = \"GPU-0\"\n");
    let from = clock::now() - SignedDuration::from_hours(2);
    let people = [user];
    record(&host.path(".gua/gua.db"), from, 120, |_| {
        vec![(90, &people)]
    });
    let free = "available --respect-quota --rule gua --free-for 0s";
    assert_eq!(host.fine(free), "0\n", "without limits");
    host.fine("quota set --everyone --held 3h --per 30d");
    assert_eq!(host.fine(free), "0\n", "within the limit");
    host.fine(&format!("quota set --user {user} --held 1h --per 30d"));
    let ended = host.gua(free);
    assert_eq!((ended.code, ended.stdout.as_str()), (3, ""), "{ended:?}");
    let expected = format!("gua available: {user} is over quota: held 2.00 of 1.00 h per 30d\n");
    assert!(ended.stderr.starts_with(&expected), "{ended:?}");
    assert_eq!(host.gua("available --respect-quota --claim 1m").code, 3);
    // Limits apply only when the caller asks for them.
    assert_eq!(host.fine("available --free-for 0s"), "0\n");
}
