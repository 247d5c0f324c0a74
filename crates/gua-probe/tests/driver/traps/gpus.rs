//! Traps 12 to 14 of docs/traps.md: MIG, the order of GPUs, pids of containers.

use gua_model::sample::Slice;
use gua_model::{Bytes, Missing, Place, State, Thresholds, classify};
use nvml_sim::driver::Generation;

use crate::host::{FileHost, many_processes, only, pids, process_of};

const MIG: &str = r#"
    [[gpu]]
    uuid = "GPU-parent"
    memory_total_mib = 80000
    [[gpu.mig]]
    index = 0
    uuid = "MIG-three"
    slices = 3
    memory_total_mib = 40000
    gpu_instance = 2
    [[gpu.mig.process]]
    pid = 7
    memory_mib = 20000
    [[gpu.mig]]
    index = 4
    uuid = "MIG-one"
    slices = 1
    memory_total_mib = 10000
    gpu_instance = 9
"#;

#[test]
fn trap_12_instances_are_counted_in_place_of_their_parent_and_weighed_by_their_slice() {
    for generation in [Generation::R450, Generation::R470, Generation::R550] {
        let host = FileHost::with_driver(generation, MIG);
        host.start_process(7, 1000, 50, "python");
        let sample = host.sample();
        let [parent, three, one] = sample.gpus.as_slice() else {
            panic!("{sample:#?}")
        };
        assert_eq!(parent.place, Place::Parent { instances: 2 });
        assert!(!parent.place.counts());
        assert_eq!(parent.util, Err(Missing::Unsupported));
        assert_eq!(
            pids(parent),
            [] as [u32; 0],
            "its processes belong to the instances"
        );
        let slices: Vec<_> = [three, one]
            .map(|gpu| match &gpu.place {
                Place::Instance { parent, slice, .. } => (parent.as_str(), slice.unwrap()),
                other => panic!("{other:?}"),
            })
            .into();
        assert_eq!(
            slices,
            [
                ("GPU-parent", Slice { slices: 3, of: 7 }),
                ("GPU-parent", Slice { slices: 1, of: 7 }),
            ]
        );
        assert_eq!(pids(three), [7], "{generation:?}");
        assert_eq!(three.memory_total, Ok(Bytes::from_mb(40000)));
        let state = |gpu| classify(gpu, &Thresholds::default(), None).state;
        assert_eq!(
            (state(three), state(one)),
            (State::HeldUnknown, State::TrulyIdle)
        );
        assert_eq!(sample.problems, []);
    }
}

#[test]
fn trap_12_early_drivers_list_an_instances_processes_only_on_the_parent() {
    let faults = "[[fault]]\nfunction = \"nvmlDeviceGet*RunningProcesses*\"\ngpu = \"MIG-three\"\ncode = \"NOT_SUPPORTED\"\n";
    let host = FileHost::new(&format!("{MIG}{faults}"));
    let sample = host.sample();
    assert_eq!(pids(&sample.gpus[1]), [7]);
    assert_eq!(pids(&sample.gpus[0]), [] as [u32; 0]);
}

#[test]
fn trap_12_some_drivers_list_an_instances_processes_on_the_parent_too_without_ids() {
    let newer = [
        "nvmlDeviceGet*RunningProcesses_v3",
        "nvmlDeviceGet*RunningProcesses_v2",
    ];
    let sample = FileHost::new(&format!("symbol_answers_not_found = {newer:?}\n{MIG}")).sample();
    assert_eq!(pids(&sample.gpus[0]), [] as [u32; 0]);
    assert_eq!(pids(&sample.gpus[1]), [7]);
}

#[test]
fn trap_12_two_compute_instances_in_one_gpu_instance_are_not_weighed_twice() {
    let sample = FileHost::new("[[gpu]]\n[[gpu.mig]]\nslices = 3\ncompute_slices = 1\n").sample();
    let Place::Instance { slice, .. } = &sample.gpus[1].place else {
        panic!("{sample:#?}")
    };
    assert_eq!(*slice, Ok(Slice { slices: 1, of: 7 }));
}

