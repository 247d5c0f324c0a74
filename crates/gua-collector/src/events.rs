//! Imports the events that users' programs leave in the shared directory: refusals and runs.
//!
//! The directory is scanned between ticks, once a minute, a few events per user at a time. An invalid event is skipped,
//! logged once per user, and not read again. Only a history that cannot be written is an error.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use gua_claim::{ClaimDir, Event, EventId, MAX_GPUS, OpenError, Problem, ReadEvents, Refusal, Run};
use gua_model::chain::chain;
use gua_model::failure_log::FailureLog;
use gua_model::refusal::RequestRecord;
use gua_model::text::sanitize;
use gua_model::{Uid, User};
use gua_probe::process::ProcessTable;
use gua_query::WatchedRun;
use gua_store::{NewRefusal, Store, WriteError};
use jiff::{SignedDuration, Timestamp};
use tracing::{info, warn};

use crate::claims;

/// Time between two scans.
const SCAN_PERIOD: SignedDuration = SignedDuration::from_mins(1);

/// Maximum age of an event, and maximum waiting time of a refusal.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(8 * 24);
/// Maximum time by which an event may lie in the future.
const MAX_AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// Maximum length of a run's name, in characters.
const MAX_NAME: usize = 80;

/// The shared directory and the events in it that were already handled.
#[derive(Debug, Default)]
pub struct Events {
    /// `None`: the first usual directory that exists.
    directory: Option<PathBuf>,
    /// Events that were imported or skipped and need not be read again.
    known: HashSet<EventId>,
    last_scan: Option<Timestamp>,
    /// Users whose invalid events were logged.
    logged_users: HashSet<Uid>,
    failures: FailureLog,
}

impl Events {
    pub fn in_directory(directory: Option<PathBuf>) -> Self {
        Self {
            directory,
            ..Self::default()
        }
    }

    /// Imports new events if a scan is due.
    pub(crate) fn import(&mut self, store: &mut Store, now: Timestamp) -> Result<(), WriteError> {
        let is_early = self.last_scan.is_some_and(|last_scan| {
            // A clock that was set back must not suppress scans.
            (SignedDuration::ZERO..SCAN_PERIOD).contains(&now.duration_since(last_scan))
        });
        if is_early {
            return Ok(());
        }
        self.last_scan = Some(now);
        let (dir, taken) = match self.read() {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(()),
            Err(error) => {
                if self.failures.add() {
                    warn!(error, "cannot read the events of users");
                }
                return Ok(());
            }
        };
        if let Some(attempts) = self.failures.end() {
            info!(attempts, "the events of users can be read again");
        }
        self.log_problems(&taken.problems);
        self.known.retain(|event| taken.present.contains(event));
        self.known.extend(taken.passed_over);
        let mut names = None;
        for (id, event) in taken.new {
            // An event from a rootless container belongs to the person whose container it is.
            let mut owner = || {
                names
                    .get_or_insert_with(ProcessTable::default)
                    .user(dir.person(id.owner))
            };
            match &event {
                Event::Refusal(refusal) if is_plausible(refusal, now) => {
                    store.record_refusal(&new_refusal(refusal, &id, owner()), now)?;
                }
                Event::Run(run) if is_plausible_run(run, now) => {
                    store.record_watched_run(&watched_run(run, owner()), now)?;
                }
                Event::Refusal(_) | Event::Run(_) => {}
            }
            self.known.insert(id);
        }
        Ok(())
    }

    /// Reads the directory, which may appear and disappear at any time. `None` without a usual directory.
    fn read(&self) -> Result<Option<(ClaimDir, ReadEvents)>, String> {
        let dir = match claims::open(self.directory.as_deref()) {
            Ok(dir) => dir,
            Err(OpenError::NoPlace { .. }) => return Ok(None),
            Err(error) => return Err(chain(&error)),
        };
        let taken = dir.events(&self.known).map_err(|error| chain(&error))?;
        Ok(Some((dir, taken)))
    }

    /// Logs one line per user, once, so that nobody can fill the log.
    fn log_problems(&mut self, problems: &[Problem]) {
        let mut by_user: BTreeMap<Uid, Vec<&Problem>> = BTreeMap::new();
        for problem in problems {
            by_user.entry(problem.owner).or_default().push(problem);
        }
        for (user, problems) in by_user {
            if self.logged_users.insert(user) {
                warn!(error = %problems[0], skipped = problems.len(), "skipped invalid events of a user");
            }
        }
    }
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    (-MAX_AHEAD..=MAX_AGE).contains(&now.duration_since(at))
}

fn is_plausible(refusal: &Refusal, now: Timestamp) -> bool {
    is_recent(refusal.at, now) && (SignedDuration::ZERO..=MAX_AGE).contains(&refusal.waited)
}

