//! Claims as one table of comma-separated values: a line for each card that is leased, and one for each who waits.

use gua_render::table::{Cell, Table};

use super::Seen;
use super::json::waited;
use crate::claims::words::{Names, deadline};

/// What a line stands for.
const CLAIM: &str = "claim";
const WAITING: &str = "waiting";

#[must_use]
pub(super) fn table(seen: &Seen, names: &mut Names) -> String {
    let columns = [
        "at",
        "row",
        "id",
        "gpu_index",
        "gpu_uuid",
        "in_use",
        "since",
        "until",
        "place",
        "wanted",
        "waited_seconds",
        "user",
        "uid",
        "pid",
        "comm",
    ];
    let mut table = Table::new(columns.map(|key| (key, key)));
    let now = seen.look.at.wall;
    let text = |text: Option<String>| text.map_or(Cell::Missing, Cell::Text);
    let number = |number: u64| Cell::Count(number);
    for live in &seen.survey.claims {
        let process = live.claim.for_process;
        for card in &live.cards {
            table.rows.push(vec![
                text(Some(now.to_string())),
                text(Some(CLAIM.to_owned())),
                text(Some(live.claim.id.to_string())),
                seen.index(&card.gpu)
                    .map_or(Cell::Missing, |index| number(index.into())),
                text(Some(card.gpu.to_string())),
                text(seen.is_in_use(live, card).map(|is| is.to_string())),
                text(Some(live.claim.made.to_string())),
                text(deadline(live.left, now).map(|at| at.to_string())),
                Cell::Missing,
                Cell::Missing,
                Cell::Missing,
                text(Some(names.user(live.claim.owner))),
                number(live.claim.owner.0.into()),
                number(process.pid.0.into()),
                text(names.comm(&process)),
            ]);
        }
    }
    for (place, waiter) in (1..).zip(&seen.survey.queue) {
        table.rows.push(vec![
            text(Some(now.to_string())),
            text(Some(WAITING.to_owned())),
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
            number(place),
            number(waiter.wanted.try_into().unwrap_or(u64::MAX)),
            number(waited(waiter, &seen.look).as_secs()),
            text(Some(names.user(waiter.owner))),
            number(waiter.owner.0.into()),
            number(waiter.process.pid.0.into()),
            text(names.comm(&waiter.process)),
        ]);
    }
    table.csv()
}
