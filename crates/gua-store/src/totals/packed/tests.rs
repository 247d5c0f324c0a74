//! Checks that packed totals are read back unchanged, and that altered bytes are rejected.

use super::*;
use gua_model::{Millijoules, StateTotal};
use proptest::prelude::*;

const QUARTER: Quarter = Quarter(1_977_000);

fn names() -> Names {
    let gpus = (0..30).map(|id| (id, format!("GPU-{id:04}").parse().unwrap()));
    Names {
        gpus: gpus.collect(),
        owners: owners().into_iter().map(|(key, id)| (id, key)).collect(),
        users: HashMap::new(),
        parents: HashMap::new(),
        ids: OwnerIds::new(),
    }
}

fn owners() -> OwnerIds {
    (0..40)
        .map(|uid| (user(1000 + uid), u64::from(uid) * 3 + 1))
        .collect()
}

fn user(uid: u32) -> OwnerKey {
    OwnerKey::User(User {
        uid: Uid(uid),
        name: uid.is_multiple_of(2).then(|| format!("user-{uid}")),
    })
}

fn micros() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(900_000_000), 0..900_000_000_u64, any::<u64>()]
}

prop_compose! {
    fn gpu_total()(
        hull in prop::option::of((0..=900_000_000_i64, 0..=900_000_000_i64)),
        numbers in prop::array::uniform9(micros()), util in any::<u128>(),
    ) -> GpuTotal {
        let at = |offset: i64| Timestamp::from_microsecond(Bucket::from(QUARTER).start + offset).unwrap();
        let [ticks, present, set_aside, observed, util_known, energy, energy_known, free, ownerless] = numbers;
        GpuTotal {
            ticks,
            first: hull.map(|(from, _)| at(from)),
            last: hull.map(|(_, to)| at(to)),
            present: Micros(present),
            set_aside: Micros(set_aside),
            observed: Micros(observed),
            util_sum: util,
            util_known: Micros(util_known),
            energy: Millijoules(energy),
            energy_known: Micros(energy_known),
            free: Micros(free),
            ownerless: Micros(ownerless),
        }
    }
}

prop_compose! {
    fn quarter_total()(
        card in gpu_total(),
        states in prop::collection::vec((0..8_u8, 0..2_u8, micros(), micros(), micros()), 0..4),
        unobserved in prop::collection::vec((0..10_u8, micros()), 0..3),
        owners in prop::collection::vec((prop::option::of(1000..1040_u32), prop::array::uniform7(micros())), 0..4),
    ) -> QuarterTotal {
        let mut total = QuarterTotal { gpu: card, ..QuarterTotal::default() };
        for (state, basis, micros, energy, known) in states {
            *total.states.entry((STATES[usize::from(state)], BASES[usize::from(basis)])) =
                StateTotal { micros: Micros(micros), energy: Millijoules(energy), energy_known: Micros(known), ticks: 0 };
        }
        for (reason, micros) in unobserved {
            *total.unobserved.entry(REASONS[usize::from(reason)]) = Micros(micros);
        }
        for (uid, [held, charged, idle_held, energy, known, ticks, free]) in owners {
            *total.owners.entry(uid.map_or(OwnerKey::Unknown, user)) = OwnerTotal {
                held: Micros(held),
                charged: Micros(charged),
                idle_held: Micros(idle_held),
                energy: Millijoules(energy),
                energy_known: Micros(known),
                ticks,
                free: Micros(free),
                ..OwnerTotal::default()
            };
        }
        total
    }
}

fn packed(totals: &[QuarterTotal]) -> Vec<u8> {
    let numbered: Vec<_> = (0..).zip(totals).collect();
    pack(QUARTER, &numbered, owners())
}

proptest! {
    #[test]
    fn totals_come_back_as_they_were(totals in prop::collection::vec(quarter_total(), 0..5)) {
        let read = read(&names(), QUARTER, &packed(&totals)).unwrap();
        prop_assert!(read.iter().map(|gpu| &gpu.total).eq(&totals));
    }

    #[test]
    fn a_changed_byte_is_noticed(totals in prop::collection::vec(quarter_total(), 1..4), place in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let mut bytes = packed(&totals);
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        prop_assert!(read(&names(), QUARTER, &bytes).is_err());
        bytes[place] ^= change;
        bytes.pop();
        prop_assert!(read(&names(), QUARTER, &bytes).is_err());
    }

    #[test]
    fn any_bytes_are_totals_or_damage_and_never_a_crash(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_any_totals(&bytes);
        for form in [FORM, WITHOUT_FREE, WITH_UIDS] {
            if let Some(first) = bytes.first_mut() {
                *first = form;
            }
            let _ = decode_any_totals(&bytes);
        }
    }
}

