//! A scenario file of the simulated driver.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nvml_sim::scenario::Scenario;

fuzz_target!(|text: &str| {
    if let Ok(scenario) = Scenario::parse(text) {
        let written = scenario.to_toml().expect("a parsed scenario can be serialised");
        assert_eq!(Scenario::parse(&written).expect("and parsed again"), scenario);
    }
});
