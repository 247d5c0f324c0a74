//! What users' programs leave in the shared directory for the collector: refusals and runs. Looked for between
//! ticks, once a minute, and no more than a few of each user at once. What cannot be read costs itself, is told once for
//! each user, and is not read again; only a history that cannot be written is an error.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use gua_claim::{
    ClaimDir, Event, EventId, MOST_CARDS, OpenError, Outcome, Problem, Refusal, Run, TakenIn,
    USUAL_PLACES,
};
use gua_model::refusal::{Asking, RefusalOutcome};
use gua_model::text::sanitize;
use gua_model::{Uid, User};
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use gua_store::{NewRefusal, Store, WatchedRun, WriteError};
use jiff::{SignedDuration, Timestamp};

use crate::chain::chain;

/// The time from one look to the next.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);

/// Nobody waits longer, and a clock is not further ahead.
const OLDEST: SignedDuration = SignedDuration::from_hours(8 * 24);
const AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// No name of a run is longer.
const LONGEST_NAME: usize = 80;

/// Where events are found, and which are known.
#[derive(Debug, Default)]
pub struct Events {
    /// `None`: the first of the usual places that is there.
    place: Option<PathBuf>,
    /// Taken in, or passed over: not to be read again.
    known: HashSet<EventId>,
    looked: Option<Timestamp>,
    /// Users of whom it was told that they leave what is no event.
    told: HashSet<Option<Uid>>,
    /// Why the directory could not be read at the last look.
    fault: Option<String>,
    notes: Vec<String>,
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
        let taken = match self.read() {
            Ok(taken) => taken,
            Err(fault) => {
                self.hear(fault);
                return Ok(());
            }
        };
        self.hear(None);
        self.tell(&taken.problems);
        self.known.retain(|event| taken.present.contains(event));
        self.known.extend(taken.passed_over);
        let mut names = None;
        for (id, event) in taken.new {
            let mut owner = || {
                let new = || ProcessTable::new(ProcRoot::default(), Passwd::System);
                names.get_or_insert_with(new).user(id.owner)
            };
            match &event {
                Event::Refusal(refusal) if is_possible(refusal, now) => {
                    store.record_refusal(&new_refusal(refusal, &id, owner()))?;
                }
                Event::Run(run) if is_possible_run(run, now) => {
                    store.record_watched_run(&watched_run(run, owner()))?;
                }
                Event::Refusal(_) | Event::Run(_) => {}
            }
            self.known.insert(id);
        }
        Ok(())
    }

    /// What is worth a line in the log since it was last asked.
    pub(crate) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// A directory can come and go; without one there are no events, and that is no fault.
    fn read(&self) -> Result<TakenIn, Option<String>> {
        let opened = match &self.place {
            Some(place) => ClaimDir::open(place),
            None => ClaimDir::find(&USUAL_PLACES),
        };
        let dir = opened.map_err(|error| match error {
            OpenError::NoPlace { .. } => None,
            other => Some(chain(&other)),
        })?;
        dir.events(&self.known).map_err(|error| Some(chain(&error)))
    }

    /// A fault is told when it begins, when it becomes another, and when it ends.
    fn hear(&mut self, fault: Option<String>) {
        if self.fault == fault {
            return;
        }
        self.notes.push(match &fault {
            Some(fault) => format!("what users leave for the collector cannot be read: {fault}"),
            None => "what users leave for the collector can be read again".to_owned(),
        });
        self.fault = fault;
    }

    /// One line for each user, and never a second one: nobody can fill the log.
    fn tell(&mut self, problems: &[Problem]) {
        let mut by_user: BTreeMap<Option<Uid>, Vec<&Problem>> = BTreeMap::new();
        for problem in problems {
            by_user.entry(problem.owner).or_default().push(problem);
        }
        for (user, problems) in by_user {
            if self.told.insert(user) {
                let more = match problems.len() - 1 {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                let first = problems[0];
                self.notes.push(format!(
                    "passed over among what users leave for the collector: {first}{more}"
                ));
            }
        }
    }
}

fn is_possible(refusal: &Refusal, now: Timestamp) -> bool {
    let age = now.duration_since(refusal.at);
    age <= OLDEST && age >= -AHEAD && !refusal.waited.is_negative() && refusal.waited <= OLDEST
}

/// A run may have begun long ago; what is told of it is told when it begins or ends.
fn is_possible_run(run: &Run, now: Timestamp) -> bool {
    let age = now.duration_since(run.ended.unwrap_or(run.started));
    let is_backwards = run.ended.is_some_and(|ended| ended < run.started);
    age <= OLDEST && age >= -AHEAD && !is_backwards
}

