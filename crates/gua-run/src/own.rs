//! The job's own share of a GPU, and whether others use it. The owner of an unidentified process is unknown: where it
//! matters, the answer is a reason and not a value.

use gua_model::{Bytes, Gpu, Missing, Pid, Process, Reading};

/// Memory of the job's own processes. It is zero only if every process is known to be another's.
pub(crate) fn memory(gpu: &Gpu, is_own: impl Fn(&Process) -> bool) -> Reading<Bytes> {
    let mut own = own(gpu, is_own).peekable();
    if own.peek().is_none() {
        all_known(gpu)?;
    }
    // A process whose memory the driver hides has some, so the sum of the others would be too little.
    own.map(|process| process.memory).sum()
}

/// Utilisation by the job's own processes between two samples, in percent. The driver has no value for an idle process.
pub(crate) fn util(
    before: &Gpu,
    after: &Gpu,
    is_own: impl Fn(&Process) -> bool,
) -> Reading<Option<f64>> {
    let pids: Vec<Pid> = own(after, &is_own).map(|process| process.pid).collect();
    if own(before, &is_own).any(|process| !pids.contains(&process.pid)) {
        // The utilisation of a process that has ended is lost.
        return Ok(None);
    }
    if pids.is_empty() {
        all_known(after)?;
    }
    let util = own(after, &is_own).map(|process| process.sm_util);
    util.map(|util| util.map(|util| util.map_or(0.0, |util| f64::from(util.get()))))
        .sum::<Reading<f64>>()
        .map(Some)
}

/// Whether others compute on the GPU.
pub(crate) fn is_shared(gpu: &Gpu, is_own: impl Fn(&Process) -> bool) -> Reading<bool> {
    let others = || {
        let others = gpu.processes.iter().filter(|process| !is_own(process));
        others.filter(|process| process.kind.computes())
    };
    if others().any(|process| process.identity.is_ok()) {
        return Ok(true);
    }
    // A process that has just ended belongs to nobody.
    let mut nameless = others().filter_map(|process| process.identity.as_ref().err());
    let nameless = nameless.find(|why| **why != Missing::Gone);
    nameless.map_or(gpu.compute_list.map(|()| false), |why| Err(*why))
}

fn own<'a>(
    gpu: &'a Gpu,
    is_own: impl Fn(&Process) -> bool + 'a,
) -> impl Iterator<Item = &'a Process> {
    gpu.processes.iter().filter(move |process| is_own(process))
}

/// Checks that all processes on the GPU are listed and identified.
fn all_known(gpu: &Gpu) -> Reading<()> {
    gpu.compute_list?;
    gpu.graphics_list?;
    let mut nameless = gpu
        .processes
        .iter()
        .filter_map(|p| p.identity.as_ref().err());
    nameless.next().map_or(Ok(()), |why| Err(*why))
}
