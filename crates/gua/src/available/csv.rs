//! The answer as one table of comma-separated values: a line for each card and each process that holds it or claim on it,
//! with the keys and the numbers of the JSON.

use gua_render::table::{Cell, Table};
use serde_json::Value;

use super::json;
use super::page::Page;
use crate::commands::list::csv::{CLAIM, HOLDER};

/// What a line tells of its card.
const OF_CARD: [&str; 12] = [
    "index",
    "uuid",
    "parent_uuid",
    "name",
    "memory_free_bytes",
    "memory_total_bytes",
    "power_milliwatts",
    "temperature_celsius",
    "util_percent",
    "why",
    "used_seconds_ago",
    "state",
];

pub(super) fn table(page: &Page<'_>) -> String {
    let shown = json::page(page);
    let mut columns: Vec<String> = vec!["at".to_owned(), "rule".to_owned(), "available".to_owned()];
    columns.extend(OF_CARD.map(str::to_owned));
    columns.extend(HOLDER.map(|key| format!("holder_{key}")));
    columns.extend(CLAIM.map(|key| format!("claim_{key}")));
    let mut table = Table {
        columns: columns
            .into_iter()
            .map(|key| gua_render::table::Column {
                title: key.clone(),
                key,
            })
            .collect(),
        rows: Vec::new(),
    };
    let mut put = |card: &Value, is_available: &str, holder: &Value, claim: &Value| {
        let mut row = vec![
            cell(&shown["at"]),
            cell(&shown["rule"]),
            Cell::Text(is_available.to_owned()),
        ];
        row.extend(OF_CARD.map(|key| cell(&card[key])));
        row.extend(HOLDER.map(|key| cell(&holder[key])));
        row.extend(CLAIM.map(|key| cell(&claim[key])));
        table.rows.push(row);
    };
    let none = Value::Null;
    for card in list(&shown["available"]) {
        put(card, "true", &none, &shown["claim"]);
    }
    for card in list(&shown["not_available"]) {
        let (holders, claims) = (list(&card["holders"]), list(&card["claims"]));
        if holders.is_empty() && claims.is_empty() {
            put(card, "false", &none, &none);
        }
        for holder in holders {
            put(card, "false", holder, &none);
        }
        for claim in claims {
            put(card, "false", &none, claim);
        }
    }
    table.csv()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A value of the JSON as a cell: the same digits.
fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Missing,
        Value::String(text) => Cell::Text(text.clone()),
        number => number
            .as_u64()
            .map_or_else(|| Cell::Text(number.to_string()), Cell::Count),
    }
}
