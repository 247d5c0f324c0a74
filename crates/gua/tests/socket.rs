//! The service's socket: everyone asks, nobody but the service touches the history, and each user sees what the
//! configuration allows.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gua_probe::clock;
use gua_test::recorded::record;
use gua_test::{Ended, TestHost, runs_as_root, wait_for, wait_until};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{GUA, TWO_GPUS, host};

/// Holds a POSIX read lock on the byte that SQLite's writer locks (sqlite.org/walformat.html) until its input ends.
const LOCK: &str = "import fcntl, sys
file = open(sys.argv[1], 'rb')
fcntl.lockf(file, fcntl.LOCK_SH, 1, 120)
print('locked', flush=True)
sys.stdin.read()";

/// User ids of the people in the recorded history.
const ADA: u32 = 2294;
const NOBODY: u32 = 65534;
const WINDOW: &str = "--since 2025-10-02T00:00:00Z --until 2025-10-02T02:00:00Z";

/// A host with a private history of two people, and the reader that answers questions about it.
struct Served {
    host: TestHost,
    db: PathBuf,
    reader: Child,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.reader.kill();
        let _ = self.reader.wait();
    }
}

impl Served {
    fn new(others: &str) -> Self {
        Self::since(others, "2025-10-02T00:00:00Z".parse().unwrap())
    }

    /// The history has two hours from a time on.
    fn since(others: &str, from: Timestamp) -> Self {
        let host = TestHost::new(GUA, TWO_GPUS);
        let set_mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        host.open_to_users();
        let db = host.path("service/gua.db");
        record(&db, from, 120, |_| {
            vec![(50, &["ada"][..]), (0, &["bob"][..])]
        });
        set_mode(&host.path("service"), 0o700);
        fs::write(host.path("service/pseudonyms.salt"), "0123456789abcdef\n").unwrap();
        let socket = host.path("gua.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        set_mode(&socket, 0o666);
        let host = host
            .variable("GUA_SOCKET", socket)
            .variable("GUA_PRIVACY_OTHERS", others);
        let reader = host
            .command(host.path("gua"))
            .arg("__answers")
            .arg(&db)
            .stdin(OwnedFd::from(listener))
            .spawn()
            .unwrap();
        Self { host, db, reader }
    }

    /// Runs a command, as another user if the tests run as root.
    fn gua_as(&self, user: u32, line: &str) -> Ended {
        let mut command = self.command_as(user, line);
        command.output().unwrap().into()
    }

    fn command_as(&self, user: u32, line: &str) -> Command {
        let mut command = self.host.command(self.host.path("gua"));
        command.args(line.split_whitespace());
        if rustix::process::geteuid().is_root() {
            command.uid(user).gid(user);
        }
        command
    }

    #[track_caller]
    fn json_as(&self, user: u32, line: &str) -> Value {
        let ended = self.gua_as(user, line);
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        serde_json::from_str(&ended.stdout).unwrap()
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.host.path("gua.sock")).unwrap();
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).unwrap();
        stream
    }
}

/// A document without the time at which it was made.
fn timeless(mut document: Value) -> Value {
    let fields = document.as_object_mut().unwrap();
    fields.retain(|key, _| !key.contains("generated") && !key.contains("made"));
    document
}

fn people(report: &Value) -> Vec<(String, f64)> {
    let people = report["users"].as_array().unwrap().iter();
    let row = |row: &Value| {
        let name = row["user"].as_str().unwrap().to_owned();
        (name, row["held_hours"].as_f64().unwrap())
    };
    let mut people: Vec<_> = people.map(row).collect();
    people.sort_by(|one, other| one.0.cmp(&other.0));
    people
}

