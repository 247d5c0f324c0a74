//! Who sees names. Viewers see states without names; members see who holds a GPU now.

use gua_board_store::registry::Role;
use gua_wire::LiveReport;
use gua_wire::live::LiveGpu;

/// Returns the report as a role may see it.
#[must_use]
pub fn visible(mut report: LiveReport, role: Role) -> LiveReport {
    if role == Role::Viewer {
        // A problem may quote a name, too.
        report.problems.clear();
    }
    for gpu in &mut report.gpus {
        hide_names(gpu, role);
    }
    report
}

/// Removes from one GPU what a role may not see.
pub fn hide_names(gpu: &mut LiveGpu, role: Role) {
    if role > Role::Viewer {
        return;
    }
    if let Some(claim) = &mut gpu.claim {
        claim.owner = None;
    }
    for process in &mut gpu.processes {
        process.owner = None;
        process.name = None;
        process.pid = 0;
    }
}
