//! The state of a GPU now: one live sample, and what is recorded of its GPU.

use gua_model::{Gpu, GpuUuid, Missing, Period, Place, Problem, Sample, Session, Share, classify};
use jiff::{SignedDuration, Timestamp};

use super::answer::{Answer, Found, Seen, When};
use crate::error::QueryError;
use crate::gpu::{NamedGpu, choose};
use crate::question::{SampleQuestion, SinceQuestion};
use crate::records::{GpuInfo, Records};
use crate::since::since;

/// Explains the state of a GPU in a live sample. Records that are absent or cannot be read cost what they would add, never
/// the answer.
pub fn explain_sample(
    question: &SampleQuestion,
    records: Option<&dyn Records>,
) -> Result<Answer, QueryError> {
    let SampleQuestion {
        gpu: asked,
        sample,
        thresholds,
    } = question;
    let thresholds = *thresholds;
    let recorded = records.and_then(|records| records.gpus().ok());
    let named = choose(asked, &known(sample, &recorded.unwrap_or_default()))?;
    let gpu = gpu_of(&named, sample);
    let floors = records.and_then(|records| records.floors(sample.at).ok());
    let floor = floors.and_then(|floors| floors.get(&gpu.uuid).copied());
    let verdict = classify(&gpu, &thresholds, floor);
    let since = records
        .zip(verdict.state.roll_up())
        .and_then(|(records, roll_up)| {
            let question = SinceQuestion {
                gpus: vec![(gpu.uuid.clone(), roll_up)],
                thresholds,
                now: sample.at,
            };
            since(records, &question).ok()?.remove(&gpu.uuid)
        });
    Ok(Answer {
        at: sample.at,
        found: Found::Seen(Box::new(Seen {
            at: sample.at,
            thresholds,
            shares: vec![Share { verdict, weight: 1 }],
            when: When::Now,
            since,
            sessions: records
                .map_or_else(Vec::new, |records| sessions(records, &gpu.uuid, sample.at)),
            problems: problems(sample, &named),
            instances: instances(sample, &gpu.uuid),
            gap: None,
            gpu,
        })),
        gpu: named,
    })
}

/// The GPUs that the driver has, those that it only counts, and those that are recorded.
fn known(sample: &Sample, recorded: &[GpuInfo]) -> Vec<NamedGpu> {
    let mut gpus: Vec<NamedGpu> = sample.gpus.iter().map(NamedGpu::from).collect();
    for gpu in recorded {
        let uuid = Some(&gpu.uuid);
        if !gpus.iter().any(|known| known.uuid.as_ref() == uuid) {
            gpus.push(gpu.into());
        }
    }
    for problem in &sample.problems {
        let index = problem.index.filter(|_| problem.gpu.is_none());
        if index.is_some() && !gpus.iter().any(|gpu| gpu.index == index) {
            gpus.push(NamedGpu {
                uuid: None,
                index,
                name: None,
                parent: None,
            });
        }
    }
    gpus
}

/// The readings of a GPU. One that the driver does not have, or that does not give its UUID, has none.
fn gpu_of(named: &NamedGpu, sample: &Sample) -> Gpu {
    let there = sample
        .gpus
        .iter()
        .find(|gpu| named.uuid.as_ref() == Some(&gpu.uuid));
    if let Some(gpu) = there {
        return gpu.clone();
    }
    let index = named.index.unwrap_or(u32::MAX);
    let problem = sample
        .problems
        .iter()
        .find(|problem| problem.index == Some(index));
    let why = problem.map_or(Missing::Gone, |problem| problem.why);
    // This UUID is never shown: the answer has it from `NamedGpu`.
    let nameless = || "GPU-nameless".parse().expect("letters and a hyphen");
    let uuid = named.uuid.clone().unwrap_or_else(nameless);
    Gpu::without_readings(uuid, index, why)
}

/// Problems of this GPU, and those of no GPU in particular.
pub(super) fn problems(sample: &Sample, named: &NamedGpu) -> Vec<Problem> {
    let concerns = |problem: &&Problem| match (&problem.gpu, problem.index) {
        (Some(uuid), _) => named.uuid.as_ref() == Some(uuid),
        (None, Some(index)) => named.index == Some(index),
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

/// Sessions on a GPU that may include a moment.
pub(super) fn sessions(records: &dyn Records, uuid: &GpuUuid, at: Timestamp) -> Vec<Session> {
    let from = at.saturating_sub(SignedDuration::from_mins(10));
    let to = at.saturating_add(SignedDuration::from_secs(1));
    let window = Period::new(from.unwrap_or(at), to.unwrap_or(at));
    let mut found = Vec::new();
    let read = records.sessions(window, &mut |session: &Session| {
        if session.key.gpu == *uuid {
            found.push(session.clone());
        }
    });
    if read.is_err() {
        return Vec::new();
    }
    found.sort_by(|one, other| (one.from, &one.key).cmp(&(other.from, &other.key)));
    found
}
