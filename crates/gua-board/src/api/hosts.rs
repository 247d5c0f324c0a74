//! Hosts and their live state.

use std::collections::HashMap;
use std::sync::Arc;

use gua_board_store::HostId;
use gua_board_store::registry::{Host, HostEdit, Maintenance};
use gua_model::GpuUuid;
use gua_wire::LiveReport;
use gua_wire::live::{HostState, LiveDocument, LiveGpu};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::visibility::{hide_names, visible};
use super::{
    Done, MAX_NAME_LENGTH, NAME_PATTERN, Paged, Search, SetGroups, check_range, checked_name, whole,
};
use crate::access::MemberCaller;
use crate::app::App;
use crate::availability::{Availability, Demand, Group, Row};
use crate::call::Call;
use crate::error::Problem;
use crate::live::HostLive;

/// Time after its enrolment for which a host may turn out to be a known one.
const NEW_HOST: SignedDuration = SignedDuration::from_hours(24 * 7);
/// Longest maintenance with an end.
const MAX_HOURS: u32 = 24 * 366;

/// A host with the freshness of its state.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostDocument {
    #[serde(flatten)]
    pub(crate) host: Host,
    pub(crate) last_seen: Option<Timestamp>,
    pub(crate) is_stale: bool,
    /// Whether the agent has missed three of its own reports while the board was running.
    pub(crate) is_silent: bool,
    pub(crate) gpus: usize,
    pub(crate) free_gpus: usize,
    /// Version of the agent that sent the newest report.
    pub(crate) reported_version: Option<String>,
    /// Name of another machine that reports with the token of this host, and is refused.
    pub(crate) other_machine: Option<String>,
    /// Host that had the GPUs of this new one: probably the same machine, which was enrolled again.
    pub(crate) same_gpus_as: Option<HostId>,
}

