//! The listing as one table of comma-separated values, taken from its JSON, so that both carry the same numbers: a line for
//! each holder of a card, and one for a card that nobody holds.

use serde_json::Value;

/// Of the whole listing.
const LISTING: [&str; 2] = ["at", "driver_version"];

/// Of a card.
const CARD: [&str; 21] = [
    "index",
    "uuid",
    "parent_uuid",
    "place",
    "name",
    "status",
    "state",
    "state_since",
    "state_since_is_bound",
    "unobserved_because",
    "util_percent",
    "memory_used_bytes",
    "memory_reserved_bytes",
    "memory_total_bytes",
    "power_milliwatts",
    "power_limit_milliwatts",
    "temperature_celsius",
    "fan_percent",
    "sm_clock_megahertz",
    "processes_listed",
    "oldest_holder_seconds",
];

/// Of the leases on a card, behind `claim_`. There is one at most, save where somebody has tampered; `;` stands between.
pub const CLAIM: [&str; 7] = ["id", "user", "uid", "for_pid", "for_comm", "since", "until"];

/// Of a process that holds a card, behind `holder_`.
pub const HOLDER: [&str; 10] = [
    "pid",
    "owner",
    "owner_source",
    "comm",
    "memory_used_bytes",
    "age_seconds",
    "container",
    "pod",
    "job",
    "unseen_because",
];

#[must_use]
pub fn table(listing: &Value, with_header: bool) -> String {
    let mut text = String::new();
    if with_header {
        let own = LISTING.iter().chain(&CARD).map(|key| (*key).to_owned());
        let claim = CLAIM.iter().map(|key| format!("claim_{key}"));
        let holder = HOLDER.iter().map(|key| format!("holder_{key}"));
        let columns: Vec<String> = own.chain(claim).chain(holder).collect();
        text.push_str(&columns.join(","));
        text.push('\n');
    }
    for card in entries(&listing["gpus"]) {
        let holders = entries(&card["holders"]);
        let nobody = [Value::Null];
        let lines = if holders.is_empty() { &nobody } else { holders };
        for holder in lines {
            let fields = LISTING
                .map(|key| field(&listing[key]))
                .into_iter()
                .chain(CARD.map(|key| field(&card[key])))
                .chain(CLAIM.map(|key| {
                    let of_claims = entries(&card["claims"]).iter();
                    let texts: Vec<String> = of_claims.map(|claim| field(&claim[key])).collect();
                    texts.join(";")
                }))
                .chain(HOLDER.map(|key| field(&holder[key])));
            let fields: Vec<String> = fields.map(|field| quoted(&field)).collect();
            text.push_str(&fields.join(","));
            text.push('\n');
        }
    }
    text
}

fn entries(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Nothing where there is none.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// In quotes where it needs them.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_would_break_a_line_stands_in_quotes() {
        assert_eq!(quoted("plain text"), "plain text");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
    }

    #[test]
    fn each_holder_has_its_line_and_a_card_without_one_has_one_too() {
        let card = |index, holders: Value| json!({ "index": index, "util_percent": null, "holders": holders });
        let holder = |pid, owner| json!({ "pid": pid, "owner": owner });
        let listing = json!({
            "at": "now",
            "gpus": [card(0, json!([holder(7, "uid 1000"), holder(8, "ada")])), card(1, json!([]))],
        });
        let text = table(&listing, true);
        let mut lines = text.lines();
        let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
        let shown: Vec<Vec<&str>> = lines
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                let of = |wanted| columns.iter().position(|column| *column == wanted);
                ["at", "index", "util_percent", "holder_pid", "holder_owner"]
                    .map(|column| fields[of(column).unwrap()])
                    .to_vec()
            })
            .collect();
        assert_eq!(
            shown,
            [
                ["now", "0", "", "7", "uid 1000"],
                ["now", "0", "", "8", "ada"],
                ["now", "1", "", "", ""]
            ]
        );
        assert_eq!(table(&listing, false).lines().count(), 3);
    }
}
