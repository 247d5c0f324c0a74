//! User names. If a directory service is slow or hangs, names are missing but the sample is not delayed: one thread
//! queries the service, and a caller waits a short time at most and gets the answer at a later tick. Other questions to
//! the directory have a thread each, and few threads wait at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use gua_model::id::Uid;
use gua_model::subuid::SubUids;

use super::{Passwd, parse};
use crate::clock::{self, within};

/// Maximum time per tick to wait for names, all users together.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time per tick to wait for names from a file. Unlike a directory service, a file always answers.
const FILE_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum time that a request or a message waits for a name or a uid.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum time that a command waits for the groups of all users of a host.
const GROUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Delay until a uid is looked up again: accounts are created, uids are given to others, and directory services come
/// back.
const RETRY: Duration = Duration::from_mins(5);

/// Looks up one name. It may block.
pub(super) type Lookup = Arc<dyn Fn(Uid) -> Option<String> + Send + Sync>;

/// Maximum number of threads that wait for the directory.
const MAX_WAITING: usize = 8;

/// Number of waiting threads at which look-ups of names are refused. Any user can trigger a look-up of their own name, which must not
/// block other look-ups.
const MAX_WAITING_FOR_NAMES: usize = 4;

/// Number of threads that wait for the directory.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A thread that waits for the directory. It is no longer counted when this is dropped, also by a panic.
struct Waiting;

impl Waiting {
    /// Counts a thread; `None` if too many wait.
    fn begin(most: usize) -> Option<Self> {
        let more = |waiting| (waiting < most).then_some(waiting + 1);
        let counted = WAITING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.ok().map(|_| Self)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Asks the directory; `None` if it does not answer in time. While it hangs, further questions are refused, so that a hung
/// directory costs few threads, however often a daemon asks.
fn asked<T: Send + 'static>(
    limit: Duration,
    question: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    asked_while(MAX_WAITING, limit, question)
}

/// Asks the directory if fewer than `most` threads wait for it.
fn asked_while<T: Send + 'static>(
    most: usize,
    limit: Duration,
    question: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let waiting = Waiting::begin(most)?;
    within(limit, move || {
        let _waiting = waiting;
        question()
    })
}

/// Looks up a user in the host's directory: passwd, LDAP, SSSD, as configured for the C library. It blocks for as long as
/// the directory does not answer.
fn name_of(uid: Uid) -> Option<String> {
    let user = uzers::get_user_by_uid(uid.0)?;
    parse::user_name(&user.name().to_string_lossy())
}

/// Reports whether the host has a user with this name; `None` if its directory does not answer in time.
pub fn is_user(name: &str) -> Option<bool> {
    let name = name.to_owned();
    asked(TIMEOUT, move || uzers::get_user_by_name(&name).is_some())
}

/// Reports whether the host has a group with this name; `None` if its directory does not answer in time.
pub fn is_group(name: &str) -> Option<bool> {
    let name = name.to_owned();
    asked(TIMEOUT, move || uzers::get_group_by_name(&name).is_some())
}

/// Looks up the uid of a user as [`name_of`] does the name.
fn uid_of(name: &str) -> Option<Uid> {
    Some(Uid(uzers::get_user_by_name(name)?.uid()))
}

/// Returns the name of a user: `Some(None)` if there is no such user; `None` if the directory does not answer in time or too many
/// look-ups wait for it.
pub fn name_in_directory(uid: Uid) -> Option<Option<String>> {
    asked_while(MAX_WAITING_FOR_NAMES, LOOKUP_TIMEOUT, move || name_of(uid))
}

/// Returns the uid of a user, as [`name_in_directory`] does the name.
pub fn uid_in_directory(name: &str) -> Option<Option<Uid>> {
    let name = name.to_owned();
    asked(LOOKUP_TIMEOUT, move || uid_of(&name))
}

/// Returns the uid and the main gid of a user; `None` if there is no such user, or its directory does not answer in time.
pub fn user_ids(name: &str) -> Option<(u32, u32)> {
    let name = name.to_owned();
    let user = asked(TIMEOUT, move || uzers::get_user_by_name(&name));
    user.flatten()
        .map(|user| (user.uid(), user.primary_group_id()))
}

/// Reads which uids the rootless containers of each person use (subuid(5)). A host without the file has none.
pub fn sub_uids() -> SubUids {
    let text = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
    SubUids::parse(&text, |name| {
        let name = name.to_owned();
        asked(TIMEOUT, move || uid_of(&name)).flatten()
    })
}

