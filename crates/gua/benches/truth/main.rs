//! The truth bench: a script of the activity of GPUs and users, played by the simulated driver at a hundredth of real
//! time, compared with the reports of `gua` and of the tool that it replaces. It exits with 1 if `gua` is off by more
//! than 1 % of the hours of a state or an owner over the observed time, or by more than a tick at either end of a gap, or if
//! the books are not exact. If the machine itself was late while the script was played, it exits with 3 in place of a verdict
//! on what depends on the clock.
//!
//! `scripts/bench truth` runs it as root, because the processes of the script belong to several users. It takes two
//! minutes.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its figures"
)]

mod metronome;
mod owners;
mod people;
mod script;
mod steps;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use gua_probe::clock;
use gua_test::SimulatedDriver;
use jiff::Timestamp;

use metronome::Metronome;
use people::People;
use script::{END, Gpu, HANG, Hours, Mig, OUTAGE, PEOPLE, REUSE, SCALE, Span, TICK, WINDOW};
use tools::{Gap, Ours, Tool};

/// The largest allowed error, as a fraction of the truth.
const LIMIT: f64 = 0.01;

/// Lateness of the machine up to which a breach is a fault of the collector: a quarter of a tick.
const ON_TIME: Duration = Duration::from_millis(75);

/// Longest time until the daemon has taken its first tick. It is not scaled: a start takes as long in the bench as in real use.
const START: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    // `cargo bench` passes `--bench`; the rest are paths: the Python tool's program, and the file for the table.
    let mut arguments = std::env::args_os()
        .skip(1)
        .filter(|word| word != "--bench")
        .map(PathBuf::from);
    let (python, table) = (arguments.next(), arguments.next());
    if !rustix::process::getuid().is_root() {
        eprintln!("the truth bench starts processes of several users: run it as root");
        return ExitCode::from(2);
    }
    // At a hundredth of real time, a millisecond without a processor counts as a tenth of a second. The collectors inherit it.
    if let Err(error) = rustix::process::nice(-19) {
        eprintln!("the truth bench runs with normal priority: {error}");
    }
    let run = compare(play(python.as_deref()));
    let page = page(&run);
    println!("{page}");
    for breach in run.exact.iter().chain(&run.timed) {
        eprintln!("broken: {breach}");
    }
    let late = run.late.as_millis();
    eprintln!("the machine was at most {late} ms late");
    if !run.exact.is_empty() || (!run.timed.is_empty() && run.late <= ON_TIME) {
        return ExitCode::FAILURE;
    }
    if !run.timed.is_empty() {
        eprintln!(
            "no verdict: the machine was busy with something else; run the bench again when it is not"
        );
        return ExitCode::from(3);
    }
    if let Some(table) = table {
        std::fs::write(&table, &page).expect("the table can be written");
    }
    ExitCode::SUCCESS
}

/// Result of a run.
struct Run {
    truth: Hours,
    ours: Hours,
    /// Truth for the GPUs that the Python tool saw, and what it reported.
    python: Option<(Hours, Hours)>,
    gaps: Vec<GapRow>,
    /// Hours of a GPU whose clock is set: of the script, and of the report.
    steps: (Hours, Hours),
    /// Share of the time of the GPU with bursts that is based on the driver's sample buffer.
    buffered: f64,
    /// Hours of owners with files of their own: of the script, and of the report.
    owners: (Hours, Hours),
    /// Time until the daemon had taken its first tick.
    started_in: Duration,
    /// Longest delay of a thread with the priority of the collector.
    late: Duration,
    /// Breaches that a machine that is late can cause, and the others.
    timed: Vec<String>,
    exact: Vec<String>,
}

/// A gap of the script and the one that was reported for it.
struct GapRow {
    what: &'static str,
    reason: &'static str,
    script: Span,
    found: Option<Gap>,
}

/// The script as played, and the results of the collectors.
struct Played {
    gpus: Vec<Gpu>,
    found: Ours,
    python: Option<Hours>,
    /// Span without our collector.
    outage: Span,
    started_in: Duration,
    late: Duration,
    /// Reason the script could not be played.
    failure: Option<String>,
}

