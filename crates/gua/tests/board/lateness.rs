//! No server delays a tick: daemons in front of boards that misbehave in every way, beside daemons in front of good ones, at
//! the same time on the same machine. All ticks of a kind are judged together, so that a busy machine, which is unkind to
//! both, decides nothing.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::ops::Range;
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gua_probe::clock;
use rustix::process::Signal;

use crate::host::{Host, TWO_CARDS, send};
use crate::server::{Board, Manner};
use crate::sync_once::enrolled;

const INTERVAL: Duration = Duration::from_millis(200);
/// Longer than any request may take.
const LENGTH: Duration = Duration::from_secs(14);
const SETTLING: Duration = Duration::from_secs(2);
/// What faults may cost at the 99th percentile.
const MOST: Duration = Duration::from_millis(5);
/// A machine that was busy with something else at the wrong moment may be asked again.
const ROUNDS: u32 = 3;
const GOOD: usize = 6;

/// A daemon whose ticks are timed as they are told.
struct Timed {
    what: String,
    host: Host,
    _board: Board,
    child: Child,
    told: JoinHandle<Vec<Duration>>,
}

impl Timed {
    fn start(what: &str, host: Host, board: Board) -> Self {
        let mut child = host
            .command(env!("CARGO_BIN_EXE_gua"))
            .args(["daemon", "--foreground", "--cloud", "--interval", "200ms"])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(host.path("said")).unwrap())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = thread::spawn(move || {
            let ticks = lines.map_while(Result::ok);
            let ticks = ticks.filter(|line| line.starts_with("Tick "));
            ticks.map(|_| clock::monotonic()).collect()
        });
        Self {
            what: what.to_owned(),
            host,
            _board: board,
            child,
            told,
        }
    }

    /// Ends it, and returns by how much each tick of the period came later than an interval after the one before. Every tick
    /// that was told is in the history.
    fn end(mut self, period: &Range<Duration>) -> Vec<Duration> {
        send(self.child.id(), Signal::TERM);
        assert!(self.child.wait().unwrap().success(), "{}", self.what);
        let told = self.told.join().unwrap();
        let said = self.host.read("said");
        assert_eq!(
            self.host.ticks(".gua/gua.db").len(),
            told.len(),
            "{}: {said}",
            self.what
        );
        assert!(!said.contains("lost to"), "{}: {said}", self.what);
        let pairs = told.windows(2).filter(|pair| period.contains(&pair[0]));
        pairs
            .map(|pair| (pair[1] - pair[0]).saturating_sub(INTERVAL))
            .collect()
    }
}

fn misbehaving() -> Vec<Timed> {
    let elsewhere = "http://127.0.0.1:9/elsewhere".to_owned();
    let list = r#"{"detail":[{"msg":"field required"}]}"#.to_owned();
    let manners = [
        Manner::Says(401, r#"{"detail":"no"}"#.to_owned()),
        Manner::Says(422, list),
        Manner::Says(500, String::new()),
        Manner::Silent,
        Manner::Drips,
        Manner::CutsHead,
        Manner::Gibberish,
        Manner::Redirects(elsewhere),
        Manner::Talkative,
    ];
    let mut timed: Vec<Timed> = manners
        .into_iter()
        .map(|manner| {
            let board = Board::start();
            let what = format!("{manner:?}");
            board.behaves(manner);
            board.drops_streams_after(1);
            let host = enrolled(Host::new(TWO_CARDS), &board);
            Timed::start(&what, host, board)
        })
        .collect();
    let host = Host::new(TWO_CARDS);
    let board = Board::encrypted(&host.path("not-believed.pem"));
    let host = enrolled(host, &board);
    timed.push(Timed::start("a certificate of nobody", host, board));
    let board = Board::start();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port().to_string();
    drop(nobody);
    let host = enrolled(Host::new(TWO_CARDS), &board);
    let file = host.read(".gua/cloud.json");
    host.write(
        ".gua/cloud.json",
        &file.replace(&board.port().to_string(), &port),
    );
    timed.push(Timed::start("nobody listens", host, board));
    timed
}

/// The 99th percentile.
fn worst(timed: Vec<Timed>, period: &Range<Duration>) -> Duration {
    let ended = timed.into_iter().flat_map(|timed| timed.end(period));
    let mut late: Vec<Duration> = ended.collect();
    late.sort();
    // Most of the ticks that were due must be there at all.
    assert!(late.len() > 100, "{} ticks", late.len());
    late[late.len() * 99 / 100]
}

#[test]
fn faults_of_a_board_delay_no_tick_and_lose_no_row() {
    let mut seen = Vec::new();
    for _ in 0..ROUNDS {
        let faulty = misbehaving();
        let good = (0..GOOD).map(|_| {
            let board = Board::start();
            let host = enrolled(Host::new(TWO_CARDS), &board);
            Timed::start("a good board", host, board)
        });
        let good: Vec<Timed> = good.collect();
        // Starting and ending so many of them is hard on those that run already.
        thread::park_timeout(SETTLING);
        let began = clock::monotonic();
        thread::park_timeout(LENGTH);
        let period = began..clock::monotonic();
        let (faulty, good) = (worst(faulty, &period), worst(good, &period));
        println!("p99 of lateness: {faulty:?} with faults, {good:?} without");
        if faulty <= good + MOST {
            return;
        }
        seen.push((faulty, good));
    }
    panic!("in each round ticks were later with faults than without: {seen:?}");
}
