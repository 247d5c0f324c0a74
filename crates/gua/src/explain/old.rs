//! Rows of gpu-usage-audit: in a file of its own, or as they were imported.

use std::path::Path;

use gua_model::{LegacyCardTick, Period};
use gua_store::History;
use gua_store::legacy::OldFile;
use jiff::{SignedDuration, Timestamp};

use super::answer::{Answer, Card, Found};
use super::card;

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
        |last: &mut Option<LegacyCardTick>, tick| {
            if card.uuid.as_ref() == Some(&tick.gpu) {
                *last = Some(tick.clone());
            }
        },
    )?;
    let found = match last {
        Some(tick) if stands_for(&tick, at) => Found::OldRow(tick),
        other => Found::NoOldRow {
            last: other.map(|tick| tick.at),
        },
    };
    Ok(Answer { card, at, found })
}

/// The imported rows that stand for a moment.
pub(super) fn near(history: &History, at: Timestamp) -> anyhow::Result<Vec<LegacyCardTick>> {
    let mut found = Vec::new();
    history.old_ticks(window(at, LONGEST), &mut |tick| {
        if stands_for(tick, at) {
            found.push(tick.clone());
        }
    })?;
    Ok(found)
}

fn window(at: Timestamp, reach: SignedDuration) -> Period {
    let from = at.saturating_sub(reach).unwrap_or(at);
    let to = at
        .saturating_add(SignedDuration::from_micros(1))
        .unwrap_or(at);
    Period::new(from, to)
}

/// A row counts for its recorded interval, also where the next one came sooner.
fn stands_for(tick: &LegacyCardTick, at: Timestamp) -> bool {
    let interval = SignedDuration::try_from(tick.run.interval).unwrap_or(SignedDuration::MAX);
    let end = tick.at.saturating_add(interval).unwrap_or(Timestamp::MAX);
    Period::new(tick.at, end).contains(at)
}