/// Plays the script on both collectors.
fn play(python: Option<&Path>) -> Played {
    let folder = tempfile::tempdir().expect("a directory for the bench");
    let mut gpus = script::gpus();
    let mut people = People::start(&gpus);
    let origin = Timestamp::from_millisecond(clock::now().as_millisecond()).expect("it is now");
    let origin_ms = u64::try_from(origin.as_millisecond()).expect("after 1970");
    let drivers = [Mig::With, Mig::Without].map(|mig| {
        let driver = SimulatedDriver::new("");
        let scenario = script::scenario(&gpus, &people.pids, origin_ms, mig);
        scenario
            .write(driver.scenario())
            .expect("the scenario can be written");
        driver
    });

    let interval = format!("{}ms", TICK * 1000.0);
    let collect = format!("daemon --foreground --interval {interval}");
    let gua = Path::new(env!("CARGO_BIN_EXE_gua"));
    let home = |name: &str| folder.path().join(name);
    let mut ours = Tool::new(
        gua,
        &format!("{collect} --append"),
        home("ours"),
        drivers[0].library(),
    );
    // The Python tool exits if a GPU has no utilisation, such as one in MIG mode.
    let mut theirs =
        python.map(|program| Tool::new(program, &collect, home("theirs"), drivers[1].library()));

    ours.start();
    theirs.iter_mut().for_each(Tool::start);
    let metronome = Metronome::start();
    wait_until(origin, REUSE);
    let reused = gpus
        .iter()
        .position(|gpu| gpu.reuses_pid)
        .expect("one GPU reuses a pid");
    let pid = people.pids[reused][0];
    let failure = people.hand_over(pid, PEOPLE[2]).err();
    let [first, second] = gpus[reused].holds.as_mut_slice() else {
        panic!("a reused pid has two holds");
    };
    (first.when.to, second.when.from) = (passed(origin), passed(origin));
    wait_until(origin, OUTAGE.from);
    // In parallel: a slow shutdown of one must not delay the other.
    let down_from = std::thread::scope(|scope| {
        let stopping = scope.spawn(|| {
            ours.stop();
            passed(origin)
        });
        theirs.iter_mut().for_each(Tool::stop);
        stopping.join().expect("stopping does not panic")
    });
    wait_until(origin, OUTAGE.to);
    theirs.iter_mut().for_each(Tool::start);
    // A collector that is starting takes no ticks.
    let started_in = ours.start_and_wait();
    let outage = Span {
        from: down_from,
        to: passed(origin),
    };
    wait_until(origin, END);
    let python = theirs.as_ref().and_then(|tool| {
        let found = tools::theirs(tool, passed(origin) - WINDOW.from);
        found
            .inspect_err(|why| eprintln!("the Python tool's report failed: {why}\n{}", tool.log()))
            .ok()
    });
    ours.stop();
    let late = metronome.stop();
    Played {
        found: tools::ours(&ours, &gpus, WINDOW, origin),
        gpus,
        python,
        outage,
        started_in,
        late,
        failure,
    }
}

/// Compares what was played with what was found.
fn compare(played: Played) -> Run {
    let Played {
        gpus,
        found,
        started_in,
        ..
    } = played;
    let (mut timed, mut exact) = (Vec::new(), Vec::new());
    if let Some(why) = played.failure {
        exact.push(format!("the script could not be played: {why}"));
    }
    if started_in > START {
        timed.push(format!(
            "the daemon took its first tick after {started_in:?}"
        ));
    }
    let gaps = gaps(&gpus, &found, played.outage, &mut timed);
    let of_all = truth(gpus.iter().zip(&found.gpus));
    let without_mig = gpus
        .iter()
        .zip(&found.gpus)
        .filter(|(gpu, _)| !gpu.util.is_empty());
    let of_python = truth(without_mig);
    judge(&of_all, &found.hours, &mut timed);
    let physical: BTreeSet<&str> = gpus.iter().map(Gpu::physical).collect();
    let number = f64::from(u32::try_from(physical.len()).unwrap_or(u32::MAX));
    exact.extend(found.books.breach(WINDOW.length() / 3600.0 * number));
    let steps = steps::play();
    judge(&steps.truth, &steps.ours, &mut exact);
    exact.extend(steps.breaches);
    let (owners_truth, owners_found, books) = owners::play();
    judge(&owners_truth, &owners_found, &mut exact);
    exact.extend(books);
    if found.buffered < 0.9 {
        timed.push(format!(
            "only {:.1} % is based on the driver's sample buffer",
            found.buffered * 100.0
        ));
    }
    Run {
        truth: of_all,
        ours: found.hours,
        python: played.python.map(|hours| (of_python, hours)),
        gaps,
        steps: (steps.truth, steps.ours),
        buffered: found.buffered,
        owners: (owners_truth, owners_found),
        started_in,
        late: played.late,
        timed,
        exact,
    }
}

/// Seconds of the script until now.
fn passed(origin: Timestamp) -> f64 {
    clock::now().duration_since(origin).as_secs_f64()
}

fn wait_until(origin: Timestamp, second: f64) {
    std::thread::sleep(Duration::from_secs_f64((second - passed(origin)).max(0.0)));
}