/// A host with its GPUs.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostDetail {
    pub(crate) host: HostDocument,
    pub(crate) driver_version: Option<String>,
    /// Number of requests that wait for a GPU of this host.
    pub(crate) waiting: u32,
    pub(crate) problems: Vec<String>,
    /// All GPUs, also those that are divided into instances.
    pub(crate) gpus: Vec<Row>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Since {
    since: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Rename {
    #[schemars(length(min = 1, max = MAX_NAME_LENGTH), regex(pattern = NAME_PATTERN))]
    display_name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Replace {
    /// The host that continues with the agent of the host in the path.
    replaced: HostId,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetMaintenance {
    /// Why people must not use the host.
    #[schemars(length(min = 1, max = MAX_NAME_LENGTH), regex(pattern = NAME_PATTERN))]
    note: String,
    /// Until it is ended by default.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = MAX_HOURS))]
    ends_in_hours: Option<u32>,
}

pub(crate) fn hosts(call: &Call) -> Result<Paged<HostDocument>, Problem> {
    let search = call.query()?;
    let hosts = call.hosts()?;
    Ok(page_of_hosts(&call.app, &hosts, &search))
}

/// Describes the hosts of one page.
pub(crate) fn page_of_hosts(app: &App, hosts: &[Host], search: &Search) -> Paged<HostDocument> {
    let now = app.now();
    let all: Vec<&Host> = hosts.iter().collect();
    let found = Paged::of(all, search, |host| &host.display_name);
    let same = same_gpus(app, found.items.iter().copied(), hosts, now);
    found.map(|host| HostDocument {
        same_gpus_as: same.get(&host.id).cloned(),
        ..document(app, host, now)
    })
}

/// Finds, for each new one of the shown hosts, the older host that had its GPUs.
fn same_gpus<'a>(
    app: &App,
    shown: impl Iterator<Item = &'a Host>,
    hosts: &[Host],
    now: Timestamp,
) -> HashMap<HostId, HostId> {
    let is_new = |host: &&Host| now.duration_since(host.enrolled) < NEW_HOST;
    app.live.with_all(|states| {
        let gpus = |host: &Host| states.get(&host.id).map(|live| Arc::clone(&live.report));
        let mut new: HashMap<GpuUuid, &Host> = HashMap::new();
        for host in shown.filter(is_new) {
            let report = gpus(host);
            let gpus = report.iter().flat_map(|report| &report.gpus);
            new.extend(gpus.map(|gpu| (gpu.uuid.clone(), host)));
        }
        let mut same = HashMap::new();
        for host in hosts.iter().filter(|_| !new.is_empty()) {
            for gpu in gpus(host).iter().flat_map(|report| &report.gpus) {
                if let Some(other) = new.get(&gpu.uuid)
                    && other.enrolled > host.enrolled
                {
                    same.insert(other.id.clone(), host.id.clone());
                }
            }
        }
        same
    })
}

/// Describes a host with the freshness of its state.
fn document(app: &App, host: &Host, now: Timestamp) -> HostDocument {
    let live = app.live.host(&host.id);
    let is_stale = live.as_ref().is_none_or(|live| live.is_stale(now));
    let gpus = || live.iter().flat_map(|live| &live.report.gpus);
    let is_usable = host.maintenance(now).is_none();
    let is_free = |gpu: &&LiveGpu| is_usable && Group::of(gpu, is_stale) == Group::Free;
    HostDocument {
        last_seen: live.as_ref().map(|live| live.received_at),
        is_stale,
        is_silent: app.is_silent(host, live.as_ref(), None, now),
        gpus: gpus().filter(|gpu| gpu.counts()).count(),
        free_gpus: gpus().filter(is_free).count(),
        reported_version: live
            .as_ref()
            .map(|live| live.report.host.agent_version.clone()),
        other_machine: app.machines.other(&host.id, now),
        same_gpus_as: None,
        host: host.clone(),
    }
}

pub(crate) fn host(call: &Call) -> Result<HostDetail, Problem> {
    detail(&call.app, call.caller(), &call.host())
}

/// Describes a host as a caller may see it.
pub(crate) fn detail(app: &App, caller: &MemberCaller, id: &HostId) -> Result<HostDetail, Problem> {
    let hosts = app.hosts(caller)?;
    let found = hosts.iter().find(|host| host.id == *id);
    let host = found.ok_or(Problem::NotFound("host"))?;
    let now = app.now();
    let mut detail = HostDetail {
        driver_version: host.driver_version.clone(),
        waiting: 0,
        problems: Vec::new(),
        gpus: Vec::new(),
        host: document(app, host, now),
    };
    if let Some(live) = app.live.host(id) {
        let report = visible(LiveReport::clone(&live.report), caller);
        let gpus = report.gpus.iter();
        detail.gpus = gpus.map(|gpu| Row::new(host, &live, gpu, now)).collect();
        detail.driver_version = report.host.driver_version;
        detail.waiting = report.waiting;
        detail.problems = report.problems;
    }
    Ok(detail)
}

pub(crate) fn live(call: &Call) -> Result<LiveDocument, Problem> {
    let since = call.query::<Since>()?.since.unwrap_or(0);
    let hosts = call.hosts()?;
    let now = call.app.now();
    let hosts: HashMap<&HostId, &Host> = hosts.iter().map(|host| (&host.id, host)).collect();
    let (revision, changed) = call.app.live.changes_since(since);
    let document = |(id, live): (HostId, HostLive)| {
        let host = hosts.get(&id)?;
        let maintenance = host.maintenance(now);
        Some(HostState {
            display_name: host.display_name.clone(),
            maintenance: maintenance.map(|one| one.note.clone()),
            id: id.0,
            received_at: live.received_at,
            is_stale: live.is_stale(now),
            report: visible(LiveReport::clone(&live.report), call.caller()),
        })
    };
    let mut hosts: Vec<_> = changed.into_iter().filter_map(document).collect();
    hosts.sort_by(|one, other| one.display_name.cmp(&other.display_name));
    Ok(LiveDocument { revision, hosts })
}

pub(crate) fn availability(call: &Call) -> Result<Availability, Problem> {
    find_availability(call, &call.query()?)
}

/// Finds GPUs that match a demand, without names that the caller may not see.
pub(crate) fn find_availability(call: &Call, demand: &Demand) -> Result<Availability, Problem> {
    let hosts = call.hosts()?;
    let mut found = Availability::new(&hosts, &call.app.live, demand, call.app.now());
    for row in &mut found.rows {
        hide_names(&mut row.gpu, call.caller());
    }
    Ok(found)
}

pub(crate) fn rename_host(call: &Call) -> Done {
    let name = checked_name(&call.input::<Rename>()?.display_name)?;
    edit_host(call, &call.host(), HostEdit::Rename(&name))
}

pub(crate) fn set_host_groups(call: &Call) -> Done {
    let groups = call.input::<SetGroups>()?.checked()?;
    edit_host(call, &call.host(), HostEdit::SetGroups(&groups))
}

pub(crate) fn set_maintenance(call: &Call) -> Done {
    let wanted: SetMaintenance = call.input()?;
    let hours = wanted.ends_in_hours;
    check_range("endsInHours", hours, 1..=MAX_HOURS)?;
    let now = call.app.now();
    let until = hours.and_then(|hours| {
        now.checked_add(SignedDuration::from_hours(hours.into()))
            .ok()
    });
    let note = checked_name(&wanted.note)?;
    let maintenance = Maintenance { note, until };
    edit_host(
        call,
        &call.host(),
        HostEdit::SetMaintenance(Some(&maintenance)),
    )
}

pub(crate) fn end_maintenance(call: &Call) -> Done {
    edit_host(call, &call.host(), HostEdit::SetMaintenance(None))
}

fn edit_host(call: &Call, host: &HostId, edit: HostEdit<'_>) -> Done {
    call.store(|registry, by, workspace| registry.edit_host(by, workspace, host, &edit))
}

pub(crate) fn revoke_host(call: &Call) -> Done {
    let (app, host) = (&call.app, call.host());
    edit_host(call, &host, HostEdit::Revoke)?;
    app.live.remove(&host);
    app.machines.remove(&host);
    Ok(())
}

pub(crate) fn approve_host(call: &Call) -> Done {
    edit_host(call, &call.host(), HostEdit::Approve)
}

pub(crate) fn replace_host(call: &Call) -> Done {
    let (app, new) = (&call.app, call.host());
    let old = call.input::<Replace>()?.replaced;
    edit_host(call, &old, HostEdit::ContinueAs(&new))?;
    app.live.remove(&new);
    app.machines.remove(&new);
    app.machines.remove(&old);
    Ok(())
}
