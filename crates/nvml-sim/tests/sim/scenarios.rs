//! Scenario files: ours are right, others' are refused with a reason, and nothing makes the parser panic.

use crate::stage::{Stage, own_scenarios};
use nvml_sim::scenario::{Burst, Scenario, Value};
use proptest::prelude::*;

#[test]
fn every_scenario_that_we_ship_can_be_played_and_survives_being_written() {
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
            Ok(u32::try_from(scenario.cards.len()).unwrap())
        );
    }
}

#[test]
fn a_mistake_is_named_with_its_place() {
    let check = |text: &str, expected: &str| {
        let error = Scenario::parse(text).unwrap_err().to_string();
        assert!(
            error.contains(expected) && !error.contains('\n'),
            "{text:?} gives {error:?}"
        );
    };
    check("[[card]]\nutl = 3\n", "line 2: unknown field `utl`");
    check(
        "[[card]]\nutil = \"much\"\n",
        "line 2: invalid value: string \"much\"",
    );
    check(
        "[[card]]\nutil = { ramp = {from=0,to=1,seconds=1}, steps = [[0,1]] }\n",
        "one of `ramp`, `square`, `bursts`, `steps`",
    );
    check(
        "[[card]]\nutil = { steps = [[5,1],[0,2]] }\n",
        "each later than the one before",
    );
    check(
        "[[card]]\nutil = \"unknown\"\n",
        "card 0: only a process's memory can be \"unknown\"",
    );
    check(
        "[[card]]\nuuid = \"a\"\n[[card]]\nuuid = \"a\"\n",
        "uuid `a` stands there twice",
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
    check("[[card]]\nutil = nan\n", "finite");
}

#[test]
fn every_kind_of_value_survives_being_written() {
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
        let mut scenario = Scenario::parse("[[card]]").unwrap();
        scenario.cards[0].util = Some(value);
        assert_eq!(Scenario::parse(&scenario.to_toml().unwrap()), Ok(scenario));
    }
}

/// Pieces of scenarios, shuffled: more of them get past the syntax than of random bytes.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "[[card]]\n",
        "[[card.process]]\n",
        "[[card.mig]]\n",
        "[[fault]]\n",
        "[clock]\n",
        "[buffers]\n",
        "[driver]\n",
        "util = ",
        "power_w = ",
        "pid = ",
        "memory_mib = ",
        "memory_total_mib = ",
        "scale = ",
        "at = ",
        "period_ms = ",
        "samples = ",
        "index = ",
        "code = ",
        "pci = ",
        "lost = ",
        "uuid = ",
        "name = ",
        "origin_unix_ms = ",
        "{ square = { low = 0, high = 9, period = ",
        " } }\n",
        "{ steps = [[0, ",
        "]] }\n",
        "{ ramp = { from = 0, to = 1, seconds = ",
        "\"\"",
        "\"unknown\"",
        "\"\u{e9}\u{0}\"",
        "0\n",
        "-1\n",
        "1e308\n",
        "nan\n",
        "inf\n",
        "1e-300\n",
        "18446744073709551615\n",
        "9223372036854775807\n",
        "\"00000000:41:00.0\"\n",
        "[[0, inf]]\n",
        "\n",
        "3\n",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Scenario::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_mixture_of_keys_makes_the_parser_panic(text in pieces()) {
        if let Ok(scenario) = Scenario::parse(&text) {
            prop_assert!(scenario.to_toml().is_ok());
        }
    }
}
