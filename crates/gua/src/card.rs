//! Which card is meant: a number, a UUID or the beginning of one.

use gua_model::GpuUuid;

use crate::failure::Failure;

/// A card, as far as it can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// `None` for a card of which nothing but its number is known.
    pub uuid: Option<GpuUuid>,
    pub index: Option<u32>,
    pub name: Option<String>,
    /// The card that this one is a MIG instance of.
    pub parent: Option<GpuUuid>,
}

impl Card {
    /// A card of an old history, which knows no MIG.
    #[must_use]
    pub fn of_old(uuid: GpuUuid, index: Option<u32>) -> Self {
        Self {
            uuid: Some(uuid),
            index,
            name: None,
            parent: None,
        }
    }
}

/// The shortest beginning of a UUID: less would be a guess.
const SHORTEST: usize = 3;

/// The one card that `asked` means. `known` are all there are, the likeliest first where several carry one number.
pub fn choose(asked: &str, known: &[Card]) -> Result<Card, Failure> {
    let number = asked.parse::<u32>().ok();
    let exact = |card: &&Card| {
        let is_it = card
            .uuid
            .as_ref()
            .is_some_and(|uuid| uuid.as_str() == asked);
        // An instance carries the number of its card.
        is_it || (number.is_some() && card.index == number && card.parent.is_none())
    };
    if let Some(card) = known.iter().find(exact) {
        return Ok(card.clone());
    }
    let begins = |card: &&Card| {
        let uuid = card.uuid.as_ref().map_or("", GpuUuid::as_str);
        asked.len() >= SHORTEST && uuid.starts_with(asked)
    };
    let shown: String = asked
        .chars()
        .take(60)
        .flat_map(char::escape_debug)
        .collect();
    let mut found = known.iter().filter(begins);
    match (found.next(), found.next()) {
        (Some(card), None) => Ok(card.clone()),
        (Some(_), Some(_)) => {
            let all = known.iter().filter(begins);
            Err(Failure::usage(format!(
                "several GPUs begin with `{shown}`: {}",
                listed(all)
            )))
        }
        _ if known.is_empty() => Err(Failure::usage(format!(
            "there is no GPU `{shown}`, nor any other"
        ))),
        _ => Err(Failure::usage(format!(
            "there is no GPU `{shown}`; there is {}",
            listed(known.iter())
        ))),
    }
}

fn listed<'a>(cards: impl Iterator<Item = &'a Card>) -> String {
    const MOST: usize = 16;
    let name = |card: &Card| match (&card.uuid, card.index) {
        (Some(uuid), Some(index)) if card.parent.is_none() => format!("{index} ({uuid})"),
        (Some(uuid), _) => uuid.to_string(),
        (None, Some(index)) => index.to_string(),
        (None, None) => "?".to_owned(),
    };
    let mut names: Vec<String> = cards.map(name).collect();
    if names.len() > MOST {
        let rest = names.len() - MOST;
        names.truncate(MOST);
        names.push(format!("and {rest} more"));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards(texts: &[(&str, u32, Option<&str>)]) -> Vec<Card> {
        let card = |(uuid, index, parent): &(&str, u32, Option<&str>)| Card {
            uuid: Some(uuid.parse().unwrap()),
            index: Some(*index),
            name: None,
            parent: parent.map(|parent| parent.parse().unwrap()),
        };
        texts.iter().map(card).collect()
    }

    fn check(asked: &str, expected: Result<&str, &str>) {
        let known = cards(&[
            ("GPU-aa1", 0, None),
            ("GPU-aa2", 1, None),
            ("MIG-b", 1, Some("GPU-aa2")),
        ]);
        let found = choose(asked, &known);
        let found = found
            .as_ref()
            .map(|card| card.uuid.as_ref().unwrap().as_str());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(failure), Err(part)) => {
                assert!(failure.message.contains(part), "{}", failure.message);
            }
            (found, expected) => panic!("{asked}: {found:?} and not {expected:?}"),
        }
    }

    #[test]
    fn a_card_is_its_number_its_uuid_or_the_beginning_of_one() {
        check("0", Ok("GPU-aa1"));
        check("1", Ok("GPU-aa2"));
        check("GPU-aa2", Ok("GPU-aa2"));
        check("MIG", Ok("MIG-b"));
        check(
            "GPU-aa",
            Err("several GPUs begin with `GPU-aa`: 0 (GPU-aa1), 1 (GPU-aa2)"),
        );
        check(
            "G",
            Err("there is no GPU `G`; there is 0 (GPU-aa1), 1 (GPU-aa2), MIG-b"),
        );
        check("7", Err("there is no GPU `7`"));
        check("\u{1b}[2J", Err("`\\u{1b}[2J`"));
        let nobody = choose("0", &[]).unwrap_err();
        assert_eq!(nobody.message, "there is no GPU `0`, nor any other");
    }
}
