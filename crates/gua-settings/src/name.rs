//! Names in messages: suggestions for misspelled names, and escaping of untrusted ones.

/// Minimum similarity for a suggestion; equal names have 1.
const ALIKE: f64 = 0.7;

/// Returns the known name that `name` probably misspells.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // The comparison is quadratic in length, and a misspelled setting is never this long.
    if name.len() > 100 {
        return None;
    }
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

/// Suggests the known name that an unknown name probably misspells, in these quotes. If none is similar, lists all known names
/// without consecutive duplicates.
pub(crate) fn instead<'n>(
    name: &str,
    known: impl Iterator<Item = &'n str>,
    [open, close]: [&str; 2],
) -> String {
    let mut known: Vec<&str> = known.collect();
    known.dedup();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {open}{near}{close}?"),
        None => format!("there are {}", known.join(", ")),
    }
}

/// Escapes a name for the terminal and truncates it.
pub(crate) fn shown(name: &str) -> String {
    const SHOWN: usize = 40;
    let shown: String = name
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if name.chars().count() > SHOWN {
        format!("{shown}...")
    } else {
        shown
    }
}
