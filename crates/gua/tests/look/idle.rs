//! For how long a GPU has been idle: the same answer in `gua list`, `gua me`, `gua top` and the report, also after a gap.

use gua_test::{Sleeper, schema, wait_until};
use serde_json::Value;

use crate::host;

#[test]
fn every_command_says_since_when_a_gpu_was_last_active() {
    let sleeper = Sleeper::new();
    let gpu = |util: u32| {
        let pid = sleeper.pid();
        format!(
            "[[gpu]]\nuuid = \"GPU-a\"\nutil = {util}\n[[gpu.process]]\npid = {pid}\nmemory_mib = 2048\n"
        )
    };
    let host = host(&gpu(50));
    let ticks = |least: usize| {
        let mut daemon = host.foreground("daemon --foreground --append --interval 100ms");
        wait_until("ticks", || daemon.stdout().lines().count() >= least);
        daemon.stop();
    };
    ticks(3);
    // A gap while nobody observes the GPU, then idle ticks, another gap, and idle ticks again.
    host.play(&gpu(0));
    ticks(3);
    ticks(3);
    let report = host.json("report --since 1h --json");
    let idle_since = &report["now"]["gpus"][0]["idle_since"];
    assert!(idle_since.is_string(), "{report}");
    assert_eq!(report["holders"][0]["idle_since"], *idle_since);
    let list = host.fine("list --json");
    schema::check("gua.list.v1", &list);
    let list: Value = serde_json::from_str(&list).unwrap();
    let listed = &list["gpus"][0];
    let me = host.json("me --json");
    for (surface, row) in [
        ("list", listed),
        ("holder in list", &listed["holders"][0]),
        ("me", &me["gpus"][0]),
    ] {
        assert_eq!(row["idle_since"], *idle_since, "{surface}");
        assert!(row["idle_seconds"].is_u64(), "{surface}: {row}");
        assert!(row["idle_unobserved_seconds"].is_u64(), "{surface}: {row}");
    }
    // The state itself is known since the last gap only. A quick restart leaves none.
    let began = listed["state_since"].as_str().unwrap();
    assert!(began >= idle_since.as_str().unwrap(), "{listed}");
    let csv = host.fine("list --csv");
    let head = csv.lines().next().unwrap();
    assert!(
        head.contains(",idle_since,") && head.contains(",holder_idle_since,"),
        "{head}"
    );
}

#[test]
fn the_demo_lists_the_same_idle_gpus_everywhere() {
    let home = crate::without_driver();
    let demo = home.fine("demo");
    let report = crate::after_the_month().json("report --since 30d --json");
    let top = home.fine("demo top --once");
    let holders = report["holders"].as_array().unwrap();
    assert_eq!(holders.len(), 3);
    for holder in holders {
        let index = &holder["gpu_index"];
        let line = demo
            .lines()
            .find(|line| line.contains(&format!("GPU {index} ")));
        let line = line.unwrap_or_else(|| panic!("GPU {index}: {demo}"));
        let length = line.split_once("idle for ").unwrap().1;
        let length = length.trim_start_matches('>');
        let seconds = holder["idle_seconds"].as_u64().unwrap();
        let age = gua_model::text::short_age(std::time::Duration::from_secs(seconds));
        assert_eq!(length, age, "{line}");
        // The month of `demo top` ends now, a quarter hour at most after its last tick.
        let row = top
            .lines()
            .find(|line| line.starts_with(&format!("{index} ")));
        let row = row.unwrap_or_else(|| panic!("GPU {index}: {top}"));
        let days = length.split_once('h').unwrap().0;
        assert!(row.contains(&format!("{days}h")), "{length}: {row}");
    }
}