/// Truth for the observed time: the script without the reported gaps. Ticks that are a little late leave gaps of
/// milliseconds, which are reported as a sum; they affect everything equally.
fn truth<'a>(gpus: impl Iterator<Item = (&'a Gpu, &'a (Vec<Gap>, f64))>) -> Hours {
    let mut truth = Hours::default();
    for (gpu, (gaps, observed)) in gpus {
        let seen = without(
            WINDOW,
            gaps.iter().filter(|gap| is_whole(gap)).map(|gap| gap.when),
        );
        let length: f64 = seen.iter().map(|span| span.length()).sum();
        let weight = observed * 3600.0 / SCALE / length;
        for span in seen {
            gpu.add_truth(span, weight, &mut truth);
        }
    }
    truth
}

/// Whether a gap was missing completely, so that its position is known.
fn is_whole(gap: &Gap) -> bool {
    gap.missing + 0.02 >= gap.when.length()
}

fn without(whole: Span, gaps: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut gaps: Vec<Span> = gaps.collect();
    gaps.sort_by(|one, other| one.from.total_cmp(&other.from));
    let mut rest = Vec::new();
    let mut from = whole.from;
    for gap in gaps {
        rest.push(Span { from, to: gap.from });
        from = from.max(gap.to);
    }
    rest.push(Span { from, to: whole.to });
    rest.retain(|span| span.length() > 0.0);
    rest
}

/// Compares every gap of the script with the one reported for each GPU; other gaps longer than a tick are breaches.
fn gaps(gpus: &[Gpu], found: &Ours, outage: Span, breaches: &mut Vec<String>) -> Vec<GapRow> {
    let mut rows: Vec<GapRow> = Vec::new();
    for (gpu, (reported, _)) in gpus.iter().zip(&found.gpus) {
        let mut script = vec![
            ("the daemon is stopped", "collector-down", outage),
            ("the driver hangs", "driver-hung", HANG),
        ];
        script.extend(gpu.lost.map(|lost| ("a GPU is lost", "gpu-lost", lost)));
        // A busy machine may lose a tick, which is reported as a gap; more than that is a fault.
        let is_scripted = |gap: &&Gap| {
            let overlaps = |span: &Span| span.from < gap.when.to && gap.when.from < span.to;
            script.iter().any(|(_, _, span)| overlaps(span))
        };
        let others: Vec<&Gap> = reported
            .iter()
            .filter(|gap| is_whole(gap) && !is_scripted(gap))
            .collect();
        let missing: f64 = others.iter().map(|gap| gap.missing).sum();
        if missing > WINDOW.length() * LIMIT {
            breaches.push(format!(
                "{}: gaps that are not in the script: {others:?}",
                gpu.what
            ));
        }
        for (what, reason, span) in script {
            let gap = merged_gap(reported, span);
            let is_near = gap.as_ref().is_some_and(|gap| {
                (gap.when.from - span.from).abs() <= TICK
                    && (gap.when.to - span.to).abs() <= TICK
                    && gap.reason == reason
                    && is_whole(gap)
            });
            if !is_near {
                breaches.push(format!(
                    "{}: {what} from {} to {}: {gap:?} of {reported:?}",
                    gpu.what, span.from, span.to
                ));
            }
            if !rows.iter().any(|row| row.what == what) {
                rows.push(GapRow {
                    what,
                    reason,
                    script: span,
                    found: gap,
                });
            }
        }
    }
    rows
}

/// Reported gaps in a span, merged into one with the most frequent reason. On a busy machine the driver may miss its
/// deadline while a GPU is lost, and then that reason is reported in between.
fn merged_gap(reported: &[Gap], span: Span) -> Option<Gap> {
    let of_it = |gap: &&Gap| is_whole(gap) && span.from < gap.when.to && gap.when.from < span.to;
    let gaps: Vec<&Gap> = reported.iter().filter(of_it).collect();
    let longest = gaps
        .iter()
        .max_by(|one, other| one.missing.total_cmp(&other.missing))?;
    let ends = |end: fn(&Span) -> f64| gaps.iter().map(move |gap| end(&gap.when));
    Some(Gap {
        when: Span {
            from: ends(|when| when.from).fold(f64::INFINITY, f64::min),
            to: ends(|when| when.to).fold(f64::NEG_INFINITY, f64::max),
        },
        reason: longest.reason.clone(),
        missing: gaps.iter().map(|gap| gap.missing).sum(),
    })
}