#[test]
fn the_socket_gives_the_same_answers_as_the_file() {
    let served = Served::new("names");
    let db = served.db.display();
    for line in [
        &format!("report --json {WINDOW}"),
        &format!("report --csv --by user {WINDOW}"),
        "statement --month 2025-10 --format json --tz UTC",
        "explain 1 --at 2025-10-02T01:00:00Z --json",
        "runs list --json",
        "db stats --format json",
        &format!("plot --format json {WINDOW}"),
        &format!("export --what samples {WINDOW}"),
        &format!("export --what processes --format jsonl {WINDOW}"),
        &format!("export --what sessions {WINDOW}"),
        "export --what totals --format jsonl",
        "export --what user-totals",
    ] {
        let of_file = served.host.gua(&format!("{line} --db {db}"));
        assert_eq!(of_file.code, 0, "{line}: {of_file:?}");
        // The default history of a user without a daemon is the service's.
        let asked = served.host.gua(line);
        assert_eq!(asked.code, 0, "{line}: {asked:?}");
        let plain = |text: &str| match serde_json::from_str::<Value>(text) {
            Ok(document) if document.is_object() => timeless(document).to_string(),
            _ => text.to_owned(),
        };
        assert_eq!(plain(&asked.stdout), plain(&of_file.stdout), "{line}");
    }
    let wrong = served.host.gua(&format!("report --user eve {WINDOW}"));
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.stderr.contains("it has ada, bob"), "{wrong:?}");
    let elsewhere = served.host.path("other.db");
    let missing = served
        .host
        .gua(&format!("report --db {}", elsewhere.display()));
    assert!(missing.stderr.contains("no history"), "{missing:?}");
}

#[test]
fn another_user_gets_the_report_and_cannot_open_the_history() {
    if !runs_as_root("a history that is private to the service") {
        return;
    }
    let served = Served::new("names");
    let db = served.db.display().to_string();
    for name in [db.clone(), format!("{db}-shm")] {
        let mut command = served.host.command("cat");
        let read = command.arg(name).uid(NOBODY).gid(NOBODY).output().unwrap();
        let refused = String::from_utf8_lossy(&read.stderr).into_owned();
        assert!(refused.contains("Permission denied"), "{refused}");
    }
    let report = served.json_as(NOBODY, &format!("report --json {WINDOW} --db {db}"));
    let expected = [("ada".to_owned(), 2.0), ("bob".to_owned(), 2.0)];
    assert_eq!(people(&report), expected);
    let other = served.host.path("other");
    fs::create_dir(&other).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o700)).unwrap();
    let line = format!("report --db {}", other.join("gua.db").display());
    let refused = served.gua_as(NOBODY, &line);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("another history"), "{refused:?}");
}

