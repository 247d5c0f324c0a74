//! Tests of the checks of the host.

use crate::host::mount::Hiding;
use gua_model::Pid;

use super::*;
use crate::doctor::facts::PidSetting;
use crate::doctor::fixture::{assert_check, healthy};

/// Changes the healthy host and compares one check with the expected result.
fn check(
    judge: fn(&Facts) -> Finding,
    spoil: impl FnOnce(&mut Facts),
    (status, summary): (Status, &str),
    advice: &[&str],
) {
    let mut facts = healthy();
    spoil(&mut facts);
    assert_check(&judge(&facts), status, summary, advice);
}

#[test]
fn only_linux_will_do() {
    check(
        os,
        |_| {},
        (Status::Ok, "Linux 6.8.0-45-generic, x86_64"),
        &[],
    );
    let other = |facts: &mut Facts| facts.kernel.system = "FreeBSD".into();
    check(
        os,
        other,
        (Status::Error, "FreeBSD 6.8.0-45-generic, x86_64"),
        &["blocker: Run gua on Linux"],
    );
}

fn at(time: &str) -> impl FnOnce(&mut Facts) {
    let time: jiff::Timestamp = time.parse().unwrap();
    move |facts| facts.now = time.to_zoned(facts.now.time_zone().clone())
}

#[test]
fn a_clock_is_named_with_its_zone() {
    let shown = "2026-11-15 10:02:03 +09:00 (Asia/Seoul)";
    check(
        clock,
        |_| {},
        (Status::Ok, &format!("{shown}, synchronised")),
        &[],
    );
    let unknown = |facts: &mut Facts| facts.time_keeping.synchronised = None;
    check(
        clock,
        unknown,
        (Status::Ok, &format!("{shown}, synchronisation unknown")),
        &[],
    );
    let unset = |facts: &mut Facts| facts.time_keeping.synchronised = Some(false);
    let summary = format!("{shown}, not synchronised yet");
    check(
        clock,
        unset,
        (Status::Warning, &summary),
        &["advice: Check the time servers"],
    );
}

#[test]
fn a_clock_that_cannot_be_right_is_an_error() {
    let summary = "1970-01-01 09:00:07 +09:00 is not a plausible time";
    check(
        clock,
        at("1970-01-01T00:00:07Z"),
        (Status::Error, summary),
        &["advice: Set the clock"],
    );
    let summary = "2100-01-01 09:00:00 +09:00 is not a plausible time";
    check(
        clock,
        at("2100-01-01T00:00:00Z"),
        (Status::Error, summary),
        &["advice: Set the clock"],
    );
    let summary = "2026-10-31 09:00:00 +09:00 is before this host booted";
    check(
        clock,
        at("2026-10-31T00:00:00Z"),
        (Status::Error, summary),
        &["advice: Set the clock"],
    );
}

fn inside(namespace: PidNamespace, engines: &'static [&'static str]) -> impl FnOnce(&mut Facts) {
    move |facts| {
        facts.surroundings.pid_namespace = namespace;
        facts.surroundings.engines = engines.to_vec();
    }
}

#[test]
fn a_container_matters_where_it_hides_the_hosts_processes() {
    let advice = &["advice: Run gua on the host"];
    check(container, |_| {}, (Status::Ok, "none"), &[]);
    check(
        container,
        inside(PidNamespace::Unknown, &[]),
        (Status::Ok, "none known"),
        &[],
    );
    let summary = "in docker, and the host's processes are visible";
    check(
        container,
        inside(PidNamespace::Host, &["docker"]),
        (Status::Ok, summary),
        &[],
    );
    let summary = "in docker, kubernetes: the host's processes are not visible";
    check(
        container,
        inside(PidNamespace::Own, &["docker", "kubernetes"]),
        (Status::Warning, summary),
        advice,
    );
    let summary = "own PID namespace: the host's processes are not visible";
    check(
        container,
        inside(PidNamespace::Own, &[]),
        (Status::Warning, summary),
        advice,
    );
    let summary = "in podman: the host's processes are not visible";
    check(
        container,
        inside(PidNamespace::Unknown, &["podman"]),
        (Status::Warning, summary),
        advice,
    );
}

#[test]
fn the_setting_for_pids_is_named_where_it_matters() {
    let set = |namespace: PidNamespace, value: DriverPids| {
        move |facts: &mut Facts| {
            facts.surroundings.pid_namespace = namespace;
            facts.known.driver_pids = PidSetting {
                value,
                source: Some("environment GUA_DRIVER_PIDS".to_owned()),
            };
        }
    };
    let (own, host) = (PidNamespace::Own, PidNamespace::Host);
    let summary = "own PID namespace; the driver's PIDs are looked up here \
                   (driver.pids = \"here\", environment GUA_DRIVER_PIDS)";
    check(
        container,
        set(own, DriverPids::Here),
        (Status::Ok, summary),
        &[],
    );
    let summary = "own PID namespace: the host's processes are not visible \
                   (driver.pids = \"host\", environment GUA_DRIVER_PIDS)";
    let advice = &[
        "advice: Run gua on the host, or in a container started with `--pid=host`, to see the owners. \
         If the driver reports the PIDs of this namespace, set `driver.pids = \"here\"`",
    ];
    check(
        container,
        set(own, DriverPids::Host),
        (Status::Warning, summary),
        advice,
    );
    check(
        container,
        set(host, DriverPids::Here),
        (Status::Ok, "none"),
        &[],
    );
}

