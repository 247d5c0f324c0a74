//! The guide on the first page of a demonstration.

use maud::{Markup, html};

use super::gpu::{gpu_path, host_path};
use super::layout::{View, workspace_path};
use super::text::{self, Text};
use crate::access::MemberCaller;
use crate::availability::Row;

/// What to look at first, with links. Pages of the first GPU with a process serve as examples.
pub(super) fn guide(view: &View, caller: &MemberCaller, rows: &[Row]) -> Markup {
    let workspace = workspace_path(caller);
    let mut steps: Vec<(String, Text, Text)> = Vec::new();
    if let Some(row) = rows.iter().find(|row| !row.gpu.processes.is_empty()) {
        steps.push((
            host_path(caller, row),
            text::GUIDE_HOST,
            text::GUIDE_HOST_LEAD,
        ));
        steps.push((gpu_path(caller, row), text::GUIDE_GPU, text::GUIDE_GPU_LEAD));
    }
    steps.push((
        "?memory=48&gpus=2".to_owned(),
        text::GUIDE_FILTER,
        text::GUIDE_FILTER_LEAD,
    ));
    steps.push((
        format!("{workspace}/servers"),
        text::SERVERS,
        text::GUIDE_SERVERS_LEAD,
    ));
    steps.push((
        format!("{workspace}/members"),
        text::MEMBERS,
        text::GUIDE_MEMBERS_LEAD,
    ));
    html! {
        section.note.guide {
            h2 { (view.t(text::GUIDE)) }
            p { (view.t(text::GUIDE_LEAD)) }
            ol {
                @for (path, name, lead) in steps { li { a href=(path) { (view.t(name)) } ": " (view.t(lead)) } }
            }
        }
    }
}