/// Returns the Unix groups of each of these users; unknown users have none. `None` if the host's directory does not
/// answer in time.
pub fn groups_of(users: &[String]) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let users = users.to_vec();
    let groups = |name: &String| {
        let primary = uzers::get_user_by_name(name)?.primary_group_id();
        let all = uzers::get_user_groups(name, primary)?;
        let names = all
            .iter()
            .map(|group| group.name().to_string_lossy().into_owned());
        Some((name.clone(), names.collect()))
    };
    asked(GROUP_TIMEOUT, move || {
        users.iter().filter_map(groups).collect()
    })
}

/// Cached user names, from a function that may block forever. Within one tick a user keeps the name, or the lack of one,
/// that was found first.
pub(super) struct Names {
    lookup: Lookup,
    helper: Option<Helper>,
    known: HashMap<Uid, Known>,
    /// Lookups without an answer yet.
    open: usize,
    timeout: Duration,
    /// Time that is left in this tick.
    time_left: Duration,
}

/// The last answer about a uid.
struct Known {
    /// Kept when a later lookup finds no name: the processes of a removed user stay theirs.
    name: Option<String>,
    asked: Duration,
    /// Whether the answer to the last lookup is still to come.
    is_open: bool,
}

impl Names {
    pub(super) fn new(passwd: Passwd) -> Self {
        match passwd {
            Passwd::System => Self::with_lookup(Arc::new(name_of), TIMEOUT),
            Passwd::File(path) => {
                let lookup = move |uid: Uid| {
                    let text = std::fs::read(&path).ok()?;
                    parse::passwd_file(&text).remove(&uid.0)
                };
                Self::with_lookup(Arc::new(lookup), FILE_TIMEOUT)
            }
        }
    }

    /// Uses a function for lookups, with a time limit per tick.
    pub(super) fn with_lookup(lookup: Lookup, timeout: Duration) -> Self {
        Self {
            lookup,
            helper: None,
            known: HashMap::new(),
            open: 0,
            timeout,
            time_left: timeout,
        }
    }

    pub(super) fn name(&mut self, uid: Uid, now: Duration) -> Option<String> {
        let can_wait = match self.known.get(&uid) {
            Some(known) if known.is_open || now.saturating_sub(known.asked) < RETRY => {
                return known.name.clone();
            }
            // Looked up again without waiting: the last answer is used until the tick is over.
            Some(_) => false,
            // The thread answers in order, so waiting behind a lookup that timed out would be useless.
            None => self.open == 0,
        };
        self.ask(uid, now);
        if can_wait {
            self.wait_for(uid, now);
        }
        self.known.get(&uid)?.name.clone()
    }

    fn ask(&mut self, uid: Uid, now: Duration) {
        if self.helper.is_none() {
            self.helper = Helper::start(Arc::clone(&self.lookup));
        }
        let is_sent = self
            .helper
            .as_ref()
            .is_some_and(|helper| helper.questions.send(uid).is_ok());
        if !is_sent {
            self.lose_helper(now);
        }
        self.open += usize::from(is_sent);
        let known = self.known.entry(uid).or_insert(Known {
            name: None,
            asked: now,
            is_open: false,
        });
        (known.asked, known.is_open) = (now, is_sent);
    }

    fn wait_for(&mut self, uid: Uid, now: Duration) {
        let deadline = clock::monotonic() + self.time_left;
        let left = || deadline.saturating_sub(clock::monotonic());
        while self.known.get(&uid).is_some_and(|known| known.is_open) && self.receive(left(), now) {
        }
        self.time_left = left();
    }

    pub(super) fn end_tick(&mut self, now: Duration) {
        self.time_left = self.timeout;
        while self.open > 0 && self.receive(Duration::ZERO, now) {}
    }

    /// Takes the next answer. Returns `false` if none comes in time.
    fn receive(&mut self, timeout: Duration, now: Duration) -> bool {
        let Some(helper) = &self.helper else {
            return false;
        };
        match helper.answers.recv_timeout(timeout) {
            Ok(answer) => self.learn(answer, now),
            Err(mpsc::RecvTimeoutError::Timeout) => return false,
            Err(mpsc::RecvTimeoutError::Disconnected) => self.lose_helper(now),
        }
        true
    }

