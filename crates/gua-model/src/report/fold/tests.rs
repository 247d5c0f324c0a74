use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::classify::Basis;
use crate::id::Uid;
use crate::owner::{OwnerKey, User};
use crate::report::cross::rows;
use crate::state::{RollUp, State};
use crate::total::{DayTotals, GpuQuarter, GpuTotal, OwnerTotal, StateTotal};
use crate::unit::{Micros, Millijoules};

const QUARTER: u64 = 900_000_000;

fn scope() -> Scope {
    Scope {
        zone: TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap(),
        gpus: None,
        left_out: BTreeSet::new(),
        person: None,
        unit: CalendarUnit::Day,
        cross: Some(Cross::HourOfDay),
    }
}

fn owner(uid: u32) -> OwnerKey {
    let name = match uid {
        1 => Some("ada".to_owned()),
        2 => Some("bob".to_owned()),
        _ => None,
    };
    OwnerKey::User(User {
        uid: Uid(uid),
        name,
    })
}

fn gpu(number: u8) -> GpuUuid {
    format!("GPU-{number}").parse().unwrap()
}

/// One GPU in one quarter: time in two states, and owners who share what was held.
fn total(active: u64, idle_held: u64, owners: &[(Option<u32>, u64)]) -> QuarterTotal {
    let mut total = QuarterTotal {
        gpu: GpuTotal {
            ticks: 30,
            observed: Micros(active + idle_held),
            energy: Millijoules(active + idle_held),
            energy_known: Micros(active + idle_held),
            ..GpuTotal::default()
        },
        ..QuarterTotal::default()
    };
    let state = |micros| StateTotal {
        micros: Micros(micros),
        energy: Millijoules(micros),
        energy_known: Micros(micros),
        ticks: 0,
    };
    *total.states.entry((State::Active, Basis::Buffer)) = state(active);
    *total.states.entry((State::IdleHeld, Basis::Instant)) = state(idle_held);
    for (owner, held) in owners {
        *total
            .owners
            .entry(owner.map_or(OwnerKey::Unknown, self::owner)) = OwnerTotal {
            held: Micros(*held),
            charged: Micros(held / 2),
            idle_held: Micros((*held).min(idle_held)),
            energy: Millijoules(*held),
            energy_known: Micros(*held),
            ticks: 30,
            ..OwnerTotal::default()
        };
    }
    total
}

#[test]
fn a_quarter_goes_to_the_local_day_weekday_and_hour_that_it_lies_in() {
    let mut fold = ReportFold::new(scope());
    // 2026-03-29 00:30 UTC is 01:30 in Berlin, half an hour before its clocks go forward; it was a Sunday.
    let quarter = |text: &str| Quarter::of(text.parse::<Timestamp>().unwrap());
    fold.add(
        quarter("2026-03-29T00:30:00Z"),
        &gpu(0),
        &total(QUARTER, 0, &[]),
    );
    fold.add(
        quarter("2026-03-29T01:00:00Z"),
        &gpu(0),
        &total(0, QUARTER, &[]),
    );
    fold.add(
        quarter("2026-03-29T22:00:00Z"),
        &gpu(0),
        &total(0, QUARTER, &[]),
    );
    assert_eq!(fold.heat.cells[0][1].share(), Some(1.0));
    assert_eq!(fold.heat.cells[0][3].share(), Some(0.0));
    assert_eq!(
        fold.heat.cells[0][2].share(),
        None,
        "that hour was left out"
    );
    assert_eq!(fold.heat.cells[1][0].share(), Some(0.0));
    let days: Vec<String> = fold
        .slots
        .keys()
        .map(|day| day.strftime("%m-%d").to_string())
        .collect();
    assert_eq!(days, ["03-29", "03-30"]);
}

#[test]
fn a_gpu_that_is_left_out_takes_no_other_gpu_with_it() {
    let scope = Scope {
        left_out: BTreeSet::from([gpu(0)]),
        ..scope()
    };
    assert!(!scope.wants(&gpu(0)));
    assert!(scope.wants(&gpu(1)));
    // Days of gpu_stats have GPUs that no list of GPUs names.
    assert!(scope.wants(&"gpu_stats-0".parse().unwrap()));
}

