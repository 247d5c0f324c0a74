//! `gua list`, `gua available` and the names nvgpu and nvl as users and scripts run them, on simulated GPUs, compared
//! with the programs that people use today.

mod available;
mod claim_formats;
mod claim_lifetimes;
mod claims;
mod crowd;
mod formats;
mod idle;
mod list;
mod mig;
mod peers;

use std::ops::Deref;

use gua_test::{Ended, Sleeper, TestHost};
use nvml_sim::driver::Generation;
use nvml_sim::scenario::Scenario;
use serde_json::Value;

use crate::GUA;

/// A host with two real processes. `ONE` and `OTHER` in a scenario become their pids.
struct Machine {
    host: TestHost,
    one: Sleeper,
    other: Sleeper,
}

impl Machine {
    fn new(scenario: &str) -> Self {
        Self::of(Generation::LATEST, scenario)
    }

    fn of(generation: Generation, scenario: &str) -> Self {
        let machine = Self {
            host: TestHost::of(GUA, generation, ""),
            one: Sleeper::new(),
            other: Sleeper::new(),
        };
        for name in ["nvgpu", "nvl"] {
            machine.link(name);
        }
        machine.play(scenario);
        machine
    }

    /// Replaces the scenario, which must be valid.
    fn play(&self, scenario: &str) {
        let text = scenario
            .replace("ONE", &self.one.pid().to_string())
            .replace("OTHER", &self.other.pid().to_string());
        Scenario::parse(&text).unwrap();
        self.host.play(&text);
    }

    /// Runs the program under another name.
    fn named(&self, name: &str, line: &str) -> Ended {
        self.run(self.path(name), line)
    }

    /// `gua list --json`.
    #[track_caller]
    fn listing(&self) -> Value {
        let ended = self.gua("list --json");
        assert_eq!(ended.stderr, "");
        ended.json()
    }
}

impl Deref for Machine {
    type Target = TestHost;

    fn deref(&self) -> &TestHost {
        &self.host
    }
}