    fn learn(&mut self, (uid, name): (Uid, Option<String>), now: Duration) {
        self.open = self.open.saturating_sub(1);
        if let Some(known) = self.known.get_mut(&uid) {
            let name = name.as_deref().and_then(parse::user_name);
            known.name = name.or_else(|| known.name.take());
            (known.asked, known.is_open) = (now, false);
        }
    }

    /// Handles the end of the thread (a module of the C library can terminate it): another is started with the next
    /// lookup, and pending lookups count as unknown until they are repeated.
    fn lose_helper(&mut self, now: Duration) {
        self.helper = None;
        self.open = 0;
        for known in self.known.values_mut().filter(|known| known.is_open) {
            (known.asked, known.is_open) = (now, false);
        }
    }
}

/// Starts the thread. It ends by itself when the table is dropped; it is never joined, because it may hang.
struct Helper {
    questions: Sender<Uid>,
    answers: Receiver<(Uid, Option<String>)>,
}

impl Helper {
    fn start(lookup: Lookup) -> Option<Self> {
        let (questions, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let answer_all = move || {
            for uid in asked {
                if answer.send((uid, lookup(uid))).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new()
            .name("user-names".to_owned())
            .spawn(answer_all)
            .ok()?;
        Some(Self { questions, answers })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const ADA: Uid = Uid(1000);
    const BOB: Uid = Uid(1001);

    /// Maximum time for answers that do come; a loaded machine may be slow.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_hung_directory_costs_few_threads() {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for _ in 0..50 {
            let ended = Arc::clone(&ended);
            let hung = move || {
                STARTED.fetch_add(1, Ordering::SeqCst);
                let _ = ended.lock().unwrap().recv();
            };
            assert_eq!(asked(Duration::from_millis(1), hung), None);
        }
        assert!(STARTED.load(Ordering::SeqCst) <= MAX_WAITING);
        drop(end);
        gua_test::wait_until("the directory is asked again", || {
            asked(LONG, || 1) == Some(1)
        });
    }

    #[test]
    fn a_lookup_that_panics_returns_none_and_is_no_longer_counted() {
        for _ in 0..2 * MAX_WAITING {
            let question = || panic!("a module of the C library fails");
            assert_eq!(asked::<u32>(LONG, question), None);
        }
        gua_test::wait_until("another question is answered", || {
            asked(LONG, || 1) == Some(1)
        });
    }

    /// A directory that answers each lookup only when the test provides the answer.
    fn directory(timeout: Duration) -> (Names, Sender<Option<String>>, Receiver<Uid>) {
        let (say, said) = mpsc::channel();
        let (asked, questions) = mpsc::channel();
        let (asked, said) = (Mutex::new(asked), Mutex::new(said));
        let lookup = move |uid| {
            asked.lock().unwrap().send(uid).ok()?;
            said.lock().unwrap().recv().ok()?
        };
        (
            Names::with_lookup(Arc::new(lookup), timeout),
            say,
            questions,
        )
    }

    /// Ends ticks until the answer has come; panics if it never does.
    fn name_at_a_later_tick(names: &mut Names, uid: Uid, now: Duration) -> String {
        for _ in 0..2000 {
            names.end_tick(now);
            if let Some(name) = names.name(uid, now) {
                return name;
            }
            thread::park_timeout(Duration::from_millis(5));
        }
        panic!("the name of {uid} never came");
    }

    #[test]
    fn a_uid_that_was_given_to_another_user_gets_the_new_name() {
        let (mut names, say, _questions) = directory(LONG);
        say.send(Some("ada".to_owned())).unwrap();
        assert_eq!(names.name(ADA, Duration::ZERO).as_deref(), Some("ada"));
        // The old name stays until the directory answers, and where it has none.
        for (answer, expected) in [(None, "ada"), (Some("bob"), "bob")] {
            names.end_tick(Duration::ZERO);
            let before = names.name(ADA, RETRY);
            say.send(answer.map(str::to_owned)).unwrap();
            assert_eq!(before.as_deref(), Some("ada"));
            let mut found = None;
            for _ in 0..2000 {
                names.end_tick(Duration::ZERO);
                found = names.name(ADA, Duration::ZERO);
                if names.open == 0 {
                    break;
                }
                thread::park_timeout(Duration::from_millis(5));
            }
            assert_eq!(found.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_user_is_known_by_name_or_not_at_all() {
        assert_eq!(is_user("root"), Some(true));
        assert_ne!(is_user("no such user"), Some(true));
    }

    #[test]
    fn a_quick_answer_is_there_at_once() {
        let lookup = |uid| (uid == ADA).then(|| "ada".to_owned());
        let mut names = Names::with_lookup(Arc::new(lookup), LONG);
        assert_eq!(names.name(ADA, Duration::ZERO).as_deref(), Some("ada"));
        assert_eq!(names.name(BOB, Duration::ZERO), None);
    }

    #[test]
    fn a_hung_directory_costs_a_moment_once_and_the_name_comes_later() {
        let (mut names, say, questions) = directory(TIMEOUT);
        let before = clock::monotonic();
        assert_eq!(names.name(ADA, Duration::ZERO), None);
        for uid in 2000..2100 {
            assert_eq!(names.name(Uid(uid), Duration::ZERO), None);
        }
        names.end_tick(Duration::ZERO);
        assert_eq!(names.name(BOB, Duration::ZERO), None);
        let waited = clock::monotonic() - before;
        assert!(waited >= TIMEOUT && waited < TIMEOUT * 50, "{waited:?}");

        say.send(Some("ada".to_owned())).unwrap();
        assert_eq!(name_at_a_later_tick(&mut names, ADA, Duration::ZERO), "ada");
        assert_eq!(questions.try_iter().filter(|uid| *uid == ADA).count(), 1);
    }

    #[test]
    fn a_name_does_not_change_within_a_tick() {
        let (mut names, say, questions) = directory(Duration::from_millis(1));
        assert_eq!(names.name(ADA, Duration::ZERO), None);
        say.send(Some("ada".to_owned())).unwrap();
        // The second lookup begins only after the first answer.
        assert_eq!(names.name(BOB, Duration::ZERO), None);
        assert_eq!((questions.recv(), questions.recv()), (Ok(ADA), Ok(BOB)));
        assert_eq!(names.name(ADA, Duration::ZERO), None);
        assert_eq!(name_at_a_later_tick(&mut names, ADA, Duration::ZERO), "ada");
    }

    #[test]
    fn slow_answers_together_take_no_longer_than_one_tick_may_wait() {
        const STEP: Duration = Duration::from_millis(5);
        let slow = |uid: Uid| {
            let ready = clock::monotonic() + STEP;
            while clock::monotonic() < ready {
                thread::park_timeout(STEP);
            }
            Some(format!("u{uid}"))
        };
        let mut names = Names::with_lookup(Arc::new(slow), STEP * 4);
        let at_once = (0..32)
            .filter(|uid| names.name(Uid(*uid), Duration::ZERO).is_some())
            .count();
        assert!(at_once <= 4, "{at_once}");
        assert_eq!(
            name_at_a_later_tick(&mut names, Uid(31), Duration::ZERO),
            "u31"
        );
    }

    #[test]
    fn a_uid_without_a_name_is_asked_again_after_a_while() {
        let (mut names, say, questions) = directory(LONG);
        say.send(None).unwrap();
        assert_eq!(names.name(ADA, Duration::ZERO), None);
        assert_eq!(questions.recv(), Ok(ADA));
        names.end_tick(Duration::ZERO);
        assert_eq!(names.name(ADA, RETRY - Duration::from_secs(1)), None);
        assert!(questions.try_recv().is_err());
        say.send(Some("ada".to_owned())).unwrap();
        assert_eq!(name_at_a_later_tick(&mut names, ADA, RETRY * 2), "ada");
        assert_eq!(questions.try_iter().count(), 1);
    }

    #[test]
    fn a_helper_that_dies_is_replaced() {
        let lookup = |uid| {
            assert!(uid != BOB, "a module of the C library fell over");
            Some("ada".to_owned())
        };
        let mut names = Names::with_lookup(Arc::new(lookup), LONG);
        assert_eq!(names.name(BOB, Duration::ZERO), None);
        assert_eq!(names.name(ADA, Duration::ZERO).as_deref(), Some("ada"));
    }

    #[test]
    fn the_system_knows_root() {
        let mut names = Names::new(Passwd::System);
        assert_eq!(
            name_at_a_later_tick(&mut names, Uid::ROOT, Duration::ZERO),
            "root"
        );
    }

    #[test]
    fn a_passwd_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("passwd");
        std::fs::write(&path, "ada:x:1000:1000::/:/bin/sh\n").unwrap();
        let mut names = Names::new(Passwd::File(path));
        assert_eq!(names.name(ADA, Duration::ZERO).as_deref(), Some("ada"));
        assert_eq!(names.name(BOB, Duration::ZERO), None);
    }
}
