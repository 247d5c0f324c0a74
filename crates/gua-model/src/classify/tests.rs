//! Cases are short texts: the readings of a GPU on the left, the state on the right.

use proptest::prelude::*;

use super::*;
use crate::id::{BootId, Pid, ProcessKey, StartTicks, Uid};
use crate::owner::{Identity, User, Workload};
use crate::sample::{Place, ProcessKind};
use crate::state::RollUp;
use crate::unit::Percent;
use crate::window::UtilWindow;

/// Parses `util 9 | compute 101 | graphics 20 gone | power 60 | floor 70 | list denied`, in any order. Memory is in MB,
/// or `hidden`. Without `util`, the GPU reports no utilisation.
fn gpu_of(text: &str) -> (Gpu, Option<Milliwatts>) {
    let mut gpu = Gpu::without_readings("GPU-0".parse().unwrap(), 0, Missing::Unsupported);
    gpu.compute_list = Ok(());
    gpu.graphics_list = Ok(());
    let mut floor = None;
    for part in text
        .split('|')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let words: Vec<&str> = part.split(' ').collect();
        match words.as_slice() {
            ["util", word] => {
                gpu.util = missing(word).map_or_else(|| Ok(percent(word.parse().unwrap())), Err);
            }
            ["power", watts] => gpu.power = Ok(Milliwatts(watts.parse::<u64>().unwrap() * 1000)),
            ["floor", watts] => floor = Some(Milliwatts(watts.parse::<u64>().unwrap() * 1000)),
            ["list", word] => gpu.compute_list = Err(missing(word).unwrap()),
            ["graphics-list", word] => gpu.graphics_list = Err(missing(word).unwrap()),
            [kind @ ("compute" | "graphics" | "both"), memory, rest @ ..] => {
                gpu.processes
                    .push(process(kind, memory, rest.first().copied()));
            }
            other => panic!("no such part: {other:?}"),
        }
    }
    (gpu, floor)
}

fn missing(word: &str) -> Option<Missing> {
    [
        Missing::Unsupported,
        Missing::Denied,
        Missing::Gone,
        Missing::Failed,
    ]
    .into_iter()
    .find(|why| why.as_str() == word)
}

fn percent(value: u32) -> Percent {
    Percent::new(value).unwrap()
}

fn process(kind: &str, memory: &str, identity: Option<&str>) -> Process {
    let kind = match kind {
        "compute" => ProcessKind::Compute,
        "graphics" => ProcessKind::Graphics,
        _ => ProcessKind::Both,
    };
    let memory = match memory {
        "hidden" => Err(Missing::Unsupported),
        mb => Ok(Bytes::from_mb(mb.parse().unwrap())),
    };
    let live = || Identity {
        key: ProcessKey {
            boot: BootId(1),
            pid: Pid(7),
            start: StartTicks(1),
        },
        login: Ok(None),
        claimed_login: None,
        own: Ok(User {
            uid: Uid(1000),
            name: None,
        }),
        workload: Workload::default(),
        comm: Ok("python".to_owned()),
    };
    let identity = identity.map_or_else(|| Ok(live()), |word| Err(missing(word).unwrap()));
    Process {
        pid: Pid(7),
        kind,
        memory,
        sm_util: Err(Missing::Unsupported),
        identity,
    }
}

#[track_caller]
fn check(seen: &str, state: State) {
    check_with(Thresholds::default(), seen, state);
}

#[track_caller]
fn check_with(thresholds: Thresholds, seen: &str, state: State) {
    let (gpu, floor) = gpu_of(seen);
    let verdict = classify(&gpu, &thresholds, floor);
    assert_eq!(verdict.state, state, "{seen}");
    assert_eq!(
        verdict.evidence.unobserved.is_some(),
        state == State::Unobserved,
        "{seen}"
    );
    assert_eq!(
        verdict.evidence.processes as usize,
        gpu.processes.len(),
        "{seen}"
    );
}

#[test]
fn a_gpu_is_active_from_ten_percent_on() {
    check("util 10 | compute 0", State::Active);
    check("util 10 | compute 8000", State::Active);
    check("util 100 | compute hidden", State::Active);
    check("util 9 | compute 0", State::TrulyIdle);
}

#[test]
fn a_gpu_is_held_from_101_mb_on() {
    check("util 9 | compute 101", State::IdleHeld);
    check("util 9 | compute 100", State::TrulyIdle);
    check("util 0 | compute 60 | compute 41", State::IdleHeld);
    check("util 0 | compute 60 | compute 40", State::TrulyIdle);
    check("util 0", State::TrulyIdle);
}

