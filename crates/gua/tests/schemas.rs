//! Every JSON document that a command prints is valid under its published schema in `docs/schema`, and every published schema
//! has a command that prints it.

use std::collections::BTreeSet;

use gua_test::{TestHost, schema, wait_until};

use crate::{after_the_month, host};

/// GPUs of each kind: held, free, in MIG mode, without a reading, defective and lost.
const GPUS: &str = "[[gpu]]\nuuid = \"GPU-a\"\nutil = 50\n[[gpu.process]]\npid = PID\nmemory_mib = 2048\n\
    [[gpu]]\nuuid = \"GPU-b\"\nutil = 0\n[[gpu.process]]\npid = PID\nmemory_mib = 900\n\
    [[gpu]]\nuuid = \"GPU-c\"\n\
    [[gpu]]\nuuid = \"GPU-d\"\n[[gpu.mig]]\nuuid = \"MIG-d\"\nprofile = \"3g.40gb\"\n\
    [[gpu]]\nuuid = \"GPU-e\"\nutil = \"unsupported\"\n\
    [[gpu]]\nuuid = \"GPU-f\"\necc = true\necc_uncorrected = 3\n\
    [[gpu]]\nuuid = \"GPU-g\"\nlost = [[0, inf]]\n";

const CONFIG: &str = "[[price]]\nper_gpu_hour = \"2 EUR\"\n\
    [[quota]]\nuser = \"*\"\ncharged = \"100h\"\nheld = \"200h\"\nper = \"week\"\n\
    [[group]]\nname = \"vision\"\nmembers = [\"ada\", \"bob\"]\n\
    [[group]]\nname = \"mars\"\nkind = \"project\"\nmembers = [\"ada\"]\n\
    [[alert]]\nwhen = [\"unhealthy\"]\nto = \"command\"\ncommand = [\"/bin/true\"]\n";

/// Commands on the month of the demo.
const OF_THE_MONTH: &[(&str, &str)] = &[
    ("gua.report.v1", "report --json"),
    ("gua.report.v1", "report --since 30d --compare --json"),
    ("gua.report.v1", "report --since 7d --user ada --json"),
    (
        "gua.report.v1",
        "report --since 7d --user ada --by gpu --json",
    ),
    ("gua.report.v1", "report --since 7d --gpu 2 --json"),
    ("gua.report.v1", "report --since 1d --by user --json"),
    ("gua.report.v1", "report --since 1d --by gpu --json"),
    ("gua.report.v1", "report --since 1d --by day --json"),
    ("gua.report.v1", "report --since 1d --by hour --json"),
    ("gua.report.v1", "report --since 1d --by state --json"),
    ("gua.report.v1", "report --since 1d --by group --json"),
    ("gua.report.v1", "report --since 1d --by project --json"),
    ("gua.report.v1", "report --since 1d --by job --json"),
    ("gua.report.v1", "report --since 1d --by container --json"),
    ("gua.report.v1", "report --db empty.db --json"),
    ("gua.plot.v1", "plot states --since 1d --format json"),
    ("gua.plot.v1", "plot hours --since 7d --format json"),
    ("gua.plot.v1", "plot heat --since 1d --format json"),
    ("gua.plot.v1", "plot sessions --since 7d --format json"),
    ("gua.plot.v1", "plot quiet --since 7d --format json"),
    ("gua.statement.v1", "statement --month 2026-10 --json"),
    (
        "gua.statement.v1",
        "statement --month 2026-10 --user ada --json",
    ),
    ("gua.quota.v1", "quota show --json"),
    (
        "gua.quota-percentages.v1",
        "quota show --formula percent --json",
    ),
    ("gua.explain.v1", "explain 2 --at 2h --json"),
    // In the outage, and before the first tick.
    (
        "gua.explain.v1",
        "explain 2 --at 2026-10-12T03:00 --tz UTC --json",
    ),
    ("gua.explain.v1", "explain 2 --at 2026-08-01 --json"),
    ("gua.db-stats.v1", "db stats --json"),
    ("gua.db-check.v1", "db check --json"),
];

/// Commands on a host with GPUs.
const OF_A_HOST: &[(&str, &str)] = &[
    ("gua.list.v1", "list --json"),
    ("gua.available.v1", "available --json"),
    ("gua.available.v1", "available --unhealthy --limit 0 --json"),
    ("gua.claims.v1", "claim list --json"),
    ("gua.me.v1", "me --json"),
    ("gua.alerts.v1", "alert list --json"),
    ("gua.alert-history.v1", "alert history --json"),
    ("gua.config.v1", "config show --json"),
    ("gua.doctor.v1", "doctor --json"),
    ("gua.sample.v1", "doctor --sample"),
    ("gua.explain.v1", "explain GPU-a --json"),
    ("gua.explain.v1", "explain GPU-d --json"),
    ("gua.explain.v1", "explain MIG-d --json"),
    ("gua.bench.v1", "bench --json"),
    ("gua.report.v1", "report --json"),
    ("gua.runs.v1", "runs list --json"),
    ("gua.runs.v1", "runs compare last last --json"),
    ("gua.db-stats.v1", "db stats --json"),
];

#[track_caller]
fn check(home: &TestHost, commands: &[(&str, &str)]) {
    let printed: Vec<String> = commands
        .iter()
        .map(|(_, line)| home.gua(line).stdout)
        .collect();
    let documents = commands.iter().zip(&printed);
    let documents: Vec<_> = documents
        .map(|((name, line), text)| (*name, *line, text.as_str()))
        .collect();
    schema::check_all(&documents);
}

#[test]
fn documents_about_the_month_follow_their_schemas() {
    let home = after_the_month();
    std::fs::write(home.path(".gua/config.toml"), CONFIG).unwrap();
    home.fine("demo --db empty.db --ticks 0");
    check(&home, OF_THE_MONTH);
}

#[test]
fn documents_about_a_host_follow_their_schemas() {
    let sleeper = gua_test::Sleeper::new();
    let home = host(&GPUS.replace("PID", &sleeper.pid().to_string()));
    std::fs::create_dir_all(home.path(".gua")).unwrap();
    std::fs::write(home.path(".gua/config.toml"), CONFIG).unwrap();
    let mut daemon = home.foreground("daemon --foreground --interval 100ms");
    wait_until("three ticks", || daemon.stdout().lines().count() >= 3);
    daemon.stop();
    home.fine("available --claim 1h");
    home.fine("run --quiet --out out --gpus all --interval 20ms -- sleep 0.2");
    check(&home, OF_A_HOST);
    schema::check("gua.summary.v1", &home.read("out/summary.json"));
}

#[test]
fn every_published_schema_has_a_document_here() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
    let files = std::fs::read_dir(directory).unwrap().flatten();
    let published: BTreeSet<String> = files
        .map(|file| file.file_name().into_string().unwrap().replace(".json", ""))
        .collect();
    let commands = OF_THE_MONTH.iter().chain(OF_A_HOST);
    let mut checked: BTreeSet<String> = commands.map(|(name, _)| (*name).to_owned()).collect();
    checked.insert("gua.summary.v1".to_owned());
    // The documents that a daemon sends are checked in the tests of alerts.
    checked.insert("gua.alert.v1".to_owned());
    // Documents about a board are checked in the tests of boards.
    checked.insert("gua.board-list.v1".to_owned());
    // The document of the Python package is checked in a test of its own.
    checked.insert("gua.history.v1".to_owned());
    assert_eq!(checked, published);
}
