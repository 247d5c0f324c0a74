//! Requests for GPUs that were not granted at once: the request, and the holders of the GPUs at that time.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::id::GpuUuid;
use crate::owner::{OwnerKey, User};
use crate::report::BlockRow;

crate::words! {
    /// Outcome of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum RefusalOutcome {
        /// Refused at once.
        Refused = "refused",
        /// Granted after a wait.
        Granted = "granted",
        /// Not granted: the wait timed out or was cancelled.
        GaveUp = "gave-up",
    }
}

/// A request, as reported by the program that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Time of the request.
    pub at: Timestamp,
    pub requester: User,
    pub wanted: u32,
    /// Number of GPUs that were available.
    pub had: u32,
    pub outcome: RefusalOutcome,
    /// Time waited; zero if the request did not wait.
    pub waited: SignedDuration,
}

/// A refusal as stored in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub request: RequestRecord,
    /// Holders of the GPUs that matched the request, as observed by ticks.
    pub blocked_by: Vec<Blocking>,
}

/// A holder of a GPU that another person requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocking {
    pub gpu: GpuUuid,
    pub holder: OwnerKey,
    /// Whether the GPU was idle-held.
    pub is_idle: bool,
}

/// Counts how often each holder's idle-held GPUs blocked each other person, in descending order. Holders do not block
/// themselves. `index` returns the last known index of a GPU.
pub fn in_the_way(refusals: &[Refusal], index: impl Fn(&GpuUuid) -> Option<u32>) -> Vec<BlockRow> {
    let mut counted: BTreeMap<(OwnerKey, GpuUuid, OwnerKey), (u64, SignedDuration)> =
        BTreeMap::new();
    for Refusal {
        request,
        blocked_by,
    } in refusals
    {
        let requester = OwnerKey::User(request.requester.clone());
        for block in blocked_by {
            if block.is_idle && block.holder != requester {
                let key = (block.holder.clone(), block.gpu.clone(), requester.clone());
                let (times, waited) = counted.entry(key).or_default();
                *times += 1;
                *waited = waited.saturating_add(request.waited);
            }
        }
    }
    let mut rows: Vec<BlockRow> = counted
        .into_iter()
        .map(|((holder, gpu, requester), (times, waited))| BlockRow {
            holder: holder.shown().into_owned(),
            index: index(&gpu),
            gpu,
            requester: requester.shown().into_owned(),
            times,
            waited,
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.times));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Uid;

    /// Parses `requester<holder:gpu[!]...`, with `!` for a GPU in use.
    fn refusal(text: &str) -> Refusal {
        let uid = |name: &str| Uid(u32::from(name.as_bytes()[0]));
        let (requester, blocks) = text.split_once('<').unwrap();
        let block = |text: &str| {
            let (holder, gpu) = text.split_once(':').unwrap();
            Blocking {
                gpu: gpu.trim_end_matches('!').parse().unwrap(),
                holder: OwnerKey::User(User {
                    uid: uid(holder),
                    name: Some(holder.to_owned()),
                }),
                is_idle: !gpu.ends_with('!'),
            }
        };
        Refusal {
            request: RequestRecord {
                at: Timestamp::UNIX_EPOCH,
                requester: User {
                    uid: uid(requester),
                    name: Some(requester.to_owned()),
                },
                wanted: 1,
                had: 0,
                outcome: RefusalOutcome::GaveUp,
                waited: SignedDuration::from_secs(60),
            },
            blocked_by: blocks.split_whitespace().map(block).collect(),
        }
    }

    #[test]
    fn idle_gpus_of_others_are_in_the_way_and_busy_or_own_ones_are_not() {
        let refusals = [
            "a<b:GPU-1 c:GPU-2! a:GPU-3",
            "a<b:GPU-1",
            "c<b:GPU-1",
            "b<b:GPU-1",
        ];
        let rows = in_the_way(&refusals.map(refusal), |_| None);
        let found: Vec<String> = rows
            .iter()
            .map(|row| {
                let (holder, requester) = (&row.holder, &row.requester);
                let waited = row.waited.as_secs();
                format!("{holder} {} {requester} {} {waited}", row.gpu, row.times)
            })
            .collect();
        assert_eq!(found, ["b GPU-1 a 2 120", "b GPU-1 c 1 60"]);
    }
}