#[test]
fn what_an_ordinary_user_may_not_do_or_does_not_run_is_explained() {
    if !runs_as_root("the messages for other users") {
        return;
    }
    let served = Served::since("names", clock::now() - SignedDuration::from_hours(2));
    let closed = served.host.path("closed.db");
    fs::copy(&served.db, &closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let forget = |db: &Path| format!("db forget ada --yes --db {}", db.display());
    let import = format!("import old.db --db {}", closed.display());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gua-compat/tests/golden");
    let old = fs::read(golden.join("gpu-usage-audit-1.8.0.db")).unwrap();
    served.host.write("old.db", old);
    for line in [forget(&served.db), forget(&closed), import] {
        let refused = served.gua_as(NOBODY, &line);
        assert_eq!(refused.code, 1, "{line}: {refused:?}");
        assert!(refused.stderr.contains("run it as root"), "{refused:?}");
    }
    for line in ["serve install", "board install"] {
        let refused = served.gua_as(NOBODY, line);
        assert_eq!(refused.code, 2, "{line}: {refused:?}");
        assert!(
            refused
                .stderr
                .ends_with("hint: run this command with sudo\n"),
            "{refused:?}"
        );
    }
    let status = served.gua_as(NOBODY, "status").stdout;
    let collector = "gua daemon: not running\n  the host's collector: ";
    assert!(status.starts_with(collector), "{status}");
    assert!(status.contains("healthy: "), "{status}");
}

#[test]
fn other_people_appear_as_the_configuration_says() {
    if !runs_as_root("what users see of each other") {
        return;
    }
    let line = format!("report --json {WINDOW}");
    let names = |report: &Value| -> Vec<String> {
        let people = people(report).into_iter();
        people.map(|(name, _)| name).collect()
    };
    let served = Served::new("totals");
    let report = served.json_as(ADA, &line);
    assert_eq!(
        people(&report),
        [("ada".to_owned(), 2.0), ("others".to_owned(), 2.0)]
    );
    assert!(!report.to_string().contains("bob"), "{report}");
    let strangers = served.json_as(NOBODY, &line);
    assert_eq!(people(&strangers), [("others".to_owned(), 4.0)]);
    let explained = served.gua_as(NOBODY, "explain 1 --at 2025-10-02T01:00:00Z");
    assert_eq!(explained.code, 0, "{explained:?}");
    for hidden in ["bob", "python", "uid 2307", "33070"] {
        assert!(!explained.stdout.contains(hidden), "{explained:?}");
    }
    // Root sees everything.
    assert_eq!(names(&served.json_as(0, &line)), ["ada", "bob"]);

    let served = Served::new("pseudonyms");
    let report = served.json_as(ADA, &line);
    let found = names(&report);
    assert!(found.contains(&"ada".to_owned()), "{found:?}");
    let is_alias = |name: &&String| name.starts_with("user-") && name.len() == 21;
    assert_eq!(found.iter().filter(is_alias).count(), 1, "{found:?}");
    assert!(!report.to_string().contains("bob"), "{report}");
    assert_eq!(names(&served.json_as(ADA, &line)), found, "stable");

    let served = Served::new("nonsense");
    let refused = served.gua_as(ADA, "report");
    assert_ne!(refused.code, 0, "{refused:?}");
}

#[test]
fn the_mode_of_the_socket_decides_who_may_ask() {
    if !runs_as_root("a socket that is closed to some users") {
        return;
    }
    const GROUP: u32 = 20_777;
    let served = Served::new("names");
    let socket = served.host.path("gua.sock");
    let ask = |user: u32, group: u32| {
        let mut command = served.host.command(served.host.path("gua"));
        command.args(["report", "--since", "1h"]);
        Ended::from(command.uid(user).gid(group).output().unwrap())
    };
    // As `--readable-by group:NAME` and `--readable-by root` set it.
    for (mode, group_may) in [(0o660, true), (0o600, false)] {
        std::os::unix::fs::chown(&socket, Some(0), Some(GROUP)).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(mode)).unwrap();
        let member = ask(NOBODY, GROUP);
        assert_eq!(member.code == 0, group_may, "{mode:o}: {member:?}");
        let other = ask(NOBODY, NOBODY);
        assert_ne!(other.code, 0, "{mode:o}: {other:?}");
        assert!(
            other
                .stderr
                .contains("permission denied (see `--readable-by`"),
            "{other:?}"
        );
        assert_eq!(ask(0, 0).code, 0, "{mode:o}");
    }
}

#[test]
fn files_of_an_export_through_the_socket_are_those_of_the_file() {
    let served = Served::new("names");
    let db = served.db.display();
    let export = |name: &str, source: &str| {
        fs::create_dir(served.host.path(name)).unwrap();
        for what in ["samples", "user-totals"] {
            let line = format!("export --what {what} {WINDOW} -o {name}/{what}.parquet {source}");
            served.host.fine(&line);
        }
        let by_day = format!("export --what samples --format csv {WINDOW} -o {name} {source}");
        served.host.fine(&by_day);
        let files = fs::read_dir(served.host.path(name)).unwrap();
        let read = |path: PathBuf| {
            (
                path.file_name().unwrap().to_owned(),
                fs::read(path).unwrap(),
            )
        };
        let mut files: Vec<_> = files.map(|file| read(file.unwrap().path())).collect();
        files.sort();
        files
    };
    let asked = export("asked", "");
    assert_eq!(asked.len(), 3);
    assert_eq!(asked, export("of-file", &format!("--db {db}")));
}

