//! Claims for people: one line per GPU, then the queue.

use gua_collector::claims::{Names, deadline, moment};
use gua_model::text::short_age;
use gua_model::{GpuUuid, Place};
use gua_render::table::{Cell, Table};

use super::Seen;
use super::json::waited;

#[must_use]
pub(super) fn text(seen: &Seen, names: &mut Names) -> String {
    let now = seen.look.at.wall;
    let titles = ["gpu", "claim", "for", "since", "until", "on the GPU"];
    let mut claims = Table::new(titles.map(|title| (title, title)));
    for live in &seen.survey.claims {
        let who = names.user_and_process(live.claim.owner, &live.claim.for_process);
        for gpu in &live.gpus {
            let cells = [
                name(&gpu.gpu, seen),
                live.claim.id.to_string(),
                who.clone(),
                moment(live.claim.made, now),
                deadline(live.left, now)
                    .map_or_else(|| "while in use".to_owned(), |at| moment(at, now)),
                match seen.is_in_use(live, gpu) {
                    Some(true) => "yes".to_owned(),
                    Some(false) => "no".to_owned(),
                    None => "not known".to_owned(),
                },
            ];
            claims.rows.push(cells.map(Cell::Text).into());
        }
    }
    let mut text = match seen.survey.claims.is_empty() {
        true => "no claims\n".to_owned(),
        false => claims.text(0),
    };
    let titles = ["place", "waits for", "who", "since"];
    let mut queue = Table::new(titles.map(|title| (title, title)));
    for (place, waiter) in (1..).zip(&seen.survey.queue) {
        let cells = [
            format!("{place}"),
            match waiter.wanted {
                1 => "1 GPU".to_owned(),
                wanted => format!("{wanted} GPUs"),
            },
            names.user_and_process(waiter.owner, &waiter.process),
            short_age(waited(waiter, &seen.look)),
        ];
        queue.rows.push(cells.map(Cell::Text).into());
    }
    if !seen.survey.queue.is_empty() {
        text.push('\n');
        text.push_str(&queue.text(0));
    }
    text
}

/// Name of a GPU: its index, or its UUID for a MIG instance and for a GPU that is not present.
fn name(uuid: &GpuUuid, seen: &Seen) -> String {
    let gpus = seen.sample.iter().flat_map(|sample| &sample.gpus);
    match gpus.into_iter().find(|gpu| gpu.uuid == *uuid) {
        Some(gpu) if !matches!(gpu.place, Place::Instance { .. }) => gpu.index.to_string(),
        _ => uuid.to_string(),
    }
}
