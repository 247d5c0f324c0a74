//! The stream: one text frame per second with the utilisation of each GPU. It contains nothing about users or
//! processes.

use gua_model::Sample;
use serde::{Deserialize, Serialize};

use crate::snapshot::build::physical_gpus;

/// One frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilFrame {
    #[serde(rename = "type")]
    pub kind: FrameKind,
    /// Unix time in seconds, with a fraction.
    pub ts: f64,
    pub gpus: Vec<GpuUtil>,
}

/// Value of `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameKind {
    Util,
}

/// One GPU in a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuUtil {
    pub device_uuid: String,
    pub util_pct: u8,
    /// Used memory. Unlike in a snapshot, it is not limited to the GPU's total.
    pub mem_used_mb: u64,
}

impl UtilFrame {
    /// Builds the frame of a sample. A GPU without a utilisation or memory reading is left out: the format cannot
    /// represent a missing value.
    pub fn of(sample: &Sample) -> Self {
        let gpus = physical_gpus(sample).filter(|gpu| gpu.place.counts());
        let gpus = gpus.filter_map(|gpu| {
            Some(GpuUtil {
                device_uuid: gpu.uuid.as_str().to_owned(),
                util_pct: gpu.util.ok()?.get(),
                mem_used_mb: gpu.memory_used_with_reserved().ok()?.whole_mb(),
            })
        });
        Self {
            kind: FrameKind::Util,
            ts: seconds(sample.at.as_microsecond()),
            gpus: gpus.collect(),
        }
    }

    /// Serializes the frame.
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
