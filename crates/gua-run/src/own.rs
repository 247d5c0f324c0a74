//! What of a card is the job's own, and whether others are on it. A process that nobody could be found for may be anybody's:
//! where it matters whose it is, nothing is known.

use gua_model::{Bytes, Gpu, Missing, Pid, Process, Reading};

/// Memory of the job's own processes. It is none only where every process is known to be another's.
pub(crate) fn memory(gpu: &Gpu, is_own: impl Fn(&Process) -> bool) -> Reading<Bytes> {
    let mut own = own(gpu, is_own).peekable();
    if own.peek().is_none() {
        all_known(gpu)?;
    }
    // A process whose memory the driver hides has some, so the sum of the others would be too little.
    own.map(|process| process.memory).sum()
}

/// How busy the job's own processes kept the card between two looks, in percent. The driver has no sample of a process at rest.
pub(crate) fn util(
    before: &Gpu,
    after: &Gpu,
    is_own: impl Fn(&Process) -> bool,
) -> Reading<Option<f64>> {
    let pids: Vec<Pid> = own(after, &is_own).map(|process| process.pid).collect();
    if own(before, &is_own).any(|process| !pids.contains(&process.pid)) {
        // What a process did before it ended is lost with it.
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

/// Whether others compute on the card.
pub(crate) fn is_shared(gpu: &Gpu, is_own: impl Fn(&Process) -> bool) -> Reading<bool> {
    let others = || {
        let others = gpu.processes.iter().filter(|process| !is_own(process));
        others.filter(|process| process.kind.computes())
    };
    if others().any(|process| process.identity.is_ok()) {
        return Ok(true);
    }
    // One that has just ended is nobody's.
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

/// Whether the card's processes are all listed and all somebody's.
fn all_known(gpu: &Gpu) -> Reading<()> {
    gpu.compute_list?;
    gpu.graphics_list?;
    let mut nameless = gpu
        .processes
        .iter()
        .filter_map(|p| p.identity.as_ref().err());
    nameless.next().map_or(Ok(()), |why| Err(*why))
}