#[test]
fn a_person_has_the_same_part_whichever_way_it_is_asked_for() {
    let all = |person: Option<&str>| {
        let mut fold = ReportFold::new(Scope {
            person: person.map(str::to_owned),
            ..scope()
        });
        fold.add(
            Quarter(7),
            &gpu(0),
            &total(500, 400, &[(Some(1), 900), (None, 900)]),
        );
        fold.add(Quarter(8), &gpu(1), &total(0, 800, &[(Some(2), 800)]));
        fold
    };
    let everyone = all(None);
    for name in ["ada", "bob", "unknown"] {
        let alone = all(Some(name));
        assert_eq!(alone.people.get(name), everyone.people.get(name), "{name}");
        assert_eq!(alone.all.held, everyone.people.get(name), "{name}");
        assert_eq!(alone.people.rows().len(), 1, "{name}");
    }
    assert_eq!(all(Some("nobody")).all, Sums::default());
}

#[test]
fn a_user_without_a_name_is_called_by_the_number() {
    let mut fold = ReportFold::new(scope());
    fold.add(Quarter(7), &gpu(0), &total(5, 0, &[(Some(1007), 5)]));
    assert_eq!(fold.people.rows()[0].name, "uid 1007");
}

/// One imported tick.
fn imported(class: RollUp, seconds: u64, owner: Option<&str>) -> QuarterTotal {
    let mut total = QuarterTotal::default();
    let interval = Micros::from_secs(seconds);
    let state = total.states.entry((class.into(), Basis::Imported));
    (state.micros, state.ticks) = (interval, 1);
    total.gpu.ticks = 1;
    let owner = total.owners.entry(OwnerKey::named(owner));
    owner.add_imported(1, RollUp::Active, interval);
    total
}

#[test]
fn imported_rows_alone_have_shares_of_ticks_and_with_own_ones_of_time() {
    let mut fold = ReportFold::new(scope());
    for total in [
        imported(RollUp::Active, 30, Some("ada")),
        imported(RollUp::IdleHeld, 10, None),
    ] {
        fold.add(Quarter(7), &gpu(0), &total);
    }
    assert_eq!(fold.all.share(RollUp::Active), Some(0.5));
    assert_eq!(fold.all.hours(RollUp::Active), 30.0 / 3600.0);
    assert_eq!(fold.all.samples(), 2);
    fold.add(
        Quarter(8),
        &gpu(0),
        &total(20_000_000, 20_000_000, &[(Some(1), 40_000_000)]),
    );
    assert_eq!(fold.all.share(RollUp::Active), Some(50.0 / 80.0));
    // Ada's imported rows and Ada's uid are one person.
    assert_eq!(fold.people.get("ada").hours(), 70.0 / 3600.0);
}

fn any_quarters() -> impl Strategy<Value = Vec<(i64, u8, u64, u64, u32)>> {
    prop::collection::vec(
        (
            1_980_000i64..1_981_000,
            0u8..4,
            0..QUARTER / 2,
            0..QUARTER / 2,
            1u32..4,
        ),
        0..60,
    )
}

fn any_cross() -> impl Strategy<Value = Cross> {
    prop_oneof![
        Just(Cross::HourOfDay),
        Just(Cross::WeekHour),
        Just(Cross::Slot)
    ]
}

proptest! {
    /// Whatever the rows are, they add up to the same.
    #[test]
    fn gpus_days_columns_and_people_add_up_to_all(quarters in any_quarters(), cross in any_cross()) {
        let mut fold = ReportFold::new(Scope { cross: Some(cross), ..scope() });
        for (quarter, number, active, idle, uid) in &quarters {
            let held = active + idle;
            fold.add(Quarter(*quarter), &gpu(*number), &total(*active, *idle, &[(Some(*uid), held)]));
        }
        let add = |sums: Vec<&Sums>| {
            let time = |class| sums.iter().map(|sums| sums.of_class(class).micros).sum::<Micros>();
            let energy: Millijoules = sums.iter().map(|sums| sums.energy).sum();
            (RollUp::ALL.map(time), energy, sums.iter().map(|sums| sums.ticks).sum::<u64>())
        };
        let all = add(vec![&fold.all]);
        prop_assert_eq!(&add(fold.gpus.values().collect()), &all);
        prop_assert_eq!(&add(fold.slots.values().collect()), &all);
        let gpus: Vec<GpuUuid> = fold.gpus.keys().cloned().collect();
        let people: Vec<String> = fold.people.rows().into_iter().map(|row| row.name).collect();
        let slots: Vec<DateTime> = fold.slots.keys().copied().collect();
        let crossed = rows(&fold.crossed, &cross.columns(&slots), &gpus, &people);
        prop_assert_eq!(&add(crossed.iter().map(|column| &column.sums).collect()), &all);
        prop_assert_eq!(&add(crossed.iter().flat_map(|column| &column.gpus).map(|gpu| &gpu.sums).collect()), &all);
        let mut held = OwnerTotal::default();
        fold.people.rows().iter().for_each(|row| held.merge(&row.sums));
        prop_assert_eq!(held, fold.all.held);
        let mut by_column = OwnerTotal::default();
        crossed.iter().flat_map(|column| &column.people).for_each(|sums| by_column.merge(sums));
        prop_assert_eq!(by_column, held);
        let cells = fold.heat.cells.iter().flatten();
        let (active, observed) = cells.fold((Micros(0), Micros(0)), |(active, observed), cell| {
            (active + cell.active, observed + cell.observed)
        });
        prop_assert_eq!(observed, fold.all.observed());
        prop_assert_eq!(active, fold.all.of_class(RollUp::Active).micros);
    }
}

