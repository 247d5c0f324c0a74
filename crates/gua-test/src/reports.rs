//! Reports of synthetic hosts, the same at every run: people who work by day, idle GPUs, gaps and hostile names.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::idle::{Idle, is_idle_now};
use gua_model::report::fold::{ReportFold, Scope};
use gua_model::report::{
    BlockRow, Covered, Cross, GapRow, GpuStatus, Hold, Host, IntervalUse, Note, Now, Refused,
    Report, ReportedGpu, SlotRow, Sums, cross_rows,
};
use gua_model::since::{Since, Start};
use gua_model::{
    Basis, Bytes, CalendarUnit, GapReason, GpuUuid, Micros, Millijoules, OwnerKey, Period, Pid,
    QuarterTotal, RollUp, State, Thresholds, Uid, User, UtilSource, slots,
};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const QUARTER: u64 = 900_000_000;

/// Size of the host and length of the window.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub gpus: u32,
    pub people: u32,
    pub days: u32,
}

/// End of every window.
fn end() -> Timestamp {
    "2026-11-01T00:00:00Z".parse().unwrap()
}

/// A deterministic random number generator.
#[derive(Clone, Copy, Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Name of a person.
pub fn person(number: u32) -> String {
    const NAMES: [&str; 12] = [
        "ada",
        "김민수",
        "grace",
        "linus",
        "<b>bobby</b>",
        "emmy",
        "alan.turing@example.org",
        "katherine",
        "이서연",
        "o'hara & \"sons\"",
        "a-service-account-with-a-very-long-name-indeed",
        "zoe",
    ];
    match NAMES.get(number as usize) {
        Some(name) => (*name).to_owned(),
        None => format!("user{number:02}"),
    }
}

fn uuid(number: u32) -> GpuUuid {
    let spread = number.wrapping_mul(2_654_435_761);
    format!("GPU-{spread:08x}-1c2d-4e3f-9a0b-{number:012x}")
        .parse()
        .unwrap()
}

/// One quarter hour of one GPU.
fn quarter(dice: &mut Dice, owner: u32, hour: i8, weekend: bool) -> QuarterTotal {
    let mut total = QuarterTotal::default();
    let by_day = (9..19).contains(&hour) && !weekend;
    let busy = if by_day { 75 } else { 30 };
    let active = if dice.roll(100) < busy {
        QUARTER * (40 + dice.roll(61)) / 100
    } else {
        0
    };
    let held = if active > 0 || dice.roll(100) < 35 {
        QUARTER
    } else {
        0
    };
    let idle_held = held - active.min(held);
    let truly_idle = QUARTER - active - idle_held;
    for (state, micros) in [
        (State::Active, active),
        (State::IdleHeld, idle_held),
        (State::TrulyIdle, truly_idle),
    ] {
        if micros > 0 {
            let sums = total.states.entry((state, Basis::Buffer));
            sums.micros = Micros(micros);
            sums.energy =
                Millijoules(micros / 1000 * if state == State::Active { 280 } else { 60 });
            sums.energy_known = sums.micros;
            total.gpu.energy += sums.energy;
        }
    }
    total.gpu.ticks = 30;
    total.gpu.present = Micros(QUARTER);
    total.gpu.observed = Micros(QUARTER);
    total.gpu.energy_known = Micros(QUARTER);
    total.gpu.util_known = Micros(QUARTER);
    total.gpu.util_sum = u128::from(active) * 8000;
    if held > 0 {
        let sums = total.owners.entry(OwnerKey::User(User {
            uid: Uid(owner),
            name: Some(person(owner)),
        }));
        sums.held = Micros(held);
        sums.charged = Micros(held);
        sums.idle_held = Micros(idle_held);
        sums.energy = total.gpu.energy;
        sums.energy_known = sums.held;
        sums.ticks = 30;
    }
    total
}

/// A report of a synthetic host.
pub fn report(shape: Shape, zone: &TimeZone) -> Report {
    crossed(shape, zone, Cross::HourOfDay)
}

