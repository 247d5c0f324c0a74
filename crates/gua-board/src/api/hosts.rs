//! Hosts and their live state.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use gua_board_store::HostId;
use gua_board_store::registry::Host;
use gua_model::GpuUuid;
use gua_wire::LiveReport;
use gua_wire::live::{HostState, LiveDocument, LiveGpu};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::visibility::{hide_names, visible};
use super::{Input, LONGEST_NAME, List, NAME_PATTERN, checked_name, query as checked_query};
use crate::access::MemberCaller;
use crate::app::App;
use crate::availability::{Availability, Demand, Group, Row};
use crate::error::Problem;
use crate::live::HostLive;

/// Time after its enrolment for which a host may turn out to be a known one.
const NEW_HOST: SignedDuration = SignedDuration::from_hours(24 * 7);

/// A host with the freshness of its state.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostDocument {
    #[serde(flatten)]
    pub(crate) host: Host,
    pub(crate) last_seen: Option<Timestamp>,
    pub(crate) is_stale: bool,
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
    #[schemars(length(min = 1, max = LONGEST_NAME), regex(pattern = NAME_PATTERN))]
    display_name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Replace {
    /// The host that continues with the agent of the host in the path.
    replaced: HostId,
}

pub(crate) async fn hosts(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
) -> Result<Json<List<HostDocument>>, Problem> {
    let now = app.now();
    let workspace = caller.workspace.id;
    let hosts = app
        .store(move |app| app.registry.hosts(Some(&workspace)))
        .await?;
    let same = same_gpus(&app, &hosts, now);
    let items = hosts.into_iter().map(|host| {
        let same_gpus_as = same.get(&host.id).cloned();
        HostDocument {
            same_gpus_as,
            ..document(&app, host, now)
        }
    });
    Ok(Json(List {
        items: items.collect(),
    }))
}

/// Finds the older host that had the GPUs of each new one.
fn same_gpus(app: &App, hosts: &[Host], now: Timestamp) -> HashMap<HostId, HostId> {
    let is_new = |host: &&Host| now.duration_since(host.enrolled) < NEW_HOST;
    let mut new: HashMap<GpuUuid, &Host> = HashMap::new();
    for host in hosts.iter().filter(is_new) {
        let live = app.live.host(&host.id);
        let gpus = live.iter().flat_map(|live| &live.report.gpus);
        new.extend(gpus.map(|gpu| (gpu.uuid.clone(), host)));
    }
    let mut same = HashMap::new();
    if new.is_empty() {
        return same;
    }
    for host in hosts {
        let live = app.live.host(&host.id);
        for gpu in live.iter().flat_map(|live| &live.report.gpus) {
            if let Some(other) = new.get(&gpu.uuid)
                && other.enrolled > host.enrolled
            {
                same.insert(other.id.clone(), host.id.clone());
            }
        }
    }
    same
}

fn document(app: &App, host: Host, now: Timestamp) -> HostDocument {
    let live = app.live.host(&host.id);
    let is_stale = live.as_ref().is_none_or(|live| live.is_stale(now));
    let gpus = || live.iter().flat_map(|live| &live.report.gpus);
    let is_free = |gpu: &&LiveGpu| Group::of(gpu, is_stale) == Group::Free;
    HostDocument {
        last_seen: live.as_ref().map(|live| live.received_at),
        is_stale,
        gpus: gpus().filter(|gpu| gpu.counts()).count(),
        free_gpus: gpus().filter(is_free).count(),
        reported_version: live
            .as_ref()
            .map(|live| live.report.host.agent_version.clone()),
        other_machine: app.machines.other(&host.id, now),
        same_gpus_as: None,
        host,
    }
}

