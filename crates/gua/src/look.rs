//! Shared by `list`, `available` and `claim`: the recorded state of GPUs, and who is on them in words.

pub mod people;

use std::collections::BTreeMap;

use gua_model::since::Since;
use gua_model::{GpuUuid, RollUp};
use gua_query::{SinceQuestion, Source as _};
use jiff::Timestamp;

use crate::config::Loaded;
use crate::which;

/// Since when GPUs have been in their roll-up. A history that is absent or cannot be read costs the answer, never the
/// command.
#[must_use]
pub fn since(
    loaded: &Loaded,
    gpus: Vec<(GpuUuid, RollUp)>,
    now: Timestamp,
) -> BTreeMap<GpuUuid, Since> {
    let question = SinceQuestion {
        gpus,
        thresholds: loaded.settings.thresholds(),
        now,
    };
    which::source(loaded).since(&question).unwrap_or_default()
}
