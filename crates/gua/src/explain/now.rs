//! The card as it is now: one look through the reader, and what a history remembers of it.

use gua_model::since::Since;
use gua_model::{
    Gpu, GpuUuid, Missing, Place, Problem, Sample, Session, Share, classify, period::Period,
};
use jiff::{SignedDuration, Timestamp};

use super::answer::{Answer, Found, Seen, When};
use crate::card::{self, Card};
use crate::config::Loaded;
use crate::driver;
use crate::look::recorded::Recorded;

pub(super) fn answer(asked: &str, loaded: &Loaded) -> anyhow::Result<Answer> {
    let settings = &loaded.settings;
    let sample = driver::sample(&mut driver::reader(settings))?;
    let recorded = Recorded::open(loaded);
    let card = card::choose(asked, &known(&sample, recorded.as_ref()))?;
    let gpu = gpu_of(&card, &sample);
    let thresholds = settings.thresholds();
    let floors = recorded
        .as_ref()
        .and_then(|recorded| recorded.history().floors(sample.at).ok());
    let floor = floors.and_then(|floors| floors.get(&gpu.uuid).copied());
    let verdict = classify(&gpu, &thresholds, floor);
    let roll_up = verdict.state.roll_up();
    let since = recorded
        .as_ref()
        .zip(roll_up)
        .and_then(|(recorded, roll_up)| {
            let found: Option<Since> = recorded
                .since(&[(&gpu.uuid, roll_up)], sample.at)
                .ok()
                .and_then(|found| found.get(&gpu.uuid).copied());
            found
        });
    Ok(Answer {
        at: sample.at,
        found: Found::Seen(Box::new(Seen {
            at: sample.at,
            thresholds,
            shares: vec![Share { verdict, weight: 1 }],
            when: When::Now,
            since,
            sessions: recorded.map_or_else(Vec::new, |recorded| {
                sessions(recorded.history(), &gpu.uuid, sample.at)
            }),
            problems: problems(&sample, &card),
            instances: instances(&sample, &gpu.uuid),
            gap: None,
            gpu,
        })),
        card,
    })
}

/// The cards that the driver has, those that it only counts, and those that a history remembers.
fn known(sample: &Sample, recorded: Option<&Recorded>) -> Vec<Card> {
    let mut cards: Vec<Card> = sample.gpus.iter().map(of_gpu).collect();
    let remembered = recorded.and_then(|recorded| recorded.history().cards().ok());
    for card in remembered.unwrap_or_default() {
        let is_there = cards
            .iter()
            .any(|known| known.uuid.as_ref() == Some(&card.uuid));
        if !is_there {
            cards.push(Card {
                uuid: Some(card.uuid),
                index: card.index,
                name: card.name,
                parent: card.parent,
            });
        }
    }
    for problem in &sample.problems {
        let Problem {
            gpu: None,
            index: Some(index),
            ..
        } = problem
        else {
            continue;
        };
        if !cards.iter().any(|card| card.index == Some(*index)) {
            cards.push(Card {
                uuid: None,
                index: Some(*index),
                name: None,
                parent: None,
            });
        }
    }
    cards
}

pub(super) fn of_gpu(gpu: &Gpu) -> Card {
    Card {
        uuid: Some(gpu.uuid.clone()),
        index: Some(gpu.index),
        name: gpu.name.clone().ok(),
        parent: gpu.place.parent().cloned(),
    }
}

/// What was read of the card. One that the driver does not have, or that does not tell its name, has no readings.
fn gpu_of(card: &Card, sample: &Sample) -> Gpu {
    let there = sample
        .gpus
        .iter()
        .find(|gpu| card.uuid.as_ref() == Some(&gpu.uuid));
    if let Some(gpu) = there {
        return gpu.clone();
    }
    let index = card.index.unwrap_or(u32::MAX);
    let told = sample
        .problems
        .iter()
        .find(|problem| problem.index == Some(index));
    let why = told.map_or(Missing::Gone, |problem| problem.why);
    // The name is never shown: whoever prints the answer takes it from the card.
    let nameless = || "GPU-nameless".parse().expect("letters and a hyphen");
    let uuid = card.uuid.clone().unwrap_or_else(nameless);
    Gpu::without_readings(uuid, index, why)
}

/// What went wrong with this card, and what concerns no card.
pub(super) fn problems(sample: &Sample, card: &Card) -> Vec<Problem> {
    let concerns = |problem: &&Problem| match (&problem.gpu, problem.index) {
        (Some(uuid), _) => card.uuid.as_ref() == Some(uuid),
        (None, Some(index)) => card.index == Some(index),
        (None, None) => true,
    };
    sample.problems.iter().filter(concerns).cloned().collect()
}

pub(super) fn instances(sample: &Sample, uuid: &GpuUuid) -> Vec<GpuUuid> {
    let of_it = |gpu: &&Gpu| matches!(&gpu.place, Place::Instance { parent, .. } if parent == uuid);
    sample
        .gpus
        .iter()
        .filter(of_it)
        .map(|gpu| gpu.uuid.clone())
        .collect()
}

/// The sessions on a card that may go on at a moment.
pub(super) fn sessions(
    history: &gua_store::History,
    uuid: &GpuUuid,
    at: Timestamp,
) -> Vec<Session> {
    let from = at
        .saturating_sub(SignedDuration::from_mins(10))
        .unwrap_or(at);
    let to = at
        .saturating_add(SignedDuration::from_secs(1))
        .unwrap_or(at);
    let found = history.sessions(Period::new(from, to)).unwrap_or_default();
    found
        .into_iter()
        .filter(|session| session.key.gpu == *uuid)
        .collect()
}
