//! A simulated driver of some generation with a `/proc` tree made of files.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::symlink;
use std::path::Path;

use gua_model::{DriverPids, Gpu, OwnerPolicy, Process, Sample};
use gua_probe::fault::DriverFault;
use gua_probe::host::HostRoot;
use gua_probe::probe::{Probe, ProbeOptions};
use gua_probe::process::{Passwd, ProcRoot};
use gua_test::SimulatedDriver;
use nvml_sim::driver::Generation;

pub(crate) struct FileHost(SimulatedDriver);

impl Deref for FileHost {
    type Target = SimulatedDriver;

    fn deref(&self) -> &SimulatedDriver {
        &self.0
    }
}

impl FileHost {
    /// A host with the newest driver.
    pub(crate) fn new(scenario: &str) -> Self {
        Self::with_driver(Generation::LATEST, scenario)
    }

    pub(crate) fn with_driver(generation: Generation, scenario: &str) -> Self {
        let host = Self(SimulatedDriver::of(generation, scenario));
        host.write(
            "proc/sys/kernel/random/boot_id",
            "8b1fe9c8-6d3a-4b4e-9c39-0d6d8ab1c001\n",
        );
        host.write(
            "passwd",
            "root:x:0:0::/:/bin/sh\nada:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n",
        );
        fs::create_dir_all(host.path("proc/self/ns")).unwrap();
        // The inode of the initial pid namespace is fixed (PROC_PID_INIT_INO in include/linux/proc_ns.h).
        symlink("pid:[4026531836]", host.path("proc/self/ns/pid")).unwrap();
        host
    }

    pub(crate) fn start_process(&self, pid: u32, uid: u32, start: u64, comm: &str) {
        let directory = format!("proc/{pid}");
        let zeros = "0 ".repeat(16);
        // Fields 4 to 21 of proc(5)'s stat, then the start time.
        self.write(
            &format!("{directory}/stat"),
            format!("{pid} ({comm}) S 1 1 {zeros}{start} 0 0\n"),
        );
        self.write(&format!("{directory}/comm"), format!("{comm}\n"));
        self.write(
            &format!("{directory}/status"),
            format!("Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"),
        );
        self.write(&format!("{directory}/loginuid"), format!("{uid}"));
        self.write(
            &format!("{directory}/cgroup"),
            "0::/user.slice/user-1000.slice/session-1.scope\n",
        );
    }

    pub(crate) fn options(&self) -> ProbeOptions {
        ProbeOptions {
            library: Some(self.library().to_owned()),
            proc_root: ProcRoot(self.path("proc")),
            passwd: Passwd::File(self.path("passwd")),
            driver_pids: DriverPids::Auto,
            state_root: HostRoot(self.directory().to_owned()),
            owners: OwnerPolicy::default(),
            kernel_log: Some(self.path("kmsg")),
        }
    }

    pub(crate) fn probe(&self) -> Probe {
        Probe::new(self.options())
    }

    /// The first sample of a fresh probe.
    pub(crate) fn sample(&self) -> Sample {
        self.probe().sample().unwrap()
    }

    pub(crate) fn fault(&self) -> DriverFault {
        self.probe().sample().unwrap_err()
    }

    /// Number of driver calls by this name (needs `journal = "JOURNAL"` in the scenario).
    pub(crate) fn calls(&self, function: &str) -> usize {
        let journal = fs::read_to_string(self.path("journal")).unwrap_or_default();
        journal
            .lines()
            .filter(|line| line.split(' ').nth(2) == Some(function))
            .count()
    }

    /// First line of a scenario that records the driver calls.
    pub(crate) fn journal_line(directory: &Path) -> String {
        format!("journal = {:?}\n", directory.join("journal"))
    }

    pub(crate) fn play_with_journal(&self, scenario: &str) {
        self.play(&format!(
            "{}{scenario}",
            Self::journal_line(self.directory())
        ));
    }
}

#[track_caller]
pub(crate) fn only(sample: &Sample) -> &Gpu {
    assert_eq!(sample.gpus.len(), 1, "{sample:#?}");
    &sample.gpus[0]
}

#[track_caller]
pub(crate) fn process_of(gpu: &Gpu, pid: u32) -> &Process {
    let found: Vec<&Process> = gpu
        .processes
        .iter()
        .filter(|process| process.pid.0 == pid)
        .collect();
    assert_eq!(found.len(), 1, "process {pid} once in {:#?}", gpu.processes);
    found[0]
}

pub(crate) fn pids(gpu: &Gpu) -> Vec<u32> {
    gpu.processes.iter().map(|process| process.pid.0).collect()
}

/// A GPU with so many processes, and a driver that fails when asked for their number.
pub(crate) fn many_processes(count: u32) -> String {
    let process = |pid| format!("[[gpu.process]]\npid = {pid}\nmemory_mib = {pid}\n");
    format!(
        "null_size_query = \"crash\"\n[[gpu]]\n{}",
        (1..=count).map(process).collect::<String>()
    )
}
