//! The energy of a GPU in MIG mode: the driver counts it once for the whole GPU, and every table gives it once, divided among
//! the instances by their slices and the rest of the GPU.

use gua_model::{Gpu, Millijoules, Missing, Place, Slice};
use gua_store::WriterOptions;
use gua_test::TestHost;
use gua_test::recorded::{MINUTE, Recorder};
use gua_test::samples;
use jiff::Timestamp;
use serde_json::Value;

use crate::without_driver;

const TICKS: u32 = 90;
/// Energy of a minute at a hundred watts.
const MINUTELY: u32 = 6_000_000;

/// An hour and a half of a GPU with an instance of three slices that ada holds, a free one of two, and two slices without an
/// instance. The driver counts energy for the physical GPU alone.
fn recorded() -> TestHost {
    let host = without_driver();
    let path = host.path("gua.db");
    let start: Timestamp = "2026-11-14T12:00:00Z".parse().unwrap();
    let options = WriterOptions::default();
    let mut recorder = Recorder::new(&path, &options, start, MINUTE.unsigned_abs());
    let mut at = start;
    for number in 0..=TICKS {
        let parent = Gpu {
            place: Place::Parent { instances: 2 },
            util: Err(Missing::Unsupported),
            energy: Ok(Millijoules(1_000_000_000 + u64::from(number * MINUTELY))),
            ..samples::gpu(0, "GPU-0", 0, Vec::new())
        };
        let instance = |uuid: &str, slices: u32, processes| Gpu {
            place: Place::Instance {
                parent: "GPU-0".parse().unwrap(),
                gpu_instance: Ok(slices),
                compute_instance: Ok(0),
                slice: Ok(Slice { slices, of: 7 }),
            },
            energy: Err(Missing::Unsupported),
            ..samples::gpu(0, uuid, 50, processes)
        };
        let ada = samples::process(4711, samples::user(1001, "ada"), 4000);
        let gpus = vec![
            parent,
            instance("MIG-a", 3, vec![ada]),
            instance("MIG-b", 2, Vec::new()),
        ];
        recorder.tick(at, gpus);
        at += MINUTE;
    }
    recorder.close(at);
    host
}

/// Sum of the energy in an exported table, in millijoules.
fn exported(host: &TestHost, what: &str) -> u32 {
    let window = "--since 2026-11-14T12:00:00 --until 2026-11-14T13:30:00 --tz UTC";
    let rows = host.fine(&format!(
        "export --db gua.db --what {what} --format jsonl {window}"
    ));
    let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
    let energy = rows.filter_map(|row: Value| row["energy_millijoules"].as_u64());
    u32::try_from(energy.sum::<u64>()).unwrap()
}

#[test]
fn the_energy_of_a_divided_gpu_is_in_every_table_once() {
    let host = recorded();
    let whole = TICKS * MINUTELY;
    assert_eq!(exported(&host, "samples"), whole);
    assert_eq!(exported(&host, "totals"), whole);
    // Sums of quarter hours are rounded to the millijoule.
    let ada = exported(&host, "user-totals");
    assert!(ada.abs_diff(whole / 7 * 3) <= TICKS, "{ada}");
    let report =
        "report --db gua.db --since 2026-11-14T12:00:00 --until 2026-11-14T13:30:00 --tz UTC";
    // The part of the GPU is shown beside its hours.
    let table = host.fine(&format!("{report} --by gpu"));
    for part in ["2/7 of GPU 0", "3/7 of GPU 0"] {
        assert!(table.contains(part), "{table}");
    }
    let report: Value = serde_json::from_str(&host.fine(&format!("{report} --json"))).unwrap();
    let kwh = report["users"][0]["energy_kwh"].as_f64().unwrap();
    assert!((kwh * 3.6e9 - f64::from(ada)).abs() < 2e4, "{kwh}");
    let gpus = report["gpus"].as_array().unwrap().iter();
    let kwh: f64 = gpus.filter_map(|gpu| gpu["energy_kwh"].as_f64()).sum();
    assert!((kwh * 3.6e9 - f64::from(whole)).abs() < 2e4, "{kwh}");
}
