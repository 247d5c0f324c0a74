//! Claims for people: a line a card, then the queue.

use gua_claim::{Hold, Look, Survey};
use gua_model::text::short_age;
use gua_model::{GpuUuid, Place, Sample};

use crate::claims::words::{Names, deadline, moment};

/// Between two columns.
const GAP: &str = "  ";

#[must_use]
pub(super) fn text(
    survey: &Survey,
    look: &Look,
    sample: Option<&Sample>,
    names: &mut Names,
) -> String {
    let now = look.at.wall;
    let mut claims = vec![row([
        "gpu",
        "claim",
        "holder",
        "since",
        "until",
        "on the card",
    ])];
    for live in &survey.claims {
        let holder = names.holder(live.claim.owner, &live.claim.holder);
        for card in &live.cards {
            claims.push([
                name(&card.gpu, sample),
                live.claim.id.to_string(),
                holder.clone(),
                moment(live.claim.made, now),
                deadline(live.left, now)
                    .map_or_else(|| "as long as used".to_owned(), |at| moment(at, now)),
                match card.hold {
                    Hold::InUse => "yes".to_owned(),
                    Hold::Leased => "no".to_owned(),
                },
            ]);
        }
    }
    let mut text = match survey.claims.is_empty() {
        true => "nothing is claimed\n".to_owned(),
        false => aligned(&claims),
    };
    let mut queue = vec![row(["place", "waits for", "who", "since"])];
    for (place, waiter) in survey.queue.iter().enumerate() {
        let waited = look.at.since_boot.saturating_sub(waiter.arrived);
        queue.push([
            (place + 1).to_string(),
            match waiter.wanted {
                1 => "1 card".to_owned(),
                wanted => format!("{wanted} cards"),
            },
            names.holder(waiter.owner, &waiter.process),
            short_age(waited),
        ]);
    }
    if !survey.queue.is_empty() {
        text.push('\n');
        text.push_str(&aligned(&queue));
    }
    text
}

fn row<const N: usize>(titles: [&str; N]) -> [String; N] {
    titles.map(str::to_owned)
}

/// The number of a card; the UUID of an instance, and of a card that is not there now.
fn name(uuid: &GpuUuid, sample: Option<&Sample>) -> String {
    let gpu = sample.and_then(|sample| sample.gpus.iter().find(|gpu| gpu.uuid == *uuid));
    match gpu {
        Some(gpu) if !matches!(gpu.place, Place::Instance { .. }) => gpu.index.to_string(),
        _ => uuid.to_string(),
    }
}

fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |place: usize| {
        let cells = rows.iter().map(|row| row[place].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            format!(
                "{cell}{}",
                " ".repeat(width.saturating_sub(cell.chars().count()))
            )
        });
        let line = cells.collect::<Vec<_>>().join(GAP);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
