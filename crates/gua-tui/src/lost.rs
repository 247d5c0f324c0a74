//! GPUs whose UUID cannot be read: they are shown as lost, and not left out.

use gua_model::{Gpu, GpuUuid, Problem, Sample};

/// Prefix of the placeholder UUIDs of GPUs that were never identified.
const PLACEHOLDER: &str = "GPU-nameless-";

/// Adds a GPU without readings for each one of which only the index is known. It gets the UUID and name that the index
/// had in the sample before, if no other GPU has them now.
pub(crate) fn add_unidentified(sample: &mut Sample, before: Option<&Sample>) {
    let problems = std::mem::take(&mut sample.problems);
    for Problem {
        gpu, index, why, ..
    } in &problems
    {
        let (None, Some(index)) = (gpu, *index) else {
            continue;
        };
        if sample.gpus.iter().any(|gpu| gpu.index == index) {
            continue;
        }
        let known = before.and_then(|before| {
            let is_it = |gpu: &&Gpu| gpu.index == index && gpu.place.parent().is_none();
            let known = before.gpus.iter().find(is_it)?;
            let is_elsewhere = sample.gpus.iter().any(|gpu| gpu.uuid == known.uuid);
            (!is_elsewhere).then_some(known)
        });
        let nameless = || {
            let uuid = format!("{PLACEHOLDER}{index}");
            uuid.parse().expect("letters, hyphens and a number")
        };
        let uuid: GpuUuid = known.map_or_else(nameless, |known| known.uuid.clone());
        let mut gpu = Gpu::without_readings(uuid, index, *why);
        if let Some(known) = known {
            gpu.name.clone_from(&known.name);
        }
        let place = sample.gpus.iter().position(|gpu| gpu.index > index);
        let place = place.unwrap_or(sample.gpus.len());
        sample.gpus.insert(place, gpu);
    }
    sample.problems = problems;
}

/// Returns the name of a GPU, or its UUID; `None` if neither is known.
pub(crate) fn name(gpu: &Gpu) -> Option<&str> {
    let uuid = gpu.uuid.as_str();
    let name = gpu.name.as_deref().ok();
    name.or_else(|| (!uuid.starts_with(PLACEHOLDER)).then_some(uuid))
}

#[cfg(test)]
mod tests {
    use gua_model::{Missing, State, Thresholds, classify};

    use super::*;
    use crate::app::fixture::{gpu, sample_of};

    fn without_gpu(index: u32, gpus: Vec<Gpu>) -> Sample {
        Sample {
            problems: vec![Problem {
                gpu: None,
                index: Some(index),
                call: "nvmlDeviceGetHandleByIndex".to_owned(),
                code: Some(15),
                why: Missing::Gone,
                text: "GPU is lost".to_owned(),
            }],
            ..sample_of(10, gpus)
        }
    }

    #[test]
    fn a_lost_gpu_keeps_its_place_and_the_name_that_it_had() {
        let all = || vec![gpu(0, "GPU-a", Ok(50), &[]), gpu(2, "GPU-c", Ok(50), &[])];
        let check = |before: Option<&Sample>, expected: Option<&str>| {
            let mut sample = without_gpu(1, all());
            add_unidentified(&mut sample, before);
            let lost = &sample.gpus[1];
            assert_eq!((sample.gpus.len(), lost.index), (3, 1));
            assert_eq!(name(lost), expected);
            let state = classify(lost, &Thresholds::default(), None).state;
            assert_eq!(state, State::Unobserved);
            assert_eq!(sample.problems.len(), 1);
        };
        check(None, None);
        let before = sample_of(9, vec![gpu(1, "GPU-b", Ok(50), &[])]);
        check(Some(&before), Some("NVIDIA RTX A6000"));
        let moved = sample_of(9, vec![gpu(1, "GPU-c", Ok(50), &[])]);
        check(Some(&moved), None);
    }
}