/// Texts of the process rows in a file of gpu-usage-audit, read as gua reads such a file.
fn processes_of_old_file(served: &Served, name: &str) -> Vec<String> {
    let line = format!("import {name} --db {name}.gua");
    served.host.fine(&line);
    let rows = format!("export --what processes --format jsonl --db {name}.gua");
    let rows = served.host.fine(&rows);
    rows.lines().map(str::to_owned).collect()
}

#[test]
fn everyone_exports_in_the_format_of_the_replaced_tool_and_others_stay_hidden() {
    let export = "export --format gpu-usage-audit -o";
    let served = Served::new("names");
    let asked = served.host.fine(&format!("{export} asked.db"));
    let counted = "exported 240 GPU rows, 240 process rows and 1 run from";
    assert!(asked.starts_with(counted), "{asked}");
    let db = served.db.display();
    served.host.fine(&format!("{export} of-file.db --db {db}"));
    let rows = processes_of_old_file(&served, "asked.db");
    assert_eq!(rows.len(), 240);
    assert_eq!(rows, processes_of_old_file(&served, "of-file.db"));
    let again = served.host.gua(&format!("{export} asked.db"));
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("exists already"), "{again:?}");

    if !runs_as_root("what users see of each other in the old format") {
        return;
    }
    for others in ["totals", "pseudonyms"] {
        let served = Served::new(others);
        let theirs = served.host.path("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o777)).unwrap();
        for user in [ADA, NOBODY] {
            let ended = served.gua_as(user, &format!("{export} theirs/{user}.db"));
            assert_eq!(ended.code, 0, "{others}: {ended:?}");
            let bytes = fs::read(theirs.join(format!("{user}.db"))).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("bob"), "{others} {user}");
            assert_eq!(text.contains("ada"), user == ADA, "{others} {user}");
            let rows = processes_of_old_file(&served, &format!("theirs/{user}.db"));
            assert_eq!(rows.len(), 240);
            let own = rows.iter().filter(|row| row.contains("\"ada\""));
            assert_eq!(own.count(), if user == ADA { 120 } else { 0 });
            // The process of another person has no PID, and the person has another name.
            let hidden = rows.iter().filter(|row| row.contains("\"pid\":0,"));
            let hidden: Vec<&String> = hidden.collect();
            assert_eq!(hidden.len(), if user == ADA { 120 } else { 240 });
            let alias = if others == "totals" {
                "\"others\""
            } else {
                "\"user-"
            };
            assert!(hidden.iter().all(|row| row.contains(alias)), "{hidden:?}");
        }
    }
}

#[test]
fn a_question_with_a_nameless_time_zone_says_what_to_set() {
    let served = Served::new("names");
    // RFC 9636: the header with its six counts, one local time type of UTC+1, and its abbreviation.
    let mut zone = b"TZif".to_vec();
    zone.extend([0; 16]);
    for count in [0_u32, 0, 0, 0, 1, 4] {
        zone.extend(count.to_be_bytes());
    }
    zone.extend(3600_i32.to_be_bytes());
    zone.extend(*b"\0\0XST\0");
    let zone = served.host.write("zone", zone);
    let report = || served.command_as(ADA, &format!("report {WINDOW}"));
    let ended: Ended = report().env("TZ", zone).output().unwrap().into();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("the name of the time zone"),
        "{ended:?}"
    );
    let ended: Ended = report().env("TZ", "UTC-1").output().unwrap().into();
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn percentages_are_the_same_through_the_socket() {
    let from = clock::now() - SignedDuration::from_mins(119);
    let served = Served::since("names", from);
    let db = served.db.display();
    let line = "quota show --formula percent --csv";
    let read = |line: &str| -> Vec<(String, Vec<f64>)> {
        let table = served.host.fine(line);
        let rows = table.lines().skip(1).map(|row| {
            let mut cells = row.split(',');
            let user = cells.next().unwrap().to_owned();
            (user, cells.map(|cell| cell.parse().unwrap()).collect())
        });
        rows.collect()
    };
    let (asked, of_file) = (read(line), read(&format!("{line} --db {db}")));
    assert_eq!(asked.len(), 2, "{asked:?}");
    for ((user, asked), (of_user, of_file)) in asked.iter().zip(&of_file) {
        assert_eq!((user, asked.len()), (of_user, of_file.len()));
        // The hour ends now, which is a little later for the second question.
        let is_near = |(one, other): (&f64, &f64)| (one - other).abs() < 1.0;
        assert!(
            asked.iter().zip(of_file).all(is_near),
            "{asked:?} {of_file:?}"
        );
    }
}

