//! One GPU as a row of a table: the same on every page.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use gua_board_store::HostId;
use gua_board_store::ledger::Form;
use gua_board_store::registry::Maintenance;
use gua_model::text::{gigabytes, sanitize};
use gua_model::{Bytes, State};
use gua_wire::live::{GpuKeep, LiveGpu, LiveValue};
use gua_wire::snapshot::ProcessType;
use gua_wire::users::is_pseudonym;
use maud::{Markup, html};

use super::availability::class;
use super::layout::{Page, View, age, encode, utc, workspace_path};
use super::text;
use crate::access::MemberCaller;
use crate::availability::{Group, Row, model};
use crate::live::{DAY_SLOTS, holders};

/// Size of a utilisation curve.
const WIDTH: usize = 105;
const HEIGHT: usize = 20;

/// Whether the rows of a table name their host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostNames {
    Shown,
    /// The page is about one host.
    Omitted,
}

impl Page<'_> {
    /// Writes a table of GPUs. A column that would be empty is left out.
    pub(super) fn gpus(&self, caption: &str, rows: &[&Row], host_names: HostNames) -> Markup {
        let columns = Columns {
            host_names,
            has_holder: rows.iter().any(|row| is_used(&row.gpu)),
            has_command: rows.iter().any(|row| !self.commands(row).is_empty()),
        };
        html! {
            table.gpus {
                caption.unseen { (caption) }
                thead { tr {
                    th.gpu scope="col" { (self.t(text::GPU)) }
                    th.state scope="col" { (self.t(text::STATE)) }
                    @if columns.has_holder { th.who scope="col" { (self.t(text::HOLDER)) } }
                    th.since scope="col" { (self.t(text::SINCE)) }
                    th.use scope="col" { (self.t(text::UTILISATION)) }
                    th.day scope="col" { (self.t(text::LAST_DAY)) }
                    th.memory scope="col" { (self.t(text::MEMORY)) }
                    @if columns.has_command { th scope="col" { (self.t(text::COMMAND)) } }
                } }
                tbody { @for row in rows { (self.row(row, columns)) } }
            }
        }
    }

    fn row(&self, row: &Row, columns: Columns) -> Markup {
        let gpu = &row.gpu;
        let path = gpu_path(self.caller, row);
        html! {
            tr {
                th scope="row" {
                    @if columns.host_names == HostNames::Shown {
                        a href=(host_path(self.caller, &row.host)) { (sanitize(&row.host_name)) } " "
                    }
                    a href=(path) { "#" (gpu.index) }
                    small { (sanitize(&model(gpu))) }
                }
                td { (self.state(row)) }
                @if columns.has_holder { td.who { (self.holder(gpu)) } }
                td { (self.since(row)) }
                td.use { (curve(&row.curve)) (percent(self, gpu.util_percent)) }
                td.day { (strip(self, &row.day)) }
                td.memory { (memory(self, gpu)) }
                @if columns.has_command {
                    td.run { @for command in self.commands(row) { (self.copyable(&command)) } }
                }
            }
            // A reason is too long for the column of the holder.
            @if self.is_kept(gpu) {
                tr.kept { td colspan=(columns.count()) { (self.kept(gpu)) } }
            }
        }
    }

    /// State with its colour, its name, and what else is known about it.
    pub(super) fn state(&self, row: &Row) -> Markup {
        let state = row.gpu.state;
        html! {
            span class=(format!("dot {}", state.as_str())) {}
            @if state == State::TrulyIdle && row.group == Group::InUse { (state.as_str()) } @else { (self.t(text::state(state))) }
            @if let Some(maintenance) = &row.maintenance { " " small.bad { (maintained(self, maintenance)) } }
            @if row.is_stale { " " small { (self.t(text::STALE)) } }
            @for word in &row.gpu.health { " " small.bad { (self.t(text::health(*word))) } }
            @if let Some(obstacle) = row.gpu.obstacle {
                @let claim = row.gpu.claim.as_ref().and_then(|claim| claim.until);
                @if let (Group::FreeSoon, Some(until)) = (row.group, claim) {
                    " " small { (self.with(text::FREE_IN, &[&age(self.now, until)])) }
                } @else if matches!(row.group, Group::FreeSoon | Group::InUse) && row.gpu.processes.is_empty() {
                    " " small { (self.t(text::obstacle(obstacle))) }
                }
            }
        }
    }

    /// Duration of the current state, and whether its start was seen.
    pub(super) fn since(&self, row: &Row) -> Markup {
        let Some(since) = row.since else {
            return html! {};
        };
        let passed = age(since.at, self.now);
        let shown = match since.is_exact {
            true => passed,
            false => self.with(text::AT_LEAST, &[&passed]),
        };
        html! { time datetime=(since.at) title=(utc(since.at)) { (shown) } }
    }

    /// Names of the people who use the GPU, if the caller may see them.
    pub(super) fn holder(&self, gpu: &LiveGpu) -> Markup {
        let claim = gpu.claim.as_ref();
        let mut names = holders(gpu);
        names.extend(claim.and_then(|claim| claim.owner.as_deref()));
        html! {
            @if names.is_empty() && is_used(gpu) {
                span.muted {
                    @if self.caller.sees_names() { (self.t(text::UNKNOWN)) } @else { (self.t(text::HIDDEN)) }
                }
            }
            @for (place, name) in names.iter().enumerate() {
                @if place > 0 { ", " }
                (sanitize(name))
            }
        }
    }

    /// Lists the people who keep the GPU, until when, and why if the caller may see it.
    pub(super) fn kept(&self, gpu: &LiveGpu) -> Markup {
        html! {
            @for keep in self.keeps(gpu) {
                @let until = utc(keep.until);
                " " small {
                    @if let Some(owner) = &keep.owner { (sanitize(owner)) " · " }
                    @match &keep.why {
                        Some(why) => (self.with(text::KEPT_WHY, &[&until, &sanitize(why)])),
                        None => (self.with(text::KEPT, &[&until])),
                    }
                }
            }
        }
    }

    pub(super) fn is_kept(&self, gpu: &LiveGpu) -> bool {
        self.keeps(gpu).next().is_some()
    }

    /// Keeps that have not ended. A host that stopped reporting cannot end them.
    fn keeps<'g>(&self, gpu: &'g LiveGpu) -> impl Iterator<Item = &'g GpuKeep> {
        let now = self.now;
        gpu.keeps.iter().filter(move |keep| keep.until > now)
    }

    /// Commands that a person can copy: a shell on a free GPU, or a nudge of each holder of an idle-held GPU, if the caller may
    /// see names. Names come from the host; a name that a shell could misread gets no command.
    pub(super) fn commands(&self, row: &Row) -> Vec<String> {
        let host = row.host_name.as_str();
        let uuid = row.gpu.uuid.as_str();
        match row.group {
            _ if !is_plain(host, "-._") => Vec::new(),
            Group::Free if is_plain(uuid, "-/") => {
                vec![format!("ssh -t {host} CUDA_VISIBLE_DEVICES={uuid} bash")]
            }
            // Only hosts that send live reports have the program `gua`.
            Group::IdleHeld if row.form == Form::Live && self.caller.sees_names() => {
                let names = self.askable(&row.gpu).into_iter();
                names
                    .map(|name| format!("ssh {host} gua nudge {name}"))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// User names of the holders who can be asked about an idle GPU. Nobody can ask a container, a pseudonym, or a person who keeps
    /// the GPU.
    fn askable<'g>(&self, gpu: &'g LiveGpu) -> BTreeSet<&'g str> {
        let processes = gpu.processes.iter();
        let compute = processes.filter(|process| process.kind == ProcessType::Compute);
        let mut names: BTreeSet<&str> = compute
            .filter_map(|process| process.owner.as_deref())
            .filter(|name| is_plain(name, "-._") && !is_pseudonym(name))
            .collect();
        for keep in self.keeps(gpu) {
            names.retain(|name| keep.owner.as_deref() != Some(name));
        }
        names
    }
}