/// Like [`report`], with GPUs and people crossed with other columns of time.
pub fn crossed(shape: Shape, zone: &TimeZone, cross: Cross) -> Report {
    let from = end() - SignedDuration::from_hours(24 * i64::from(shape.days));
    let window = Period::new(from, end());
    let unit = if shape.days > 4 {
        CalendarUnit::Day
    } else {
        CalendarUnit::Hour
    };
    let scope = Scope {
        zone: zone.clone(),
        gpus: None,
        left_out: Default::default(),
        person: None,
        unit,
        cross: Some(cross),
    };
    let mut fold = ReportFold::new(scope);
    let gap = Period::new(
        end() - SignedDuration::from_hours(20),
        end() - SignedDuration::from_hours(14),
    );
    let mut dice = Dice(7);
    for number in 0..shape.gpus {
        let gpu = uuid(number);
        let mut owner = number % shape.people.max(1);
        for (quarter_hour, period) in window.quarters() {
            if period.overlap(gap).is_some() {
                continue;
            }
            let local = period.from().to_zoned(zone.clone());
            if dice.roll(40) == 0 {
                owner = u32::try_from(dice.roll(u64::from(shape.people.max(1)))).unwrap();
            }
            let weekend = matches!(
                local.weekday(),
                jiff::civil::Weekday::Saturday | jiff::civil::Weekday::Sunday
            );
            let total = quarter(&mut dice, owner, local.hour(), weekend);
            fold.add(quarter_hour, &gpu, &total);
        }
    }
    finished(shape, zone, window, gap, &fold)
}

fn finished(
    shape: Shape,
    zone: &TimeZone,
    window: Period,
    gap: Period,
    fold: &ReportFold,
) -> Report {
    let any = shape.gpus > 0;
    let covered = |gpus: u64| Covered {
        capacity: Micros(window.micros().0 * gpus),
        observed: Micros((window.micros().0 - gap.micros().0) * gpus),
        gap: Micros(gap.micros().0 * gpus),
        buffered: Micros((window.micros().0 - gap.micros().0) * gpus),
        host_observed: Micros(window.micros().0 - gap.micros().0),
        ..Covered::default()
    };
    let mut coverage = if any {
        covered(shape.gpus.into())
    } else {
        Covered::default()
    };
    if any {
        coverage.gaps.push(GapRow {
            reason: GapReason::DriverHung,
            period: gap,
            gpus: shape.gpus as usize,
            micros: coverage.gap,
            detail: Some("no answer within 5s from <nvml>".to_owned()),
            late: false,
        });
    }
    let numbers: BTreeMap<GpuUuid, u32> = (0..shape.gpus)
        .map(|number| (uuid(number), number))
        .collect();
    let reported = |(gpu, sums): (&GpuUuid, &Sums)| ReportedGpu {
        gpu: gpu.clone(),
        index: numbers.get(gpu).copied(),
        name: Some("NVIDIA RTX A6000".to_owned()),
        parent: None,
        slice: None,
        sums: sums.clone(),
        covered: covered(1),
        unseen: vec![gap],
    };
    let gpus: Vec<ReportedGpu> = fold.gpus.iter().map(reported).collect();
    let people = fold.people.rows();
    let names: Vec<String> = people.iter().map(|person| person.name.clone()).collect();
    let uuids: Vec<GpuUuid> = gpus.iter().map(|gpu| gpu.gpu.clone()).collect();
    let slot_rows: Vec<SlotRow> = slots(window, zone, fold.scope().unit)
        .map(|slot| SlotRow {
            label: slot.label,
            period: slot.period,
            sums: fold.slots.get(&slot.label).cloned().unwrap_or_default(),
            gap: Micros(
                slot.period.overlap(gap).map_or(0, |part| part.micros().0) * u64::from(shape.gpus),
            ),
        })
        .collect();
    let sessions = sessions(shape);
    let now = any.then(|| now(shape));
    let (current, past) = holders(&sessions, now.as_ref());
    Report {
        host: any.then(|| Host {
            name: "gpu-host-07.lab.example.org".to_owned(),
            environment: "bare".to_owned(),
            driver: Some("560.35.05".to_owned()),
        }),
        window,
        thresholds: Thresholds::default(),
        made: end(),
        person: None,
        cross: cross_rows(fold, &slot_rows, &uuids, &names, &|_| &[]),
        slots: if any { slot_rows } else { Vec::new() },
        minutes: Vec::new(),
        heat: fold.heat.clone(),
        all: fold.all.clone(),
        people,
        groups: Vec::new(),
        unit: fold.scope().unit,
        coverage,
        past_count: past.len(),
        current,
        past,
        session_count: sessions.len(),
        sessions,
        known: window,
        now,
        refused: any.then(|| refused(shape, &uuids)),
        tick_interval: any.then(|| std::time::Duration::from_secs(30)),
        interval: IntervalUse::Recorded,
        notes: if shape.days > 20 {
            vec![Note::Damaged { records: 3 }, Note::Mixed]
        } else {
            Vec::new()
        },
        gpus,
    }
}

/// Current holders with the idle time of their GPU, and past ones that did not use theirs.
fn holders(sessions: &[Hold], now: Option<&Now>) -> (Vec<Hold>, Vec<Hold>) {
    let (mut current, mut past): (Vec<Hold>, Vec<Hold>) =
        sessions.iter().cloned().partition(|hold| hold.current);
    past.retain(|hold| hold.is_without_use(&Thresholds::default()));
    for hold in &mut current {
        let mut gpus = now.iter().flat_map(|now| &now.gpus);
        hold.idle = gpus
            .find(|gpu| gpu.gpu == hold.gpu)
            .and_then(|gpu| gpu.idle);
    }
    (current, past)
}