#[test]
fn megabytes_are_rounded_down_for_each_process_as_the_replaced_tool_does() {
    let (mut gpu, _) = gpu_of("util 0 | compute 50 | compute 50");
    for process in &mut gpu.processes {
        process.memory = Ok(Bytes(Bytes::from_mb(51).0 - 1));
    }
    assert_eq!(
        classify(&gpu, &Thresholds::default(), None).state,
        State::TrulyIdle
    );
}

#[test]
fn a_process_whose_memory_the_driver_hides_still_holds_its_gpu() {
    check("util 0 | compute hidden", State::IdleHeld);
    check("util 0 | compute 5 | compute hidden", State::IdleHeld);
}

#[test]
fn a_desktop_does_not_hold_a_gpu_unless_graphics_count() {
    let graphics = Thresholds {
        count_graphics: CountGraphics::Yes,
        ..Thresholds::default()
    };
    for seen in [
        "util 0 | graphics 500",
        "util 0 | graphics hidden",
        "util 0 | compute 50 | graphics 60",
    ] {
        check(seen, State::TrulyIdle);
        check_with(graphics, seen, State::IdleHeld);
    }
    check("util 0 | both 500", State::IdleHeld);
}

#[test]
fn without_utilisation_a_held_gpu_is_its_own_share_and_a_free_one_is_free() {
    check("util unsupported | compute 8000", State::HeldUnknown);
    check("util failed | compute hidden", State::HeldUnknown);
    check("util unsupported | compute 8000 gone", State::HeldUnknown);
    check("util unsupported | compute 5", State::HeldUnknown);
    check("util failed | compute 5", State::HeldUnknown);
    check("util unsupported", State::TrulyIdle);
    check("util unsupported | graphics 500", State::TrulyIdle);
}

#[test]
fn a_reading_that_was_lost_on_the_way_is_a_gap_and_never_idle() {
    check("util denied", State::Unobserved);
    check("util failed", State::Unobserved);
    check("util gone", State::Unobserved);
    check("util gone | compute 8000", State::Unobserved);
    check("util 0 | list denied", State::Unobserved);
    check("util 0 | list failed | compute 8000", State::IdleHeld);
    check("util unsupported | list gone", State::Unobserved);
    check("util 50 | list denied", State::Active);
}

#[test]
fn the_graphics_list_matters_only_when_graphics_count() {
    let graphics = Thresholds {
        count_graphics: CountGraphics::Yes,
        ..Thresholds::default()
    };
    check("util 0 | graphics-list denied", State::TrulyIdle);
    check_with(graphics, "util 0 | graphics-list denied", State::Unobserved);
    check_with(
        graphics,
        "util 0 | graphics-list denied | compute 500",
        State::IdleHeld,
    );
}

#[test]
fn memory_of_processes_that_are_gone_is_orphaned() {
    check("util 0 | compute 8000 gone", State::OrphanHeld);
    check("util 0 | compute hidden gone", State::OrphanHeld);
    check("util 0 | compute 8000 gone | compute 50", State::OrphanHeld);
    check("util 0 | compute 8000 gone | compute 101", State::IdleHeld);
    // A hidden process is not an ended one.
    check("util 0 | compute 8000 denied", State::IdleHeld);
}

#[test]
fn a_busy_gpu_without_any_process_is_a_ghost_if_both_lists_were_read() {
    check("util 100", State::Ghost);
    check("util 100 | graphics 5", State::Active);
    check("util 100 | list denied", State::Active);
    check("util 100 | graphics-list failed", State::Active);
    check("util 100 | power 60 | floor 70", State::Ghost);
}

#[test]
fn a_busy_gpu_at_its_idle_floor_is_stalled_and_without_a_floor_it_is_not() {
    check(
        "util 100 | compute 8000 | power 70 | floor 70",
        State::Stalled,
    );
    check(
        "util 100 | compute 8000 | power 77 | floor 70",
        State::Stalled,
    );
    check(
        "util 100 | compute 8000 | power 78 | floor 70",
        State::Active,
    );
    check("util 100 | compute 8000 | power 70", State::Active);
    check("util 100 | compute 8000 | floor 70", State::Active);
    check(
        "util 9 | compute 8000 | power 70 | floor 70",
        State::IdleHeld,
    );
}