#[test]
fn other_people_are_hidden_in_every_table_of_an_export() {
    if !runs_as_root("what users see of each other in exports") {
        return;
    }
    let from = clock::now() - SignedDuration::from_mins(119);
    for others in ["totals", "pseudonyms"] {
        let served = Served::since(others, from);
        for what in ["samples", "processes", "sessions", "totals", "user-totals"] {
            let line = format!("export --what {what} --format jsonl");
            let rows = served.gua_as(ADA, &line);
            assert_eq!(rows.code, 0, "{rows:?}");
            assert_ne!(rows.stdout, "", "{what} {others}: {rows:?}");
            // The name, the uid and the process ids of the other person.
            for hidden in ["bob", "2307", "33070"] {
                assert!(!rows.stdout.contains(hidden), "{what} {others}: {rows:?}");
            }
            if what.contains("s-") || what == "processes" || what == "sessions" {
                assert!(rows.stdout.contains("\"ada\""), "{what} {others}: {rows:?}");
            }
            let seen_by_root = served.gua_as(0, &line);
            let names_bob = seen_by_root.stdout.contains("bob");
            assert_eq!(names_bob, !matches!(what, "samples" | "totals"), "{what}");
        }
        let percent = served.gua_as(ADA, "quota show --formula percent --csv");
        assert_eq!(percent.code, 0, "{percent:?}");
        assert!(percent.stdout.contains("ada"), "{percent:?}");
        assert!(!percent.stdout.contains("bob"), "{percent:?}");
    }
}

