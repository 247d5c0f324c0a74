//! Old rows as short texts on the left, sessions on the right.

use super::super::tests::kept;
use super::super::{ImportedCoverage, ImportedFold, LegacyMoment, OwnCoverage};
use super::*;
use crate::period::Quarter;
use crate::sample::ProcessKind;
use crate::state::Thresholds;
use crate::total::GpuQuarter;
use crate::unit::Micros;

/// Parses `second gpu util PID[=memory][:login][/owner][!name][#index]...`; a PID that begins with `g` is graphics, a
/// util of `-` means that the GPU has no row, and `+` means that it belongs to another run.
fn moments(text: &'static str) -> Vec<LegacyMoment<'static>> {
    let mut moments: Vec<LegacyMoment<'static>> = Vec::new();
    for line in text.split(';').map(str::trim) {
        let mut words = line.split(' ');
        let at = Timestamp::from_second(words.next().unwrap().parse().unwrap()).unwrap();
        let gpu: &GpuUuid = &kept(vec![words.next().unwrap().parse().unwrap()])[0];
        let util = words.next().unwrap();
        let processes = kept(words.map(process).collect());
        let mut ticks = Vec::new();
        let mut strays = Vec::new();
        match util.trim_start_matches('+').parse() {
            Ok(number) => ticks.push(LegacyGpuTick {
                at,
                gpu,
                util: number,
                index: None,
                memory_used_mb: None,
                temperature_c: None,
                power_w: None,
                run: LegacyRun {
                    run: util.starts_with('+').then_some(2),
                    ..LegacyRun::NONE
                },
                processes,
                more_rows: &[],
            }),
            Err(_) => strays.extend(processes.iter().map(|process| (gpu, *process))),
        }
        if let Some(same) = moments.pop_if(|moment| moment.at == at) {
            ticks = [same.ticks, &ticks].concat();
            strays = [same.strays, &strays].concat();
        }
        moments.push(LegacyMoment {
            at,
            ticks: kept(ticks),
            strays: kept(strays),
        });
    }
    moments
}

fn process(word: &'static str) -> LegacyProcess<'static> {
    let part = |mark: char| {
        let rest = word.split_once(mark)?.1;
        rest.split(['=', ':', '/', '!', '#']).next()
    };
    let pid = word.split(['=', ':', '/', '!', '#']).next().unwrap();
    LegacyProcess {
        pid: pid.trim_start_matches('g').parse().unwrap(),
        index: part('#').map(|text| text.parse().unwrap()),
        identity: part(':'),
        owner: part('/'),
        name: part('!'),
        memory_mb: part('=').map(|text| text.parse().unwrap()),
        kind: if pid.starts_with('g') {
            ProcessKind::Graphics
        } else {
            ProcessKind::Compute
        },
        tool: LegacyTool::default(),
    }
}

fn show((gpu, session): &(GpuUuid, ImportedSession)) -> String {
    let or = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
    format!(
        "{} {} {}..{} n={} util={} peak={} {}{} {} #{}{}",
        gpu,
        session.pid,
        session.from.as_second(),
        session.to.as_second(),
        session.samples,
        or(session.util().map(|util| format!("{util:.1}"))),
        or(session.peak_mb.map(|peak| peak.to_string())),
        or(session.owner.clone()),
        if session.has_login { "*" } else { "" },
        or(session.name.clone()),
        or(session.index.map(|index| index.to_string())),
        if session.shared { " shared" } else { "" },
    )
}

/// Sessions of rows by quarter hours, and by the totals of a whole day.
fn fold(moments: &[LegacyMoment<'_>]) -> [Vec<(GpuUuid, ImportedSession)>; 2] {
    let mut quarters = Vec::new();
    let mut give = |quarter: Quarter, gpus: &[GpuQuarter]| quarters.push((quarter, gpus.to_vec()));
    let own = OwnCoverage::default();
    let mut rows = ImportedFold::new(Thresholds::default(), &own);
    for moment in moments {
        rows.push(moment, &mut give);
    }
    rows.finish(&mut give);
    let mut day: Vec<GpuQuarter> = Vec::new();
    for gpu in quarters.iter().flat_map(|(_, gpus)| gpus) {
        match day.iter_mut().find(|mine| mine.gpu == gpu.gpu) {
            Some(mine) => mine.total.merge(&gpu.total),
            None => day.push(gpu.clone()),
        }
    }
    let join = |totals: &[(Quarter, Vec<GpuQuarter>)]| {
        let (mut open, mut found) = (OpenSessions::default(), Vec::new());
        let mut give = |gpu: &GpuUuid, session: &ImportedSession| {
            found.push((gpu.clone(), session.clone()));
        };
        for (quarter, gpus) in totals {
            let gpus = gpus.iter();
            let pieces = gpus.map(|gpu| (&gpu.gpu, gpu.total.imported_sessions()));
            open.push(quarter.period().from(), pieces, &mut give);
        }
        open.finish(&mut give);
        found.sort_by(|(one_gpu, one), (other_gpu, other)| {
            (one_gpu, one.pid, one.from).cmp(&(other_gpu, other.pid, other.from))
        });
        found
    };
    [join(&quarters), join(&[(Quarter(0), day)])]
}

#[track_caller]
fn check(rows: &'static str, expected: &[&str]) {
    for found in fold(&moments(rows)) {
        let found: Vec<_> = found.iter().map(show).collect();
        assert_eq!(found, expected, "{rows}");
    }
}

#[test]
fn a_session_is_cut_where_nothing_came_for_more_than_three_minutes() {
    check(
        "0 A 0 7=200; 180 A 0 7=200; 361 A 0 7=200; 3600 B 1 8=5; 3630 A 0 7=200",
        &[
            "A 7 0..180 n=2 util=0.0 peak=200 ? ? #?",
            "A 7 361..361 n=1 util=0.0 peak=200 ? ? #?",
            "A 7 3630..3630 n=1 util=0.0 peak=200 ? ? #?",
            "B 8 3600..3600 n=1 util=1.0 peak=5 ? ? #?",
        ],
    );
}

#[test]
fn the_first_fact_that_is_known_counts_and_the_highest_memory() {
    check(
        "0 A 0 7=200; 30 A 20 7=900/root#3; 60 A 40 7=100:ada/root!python#4; 90 A 0 7:bob!late",
        &["A 7 0..90 n=4 util=15.0 peak=900 root* python #3"],
    );
    check(
        "0 A 0 7:ada/root; 30 A 0 7/root",
        &["A 7 0..30 n=2 util=0.0 peak=? ada* ? #?"],
    );
    check("0 A 0 7/root", &["A 7 0..0 n=1 util=0.0 peak=? root ? #?"]);
}

#[test]
fn graphics_rows_are_no_sessions_and_share_nothing() {
    check(
        "0 A 0 g5=900:gdm 7=200; 30 A 0 g5=900:gdm 7=200",
        &["A 7 0..30 n=2 util=0.0 peak=200 ? ? #?"],
    );
}

#[test]
fn a_gpu_with_two_compute_pids_at_some_moment_is_shared_by_those() {
    check(
        "0 A 0 7 8; 30 A 0 7; 60 A 0 9; 60 B 0 7",
        &[
            "A 7 0..30 n=2 util=0.0 peak=? ? ? #? shared",
            "A 8 0..0 n=1 util=0.0 peak=? ? ? #? shared",
            "A 9 60..60 n=1 util=0.0 peak=? ? ? #?",
            "B 7 60..60 n=1 util=0.0 peak=? ? ? #?",
        ],
    );
}

#[test]
fn runs_are_not_distinguished_and_a_time_without_the_gpus_row_has_no_utilisation() {
    check(
        "0 A 10 7; 0 A +30 8; 30 A - 7; 60 A 50 7",
        &[
            "A 7 0..60 n=3 util=40.0 peak=? ? ? #? shared",
            "A 8 0..0 n=1 util=30.0 peak=? ? ? #? shared",
        ],
    );
    check("0 A - 7=5", &["A 7 0..0 n=1 util=? peak=5 ? ? #?"]);
}

#[test]
fn a_session_continues_over_the_end_of_a_quarter() {
    check(
        "840 A 0 7=200; 880 A 20 7=300/root; 910 A 40 7:ada!late; 1091 A 0 7; 2000 A 0 7",
        &[
            "A 7 840..910 n=3 util=20.0 peak=300 root* late #?",
            "A 7 1091..1091 n=1 util=0.0 peak=? ? ? #?",
            "A 7 2000..2000 n=1 util=0.0 peak=? ? ? #?",
        ],
    );
}

#[test]
fn sessions_that_are_over_are_not_kept() {
    let mut open = OpenSessions::default();
    let gpu: GpuUuid = "A".parse().unwrap();
    let mut given = 0;
    for place in 0..10_000_i64 {
        let at = Timestamp::from_second(place * 60).unwrap();
        let mut rows = GpuRows::default();
        let row = LegacyProcess {
            pid: place,
            ..process("7")
        };
        rows.see(at, &row, |_| {});
        let pieces = [(&gpu, rows.open.as_slice())];
        open.push(at, pieces.into_iter(), &mut |_, _| given += 1);
        let kept: usize = open.gpus.values().map(Vec::len).sum();
        assert!(kept <= 8, "{kept}");
    }
    assert!(given > 9_990);
}

#[test]
fn a_session_ends_where_its_last_row_does() {
    let [found, _] = fold(&moments("0 A 0 7; 30 A 0 7; 60 A 0 7"));
    let minute = Some(Duration::from_secs(60));
    let ends = found.iter().map(|(_, session)| {
        let (recorded, given) = (session.end(None), session.end(minute));
        [session.to, recorded, given].map(Timestamp::as_second)
    });
    assert_eq!(ends.collect::<Vec<_>>(), [[60, 90, 120]]);
}

#[test]
fn time_after_the_interval_of_the_last_row_is_a_gap() {
    let at = |second| Timestamp::from_second(second).unwrap();
    for (end, gap) in [(90, 0), (91, 1), (104, 14), (120, 30)] {
        let interval = Micros::from_secs(30);
        let mut coverage = ImportedCoverage::of_tick(at(0), interval);
        for later in [30, 60] {
            coverage.merge(&ImportedCoverage::of_tick(at(later), interval));
        }
        let (covered, _) = coverage.finish(at(0), at(end));
        assert_eq!(covered.gap.0, gap * 1_000_000, "{end}");
        assert_eq!(covered.observed.0, 90_000_000, "{end}");
    }
}
