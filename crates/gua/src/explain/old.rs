//! Rows of gpu-usage-audit: in a file of its own, or as they were imported.

use std::path::Path;

use gua_compat::gpu_usage_audit::OldFile;
use gua_model::legacy::old_rule;
use gua_model::{LegacyCardTick, LegacyProcess, Period};
use gua_store::History;
use jiff::{SignedDuration, Timestamp};

use super::answer::{Answer, Found, OldRow};
use crate::card::{self, Card};

/// Rows that stand for longer than this are not looked for.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

pub(super) fn of_file(asked: &str, at: Timestamp, path: &Path) -> anyhow::Result<Answer> {
    let file = OldFile::open(path)?;
    let known: Vec<Card> = file
        .known_cards()?
        .into_iter()
        .filter_map(|known| {
            Some(Card {
                uuid: Some(known.uuid.parse().ok()?),
                index: known.index,
                name: known.name,
                parent: None,
            })
        })
        .collect();
    let card = card::choose(asked, &known)?;
    let window = window(at, SignedDuration::from_hours(24));
    let last = file.fold(
        window,
        || None,
        |last, moment| {
            let is_it = |tick: &&LegacyCardTick<'_>| card.uuid.as_ref() == Some(tick.gpu);
            if let Some(tick) = moment.ticks.iter().rfind(is_it) {
                *last = Some(row(tick));
            }
        },
    )?;
    let found = match last {
        Some(row) if stands_for(&row, at) => Found::OldRow(row),
        other => Found::NoOldRow {
            last: other.map(|row| row.at),
        },
    };
    Ok(Answer { card, at, found })
}

/// The imported rows that stand for a moment.
pub(super) fn near(history: &History, at: Timestamp) -> anyhow::Result<Vec<OldRow>> {
    let mut found = Vec::new();
    history.old_moments(window(at, LONGEST), &mut |moment| {
        let rows = moment.ticks.iter().map(row);
        found.extend(rows.filter(|row| stands_for(row, at)));
    })?;
    Ok(found)
}

fn row(tick: &LegacyCardTick<'_>) -> OldRow {
    let process =
        |process: &LegacyProcess<'_>| (process.identity.map(str::to_owned), process.memory_mb);
    OldRow {
        at: tick.at,
        gpu: tick.gpu.clone(),
        index: tick.index.and_then(|index| u32::try_from(index).ok()),
        interval: tick.run.interval,
        util: tick.util,
        class: tick.class(&old_rule()),
        processes: tick.processes.iter().map(process).collect(),
    }
}

fn window(at: Timestamp, reach: SignedDuration) -> Period {
    let from = at.saturating_sub(reach).unwrap_or(at);
    let to = at
        .saturating_add(SignedDuration::from_micros(1))
        .unwrap_or(at);
    Period::new(from, to)
}

/// A row counts for its recorded interval, also where the next one came sooner.
fn stands_for(row: &OldRow, at: Timestamp) -> bool {
    let interval = SignedDuration::try_from(row.interval).unwrap_or(SignedDuration::MAX);
    let end = row.at.saturating_add(interval).unwrap_or(Timestamp::MAX);
    Period::new(row.at, end).contains(at)
}
