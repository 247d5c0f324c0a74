//! The parts of `summary.json` that pages show, read from what a user stored. A value that is missing or has another type is
//! left out; the rest is still shown. `gua-run` writes the document (`gua.summary.v1`).

use std::collections::BTreeMap;
use std::ops::Deref;

use gua_model::State;
use gua_model::run::RolledUp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// A value, or the default if the stored one has another type.
#[derive(Debug, Default)]
pub(super) struct Fit<T>(T);

impl<T> Deref for Fit<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for Fit<T> {
    fn deserialize<D: Deserializer<'de>>(stored: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Stored<T> {
            Fits(T),
            Other(IgnoredAny),
        }

        Ok(match Stored::deserialize(stored)? {
            Stored::Fits(value) => Self(value),
            Stored::Other(_) => Self::default(),
        })
    }
}

type Number = Fit<Option<f64>>;
type Count = Fit<Option<u64>>;
type Text = Fit<Option<String>>;
type List<T> = Fit<Vec<Fit<T>>>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Summary {
    pub(super) gpu_util_mean_pct: Number,
    pub(super) gpu_util_max_pct: Number,
    pub(super) peak_vram_mb: Number,
    pub(super) mem_util_mean_pct: Number,
    pub(super) power_watts_mean: Number,
    /// Names of the numbers above that were not measured; `None` in files of the original program.
    pub(super) unmeasured: Fit<Option<Vec<Text>>>,
    pub(super) run: Fit<Run>,
    pub(super) gpus: List<Gpu>,
    pub(super) tree: Fit<Tree>,
    pub(super) phases: List<Phase>,
    pub(super) notes: List<Option<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Run {
    pub(super) seconds: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gpu {
    pub(super) index: Count,
    pub(super) name: Text,
    pub(super) memory_total_mb: Count,
    pub(super) memory_used_max_mb: Count,
    pub(super) own_memory_max_mb: Count,
    pub(super) util_mean_pct: Number,
    pub(super) energy_joules: Number,
    pub(super) states_seconds: Fit<Option<BTreeMap<String, Number>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tree {
    pub(super) cpu_seconds: Number,
    pub(super) cpu_cores_mean: Number,
    pub(super) memory_max_mb: Number,
    pub(super) written_mb: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Phase {
    pub(super) name: Text,
    pub(super) seconds: Number,
}

impl Summary {
    /// Parses a summary. All values of a text that is not a JSON object are missing.
    pub(super) fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl Gpu {
    pub(super) fn rolled_up(&self) -> RolledUp {
        let states = self.states_seconds.iter().flatten();
        RolledUp::of(states.filter_map(|(name, time)| Some((State::from_word(name), (**time)?))))
    }
}
