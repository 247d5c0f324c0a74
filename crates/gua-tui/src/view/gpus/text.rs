//! Texts about a GPU: its state, its age, its owners, its readings.

use gua_model::classify::holders;
use gua_model::pick::is_vacant;
use gua_model::since::Start;
use gua_model::text::short_age;
use gua_model::{Gpu, Missing, Place, faults};
use ratatui::style::Style;

use super::GpuView;
use crate::format::{MISSING, bytes, reading, width};
use crate::lost;
use crate::rows::user_name;

impl GpuView<'_> {
    /// Returns as many details as fit: throttling, the GPU's name, and readings.
    pub(super) fn details(&self, name: &str, room: usize) -> String {
        let gpu = self.gpu;
        let throttle = gpu.throttle.ok().filter(|reasons| reasons.is_throttled());
        // Throttling matters more than the name, and a narrow line has no space for both.
        let parts = [
            throttle.map(|reasons| format!("throttled: {}", reasons.names().join(", "))),
            Some(name.to_owned()),
            gpu.fan.ok().map(|fan| format!("fan {}%", fan.0)),
            gpu.sm_clock.ok().map(|clock| format!("{} MHz", clock.0)),
            gpu.performance_state
                .ok()
                .map(|state| format!("P{}", state.0)),
        ];
        let mut text = String::new();
        for part in parts.into_iter().flatten() {
            let next = if text.is_empty() {
                part
            } else {
                format!("{text}  {part}")
            };
            if width(&next) > room && !text.is_empty() {
                break;
            }
            text = next;
        }
        text
    }

    /// Returns the text of the badge and its style. A partitioned GPU has no state: its instances do.
    pub(super) fn badge(&self) -> (&'static str, Style) {
        match self.gpu.place.counts() {
            true => (
                match is_vacant(self.gpu, &self.app.setup.thresholds) {
                    true => self.verdict.state.in_listings(),
                    false => self.verdict.state.as_str(),
                },
                self.styles.state(self.verdict.state),
            ),
            false => ("MIG", self.styles.heading()),
        }
    }

    pub(super) fn name(&self) -> String {
        let name = lost::name(self.gpu).unwrap_or(MISSING);
        let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
        match &self.gpu.place {
            // The profile is more useful than the name of the parent.
            Place::Instance { .. } => name
                .find("MIG ")
                .map_or(name, |place| &name[place..])
                .to_owned(),
            Place::Parent { instances } => format!("{name} ({instances} MIG)"),
            Place::Whole => name.to_owned(),
        }
    }

    /// Returns how long the GPU has been in its state; `≥` if the beginning was not seen.
    pub(super) fn age(&self) -> String {
        let Some(since) = self.since.filter(|_| self.gpu.place.counts()) else {
            return String::new();
        };
        let passed = self.now.duration_since(since.at).unsigned_abs();
        if passed.is_zero() && since.start == Start::AtLatest {
            // Zero as a lower bound says nothing.
            return String::new();
        }
        let bound = if since.start == Start::Seen {
            ""
        } else {
            "≥"
        };
        format!("{bound}{}", short_age(passed))
    }

    /// Returns the owners, by memory.
    pub(super) fn owners(&self) -> String {
        let mut held: Vec<(String, u64)> = Vec::new();
        for process in holders(self.gpu, &self.app.setup.thresholds) {
            let identity = process.identity.as_ref().ok();
            let owner = identity.and_then(gua_model::Identity::owner);
            let name = match &process.identity {
                Err(Missing::Gone) => "exited".to_owned(),
                _ => user_name(owner.as_ref().map(|owner| &owner.who)),
            };
            let size = process.memory.map_or(0, |memory| memory.0);
            match held.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum = sum.saturating_add(size),
                None => held.push((name, size)),
            }
        }
        held.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        let names: Vec<String> = held.into_iter().map(|(name, _)| name).collect();
        names.join(", ")
    }

    pub(super) fn memory(&self) -> String {
        match (&self.gpu.memory_used, &self.gpu.memory_total) {
            (Ok(used), Ok(total)) => {
                let (used, total) = (bytes(*used), bytes(*total));
                // The unit is shown once if both have the same.
                let short = match (used.chars().last(), total.chars().last()) {
                    (one, other) if one == other => used.trim_end_matches(char::is_alphabetic),
                    _ => used.as_str(),
                };
                format!("{short}/{total}")
            }
            (used, _) => reading(used, |used| bytes(*used)),
        }
    }

    /// Returns the power without its limit.
    pub(super) fn watts(&self) -> String {
        reading(&self.gpu.power, |power| format!("{}W", power.whole_watts()))
    }

    pub(super) fn power(&self) -> String {
        match (&self.gpu.power, &self.gpu.power_limit) {
            (Ok(power), Ok(limit)) => format!("{}/{}W", power.whole_watts(), limit.whole_watts()),
            (power, _) => reading(power, |power| format!("{}W", power.whole_watts())),
        }
    }

    pub(super) fn temperature(&self) -> String {
        reading(&self.gpu.temperature, |heat| format!("{}°C", heat.0))
    }
}

/// Returns the mark of a GPU whose clocks are lowered.
pub(super) fn throttle_mark(gpu: &Gpu) -> &'static str {
    match gpu.throttle {
        Ok(reasons) if reasons.is_throttled() => "↓",
        _ => "",
    }
}

pub(super) fn percent(gpu: &Gpu) -> String {
    match gpu.util {
        Ok(util) => format!("{}%", util.get()),
        Err(_) => MISSING.to_owned(),
    }
}

/// Returns the faults of a GPU, the most serious first; empty if there are none.
pub(super) fn faults_of(gpu: &Gpu) -> String {
    let faults = faults(gpu);
    let faults = faults.iter().map(|fault| fault.in_short());
    faults.collect::<Vec<_>>().join(", ")
}