fn judge(truth: &Hours, ours: &Hours, breaches: &mut Vec<String>) {
    for (what, truth, ours) in [
        ("", &truth.states, &ours.states),
        ("held by ", &truth.held, &ours.held),
        ("charged to ", &truth.charged, &ours.charged),
    ] {
        for name in truth
            .keys()
            .chain(ours.keys().filter(|name| !truth.contains_key(*name)))
        {
            let (true_hours, our_hours) = (get(truth, name), get(ours, name));
            if error(true_hours, our_hours).is_none_or(|error| error.abs() > LIMIT) {
                breaches.push(format!(
                    "{what}{name}: {our_hours:.4} h instead of {true_hours:.4} h"
                ));
            }
        }
    }
}

fn get(hours: &BTreeMap<String, f64>, name: &str) -> f64 {
    hours.get(name).copied().unwrap_or(0.0)
}

/// Error as a fraction of the truth; `None` if both are zero.
fn error(truth: f64, found: f64) -> Option<f64> {
    match truth > 0.0 {
        true => Some((found - truth) / truth),
        false => (found == 0.0).then_some(0.0),
    }
}

fn page(run: &Run) -> String {
    let mut page = include_str!("head.md").to_owned();
    page.push_str("\n## Hours by state\n\n");
    page.push_str(&table("state", "gua", &run.truth.states, &run.ours.states));
    page.push_str(&format!(
        "\nOf the time of the GPU with bursts, {:.1} % is based on the driver's sample buffer, the rest on single readings.\n",
        run.buffered * 100.0
    ));
    page.push_str("\n## Hours by owner\n\nHeld hours: a user's hours on a GPU in full.\n\n");
    page.push_str(&table("owner", "gua", &run.truth.held, &run.ours.held));
    page.push_str("\nCharged hours: the same time shared equally among the owners on a GPU.\n\n");
    page.push_str(&table(
        "owner",
        "gua",
        &run.truth.charged,
        &run.ours.charged,
    ));
    page.push_str(
        "\nHeld hours of a container, a pod, a uid that is given from ada to bob, and a process of eve that claims the login of that uid. They are\nalso the charged hours.\n\n",
    );
    page.push_str(&table(
        "owner",
        "gua",
        &run.owners.0.held,
        &run.owners.1.held,
    ));
    page.push_str("\n## Gaps\n\nDeviation from the script in ticks; at most 1 is allowed.\n\n");
    page.push_str("| event | reported reason | begins | ends |\n|---|---|---:|---:|\n");
    for row in &run.gaps {
        let off = |found: f64, script: f64| format!("{:+.2}", (found - script) / TICK);
        let (from, to, reason) = match &row.found {
            Some(gap) => (
                off(gap.when.from, row.script.from),
                off(gap.when.to, row.script.to),
                gap.reason.as_str(),
            ),
            None => ("not reported".to_owned(), String::new(), row.reason),
        };
        page.push_str(&format!("| {} | {reason} | {from} | {to} |\n", row.what));
    }
    page.push_str(&format!(
        "\nThe daemon took its first tick {} ms after its start; this time is not scaled, and counts as part of the stop. A thread\nwith the priority of the daemon was at most {} ms late.\n",
        run.started_in.as_millis(),
        run.late.as_millis()
    ));
    page.push_str("\n## A clock that is set\n\nHours of a GPU whose clock is set forward and back: each second of the wall clock counts once.\n\n");
    page.push_str(&table(
        "state",
        "gua",
        &run.steps.0.states,
        &run.steps.1.states,
    ));
    if let Some((truth, found)) = &run.python {
        page.push_str(include_str!("python.md"));
        let name = "gpu-usage-audit 1.1.0";
        let states = tools::rolled_up(&truth.states);
        page.push_str(&table("state", name, &states, &found.states));
        page.push('\n');
        page.push_str(&table("owner", name, &truth.held, &found.held));
    }
    page
}

/// Truth beside the result, in hours and as a fraction of the truth.
fn table(
    what: &str,
    who: &str,
    truth: &BTreeMap<String, f64>,
    found: &BTreeMap<String, f64>,
) -> String {
    let mut text = format!("| {what} | truth | {who} | error |\n|---|---:|---:|---:|\n");
    let more = found
        .iter()
        .filter(|(name, hours)| !truth.contains_key(*name) && **hours != 0.0);
    for name in truth.keys().chain(more.map(|(name, _)| name)) {
        let (true_hours, hours) = (get(truth, name), get(found, name));
        let off = error(true_hours, hours);
        let off = off.map_or("no such time".to_owned(), |off| {
            format!("{:+.2} %", off * 100.0)
        });
        text.push_str(&format!(
            "| {name} | {true_hours:.3} | {hours:.3} | {off} |\n"
        ));
    }
    text
}
