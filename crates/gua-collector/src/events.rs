//! What users' programs leave in the shared directory for the collector: refusals. Looked for between ticks, once a minute,
//! and no more than a few of each user at once. What cannot be read costs itself; only a history that cannot be written
//! is an error.

use std::collections::HashSet;
use std::path::PathBuf;

use gua_claim::{ClaimDir, Event, EventId, Outcome, Refusal, USUAL_PLACES};
use gua_model::refusal::{Asking, RefusalOutcome};
use gua_model::{Uid, User};
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use gua_store::{NewRefusal, Store, WriteError};
use jiff::{SignedDuration, Timestamp};

/// The time from one look to the next.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);

/// Nobody waits longer, and a clock is not further ahead.
const OLDEST: SignedDuration = SignedDuration::from_hours(8 * 24);
const AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// More cards than a host has stand in no honest event.
const MOST_CARDS: usize = 256;

/// Where events are found, and which are known.
#[derive(Debug, Default)]
pub struct Events {
    /// `None`: the first of the usual places that is there.
    place: Option<PathBuf>,
    known: HashSet<EventId>,
    looked: Option<Timestamp>,
}

impl Events {
    #[must_use]
    pub fn in_directory(place: Option<PathBuf>) -> Self {
        Self {
            place,
            ..Self::default()
        }
    }

    /// Takes in what is new, if it is time to look.
    pub(crate) fn take_in(&mut self, store: &mut Store, now: Timestamp) -> Result<(), WriteError> {
        let is_early = self.looked.is_some_and(|looked| {
            // A clock that was set back must not keep us from looking.
            (SignedDuration::ZERO..PAUSE).contains(&now.duration_since(looked))
        });
        if is_early {
            return Ok(());
        }
        self.looked = Some(now);
        // A directory can come and go; without one there are no events.
        let opened = match &self.place {
            Some(place) => ClaimDir::open(place),
            None => ClaimDir::find(&USUAL_PLACES),
        };
        let Ok(Ok(taken)) = opened.map(|dir| dir.events(&self.known)) else {
            return Ok(());
        };
        self.known.retain(|event| taken.present.contains(event));
        let mut names = None;
        for (id, event) in taken.new {
            if let Event::Refusal(refusal) = &event
                && is_possible(refusal, now)
            {
                let names = names
                    .get_or_insert_with(|| ProcessTable::new(ProcRoot::default(), Passwd::System));
                store.record_refusal(&new_refusal(refusal, &id, names.user(id.owner)))?;
            }
            self.known.insert(id);
        }
        Ok(())
    }
}

fn is_possible(refusal: &Refusal, now: Timestamp) -> bool {
    let age = now.duration_since(refusal.at);
    age <= OLDEST && age >= -AHEAD && !refusal.waited.is_negative() && refusal.waited <= OLDEST
}

/// What the event says of others is left out: the history has its own ticks to ask.
fn new_refusal(refusal: &Refusal, id: &EventId, asker: User) -> NewRefusal {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    debug_assert_eq!(asker.uid, Uid(id.owner.0));
    let cards = refusal.blocked_by.iter().take(MOST_CARDS);
    NewRefusal {
        asking: Asking {
            at: refusal.at,
            asker,
            wanted: number(refusal.wanted),
            had: number(refusal.left),
            outcome: match refusal.outcome {
                Outcome::Refused => RefusalOutcome::Refused,
                Outcome::Granted => RefusalOutcome::Granted,
                Outcome::GaveUp => RefusalOutcome::GaveUp,
            },
            waited: refusal.waited,
        },
        event: id.name.clone(),
        cards: cards.map(|card| card.gpu.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use gua_claim::BlockingCard;
    use gua_model::Period;
    use gua_store::{History, OpenMode, WriterOptions};

    use super::*;

    #[test]
    fn refusals_are_taken_in_once_and_not_more_often_than_each_minute() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        let dir = ClaimDir::open(&shared).unwrap();
        let path = folder.path().join("gua.db");
        let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let leave = |at: Timestamp| {
            let refusal = Refusal {
                at,
                wanted: 2,
                left: 0,
                outcome: Outcome::Refused,
                waited: SignedDuration::ZERO,
                blocked_by: vec![BlockingCard {
                    gpu: "GPU-made-up".parse().unwrap(),
                    users: vec![Uid(77)],
                    idle_since: Some(at),
                }],
            };
            dir.record(&Event::Refusal(refusal), at).unwrap();
        };
        let kept = || {
            let all = Period::new(Timestamp::MIN, Timestamp::MAX);
            History::open(&path).unwrap().refusals(all).unwrap()
        };
        let mut events = Events::in_directory(Some(shared.clone()));
        leave(now);
        // From another year, and from the future.
        leave(now - SignedDuration::from_hours(9 * 24));
        leave(now + SignedDuration::from_hours(1));
        events.take_in(&mut store, now).unwrap();
        assert_eq!(kept().len(), 1);
        // Nobody and no card is known by hearsay.
        assert_eq!(kept()[0].blocked_by, []);
        assert_eq!(kept()[0].asking.asker.uid, dir.me());
        assert_eq!(History::open(&path).unwrap().cards().unwrap(), []);

        leave(now + SignedDuration::from_secs(1));
        events
            .take_in(&mut store, now + SignedDuration::from_secs(30))
            .unwrap();
        assert_eq!(kept().len(), 1);
        events
            .take_in(&mut store, now + SignedDuration::from_secs(61))
            .unwrap();
        assert_eq!(kept().len(), 2);
        // A daemon that is started anew finds the same files.
        let mut events = Events::in_directory(Some(shared.clone()));
        events
            .take_in(&mut store, now + SignedDuration::from_secs(70))
            .unwrap();
        assert_eq!(kept().len(), 2);
        // A directory that is gone is no error.
        std::fs::remove_dir_all(&shared).unwrap();
        events
            .take_in(&mut store, now + SignedDuration::from_secs(700))
            .unwrap();
    }
}
