//! Cost of identifying 32 real processes.

use std::process::{Child, Command, Stdio};

use divan::Bencher;
use divan::counter::ItemsCount;
use gua_model::id::Pid;
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};

const PROCESSES: usize = 32;

fn main() {
    divan::main();
}

struct Children(Vec<Child>);

impl Children {
    fn start() -> Self {
        let start = |_| {
            Command::new("sleep")
                .arg("600")
                .stdin(Stdio::null())
                .spawn()
                .expect("sleep is everywhere")
        };
        Self((0..PROCESSES).map(start).collect())
    }

    fn pids(&self) -> Vec<Pid> {
        self.0.iter().map(|child| Pid(child.id())).collect()
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn tick(table: &mut ProcessTable, pids: &[Pid]) {
    for pid in pids {
        let _ = divan::black_box(table.resolve(*pid));
    }
    table.end_tick();
}

fn table(pids: &[Pid]) -> ProcessTable {
    let mut table = ProcessTable::new(ProcRoot::default(), Passwd::System);
    for pid in pids {
        assert!(
            table.resolve(*pid).is_ok(),
            "run this in the host's pid namespace"
        );
    }
    table.end_tick();
    table
}

/// Every tick except the first.
#[divan::bench]
fn known_processes(bencher: Bencher<'_, '_>) {
    let children = Children::start();
    let pids = children.pids();
    let mut table = table(&pids);
    bencher
        .counter(ItemsCount::new(PROCESSES))
        .bench_local(|| tick(&mut table, &pids));
}

/// A tick in which every process is new.
#[divan::bench]
fn new_processes(bencher: Bencher<'_, '_>) {
    let children = Children::start();
    let pids = children.pids();
    let mut table = table(&pids);
    bencher.counter(ItemsCount::new(PROCESSES)).bench_local(|| {
        // An empty tick forgets them.
        table.end_tick();
        tick(&mut table, &pids);
    });
}