/// Columns of a table that not every row needs.
#[derive(Clone, Copy, Debug)]
struct Columns {
    host_names: HostNames,
    has_holder: bool,
    has_command: bool,
}

impl Columns {
    fn count(self) -> usize {
        6 + usize::from(self.has_holder) + usize::from(self.has_command)
    }
}

fn is_used(gpu: &LiveGpu) -> bool {
    !gpu.processes.is_empty() || gpu.claim.is_some()
}

pub(super) fn host_path(caller: &MemberCaller, host: &HostId) -> String {
    format!("{}/hosts/{}", workspace_path(caller), encode(host.as_str()))
}

pub(super) fn gpu_path(caller: &MemberCaller, row: &Row) -> String {
    let host = host_path(caller, &row.host);
    format!("{host}/gpus/{}", encode(row.gpu.uuid.as_str()))
}

/// A value with its unit, or why it is missing.
pub(super) fn value<T>(
    view: &View,
    value: LiveValue<T>,
    shown: impl FnOnce(T) -> String,
) -> Markup {
    match value {
        LiveValue::Known(value) => html! { (shown(value)) },
        LiveValue::Missing { missing } => {
            let reason = view.with(text::MISSING, &[missing.as_str()]);
            html! { span.muted title=(reason) { "–" } }
        }
    }
}