/// Checks the time at which the run was reported: its end, or its start while it is running.
fn is_plausible_run(run: &Run, now: Timestamp) -> bool {
    let is_backwards = run.ended.is_some_and(|ended| ended < run.started);
    is_recent(run.ended.unwrap_or(run.started), now) && !is_backwards
}

fn watched_run(run: &Run, owner: User) -> WatchedRun {
    let short = |text: &str| sanitize(&text.chars().take(MAX_NAME).collect::<String>());
    WatchedRun {
        run: short(&run.id),
        owner,
        name: short(&run.name),
        started: run.started,
        ended: run.ended,
        exit_code: run.exit_code,
        gpus: run.gpus.iter().take(MAX_GPUS).cloned().collect(),
        // While the run is running, this identifies the process that watches it.
        summary: serde_json::Value::Object(run.summary.clone()).to_string(),
    }
}

/// Leaves out what the event says about other users: the history has its own ticks for that.
fn new_refusal(refusal: &Refusal, id: &EventId, requester: User) -> NewRefusal {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let gpus = refusal.blocked_by.iter().take(MAX_GPUS);
    NewRefusal {
        request: RequestRecord {
            at: refusal.at,
            requester,
            wanted: number(refusal.wanted),
            had: number(refusal.left),
            outcome: refusal.outcome,
            waited: refusal.waited,
        },
        event: id.name.clone(),
        gpus: gpus.map(|gpu| gpu.gpu.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use gua_claim::{BlockingGpu, Outcome};
    use gua_model::Period;
    use gua_store::{History, OpenMode, WriterOptions};

    use super::*;
    use crate::captured_log::CapturedLog;

    #[test]
    fn refusals_are_imported_once_and_at_most_once_a_minute() {
        let log = CapturedLog::start();
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
                blocked_by: vec![BlockingGpu {
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
        events.import(&mut store, now).unwrap();
        assert_eq!(kept().len(), 1);
        // GPUs and users that only the event names are not stored.
        assert_eq!(kept()[0].blocked_by, []);
        assert_eq!(kept()[0].request.requester.uid, dir.me());
        assert_eq!(History::open(&path).unwrap().gpus().unwrap(), []);

        leave(now + SignedDuration::from_secs(1));
        events
            .import(&mut store, now + SignedDuration::from_secs(30))
            .unwrap();
        assert_eq!(kept().len(), 1);
        events
            .import(&mut store, now + SignedDuration::from_secs(61))
            .unwrap();
        assert_eq!(kept().len(), 2);
        // A restarted daemon finds the same files.
        let mut events = Events::in_directory(Some(shared.clone()));
        events
            .import(&mut store, now + SignedDuration::from_secs(70))
            .unwrap();
        assert_eq!(kept().len(), 2);
        assert_eq!(log.take(), [""; 0]);
        // A missing directory is not an error, and is logged once.
        std::fs::remove_dir_all(&shared).unwrap();
        for later in [700, 800] {
            events
                .import(&mut store, now + SignedDuration::from_secs(later))
                .unwrap();
        }
        let lines = log.take();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].contains("cannot read the events of users: cannot open the claims directory")
        );
        std::fs::create_dir(&shared).unwrap();
        events
            .import(&mut store, now + SignedDuration::from_secs(900))
            .unwrap();
        assert_eq!(
            log.take(),
            ["INFO the events of users can be read again (attempts=2)"]
        );
    }

    #[test]
    fn an_invalid_event_is_logged_once_and_not_read_again() {
        let log = CapturedLog::start();
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
        events.import(&mut store, now).unwrap();
        let lines = log.take();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("`event-0` of uid "), "{lines:?}");
        assert!(lines[0].ends_with("(skipped=3)"), "{lines:?}");
        assert_eq!(events.known.len(), 4);
        std::fs::write(user_dir.join("event-x"), "no event either").unwrap();
        let (_, taken) = events.read().unwrap().unwrap();
        assert_eq!(taken.passed_over.len(), 1, "the new one alone is read");
        events
            .import(&mut store, now + SignedDuration::from_secs(61))
            .unwrap();
        assert_eq!(log.take(), [""; 0], "already logged");
        // Events that no longer exist are forgotten.
        std::fs::remove_dir_all(&user_dir).unwrap();
        events
            .import(&mut store, now + SignedDuration::from_secs(122))
            .unwrap();
        assert!(events.known.is_empty());
    }

    #[test]
    fn a_run_is_imported_at_its_start_and_completed_at_its_end() {
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
            events.import(&mut store, at).unwrap();
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
        // A run that ended before it started, and one from another year.
        run.id = "r2".to_owned();
        run.ended = Some(now - SignedDuration::from_secs(1));
        dir.record(&Event::Run(run.clone()), now).unwrap();
        run.started = now - SignedDuration::from_hours(9000);
        run.ended = None;
        dir.record(&Event::Run(run), now).unwrap();
        assert_eq!(after(5).len(), 1);
    }
}
