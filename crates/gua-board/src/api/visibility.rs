//! Names on GPUs: callers that the workspace's settings allow see them, others see states without names.

use gua_wire::LiveReport;
use gua_wire::live::LiveGpu;

use crate::access::MemberCaller;

/// Returns the report as a caller may see it.
pub(crate) fn visible(mut report: LiveReport, caller: &MemberCaller) -> LiveReport {
    if !caller.sees_names() {
        // A problem may quote a name, too.
        report.problems.clear();
    }
    for gpu in &mut report.gpus {
        hide_names(gpu, caller);
    }
    report
}

/// Removes from one GPU what a caller may not see.
pub(crate) fn hide_names(gpu: &mut LiveGpu, caller: &MemberCaller) {
    if caller.sees_names() {
        return;
    }
    if let Some(claim) = &mut gpu.claim {
        claim.owner = None;
    }
    for keep in &mut gpu.keeps {
        (keep.owner, keep.why) = (None, None);
    }
    for process in &mut gpu.processes {
        process.owner = None;
        process.name = None;
        process.pid = 0;
    }
}