#[test]
fn trap_12_instances_are_kept_while_they_cannot_be_listed() {
    let fault = |function| format!("{MIG}[[fault]]\nfunction = \"{function}\"\ncode = 999\n");
    let lost = MIG.replacen("memory_total_mib = 80000", "lost = [[0, 1e9]]", 1);
    let hiccups = [
        fault("nvmlDeviceGetMigMode"),
        fault("nvmlDeviceGetMaxMigDeviceCount"),
        fault("nvmlDeviceGetMigDeviceHandleByIndex"),
        lost,
    ];
    for hiccup in hiccups {
        let host = FileHost::new(MIG);
        let mut probe = host.probe();
        let before = probe.sample().unwrap();
        host.play(&hiccup);
        let during = probe.sample().unwrap();
        let places = |sample: &gua_model::Sample| {
            sample
                .gpus
                .iter()
                .map(|gpu| (gpu.uuid.clone(), gpu.place.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(places(&during), places(&before), "{hiccup}");
        let state = classify(&during.gpus[1], &Thresholds::default(), None).state;
        assert_eq!(state, State::Unobserved, "{hiccup}");
        host.play(MIG);
        let after = probe.sample().unwrap();
        assert_eq!(
            (places(&after), pids(&after.gpus[1])),
            (places(&before), vec![7])
        );
    }
    // A GPU that leaves MIG mode is one GPU again.
    let host = FileHost::new(MIG);
    let mut probe = host.probe();
    probe.sample().unwrap();
    host.play("[[gpu]]\nuuid = \"GPU-parent\"\nmig_mode = false\n");
    assert_eq!(only(&probe.sample().unwrap()).place, Place::Whole);
}

#[test]
fn trap_13_state_kept_for_a_gpu_follows_its_uuid_and_not_its_index() {
    let gpu = |name: &str, util| {
        format!("[[gpu]]\nuuid = \"GPU-{name}\"\nname = \"{name}\"\nutil = {util}\n")
    };
    let clock = |at| format!("[clock]\nat = {at}\norigin_unix_ms = 1700000000000\n");
    let host = FileHost::new(&format!("{}{}{}", clock(1000), gpu("a", 10), gpu("b", 90)));
    let mut probe = host.probe();
    probe.sample().unwrap();
    host.play(&format!("{}{}{}", clock(1010), gpu("b", 90), gpu("a", 10)));
    let sample = probe.sample().unwrap();
    for (gpu, name, util) in [(&sample.gpus[0], "b", 90.0), (&sample.gpus[1], "a", 10.0)] {
        assert_eq!(gpu.name.as_deref(), Ok(name));
        let window = gpu.window.unwrap();
        assert_eq!(window.mean(), Some(util));
        assert!(
            (9.7..10.3).contains(&window.covered.as_secs_f64()),
            "{window:?}"
        );
    }
}

#[test]
fn trap_14_a_host_pid_is_mapped_to_its_container_pod_or_job() {
    let host = FileHost::new(&many_processes(3));
    let hex = "0123456789abcdef".repeat(4);
    for (pid, cgroup) in [
        (1, format!("0::/system.slice/docker-{hex}.scope\n")),
        (
            2,
            format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-{hex}.scope\n"
            ),
        ),
        (
            3,
            "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n".to_owned(),
        ),
    ] {
        host.start_process(pid, 1000, 50, "python");
        host.write(&format!("proc/{pid}/cgroup"), &cgroup);
    }
    let sample = host.sample();
    let workload = |pid| {
        process_of(only(&sample), pid)
            .identity
            .clone()
            .unwrap()
            .workload
    };
    assert_eq!(workload(1).container.unwrap().as_str(), hex);
    assert_eq!(workload(2).container.unwrap().as_str(), hex);
    assert_eq!(
        workload(2).pod.unwrap().as_str(),
        "0a1b2c3d-1111-2222-3333-444455556666"
    );
    assert_eq!(workload(3).job.unwrap().as_str(), "42");
}

#[test]
fn trap_14_a_pid_that_is_invisible_from_another_namespace_is_not_reported_as_gone() {
    let host = FileHost::new(&many_processes(1));
    let identity = |sample: gua_model::Sample| process_of(only(&sample), 1).identity.clone();
    assert_eq!(
        identity(host.sample()),
        Err(Missing::Gone),
        "in the host's own namespace it is gone"
    );
    std::fs::remove_file(host.path("proc/self/ns/pid")).unwrap();
    std::os::unix::fs::symlink("pid:[4026532999]", host.path("proc/self/ns/pid")).unwrap();
    assert_eq!(identity(host.sample()), Err(Missing::Denied));
    host.start_process(1, 1000, 50, "stranger");
    assert_eq!(
        identity(host.sample()),
        Err(Missing::Denied),
        "that pid is another process here"
    );
}