/// Everyone has blocked the next person once.
fn refused(shape: Shape, uuids: &[GpuUuid]) -> Refused {
    let row = |number: u32| BlockRow {
        holder: person(number),
        gpu: uuids[0].clone(),
        index: Some(0),
        requester: person(number + 1),
        times: u64::from(number) + 1,
        waited: SignedDuration::from_mins(i64::from(number) * 45),
    };
    let in_the_way = (0..shape.people).map(row);
    Refused {
        requests: 7,
        in_the_way: in_the_way.collect(),
    }
}

fn sessions(shape: Shape) -> Vec<Hold> {
    let mut dice = Dice(11);
    let mut holds = Vec::new();
    for gpu in 0..shape.gpus {
        let mut from = end() - SignedDuration::from_hours(24 * i64::from(shape.days));
        while from < end() {
            let length = 1 + i64::try_from(dice.roll(u64::from(shape.days) * 4 + 2)).unwrap();
            let to = (from + SignedDuration::from_hours(length)).min(end());
            let period = Period::new(from, to);
            let idle = dice.roll(100);
            let number = u32::try_from(dice.roll(u64::from(shape.people.max(1)))).unwrap();
            holds.push(Hold {
                gpu: uuid(gpu),
                index: Some(gpu),
                owner: (number != 3).then(|| person(number)),
                by_login: number != 2,
                process: Some(if idle > 90 { "jupyter-lab" } else { "python" }.to_owned()),
                workload: (idle > 70).then(|| "job 4711".to_owned()),
                pid: Some(Pid(4000 + gpu * 7 + u32::try_from(length).unwrap())),
                period,
                last_row: Micros(0),
                util: Some((if idle > 60 { 2.4 } else { 71.0 }, UtilSource::Gpu)),
                peak_memory: Some(Bytes::from_mb(1200 + dice.roll(40_000))),
                samples: 120,
                shared: dice.roll(5) == 0,
                observed: Some(period.micros()),
                observed_within: Some(period.micros()),
                active: Some(Micros(period.micros().0 * (100 - idle) / 100)),
                idle_held: Some(Micros(period.micros().0 * idle / 100)),
                current: to == end(),
                idle: None,
                sessions: 1,
            });
            from = to + SignedDuration::from_hours(1 + i64::try_from(dice.roll(9)).unwrap());
        }
    }
    holds.sort_by_key(|hold| (std::cmp::Reverse(hold.period.micros()), hold.gpu.clone()));
    // The longest, and those of each GPU.
    let mut of_gpus = vec![0; usize::try_from(shape.gpus).unwrap()];
    let mut place = 0;
    holds.retain(|hold| {
        let of_gpu = &mut of_gpus[usize::try_from(hold.index.unwrap()).unwrap()];
        *of_gpu += 1;
        place += 1;
        place <= 400 || *of_gpu <= 8
    });
    holds
}

fn now(shape: Shape) -> Now {
    let mut dice = Dice(5);
    let gpus = (0..shape.gpus).map(|number| {
        let state = [
            State::Active,
            State::IdleHeld,
            State::TrulyIdle,
            State::Active,
            State::HeldUnknown,
        ][usize::try_from(dice.roll(5)).unwrap()];
        let held = state != State::TrulyIdle;
        GpuStatus {
            gpu: uuid(number),
            index: Some(number),
            instance: None,
            name: Some("NVIDIA RTX A6000".to_owned()),
            state,
            is_free: !held,
            faults: Vec::new(),
            util: (state != State::HeldUnknown).then_some(
                if state.roll_up() == Some(RollUp::Active) {
                    87
                } else {
                    2
                },
            ),
            memory_used: Some(Bytes::from_mb(if held { 31_000 } else { 0 })),
            memory_total: Some(Bytes::from_mb(49_140)),
            owners: BTreeSet::from([person(number % shape.people.max(1))])
                .into_iter()
                .filter(|_| held)
                .collect(),
            process: held.then(|| "python".to_owned()),
            held_since: held.then(|| end() - SignedDuration::from_hours(i64::from(number % 50))),
            idle: is_idle_now(state).then(|| Idle {
                since: Since {
                    at: end() - SignedDuration::from_mins(i64::from(number % 50) * 31 + 9),
                    start: Start::Seen,
                },
                unobserved: Micros(0),
            }),
        }
    });
    Now {
        at: end() - SignedDuration::from_secs(20),
        gpus: gpus.collect(),
    }
}
