//! The probe over a backend that is not NVML: opening, identifying processes and reopening do not depend on the driver.

use std::cell::RefCell;
use std::rc::Rc;

use gua_model::{Bytes, GpuUuid, Pid, Problem, ProcessKind};

use super::*;
use crate::process::fake::{FakeProc, python};

/// A pid that no process has: `pid_max` is at most 4194304, and tests do not start that many processes.
const NOBODY: u32 = 4_194_303;

/// Behaviour of the backend, and a record of the calls to it.
#[derive(Default)]
struct Script {
    /// Pids on the one GPU, at the first and at every further listing of a scan.
    listed: Vec<u32>,
    listed_again: Vec<u32>,
    opens: usize,
    cannot_open: bool,
    is_lost: bool,
}

struct Fake {
    script: Rc<RefCell<Script>>,
    is_open: bool,
}

fn uuid() -> GpuUuid {
    "GPU-fake".parse().unwrap()
}

impl Backend for Fake {
    fn open(&mut self) -> Result<(), DriverFault> {
        let mut script = self.script.borrow_mut();
        script.opens += 1;
        if script.cannot_open {
            return Err(DriverFault::NoReader {
                detail: "fake".to_owned(),
            });
        }
        self.is_open = true;
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn close(&mut self) {
        self.is_open = false;
    }

    fn begin_scan(&mut self) -> Result<u32, DriverFault> {
        Ok(1)
    }

    fn driver(&mut self, _: Duration) -> Driver {
        Driver {
            version: Ok("fake 1.0".to_owned()),
            cuda: Err(Missing::Unsupported),
        }
    }

    fn read(&mut self, index: u32, _: Duration, scan: &mut Scan) {
        let script = self.script.borrow();
        if script.is_lost {
            return;
        }
        let mut gpu = Gpu::without_readings(uuid(), index, Missing::Unsupported);
        gpu.processes = script
            .listed
            .iter()
            .map(|pid| Process {
                pid: Pid(*pid),
                kind: ProcessKind::Compute,
                memory: Ok(Bytes::from_mb(1)),
                sm_util: Err(Missing::Unsupported),
                identity: Err(Missing::Denied),
            })
            .collect();
        scan.gpus.push(gpu);
    }

    fn add_lost(&mut self, scan: &mut Scan) {
        if self.script.borrow().is_lost {
            let lost = Gpu::without_readings(uuid(), 0, Missing::Gone);
            scan.gpus.push(lost);
            scan.has_lost_gpu = true;
        }
    }

    fn list_pids(&mut self, gpu: &GpuUuid, _: &mut Vec<Problem>) -> Option<Vec<Pid>> {
        assert_eq!(*gpu, uuid());
        let script = self.script.borrow();
        Some(script.listed_again.iter().copied().map(Pid).collect())
    }

    fn drain(&mut self, _: Duration) {}

    fn drain_due(&self) -> Option<Duration> {
        None
    }
}

fn probe(tree: &FakeProc, script: Script) -> (Probe, Rc<RefCell<Script>>) {
    let script = Rc::new(RefCell::new(script));
    let backend = Fake {
        script: Rc::clone(&script),
        is_open: false,
    };
    let processes = ProcessTable::new(tree.root(), Passwd::File(tree.path("passwd")));
    (Probe::with_backend(Box::new(backend), processes), script)
}

#[test]
fn processes_of_any_backend_are_identified_and_ended_ones_left_out() {
    let check = |listed_again: &[u32], expected: &[(u32, Reading<()>)]| {
        let tree = FakeProc::new();
        tree.put(&python(4711, 100));
        let script = Script {
            listed: vec![4711, NOBODY],
            listed_again: listed_again.to_vec(),
            ..Script::default()
        };
        let (mut probe, _) = probe(&tree, script);
        let sample = probe.sample().unwrap();
        assert_eq!(sample.driver.version.as_deref(), Ok("fake 1.0"));
        let processes = sample.gpus[0].processes.iter();
        let found: Vec<(u32, Reading<()>)> = processes
            .map(|process| {
                let identity = process.identity.as_ref();
                (process.pid.0, identity.map(drop).map_err(|why| *why))
            })
            .collect();
        assert_eq!(found, expected);
    };
    check(&[4711], &[(4711, Ok(()))]);
    // Still listed, so it is an orphan and not a race.
    check(
        &[4711, NOBODY],
        &[(4711, Ok(())), (NOBODY, Err(Missing::Gone))],
    );
}

#[test]
fn a_lost_gpu_reopens_the_driver_once_and_keeps_its_place() {
    let (mut probe, script) = probe(
        &FakeProc::new(),
        Script {
            is_lost: true,
            ..Script::default()
        },
    );
    for _ in 0..3 {
        let sample = probe.sample().unwrap();
        assert_eq!(sample.gpus.len(), 1);
        assert_eq!(sample.gpus[0].util, Err(Missing::Gone));
    }
    assert_eq!(script.borrow().opens, 2, "then it backs off");
}

#[test]
fn a_driver_that_cannot_be_opened_is_retried_with_back_off() {
    let (mut probe, script) = probe(
        &FakeProc::new(),
        Script {
            cannot_open: true,
            ..Script::default()
        },
    );
    assert!(matches!(probe.sample(), Err(DriverFault::NoReader { .. })));
    assert!(matches!(
        probe.sample(),
        Err(DriverFault::BackingOff { .. })
    ));
    assert_eq!(script.borrow().opens, 1);
}