#[test]
fn a_gpu_whose_instances_replace_it_is_counted_by_them() {
    let mut fold = ReportFold::new(scope());
    let parent = QuarterTotal {
        gpu: GpuTotal {
            ticks: 30,
            present: Micros(QUARTER),
            set_aside: Micros(QUARTER),
            energy: Millijoules(7),
            energy_known: Micros(QUARTER),
            ..GpuTotal::default()
        },
        ..QuarterTotal::default()
    };
    fold.add(Quarter(7), &gpu(0), &parent);
    fold.add(Quarter(7), &gpu(1), &total(500, 400, &[]));
    assert_eq!(fold.all.samples(), 30);
    assert_eq!(fold.all.undivided_energy, Millijoules(7));
    // The total is the sum of its states.
    assert_eq!(
        fold.all.energy,
        fold.all.state(State::Active).energy + fold.all.state(State::IdleHeld).energy
    );
    assert_eq!(fold.all.energy_known, Micros(900));
}

/// A quarter that was observed from its begin to its end.
fn whole(quarter: Quarter, active: u64, owner: u32) -> QuarterTotal {
    let mut total = total(active, QUARTER - active, &[(Some(owner), QUARTER)]);
    total.gpu.first = Some(quarter.period().from());
    total.gpu.last = Some(quarter.period().to());
    total.gpu.present = Micros(QUARTER);
    total
}

#[test]
fn a_day_adds_what_its_quarters_add_where_it_lies_in_one_row() {
    let day = UtcDay(20_700);
    let mut days = DayTotals::default();
    let without_columns = |unit| Scope {
        cross: None,
        unit,
        ..scope()
    };
    let mut by_quarter = ReportFold::new(without_columns(CalendarUnit::Month));
    for (place, quarter) in day.quarters().enumerate() {
        let active = u64::try_from(place).unwrap() * 1_000_000;
        let quarter_of = |number: u8, owner| GpuQuarter {
            gpu: gpu(number),
            total: whole(quarter, active, owner),
        };
        let gpus = [quarter_of(1, 1), quarter_of(2, 2)];
        days.add(place, &gpus);
        for one in &gpus {
            by_quarter.add(quarter, &one.gpu, &one.total);
        }
    }
    let mut by_day = ReportFold::new(without_columns(CalendarUnit::Month));
    assert!(by_day.takes_day(day, &days.gpus));
    by_day.day(day, &days.gpus);
    assert_eq!(by_day.all, by_quarter.all);
    assert_eq!(by_day.gpus, by_quarter.gpus);
    assert_eq!(by_day.heat, by_quarter.heat);
    assert_eq!(by_day.slots, by_quarter.slots);
    assert_eq!(by_day.people.rows(), by_quarter.people.rows());

    // A UTC day lies in two days of central Europe.
    let mut local_days = ReportFold::new(without_columns(CalendarUnit::Day));
    assert!(!local_days.takes_day(day, &days.gpus));
    assert!(!ReportFold::new(scope()).takes_day(day, &days.gpus));
    let mut missing = days.gpus.clone();
    missing[0].total.gpu.present = Micros(96 * QUARTER - 2_000_000);
    missing[0].quarters[5].observed = Micros(QUARTER - 2_000_000);
    assert!(!by_day.takes_day(day, &missing));
}