pub(super) fn percent(view: &View, util: LiveValue<u8>) -> Markup {
    html! { span.n { (value(view, util, |util| format!("{util} %"))) } }
}

/// Used and total memory, with a bar where both are known.
pub(super) fn memory(view: &View, gpu: &LiveGpu) -> Markup {
    let gb = |bytes: u64| gigabytes(Bytes(bytes));
    html! {
        @if let (LiveValue::Known(used), LiveValue::Known(total)) = (gpu.memory_used_bytes, gpu.memory_total_bytes) {
            meter value=(used >> 20) max=(total >> 20) {}
        }
        span.n {
            (value(view, gpu.memory_used_bytes, gb)) " / " (value(view, gpu.memory_total_bytes, gb)) " GB"
        }
    }
}

/// Draws a curve. Unobserved time is empty. The number beside it says the same to a screen reader.
pub(super) fn curve(points: &[Option<u8>]) -> Markup {
    let step = WIDTH / points.len().saturating_sub(1).max(1);
    let mut path = String::new();
    let mut is_drawing = false;
    for (place, point) in points.iter().enumerate() {
        let Some(util) = point else {
            is_drawing = false;
            continue;
        };
        // Inside a level part of the curve, a point adds only bytes to the page.
        let is_level = points.get(place + 1) == Some(point);
        if is_level && place > 0 && points[place - 1] == *point {
            continue;
        }
        let height = HEIGHT - 2;
        let y = height + 1 - usize::from(*util) * height / 100;
        // A single point would be an empty line, so each point has a width.
        let command = if is_drawing { 'L' } else { 'M' };
        let _ = write!(path, "{command}{} {y}", place * step);
        if !is_drawing {
            path.push_str("h2");
        }
        is_drawing = true;
    }
    html! {
        svg.curve viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" aria-hidden="true" {
            @if !path.is_empty() { path d=(path) {} }
        }
    }
}

/// Maintenance note of a host, with its end.
pub(super) fn maintained(view: &View, maintenance: &Maintenance) -> String {
    let note = sanitize(&maintenance.note);
    match maintenance.until {
        Some(until) => view.with(text::MAINTAINED_UNTIL, &[&note, &utc(until)]),
        None => view.with(text::MAINTAINED, &[&note]),
    }
}

/// Draws a day strip: one colour for each group, blank where the GPU was not observed. Its label has the hours of each group.
pub(super) fn strip(view: &View, day: &[Option<Group>]) -> Markup {
    let mut paths = Group::ALL.map(|_| String::new());
    let mut start = 0;
    for part in day.chunk_by(|one, other| one == other) {
        if let Some(group) = part[0] {
            let _ = write!(
                paths[group as usize],
                "M{start} 0h{}v1h-{}z",
                part.len(),
                part.len()
            );
        }
        start += part.len();
    }
    let hours: Vec<String> = Group::ALL
        .into_iter()
        .filter_map(|group| {
            let slots = day.iter().filter(|cell| **cell == Some(group)).count();
            let hours = view.with(
                text::HOURS_OF,
                &[&hours_of(slots), view.t(text::group(group))],
            );
            (slots > 0).then_some(hours)
        })
        .collect();
    html! {
        svg.strip viewBox=(format!("0 0 {DAY_SLOTS} 1")) preserveAspectRatio="none" role="img" aria-label=(match hours.is_empty() {
            true => view.t(text::NOT_OBSERVED).to_owned(),
            false => hours.join(", "),
        }) {
            @for (group, path) in Group::ALL.into_iter().zip(&paths) {
                @if !path.is_empty() { path class=(class(group)) d=(path) {} }
            }
        }
    }
}

/// Formats a number of quarters as hours.
fn hours_of(quarters: usize) -> String {
    let fraction = ["", ".25", ".5", ".75"][quarters % 4];
    format!("{}{fraction}", quarters / 4)
}

/// Whether a text has only ASCII letters, digits and these characters, so that a shell reads it as one word.
fn is_plain(text: &str, also: &str) -> bool {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || also.contains(letter);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_safe)
}
