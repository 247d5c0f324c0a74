//! The guide on the first page of a demonstration.

use maud::{Markup, html};

use super::gpu::{gpu_path, host_path};
use super::layout::Page;
use super::text;
use crate::availability::Row;

/// Suggestions for a first visit, with links. Pages of the first GPU with a process serve as examples.
pub(super) fn guide(page: &Page<'_>, rows: &[Row]) -> Markup {
    let caller = page.caller;
    let example = rows.iter().find(|row| !row.gpu.processes.is_empty());
    let example = example.map(|row| {
        let (host, gpu) = (host_path(caller, &row.host), gpu_path(caller, row));
        [
            (host, text::GUIDE_HOST, text::GUIDE_HOST_LEAD),
            (gpu, text::GUIDE_GPU, text::GUIDE_GPU_LEAD),
        ]
    });
    let [filter, servers, members] = [
        "?memory=48&gpus=2".to_owned(),
        page.path("/servers"),
        page.path("/members"),
    ];
    let others = [
        (filter, text::GUIDE_FILTER, text::GUIDE_FILTER_LEAD),
        (servers, text::SERVERS, text::GUIDE_SERVERS_LEAD),
        (members, text::MEMBERS, text::GUIDE_MEMBERS_LEAD),
    ];
    let steps = example.into_iter().flatten().chain(others);
    html! {
        section.note.guide {
            h2 { (page.t(text::GUIDE)) }
            p { (page.t(text::GUIDE_LEAD)) }
            ol {
                @for (path, name, lead) in steps { li { a href=(path) { (page.t(name)) } ": " (page.t(lead)) } }
            }
        }
    }
}
