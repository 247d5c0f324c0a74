//! Natural sort order of names: `#2` before `#10`.

use std::cmp::Ordering;

/// Compares runs of digits as numbers and everything else by character. Different names are never equal.
pub(crate) fn natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let (mine, theirs) = (digits(left), digits(right));
        let (here, taken) = match (mine.is_empty(), theirs.is_empty()) {
            (false, false) => (by_value(mine, theirs), (mine.len(), theirs.len())),
            _ => {
                let (mine, theirs) = (left.chars().next(), right.chars().next());
                let width = |letter: Option<char>| letter.map_or(0, char::len_utf8);
                (mine.cmp(&theirs), (width(mine), width(theirs)))
            }
        };
        if here != Ordering::Equal || taken == (0, 0) {
            return here.then_with(|| one.cmp(other));
        }
        (left, right) = (&left[taken.0..], &right[taken.1..]);
    }
}

fn digits(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

/// Compares numbers of any length: without leading zeros, the longer one is larger.
fn by_value(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_names_are_counted() {
        let expected = [
            "", "#", "#0", "#1", "#2", "#2 A", "#10", "#10 A", "10", "a2b3", "a2b10", "a10b1",
            "가1",
        ];
        let mut names = expected;
        names.reverse();
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, expected);
    }

    proptest! {
        #[test]
        fn it_is_an_order(one in "[a#0-2]{0,5}", other in "[a#0-2]{0,5}", third in "[a#0-2]{0,5}") {
            prop_assert_eq!(natural(&one, &other), natural(&other, &one).reverse());
            prop_assert_eq!(natural(&one, &other) == Ordering::Equal, one == other);
            if natural(&one, &other).is_le() && natural(&other, &third).is_le() {
                prop_assert!(natural(&one, &third).is_le());
            }
        }
    }
}