#[test]
fn a_row_at_another_time_of_another_gpu_or_out_of_order_is_no_total() {
    let total = QuarterTotal::default();
    let body = pack(QUARTER, &[(1, &total), (2, &total)], owners());
    let names = names();
    assert_eq!(read(&names, QUARTER, &body).map(|gpus| gpus.len()), Ok(2));
    assert_eq!(
        read(&names, Quarter(QUARTER.0 + 1), &body),
        Err(Damage::Checksum)
    );
    let check = |ids: &[u64], expected| {
        let numbered: Vec<_> = ids.iter().map(|id| (*id, &total)).collect();
        let body = pack(QUARTER, &numbered, owners());
        assert_eq!(read(&names, QUARTER, &body), Err(expected));
    };
    check(&[1, 77], Damage::Name("a GPU"));
    check(&[2, 1], Damage::Value("order of GPUs"));
    check(&[2, 2], Damage::Value("order of GPUs"));
}

#[test]
fn a_gpu_that_was_seen_all_the_time_is_small() {
    let whole = Micros(900_000_000);
    let card = GpuTotal {
        ticks: 30,
        first: Some(QUARTER.period().from()),
        last: Some(QUARTER.period().to()),
        present: whole,
        observed: whole,
        util_sum: 900_000_000 * 9000,
        util_known: whole,
        energy: Millijoules(270_000_000),
        energy_known: whole,
        ..GpuTotal::default()
    };
    let mut total = QuarterTotal {
        gpu: card,
        ..QuarterTotal::default()
    };
    let energy = Millijoules(270_000_000);
    let active = (State::Active, Basis::Buffer);
    *total.states.entry(active) = StateTotal {
        micros: whole,
        energy,
        energy_known: whole,
        ticks: 0,
    };
    *total.owners.entry(user(1001)) = OwnerTotal {
        held: whole,
        charged: whole,
        idle_held: Micros(0),
        energy,
        energy_known: whole,
        ticks: 30,
        ..OwnerTotal::default()
    };
    assert_eq!(packed(&[total]).len() - packed(&[]).len(), 55);
}

/// Bytes in an earlier form. Totals without owners differ from today's in the form alone.
fn packed_as(form: u8, totals: &[QuarterTotal]) -> Vec<u8> {
    let mut bytes = packed(totals);
    bytes.truncate(bytes.len() - CHECKSUM_BYTES);
    bytes[0] = form;
    let sum = checksum(Bucket::from(QUARTER), &bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

#[test]
fn instances_of_schema_1_are_reduced_to_the_time_in_which_their_parent_was_divided() {
    let total = |present: u64, set_aside: u64| {
        let idle = Micros(present - set_aside);
        let mut total = QuarterTotal {
            gpu: GpuTotal {
                first: Some(QUARTER.period().from()),
                last: Some(QUARTER.period().to()),
                present: Micros(present),
                set_aside: Micros(set_aside),
                observed: idle,
                free: idle,
                ..GpuTotal::default()
            },
            ..QuarterTotal::default()
        };
        if idle > Micros(0) {
            total
                .states
                .entry((State::TrulyIdle, Basis::Instant))
                .micros = idle;
        }
        total
    };
    let whole = 900_000_000;
    let totals = [
        total(whole, 600_000_000),
        total(600_000_000, 0),
        total(200_000_000, 0),
    ];
    let mut names = names();
    let gpu = |id: u64| names.gpus[&id].clone();
    let parents = HashMap::from([(gpu(1), gpu(0)), (gpu(2), gpu(0))]);
    names.parents = parents;
    let own = |bytes: &[u8]| -> Vec<u64> {
        let read = read(&names, QUARTER, bytes).unwrap();
        read.iter()
            .map(|gpu| gpu.total.states.values().map(|state| state.micros.0).sum())
            .collect()
    };
    let weighed = [300_000_000, 450_000_000, 150_000_000];
    assert_eq!(own(&packed_as(WITH_UIDS, &totals)), weighed);
    let stored = [300_000_000, 600_000_000, 200_000_000];
    assert_eq!(own(&packed_as(WITHOUT_FREE, &totals)), stored);
    assert_eq!(own(&packed(&totals)), stored);
}

#[test]
fn totals_of_an_earlier_development_version_are_named_in_the_error() {
    let bytes = packed_as(EARLIER, &[]);
    let damage = read(&names(), QUARTER, &bytes).unwrap_err();
    assert_eq!(damage, Damage::Earlier);
    assert!(damage.to_string().contains("earlier development version"));
}

#[test]
fn owners_of_schema_2_have_no_time_on_free_gpus() {
    let mut total = QuarterTotal::default();
    total.owners.entry(user(1002)).held = Micros(5);
    let mut bytes = packed_as(WITHOUT_FREE, std::slice::from_ref(&total));
    // The last number of the owner stands before the two last numbers of the GPU.
    let place = bytes.len() - CHECKSUM_BYTES - 3;
    bytes.truncate(bytes.len() - CHECKSUM_BYTES);
    assert_eq!(bytes.remove(place), 0);
    let bytes = sealed(bytes, Bucket::from(QUARTER));
    let read = read(&names(), QUARTER, &bytes).unwrap();
    assert_eq!(read[0].total, total);
}