fn hiding(level: HideLevel, gid: Option<u32>, sees_everyone: bool) -> impl FnOnce(&mut Facts) {
    move |facts| {
        facts.hiding = Some(Hiding { level, gid });
        facts.privilege.groups = vec![1000, 27];
        facts.privilege.sees_everyone = sees_everyone;
    }
}

#[test]
fn hidden_processes_matter_to_those_who_may_not_see_them() {
    use HideLevel::{Invisible, NoAccess, Off, Ptraceable};
    let ordinary = false;
    let hidden = |word: &str| format!("{word}, so other users' processes are hidden");
    check(
        hidepid,
        hiding(Off, Some(5), ordinary),
        (Status::Ok, "off, every process is visible"),
        &[],
    );
    let summary = "invisible, and this user may see every process";
    check(
        hidepid,
        hiding(Invisible, None, true),
        (Status::Ok, summary),
        &[],
    );
    let summary = "invisible, and group 27 may see every process";
    check(
        hidepid,
        hiding(Invisible, Some(27), ordinary),
        (Status::Ok, summary),
        &[],
    );
    let advice = &["advice: Run gua as root or with CAP_SYS_PTRACE, or as a member of group 50."];
    check(
        hidepid,
        hiding(NoAccess, Some(50), ordinary),
        (Status::Warning, &hidden("noaccess")),
        advice,
    );
    let advice = &["advice: Run gua as root or with CAP_SYS_PTRACE."];
    check(
        hidepid,
        hiding(Ptraceable, Some(27), ordinary),
        (Status::Warning, &hidden("ptraceable")),
        advice,
    );
    let summary = "the mount options of /proc are not known";
    check(
        hidepid,
        |facts| facts.hiding = None,
        (Status::Skipped, summary),
        &[],
    );
}

fn running(list: &[(&'static str, u32)]) -> impl FnOnce(&mut Facts) {
    let list = list
        .iter()
        .map(|(name, pid)| Collector {
            name,
            pid: Pid(*pid),
        })
        .collect();
    move |facts| facts.collectors = Some(list)
}

#[test]
fn other_collectors_are_named_and_the_one_we_replace_is_to_be_stopped() {
    check(collectors, |_| {}, (Status::Ok, "none"), &[]);
    let others = running(&[(GUA, 7), ("nv-hostengine (DCGM)", 9)]);
    check(
        collectors,
        others,
        (
            Status::Ok,
            "gua daemon (pid 7), nv-hostengine (DCGM) (pid 9)",
        ),
        &[],
    );
    let python = running(&[(GPU_USAGE_AUDIT, 12)]);
    let advice = &["advice: Stop the Python collector (pid 12)"];
    check(
        collectors,
        python,
        (Status::Warning, "gpu-usage-audit (Python) (pid 12)"),
        advice,
    );
    let summary = "the search through the processes timed out";
    check(
        collectors,
        |facts| facts.collectors = None,
        (Status::Skipped, summary),
        &[],
    );
    let several = running(&[(GUA, 7), (GUA, 8)]);
    let summary = "gua daemon (pid 7), gua daemon (pid 8)";
    check(
        collectors,
        several,
        (Status::Warning, summary),
        &["advice: Keep one gua collector"],
    );
}

#[test]
fn problems_of_the_configuration_are_spelled_out() {
    check(config, |_| {}, (Status::Ok, "no problems"), &[]);
    let one = |facts: &mut Facts| facts.known.configuration = vec!["GUA_DB: empty\u{1b}".into()];
    check(
        config,
        one,
        (Status::Error, "GUA_DB: empty\u{fffd}"),
        &["advice: Correct the configuration"],
    );
    let many = |facts: &mut Facts| {
        facts.known.configuration = (0..9).map(|number| format!("problem {number}")).collect();
    };
    check(
        config,
        many,
        (Status::Error, "problem 0, and 8 more: gua config check"),
        &["advice: Correct the configuration"],
    );
}

#[test]
fn a_configuration_that_may_not_be_read_is_to_be_made_readable() {
    let problems = |number: usize| {
        move |facts: &mut Facts| {
            facts.known.configuration = vec!["/etc/gua/config.toml: cannot be read".into(); number];
            facts.known.unreadable_files = vec!["/etc/gua/config.toml".into()];
        }
    };
    let summary = "/etc/gua/config.toml: cannot be read";
    check(
        config,
        problems(1),
        (Status::Error, summary),
        &["advice: Make /etc/gua/config.toml readable."],
    );
    check(
        config,
        problems(2),
        (
            Status::Error,
            &format!("{summary}, and 1 more: gua config check"),
        ),
        &["advice: Make /etc/gua/config.toml readable, and correct what `gua config check` lists."],
    );
}
