//! Cards that are there and do not even say their name: they are shown as lost, and not left out.

use gua_model::{Gpu, GpuUuid, Problem, Sample};

/// How the stand-ins for cards begin whose name was never heard.
const NAMELESS: &str = "GPU-nameless-";

/// Puts a card without readings into the sample for each of which only the number is known. Its name is the one that it
/// had in the sample before, if no other card has it now.
pub(crate) fn put_in(sample: &mut Sample, before: Option<&Sample>) {
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
            let uuid = format!("{NAMELESS}{index}");
            uuid.parse().expect("letters, hyphens and a number")
        };
        let uuid: GpuUuid = known.map_or_else(nameless, |known| known.uuid.clone());
        let mut card = Gpu::without_readings(uuid, index, *why);
        if let Some(known) = known {
            card.name.clone_from(&known.name);
        }
        let place = sample.gpus.iter().position(|gpu| gpu.index > index);
        let place = place.unwrap_or(sample.gpus.len());
        sample.gpus.insert(place, card);
    }
    sample.problems = problems;
}

/// What a card is called: its name, else its UUID; `None` where neither is known.
pub(crate) fn name(gpu: &Gpu) -> Option<&str> {
    let uuid = gpu.uuid.as_str();
    let name = gpu.name.as_deref().ok();
    name.or_else(|| (!uuid.starts_with(NAMELESS)).then_some(uuid))
}

#[cfg(test)]
mod tests {
    use gua_model::{Missing, State, Thresholds, classify};

    use super::*;
    use crate::app::fixture::{card, sample_of};

    fn without_card(index: u32, gpus: Vec<Gpu>) -> Sample {
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
    fn a_lost_card_keeps_its_place_and_the_name_that_it_had() {
        let all = || vec![card(0, "GPU-a", Ok(50), &[]), card(2, "GPU-c", Ok(50), &[])];
        let check = |before: Option<&Sample>, expected: Option<&str>| {
            let mut sample = without_card(1, all());
            put_in(&mut sample, before);
            let lost = &sample.gpus[1];
            assert_eq!((sample.gpus.len(), lost.index), (3, 1));
            assert_eq!(name(lost), expected);
            let state = classify(lost, &Thresholds::default(), None).state;
            assert_eq!(state, State::Unobserved);
            assert_eq!(sample.problems.len(), 1);
        };
        check(None, None);
        let before = sample_of(9, vec![card(1, "GPU-b", Ok(50), &[])]);
        check(Some(&before), Some("NVIDIA RTX A6000"));
        let moved = sample_of(9, vec![card(1, "GPU-c", Ok(50), &[])]);
        check(Some(&moved), None);
    }
}
