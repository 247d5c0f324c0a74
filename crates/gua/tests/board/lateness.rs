//! No board delays a tick. Daemons that push to misbehaving boards run next to equally many that push to good ones, at
//! the same time on the same machine. All ticks of a kind are judged together, once. The delay that a busy machine
//! causes in the unaffected daemons is measured too, and is the only allowance.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::ops::Range;
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gua_probe::clock;
use jiff::Timestamp;
use rustix::process::Signal;

use super::sync_once::enrolled;
use crate::{GUA, TWO_GPUS, host};
use gua_test::board::{Behaviour, Board};
use gua_test::{TestHost, send};

const INTERVAL: Duration = Duration::from_millis(200);
/// Several times the longest request timeout.
const LENGTH: Duration = Duration::from_secs(30);
const SETTLING: Duration = Duration::from_secs(2);
/// Allowed cost of faults at the 99th percentile.
const MAX_DELAY: Duration = Duration::from_millis(5);

/// A daemon whose ticks are timed when they are printed, which is after all sinks have received them.
struct Timed {
    what: String,
    host: TestHost,
    _board: Board,
    child: Child,
    printed: JoinHandle<Vec<Timestamp>>,
}

impl Timed {
    fn start(what: &str, host: TestHost, board: Board) -> Self {
        let mut child = host
            .command(GUA)
            .args(["daemon", "--foreground", "--cloud", "--interval", "200ms"])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(host.path("said")).unwrap())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let printed = thread::spawn(move || {
            let ticks = lines.map_while(Result::ok);
            let ticks = ticks.filter(|line| line.starts_with("Tick "));
            ticks.map(|_| clock::now()).collect()
        });
        Self {
            what: what.to_owned(),
            host,
            _board: board,
            child,
            printed,
        }
    }

    /// Stops the daemon and returns the lateness of each tick in the period: the delay after the moment that is one
    /// interval past the previous sample. Every printed tick must be in the history.
    fn end(mut self, period: &Range<Timestamp>) -> Vec<Duration> {
        send(self.child.id(), Signal::TERM);
        assert!(self.child.wait().unwrap().success(), "{}", self.what);
        let printed = self.printed.join().unwrap();
        let output = self.host.read("said");
        assert!(!output.contains("not stored"), "{}: {output}", self.what);
        let ticks = self.host.ticks(".gua/gua.db");
        assert_eq!(ticks.len(), printed.len(), "{}: {output}", self.what);
        let ticks = ticks.iter().map(|tick| tick.sample.at);
        let pairs = ticks
            .zip(&printed[1..])
            .filter(|(at, _)| period.contains(at));
        pairs
            .map(|(before, done)| {
                let took = done.duration_since(before).unsigned_abs();
                took.saturating_sub(INTERVAL)
            })
            .collect()
    }
}

fn misbehaving() -> Vec<Timed> {
    let elsewhere = "http://127.0.0.1:9/elsewhere".to_owned();
    let list = r#"{"detail":[{"msg":"field required"}]}"#.to_owned();
    let manners = [
        Behaviour::Responds(401, r#"{"detail":"no"}"#.to_owned()),
        Behaviour::Responds(422, list),
        Behaviour::Responds(500, String::new()),
        Behaviour::Silent,
        Behaviour::Trickles,
        Behaviour::CutsHead,
        Behaviour::Garbage,
        Behaviour::Redirects(elsewhere),
        Behaviour::Floods,
    ];
    let mut timed: Vec<Timed> = manners
        .into_iter()
        .map(|manner| {
            let board = Board::start();
            let what = format!("{manner:?}");
            board.behaves(manner);
            board.drops_streams_after(1);
            let host = enrolled(host(TWO_GPUS), &board);
            Timed::start(&what, host, board)
        })
        .collect();
    let host = host(TWO_GPUS);
    let board = Board::encrypted(&host.path("not-believed.pem"));
    let host = enrolled(host, &board);
    timed.push(Timed::start("an untrusted certificate", host, board));
    let board = Board::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let host = enrolled(crate::host(TWO_GPUS), &board);
    let file = host.read(".gua/cloud.json");
    host.write(
        ".gua/cloud.json",
        file.replace(&board.port().to_string(), &port),
    );
    timed.push(Timed::start("a refused connection", host, board));
    timed
}

fn good(number: usize) -> Vec<Timed> {
    let daemons = (0..number).map(|_| {
        let board = Board::start();
        let host = enrolled(host(TWO_GPUS), &board);
        Timed::start("a good board", host, board)
    });
    daemons.collect()
}

fn p99(mut late: Vec<Duration>) -> Duration {
    late.sort();
    late[late.len() * 99 / 100]
}

/// 99th percentiles of one kind of daemon and of two groups of another, which differ only by chance.
#[derive(Clone, Copy, Debug)]
struct Percentiles {
    faulty: Duration,
    good: [Duration; 2],
}

impl Percentiles {
    /// Whether faults cost no more than the allowance plus what chance costs on this machine at this time.
    fn is_on_time(self) -> bool {
        let [one, other] = self.good;
        self.faulty <= one.max(other) + MAX_DELAY + one.abs_diff(other)
    }
}

#[test]
fn board_faults_delay_no_tick_and_lose_no_row() {
    let faulty = misbehaving();
    let groups = [good(faulty.len() / 2), good(faulty.len() / 2)];
    // Starting and stopping this many daemons disturbs those already running.
    thread::park_timeout(SETTLING);
    let began = clock::now();
    thread::park_timeout(LENGTH);
    let period = began..clock::now();
    let late = |timed: Vec<Timed>| {
        let due = timed.len() as u128 * LENGTH.as_millis() / INTERVAL.as_millis();
        let late: Vec<Duration> = timed.into_iter().flat_map(|one| one.end(&period)).collect();
        // Most of the due ticks must have happened at all.
        assert!(late.len() as u128 > due / 2, "{} of {due}", late.len());
        p99(late)
    };
    let seen = Percentiles {
        faulty: late(faulty),
        good: groups.map(late),
    };
    println!("p99 of lateness: {seen:?}");
    assert!(seen.is_on_time(), "{seen:?}");
}

#[test]
fn the_cost_of_faults_is_judged_against_the_cost_of_chance() {
    let check = |faulty: u64, good: [u64; 2], is_on_time: bool| {
        let seen = Percentiles {
            faulty: Duration::from_millis(faulty),
            good: good.map(Duration::from_millis),
        };
        assert_eq!(seen.is_on_time(), is_on_time, "{seen:?}");
    };
    check(2, [1, 1], true);
    check(6, [1, 1], true);
    check(7, [1, 1], false);
    // A machine that is busy with something else.
    check(80, [60, 70], true);
    check(86, [60, 70], false);
    let late = (0..1000).map(Duration::from_millis);
    assert_eq!(p99(late.collect()), Duration::from_millis(990));
}