#[test]
fn exports_of_one_user_do_not_starve_another() {
    if !runs_as_root("exports of several users at once") {
        return;
    }
    let served = Served::new("names");
    // More at once than one user may have answered.
    let exports: Vec<Child> = (0..10)
        .map(|_| {
            let mut command = served.command_as(NOBODY, "export --what samples");
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let began = clock::monotonic();
    let report = served.gua_as(ADA, &format!("report --json {WINDOW}"));
    assert_eq!(report.code, 0, "{report:?}");
    let waited = clock::monotonic().saturating_sub(began);
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    for export in exports {
        let ended = Ended::from(export.wait_with_output().unwrap());
        assert_eq!(ended.code, 0, "{ended:?}");
    }
}

#[test]
fn one_user_has_a_limited_number_of_questions_of_limited_size() {
    let served = Served::new("names");
    let idle: Vec<UnixStream> = (0..4).map(|_| served.connect()).collect();
    // The reader accepts in order, so the fifth is refused while the four are open.
    let mut answer = Vec::new();
    served.connect().read_to_end(&mut answer).unwrap();
    let mut busy = gua_query::protocol::VERSION.to_le_bytes().to_vec();
    busy.extend([1, 0, 0, 0, 2]);
    assert_eq!(answer, busy, "busy");
    // A client that waits its turn is answered once the silent ones have been given up.
    let report = served.host.gua(&format!("report {WINDOW}"));
    assert_eq!(report.code, 0, "{report:?}");
    drop(idle);
    for (version, length, expected) in [
        (gua_query::protocol::VERSION, u32::MAX, "too long"),
        (9, 1, "version 9"),
    ] {
        let question = [version.to_le_bytes(), length.to_le_bytes()].concat();
        // The processes of the silent clients may still be ending, and count until they have.
        let answer = wait_for("an answer", || {
            let mut stream = served.connect();
            stream.write_all(&question).ok()?;
            let mut answer = Vec::new();
            // The reader ends without reading the rest, which the kernel reports after the answer (ECONNRESET).
            let _ = stream.read_to_end(&mut answer);
            (!answer.is_empty() && answer != busy).then_some(answer)
        });
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains(expected), "{answer:?}");
    }
}

#[test]
fn a_lock_on_the_history_loses_no_tick_and_its_holder_is_logged() {
    let host = host(TWO_GPUS);
    let mut daemon = host.foreground("daemon --foreground --interval 200ms");
    let stored = || host.ticks(".gua/gua.db").len();
    wait_until("a tick", || stored() > 0);
    let mut command = Command::new(gua_test::python::system());
    command.args(["-c", LOCK]).arg(host.state("gua.db-shm"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut locked = [0; 7];
    let mut out = holder.stdout.take().unwrap();
    out.read_exact(&mut locked).unwrap();
    let before = stored();
    // Ticks are printed as they are taken, whether or not they are stored yet.
    let taken = || daemon.stdout().lines().count();
    let at_first = taken();
    wait_until("ticks during the lock", || taken() >= at_first + 30);
    assert!(stored() <= before + 1, "the lock holds");
    let pid = holder.id();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    wait_until("waiting ticks are written", || stored() >= before + 30);
    daemon.stop();
    let log = daemon.stderr();
    let named = format!("the history is locked; ticks wait in memory (holder=pid {pid} (python3");
    assert!(log.contains(&named), "{log}");
    assert!(log.contains("the waiting ticks are stored"), "{log}");
    assert!(!log.contains("lost"), "{log}");
}

#[test]
fn a_reader_that_cannot_answer_says_so() {
    let host = host(TWO_GPUS);
    let mut command = host.gua_command("__answers gua.db");
    command.stdin(Stdio::null());
    let reader = host.start(command);
    wait_for("a warning", || {
        reader
            .stderr()
            .contains("cannot answer a question: ")
            .then_some(())
    });
}

#[test]
fn roots_daemon_answers_where_systemd_does_not() {
    if !runs_as_root("a daemon that answers other users") {
        return;
    }
    let served = Served::new("names");
    let socket = served.host.path("own.sock");
    let mut command = served
        .host
        .gua_command("daemon --foreground --interval 200ms --append");
    command
        .arg("--db")
        .arg(&served.db)
        .env("GUA_SOCKET", &socket);
    fs::set_permissions(&served.db, fs::Permissions::from_mode(0o644)).unwrap();
    let mut daemon = served.host.start(command);
    wait_until("the socket", || socket.exists());
    let ask = || {
        let mut command = served.command_as(NOBODY, &format!("report --json {WINDOW}"));
        Ended::from(command.env("GUA_SOCKET", &socket).output().unwrap())
    };
    wait_until("an answer", || ask().code == 0);
    for suffix in ["", "-wal", "-shm"] {
        let path = format!("{}{suffix}", served.db.display());
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0, "{suffix} {mode:o}");
    }
    daemon.stop();
    assert!(!socket.exists());
}

#[test]
fn a_daemon_without_root_answers_on_a_socket_of_its_own() {
    let host = TestHost::new(GUA, TWO_GPUS);
    host.open_to_users();
    let socket = host.path("own.sock");
    let host = host
        .variable("GUA_SOCKET", &socket)
        .variable("GUA_PRIVACY_OTHERS", "pseudonyms");
    let mut command = host.gua_command("daemon --foreground --interval 200ms");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(host.directory(), Some(ADA), Some(ADA)).unwrap();
        command.uid(ADA).gid(ADA);
    }
    let mut daemon = host.start(command);
    wait_until("the socket", || socket.exists());
    let ask = || {
        let mut command = host.command(host.path("gua"));
        command.args(["export", "--what", "samples", "--format", "jsonl"]);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        // Where the history is not their own, the socket is asked.
        command.env("HOME", host.path("tmp"));
        Ended::from(command.output().unwrap())
    };
    wait_until("rows", || ask().stdout.contains("GPU-a"));
    let salt = fs::metadata(host.state("pseudonyms.salt")).unwrap();
    assert_eq!(salt.permissions().mode() & 0o007, 0);
    daemon.stop();
    assert!(!socket.exists());
}
