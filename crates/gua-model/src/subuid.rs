//! Subordinate user ids: the uids that the rootless containers of a person run with (subuid(5)).
//!
//! A person has 65,536 of them by default. What a person may do at most must not be multiplied by that number, so limits
//! apply to the person.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use crate::id::Uid;

/// The ranges of `/etc/subuid`.
#[derive(Debug)]
pub struct SubUids {
    ranges: Vec<SubRange>,
    /// Returns the uid of a user name. It is called for names of ranges that are in use only, and once for each.
    uid_of: fn(&str) -> Option<Uid>,
}

#[derive(Debug)]
struct SubRange {
    uids: RangeInclusive<u32>,
    /// A name or a uid.
    owner: String,
    person: OnceLock<Uid>,
}

impl Default for SubUids {
    fn default() -> Self {
        Self::parse("", |_| None)
    }
}

impl SubUids {
    /// Parses lines of the form `ada:100000:65536`; others are ignored, as by newuidmap(1).
    pub fn parse(text: &str, uid_of: fn(&str) -> Option<Uid>) -> Self {
        let range = |line: &str| {
            let mut fields = line.trim().split(':');
            let (owner, first, count) = (fields.next()?, fields.next()?, fields.next()?);
            let (first, count): (u32, u32) = (first.parse().ok()?, count.parse().ok()?);
            Some(SubRange {
                uids: first..=first.checked_add(count.checked_sub(1)?)?,
                owner: owner.to_owned(),
                person: OnceLock::new(),
            })
        };
        Self {
            ranges: text.lines().filter_map(range).collect(),
            uid_of,
        }
    }

    /// Returns the person whose subordinate uid this is; the uid itself if it is none. If the person's name is unknown,
    /// the first uid of the range is used instead.
    pub fn person(&self, uid: Uid) -> Uid {
        let range = self.ranges.iter().find(|range| range.uids.contains(&uid.0));
        range.map_or(uid, |range| {
            *range.person.get_or_init(|| {
                let number = range.owner.parse().ok().map(Uid);
                let known = number.or_else(|| (self.uid_of)(&range.owner));
                known.unwrap_or(Uid(*range.uids.start()))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subordinate_uid_belongs_to_its_person() {
        let text = "ada:100000:65536\n1001:200000:10\nghost:300000:10\n\n# x\nbad:1:0\nbad:x:1\nbad:4294967295:2\n";
        let subuids = SubUids::parse(text, |name| (name == "ada").then_some(Uid(1000)));
        let cases = [
            (1000, 1000),
            (99_999, 99_999),
            (100_000, 1000),
            (165_535, 1000),
            (165_536, 165_536),
            (200_009, 1001),
            (200_010, 200_010),
            (300_004, 300_000),
            (1, 1),
            (u32::MAX, u32::MAX),
        ];
        for (uid, person) in cases {
            assert_eq!(subuids.person(Uid(uid)), Uid(person), "{uid}");
        }
    }
}
