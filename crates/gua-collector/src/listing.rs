//! The listing of `gua list` for a sample: its rows with the recorded start of each state and the leases.

use std::collections::BTreeMap;

use gua_model::classify::holders;
use gua_model::idle::IdleGpu;
use gua_model::pick::Order;
use gua_model::since::Since;
use gua_model::{GpuUuid, RollUp, Sample, Thresholds, classify};
use gua_probe::host::time::ticks_per_second;
use gua_query::{IdleQuestion, SinceQuestion, Source};
use gua_render::listing::ListDocument;
use gua_render::listing::row::{Leased, Row, Terms, rows as listed};
use gua_settings::{Loaded, Settings};
use jiff::Timestamp;

use crate::claims::{self, Names};
use crate::{location, notes};

/// Returns the terms by which the rows of a sample of this host are listed, from the settings.
pub fn terms(settings: &Settings) -> Terms {
    Terms {
        thresholds: settings.thresholds(),
        ticks_per_second: ticks_per_second(),
    }
}

/// Since when GPUs have been in their roll-up. Empty if the history is absent or cannot be read.
pub fn since(
    source: &dyn Source,
    gpus: impl IntoIterator<Item = (GpuUuid, RollUp)>,
    thresholds: Thresholds,
    now: Timestamp,
) -> BTreeMap<GpuUuid, Since> {
    let question = SinceQuestion {
        gpus: gpus.into_iter().collect(),
        thresholds,
        now,
    };
    source.since(&question).unwrap_or_default()
}

/// Idle time of the GPUs that are idle in a live sample, and of their holders. Empty if the history is absent or
/// cannot be read.
pub fn idle(source: &dyn Source, sample: &Sample, terms: &Terms) -> BTreeMap<GpuUuid, IdleGpu> {
    let question = IdleQuestion::of_sample(sample, terms.thresholds);
    if question.gpus.is_empty() {
        return BTreeMap::new();
    }
    let mut found = source.idle(&question).unwrap_or_default();
    for gpu in &sample.gpus {
        let Some(recorded) = found.get_mut(&gpu.uuid) else {
            continue;
        };
        let live = holders(gpu, &terms.thresholds).filter_map(|process| {
            let identity = process.identity.as_ref().ok()?;
            let age = identity.age(sample.since_boot, terms.ticks_per_second);
            let started = age.and_then(|age| sample.at.checked_sub(age).ok());
            Some((identity.key, started))
        });
        *recorded = recorded.among(&live.collect::<Vec<_>>(), sample.at);
    }
    found
}

/// Start times of the states of the GPUs in a live sample; for an idle GPU, the time when it was last active. Empty if the
/// history is absent or cannot be read.
pub fn start_times(
    source: &dyn Source,
    sample: &Sample,
    terms: &Terms,
) -> BTreeMap<GpuUuid, Since> {
    let gpus = sample.gpus.iter().filter_map(|gpu| {
        let state = classify(gpu, &terms.thresholds, None).state;
        Some((gpu.uuid.clone(), state.roll_up()?))
    });
    let mut since = since(source, gpus, terms.thresholds, sample.at);
    let idle = idle(source, sample, terms).into_iter();
    since.extend(idle.map(|(gpu, idle)| (gpu, idle.longest.since)));
    since
}

/// Rows of the listing, and the error if the claims could not be read.
pub fn rows<'a>(
    loaded: &Loaded,
    sample: &'a Sample,
    order: Option<&Order>,
) -> (Vec<Row<'a>>, Option<String>) {
    let terms = terms(&loaded.settings);
    let mut rows = listed(sample, &terms, order);
    let states = rows
        .iter()
        .filter_map(|row| Some((row.gpu?.uuid.clone(), row.state?.roll_up()?)));
    // One source, because opening a history takes longer than these questions.
    let source = location::source(loaded);
    let since = since(source.as_ref(), states, terms.thresholds, sample.at);
    let mut idle = idle(source.as_ref(), sample, &terms);
    let mut names = Names::default();
    let keeps = notes::keeps(&loaded.settings, sample.at);
    let (claims, unread) = match claims::taken(&loaded.settings, sample, Vec::new()) {
        Ok(taken) => (taken.survey.claims, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    for row in &mut rows {
        let Some(gpu) = row.gpu else { continue };
        row.since = since.get(&gpu.uuid).copied();
        row.idle = idle.remove(&gpu.uuid);
        row.keeps = notes::of_gpu(&keeps, gpu, &terms.thresholds, (&mut names, sample.at));
        let of_gpu = claims.iter().filter(|live| live.holds(&gpu.uuid));
        row.claims.extend(of_gpu.map(|live| Leased {
            text: names.claim(live, sample.at),
            listed: names.listed(live, sample.at),
        }));
    }
    (rows, unread)
}

/// The document of `gua list --json` for a sample.
pub fn document(loaded: &Loaded, sample: &Sample) -> ListDocument {
    let (rows, unread) = rows(loaded, sample, None);
    ListDocument::new(sample, &rows, unread.as_deref(), ticks_per_second())
}