#[test]
fn both_thresholds_can_be_set() {
    let strict = Thresholds {
        active_util: percent(50),
        held_mb: 1000,
        count_graphics: CountGraphics::No,
    };
    check_with(strict, "util 49 | compute 1000", State::TrulyIdle);
    check_with(strict, "util 49 | compute 1001", State::IdleHeld);
    check_with(strict, "util 50 | compute 1001", State::Active);
}

#[test]
fn a_mig_parent_is_never_counted_beside_its_instances() {
    let (mut parent, _) = gpu_of("util unsupported | compute 8000");
    parent.place = Place::Parent { instances: 2 };
    assert!(!parent.place.counts());
    assert_eq!(
        classify(&parent, &Thresholds::default(), None).state,
        State::HeldUnknown
    );
    let (mut instance, _) = gpu_of("util unsupported | compute 4000");
    instance.place = Place::Instance {
        parent: parent.uuid,
        gpu_instance: Ok(1),
        compute_instance: Ok(0),
        slice: Err(Missing::Failed),
    };
    assert!(instance.place.counts());
    assert_eq!(
        classify(&instance, &Thresholds::default(), None).state,
        State::HeldUnknown
    );
}

#[track_caller]
fn check_division(
    seen: &str,
    samples: &[u32],
    thresholds: Thresholds,
    expected: &[(State, u64)],
    basis: Basis,
) {
    let (gpu, floor) = gpu_of(seen);
    let samples: Vec<(u64, u32)> = (1..).zip(samples.iter().copied()).collect();
    let window = UtilWindow::new(Some(0), &samples);
    let (shares, found) = divide(&gpu, Some(&window), &thresholds, floor);
    let shares = shares.iter();
    let parts: Vec<(State, u64)> = shares
        .map(|share| (share.verdict.state, share.weight))
        .collect();
    assert_eq!((parts.as_slice(), found), (expected, basis), "{seen}");
}

#[test]
fn a_tick_is_divided_in_the_proportion_of_the_buffered_samples() {
    let default = Thresholds::default();
    let held = "util 0 | compute 8000";
    check_division(
        held,
        &[0, 90, 9, 10],
        default,
        &[(State::Active, 2), (State::IdleHeld, 2)],
        Basis::Buffer,
    );
    check_division(
        held,
        &[0, 0, 0],
        default,
        &[(State::IdleHeld, 3)],
        Basis::Buffer,
    );
    check_division(
        "util 0",
        &[50, 0],
        default,
        &[(State::Ghost, 1), (State::TrulyIdle, 1)],
        Basis::Buffer,
    );
    check_division(
        "util 0 | list denied",
        &[50, 0],
        default,
        &[(State::Active, 1), (State::Unobserved, 1)],
        Basis::Buffer,
    );
}

#[test]
fn without_samples_or_with_a_threshold_between_the_edges_the_instant_reading_is_used() {
    let held = "util 0 | compute 8000";
    check_division(
        held,
        &[],
        Thresholds::default(),
        &[(State::IdleHeld, 1)],
        Basis::Instant,
    );
    check_division(
        held,
        &[101, 4000],
        Thresholds::default(),
        &[(State::IdleHeld, 1)],
        Basis::Instant,
    );
    let odd = Thresholds {
        active_util: percent(12),
        ..Thresholds::default()
    };
    check_division(held, &[90, 0], odd, &[(State::IdleHeld, 1)], Basis::Instant);
}

#[test]
fn a_gpu_that_was_lost_at_a_tick_is_not_divided_by_what_the_next_one_read() {
    check_division(
        "util gone",
        &[90, 0],
        Thresholds::default(),
        &[(State::Unobserved, 1)],
        Basis::Instant,
    );
}

fn any_missing() -> impl Strategy<Value = Missing> {
    prop::sample::select(vec![
        Missing::Unsupported,
        Missing::Denied,
        Missing::Gone,
        Missing::Failed,
    ])
}

fn any_process() -> impl Strategy<Value = Process> {
    let kind = prop::sample::select(vec!["compute", "graphics", "both"]);
    let memory = prop_oneof![
        Just("hidden".to_owned()),
        (0u64..300).prop_map(|mb| mb.to_string())
    ];
    let identity = prop_oneof![3 => Just(None), 1 => Just(Some("gone")), 1 => Just(Some("denied"))];
    (kind, memory, identity).prop_map(|(kind, memory, identity)| process(kind, &memory, identity))
}