pub(crate) async fn host(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, id)): Path<(String, HostId)>,
) -> Result<Json<HostDetail>, Problem> {
    let workspace = caller.workspace.id;
    let hosts = app
        .store(move |app| app.registry.hosts(Some(&workspace)))
        .await?;
    let found = hosts.into_iter().find(|host| host.id == id);
    let host = found.ok_or(Problem::NotFound("host"))?;
    let now = app.now();
    let mut detail = HostDetail {
        driver_version: host.driver_version.clone(),
        waiting: 0,
        problems: Vec::new(),
        gpus: Vec::new(),
        host: document(&app, host.clone(), now),
    };
    if let Some(live) = app.live.host(&id) {
        let report = visible(LiveReport::clone(&live.report), caller.role);
        let gpus = report.gpus.iter();
        detail.gpus = gpus.map(|gpu| Row::new(&host, &live, gpu, now)).collect();
        detail.driver_version = report.host.driver_version;
        detail.waiting = report.waiting;
        detail.problems = report.problems;
    }
    Ok(Json(detail))
}

pub(crate) async fn live(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    query: Result<Query<Since>, QueryRejection>,
) -> Result<Json<LiveDocument>, Problem> {
    let since = checked_query(query)?.since.unwrap_or(0);
    let workspace = caller.workspace.id;
    let hosts = app
        .store(move |app| app.registry.hosts(Some(&workspace)))
        .await?;
    let names: HashMap<HostId, String> = hosts
        .into_iter()
        .map(|host| (host.id, host.display_name))
        .collect();
    let now = app.now();
    let (revision, changed) = app.live.changes_since(since);
    let document = |(id, live): (HostId, HostLive)| {
        Some(HostState {
            display_name: names.get(&id)?.clone(),
            id: id.0,
            received_at: live.received_at,
            is_stale: live.is_stale(now),
            report: visible(LiveReport::clone(&live.report), caller.role),
        })
    };
    let mut hosts: Vec<_> = changed.into_iter().filter_map(document).collect();
    hosts.sort_by(|one, other| one.display_name.cmp(&other.display_name));
    Ok(Json(LiveDocument { revision, hosts }))
}

pub(crate) async fn availability(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    query: Result<Query<Demand>, QueryRejection>,
) -> Result<Json<Availability>, Problem> {
    let demand = checked_query(query)?;
    let workspace = caller.workspace.id;
    let hosts = app
        .store(move |app| app.registry.hosts(Some(&workspace)))
        .await?;
    let mut found = Availability::new(&hosts, &app.live, &demand, app.now());
    for row in &mut found.rows {
        hide_names(&mut row.gpu, caller.role);
    }
    Ok(Json(found))
}

pub(crate) async fn rename_host(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, host)): Path<(String, HostId)>,
    Input(rename): Input<Rename>,
) -> Result<StatusCode, Problem> {
    let name = checked_name(&rename.display_name)?;
    let change = caller.change(&app);
    let workspace = caller.workspace.id;
    app.store(move |app| app.registry.rename_host(&change, &workspace, &host, &name))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn revoke_host(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, host)): Path<(String, HostId)>,
) -> Result<StatusCode, Problem> {
    let change = caller.change(&app);
    let workspace = caller.workspace.id;
    let revoked = host.clone();
    app.store(move |app| app.registry.revoke_host(&change, &workspace, &host))
        .await?;
    forget(&app, &revoked);
    Ok(StatusCode::NO_CONTENT)
}

fn forget(app: &App, host: &HostId) {
    app.live.remove(host);
    app.machines.remove(host);
}

pub(crate) async fn approve_host(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, host)): Path<(String, HostId)>,
) -> Result<StatusCode, Problem> {
    let change = caller.change(&app);
    let workspace = caller.workspace.id;
    app.store(move |app| app.registry.approve_host(&change, &workspace, &host))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn replace_host(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<MemberCaller>,
    Path((_, new)): Path<(String, HostId)>,
    Input(Replace { replaced }): Input<Replace>,
) -> Result<StatusCode, Problem> {
    let change = caller.change(&app);
    let workspace = caller.workspace.id;
    let (old, removed) = (replaced.clone(), new.clone());
    app.store(move |app| app.registry.replace_host(&change, &workspace, &old, &new))
        .await?;
    forget(&app, &removed);
    app.machines.remove(&replaced);
    Ok(StatusCode::NO_CONTENT)
}
