//! Scenario files: the shipped ones are valid, invalid ones are refused with a reason, and nothing makes the parser
//! panic.

use crate::stage::{Stage, own_scenarios};
use nvml_sim::scenario::{Burst, Scenario, Value};
use proptest::prelude::*;

#[test]
fn every_shipped_scenario_can_be_played_and_serialised() {
    let files = own_scenarios();
    assert!(files.len() >= 4);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let scenario =
            Scenario::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let again = Scenario::parse(&scenario.to_toml().unwrap()).unwrap();
        assert_eq!(scenario, again);
        let stage = Stage::new(&scenario);
        assert_eq!(
            stage.count(),
            Ok(u32::try_from(scenario.gpus.len()).unwrap())
        );
    }
}

#[test]
fn the_readme_documents_every_key() {
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let (_, block) = readme.split_once("```toml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let scenario = Scenario::parse(block).unwrap_or_else(|error| panic!("{error}"));
    let debug = format!("{scenario:?}");
    assert!(!debug.contains(": None"), "a key is missing: {debug}");
    let lines = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `{ ")?.split_once(" }` |"));
    let mut count = 0;
    for (line, _) in lines {
        Scenario::parse(&format!("[[gpu]]\nutil = {{ {line} }}"))
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn a_mistake_is_reported_with_its_line() {
    let check = |text: &str, expected: &str| {
        let error = Scenario::parse(text).unwrap_err().to_string();
        assert!(
            error.contains(expected) && !error.contains('\n'),
            "{text:?} gives {error:?}"
        );
    };
    check("[[gpu]]\nutl = 3\n", "line 2: unknown field `utl`");
    check(
        "[[gpu]]\nutil = \"much\"\n",
        "line 2: invalid value: string \"much\"",
    );
    check(
        "[[gpu]]\nutil = { ramp = {from=0,to=1,seconds=1}, steps = [[0,1]] }\n",
        "one of `ramp`, `square`, `bursts`, `steps`",
    );
    check(
        "[[gpu]]\nutil = { steps = [[5,1],[0,2]] }\n",
        "each later than the one before",
    );
    check(
        "[[gpu]]\nutil = { square = { low = 0, high = 1, period = 2 }, every = 3 }\n",
        "repeats by its `period`",
    );
    check(
        "[[gpu]]\nutil = \"unknown\"\n",
        "GPU 0: only a process's memory can be \"unknown\"",
    );
    check(
        "[[gpu]]\nuuid = \"a\"\n[[gpu]]\nuuid = \"a\"\n",
        "uuid `a` occurs twice",
    );
    check(
        "[[fault]]\nfunction = \"nvmlInit*\"\n",
        "a fault needs one of",
    );
    check(
        "[[fault]]\ncode = \"NO_SUCH_CODE\"\n",
        "line 2: invalid value",
    );
    check("[clock]\nscale = 0\n", "clock.scale must be above 0");
    check("[[gpu]]\nutil = nan\n", "finite");
}

#[test]
fn every_kind_of_value_can_be_serialised() {
    let burst = Burst {
        at: 3.0,
        seconds: 0.4,
        value: 90.0,
    };
    for value in [
        Value::from(30.5),
        Value::ramp(0.0, 100.0, 60.0),
        Value::square(0.0, 100.0, 10.0),
        Value::bursts([burst], 1.0),
        Value::steps([(0.0, 10.0), (5.0, 80.0)]),
        Value::Unsupported,
    ] {
        let mut scenario = Scenario::parse("[[gpu]]").unwrap();
        scenario.gpus[0].util = Some(value);
        assert_eq!(Scenario::parse(&scenario.to_toml().unwrap()), Ok(scenario));
    }
}

/// A table with some of its keys and unusual values; each key at most once, so that most of them can be parsed.
fn table(head: &'static str, keys: &'static [&'static str]) -> impl Strategy<Value = String> {
    let numbers: &'static [&'static str] = &[
        "0",
        "-1",
        "0.5",
        "3",
        "100",
        "1e308",
        "-1e308",
        "1e-300",
        "4294967295",
        "9223372036854775807",
        "1e18",
    ];
    let number = prop::sample::select(numbers);
    let value = prop_oneof![
        4 => number.clone().prop_map(str::to_owned),
        1 => number.clone().prop_map(|number| format!("{{ ramp = {{ from = 5, to = {number}, seconds = {number} }} }}")),
        1 => number.clone().prop_map(|number| format!("{{ square = {{ low = {number}, high = 9, period = 1e-9 }} }}")),
        1 => number.clone().prop_map(|number| format!("{{ steps = [[0, 1], [1e17, {number}]], every = 1e-18 }}")),
        1 => number.prop_map(|number| format!("{{ bursts = [{{ at = {number}, for = {number}, value = {number} }}] }}")),
        1 => prop::sample::select(&["inf", "nan", "\"\"", "\"unknown\"", "\"unsupported\"", "true", "[[0, inf]]"][..]).prop_map(str::to_owned),
    ];
    let lines = prop::collection::btree_map(prop::sample::select(keys), value, 0..4);
    lines.prop_map(move |lines| {
        let lines = lines
            .into_iter()
            .map(|(key, value)| format!("{key} = {value}\n"));
        format!("{head}\n{}", lines.collect::<String>())
    })
}

/// Scenarios of which many are well formed and few are sensible.
fn pieces() -> impl Strategy<Value = String> {
    let gpus = (
        table(
            "[[gpu]]",
            &[
                "util",
                "power_w",
                "energy_mj",
                "memory_used_mib",
                "memory_total_mib",
                "memory_reserved_mib",
                "lost",
                "absent",
                "fans",
                "name",
            ],
        ),
        table(
            "[[gpu.process]]",
            &[
                "pid",
                "memory_mib",
                "memory_bytes",
                "sm_util",
                "from",
                "until",
            ],
        ),
        table(
            "[[gpu.mig]]",
            &[
                "index",
                "gpu_instance",
                "memory_total_mib",
                "memory_used_mib",
                "slices",
            ],
        ),
        any::<bool>(),
    );
    let gpu = gpus.prop_map(|(gpu, process, mig, cut)| {
        let mig = if cut { mig } else { String::new() };
        format!("{gpu}{process}{mig}")
    });
    (
        table("[clock]", &["scale", "at", "origin_unix_ms"]),
        table(
            "[buffers]",
            &["samples", "period_ms", "process_samples", "junk_every"],
        ),
        prop::collection::vec(gpu, 0..3),
    )
        .prop_map(|(clock, buffers, gpus)| format!("{clock}{buffers}{}", gpus.concat()))
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Scenario::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_combination_of_keys_makes_the_parser_panic(text in pieces()) {
        if let Ok(scenario) = Scenario::parse(&text) {
            prop_assert!(scenario.to_toml().is_ok());
        }
    }
}
