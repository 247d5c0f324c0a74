//! The stream: one text frame a second with the utilisation of each card. Nothing of users or processes is in it.

use gua_model::Sample;
use serde::{Deserialize, Serialize};

use crate::snapshot::build::{used_memory, whole_cards};

/// One frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilFrame {
    #[serde(rename = "type")]
    pub kind: FrameKind,
    /// Seconds since 1970, with a fraction.
    pub ts: f64,
    pub gpus: Vec<CardUtil>,
}

/// The fixed word in `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameKind {
    Util,
}

/// One card in a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CardUtil {
    pub device_uuid: String,
    pub util_pct: u8,
    /// Not cut at the card's total, unlike a snapshot's.
    pub mem_used_mb: u64,
}

impl UtilFrame {
    /// The frame of a sample. A card whose utilisation or memory is missing is not in it: the form has no word for that.
    #[must_use]
    pub fn of(sample: &Sample) -> Self {
        let cards = whole_cards(sample).filter(|gpu| gpu.place.counts());
        let gpus = cards.filter_map(|gpu| {
            Some(CardUtil {
                device_uuid: gpu.uuid.as_str().to_owned(),
                util_pct: gpu.util.ok()?.get(),
                mem_used_mb: used_memory(gpu).ok()?.whole_mb(),
            })
        });
        Self {
            kind: FrameKind::Util,
            ts: seconds(sample.at.as_microsecond()),
            gpus: gpus.collect(),
        }
    }

    /// The frame's text.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and lists are always JSON")
    }
}

fn seconds(micros: i64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds fit the mantissa until the year 2255"
    )]
    let micros = micros as f64;
    micros / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_to_its_last_digit() {
        let text = r#"{"type":"util","ts":1794811365.0219655,"gpus":[]}"#;
        let frame: UtilFrame = serde_json::from_str(text).unwrap();
        assert_eq!(frame.text(), text);
    }
}