fn watched_run(run: &Run, owner: User) -> WatchedRun {
    let short = |text: &str| sanitize(&text.chars().take(LONGEST_NAME).collect::<String>());
    WatchedRun {
        run: short(&run.id),
        owner,
        name: short(&run.name),
        started: run.started,
        ended: run.ended,
        exit_code: run.exit_code,
        cards: run.gpus.iter().take(MOST_CARDS).cloned().collect(),
        // Before the end: who watches it.
        summary: serde_json::Value::Object(run.summary.clone()).to_string(),
    }
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
        assert_eq!(events.notes(), Vec::<String>::new());
        // A directory that is gone is no error, and is told once.
        std::fs::remove_dir_all(&shared).unwrap();
        for later in [700, 800] {
            events
                .take_in(&mut store, now + SignedDuration::from_secs(later))
                .unwrap();
        }
        let notes = events.notes();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("cannot be read: cannot open the claims directory"));
        std::fs::create_dir(&shared).unwrap();
        events
            .take_in(&mut store, now + SignedDuration::from_secs(900))
            .unwrap();
        assert_eq!(
            events.notes(),
            ["what users leave for the collector can be read again"]
        );
    }

    #[test]
    fn what_is_no_event_is_told_once_and_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let user_dir = folder.path().join("gua-claims-1");
        std::fs::create_dir(&user_dir).unwrap();
        let path = folder.path().join("gua.db");
        let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let mut events = Events::in_directory(Some(folder.path().to_owned()));
        for number in 0..3 {
            std::fs::write(user_dir.join(format!("event-{number}")), "no event").unwrap();
        }
        let later = r#"{"version":9,"kind":"parade","body":{}}"#;
        std::fs::write(user_dir.join("event-9"), later).unwrap();
        events.take_in(&mut store, now).unwrap();
        let notes = events.notes();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("`event-0` of uid "), "{notes:?}");
        assert!(notes[0].ends_with(", and 2 more"), "{notes:?}");
        assert_eq!(events.known.len(), 4);
        std::fs::write(user_dir.join("event-x"), "no event either").unwrap();
        let taken = events.read().unwrap();
        assert_eq!(taken.passed_over.len(), 1, "the new one alone is read");
        events
            .take_in(&mut store, now + SignedDuration::from_secs(61))
            .unwrap();
        assert_eq!(events.notes(), Vec::<String>::new(), "it was told already");
        // What is gone is forgotten.
        std::fs::remove_dir_all(&user_dir).unwrap();
        events
            .take_in(&mut store, now + SignedDuration::from_secs(122))
            .unwrap();
        assert!(events.known.is_empty());
    }

    #[test]
    fn a_run_is_taken_in_at_its_beginning_and_completed_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let path = folder.path().join("gua.db");
        let mut store = Store::open(&path, OpenMode::Create, &WriterOptions::default()).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let mut run = Run {
            id: "r1".to_owned(),
            name: "pyt\u{1b}hon".to_owned(),
            started: now,
            ended: None,
            exit_code: None,
            gpus: Vec::new(),
            summary: serde_json::Map::new(),
        };
        let mut events = Events::in_directory(Some(folder.path().to_owned()));
        let mut after = |minutes: i64| {
            let at = now + SignedDuration::from_mins(minutes);
            events.take_in(&mut store, at).unwrap();
            let all = Period::new(Timestamp::MIN, Timestamp::MAX);
            History::open(&path).unwrap().watched_runs(all, 9).unwrap()
        };
        dir.record(&Event::Run(run.clone()), now).unwrap();
        let kept = after(1);
        assert_eq!((kept.len(), kept[0].ended), (1, None));
        assert_eq!(kept[0].owner.uid, dir.me());
        assert!(!kept[0].name.contains('\u{1b}'), "{kept:?}");
        run.ended = Some(now + SignedDuration::from_mins(2));
        run.exit_code = Some(3);
        run.summary.insert("peak_vram_mb".to_owned(), 5.0.into());
        dir.record(&Event::Run(run.clone()), now).unwrap();
        let kept = after(3);
        assert_eq!((kept.len(), kept[0].exit_code), (1, Some(3)));
        assert_eq!(kept[0].summary, "{\"peak_vram_mb\":5.0}");
        // One that ended before it began, and one of another year.
        run.id = "r2".to_owned();
        run.ended = Some(now - SignedDuration::from_secs(1));
        dir.record(&Event::Run(run.clone()), now).unwrap();
        run.started = now - SignedDuration::from_hours(9000);
        run.ended = None;
        dir.record(&Event::Run(run), now).unwrap();
        assert_eq!(after(5).len(), 1);
    }
}
