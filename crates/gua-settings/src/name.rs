//! Names in messages: the nearest known one, and a safe form of one that somebody else wrote.

/// Similarity from which a name is suggested; equal names have 1.
const ALIKE: f64 = 0.7;

/// The known name that `name` was probably meant to be.
pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // The comparison is quadratic in length, and nobody mistypes a name that long.
    if name.len() > 100 {
        return None;
    }
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

/// The names separated by commas, without repeated neighbours.
pub(crate) fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    names.join(", ")
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