prop_compose! {
    fn any_gpu()(
        util in prop_oneof![4 => (0u32..=100).prop_map(|value| Ok(percent(value))), 1 => any_missing().prop_map(Err)],
        compute_list in prop_oneof![4 => Just(Ok(())), 1 => any_missing().prop_map(Err)],
        graphics_list in prop_oneof![4 => Just(Ok(())), 1 => any_missing().prop_map(Err)],
        power in prop_oneof![(0u64..400_000).prop_map(|value| Ok(Milliwatts(value))), any_missing().prop_map(Err)],
        samples in prop::collection::vec(0u32..=130, 0..40),
        processes in prop::collection::vec(any_process(), 0..5),
    ) -> Gpu {
        let mut gpu = Gpu::without_readings("GPU-0".parse().unwrap(), 0, Missing::Unsupported);
        let samples: Vec<(u64, u32)> = (1..).zip(samples).collect();
        gpu.window = Ok(UtilWindow::new(Some(0), &samples));
        Gpu { util, compute_list, graphics_list, power, processes, ..gpu }
    }
}

prop_compose! {
    fn any_thresholds()(util in 1u32..=100, held_mb in 0u64..250, graphics: bool) -> Thresholds {
        let count_graphics = if graphics { CountGraphics::Yes } else { CountGraphics::No };
        Thresholds { active_util: percent(util), held_mb, count_graphics }
    }
}

proptest! {
    #[test]
    fn high_utilisation_always_rolls_up_to_active_and_low_never(gpu in any_gpu(), thresholds in any_thresholds(), floor in prop::option::of(0u64..400_000)) {
        let state = classify(&gpu, &thresholds, floor.map(Milliwatts)).state;
        let busy = gpu.util.is_ok_and(|util| util >= thresholds.active_util);
        prop_assert_eq!(state.roll_up() == Some(RollUp::Active), busy);
    }

    #[test]
    fn where_everything_was_read_the_roll_up_is_the_contract(mut gpu in any_gpu(), thresholds in any_thresholds()) {
        prop_assume!(gpu.util.is_ok());
        gpu.compute_list = Ok(());
        gpu.graphics_list = Ok(());
        let mut mb = 0;
        let mut hidden = false;
        for process in gpu.processes.iter().filter(|p| p.kind.computes() || thresholds.count_graphics == CountGraphics::Yes) {
            match process.memory { Ok(bytes) => mb += bytes.whole_mb(), Err(_) => hidden = true }
        }
        let expected = if gpu.util.unwrap() >= thresholds.active_util { RollUp::Active }
            else if mb > thresholds.held_mb || hidden { RollUp::IdleHeld }
            else { RollUp::TrulyIdle };
        prop_assert_eq!(classify(&gpu, &thresholds, None).state.roll_up(), Some(expected));
    }

    #[test]
    fn only_a_gpu_whose_processes_were_read_is_truly_idle(gpu in any_gpu(), thresholds in any_thresholds()) {
        let verdict = classify(&gpu, &thresholds, None);
        if verdict.state == State::TrulyIdle {
            prop_assert!(gpu.compute_list.is_ok());
            prop_assert!(verdict.evidence.hidden_memory == 0);
            prop_assert!(!matches!(gpu.util, Err(Missing::Gone | Missing::Denied | Missing::Failed)));
        }
    }

    #[test]
    fn the_parts_of_a_divided_tick_add_up_to_all_of_it(gpu in any_gpu(), thresholds in any_thresholds()) {
        let window = gpu.window.as_ref().ok();
        let (shares, basis) = divide(&gpu, window, &thresholds, None);
        prop_assert!(!shares.is_empty());
        let all = match basis {
            Basis::Buffer => window.unwrap().samples(),
            _ => 1,
        };
        prop_assert_eq!(shares.iter().map(|share| share.weight).sum::<u64>(), all);
        prop_assert!(shares.iter().all(|share| share.weight > 0));
    }

    #[test]
    fn more_memory_never_frees_a_gpu(gpu in any_gpu(), extra in any_process(), thresholds in any_thresholds()) {
        let before = classify(&gpu, &thresholds, None).state;
        let mut fuller = gpu;
        fuller.processes.push(extra);
        let after = classify(&fuller, &thresholds, None).state;
        if after == State::TrulyIdle {
            prop_assert_eq!(before, State::TrulyIdle);
        }
    }
}
