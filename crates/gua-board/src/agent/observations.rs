//! Snapshots and live reports. Both are acknowledged when they are stored, and then become the host's live state.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse as _;
use gua_board_store::ledger::{Form, Observation};
use gua_wire::LiveReport;
use gua_wire::live::{ACCEPTS_HEADER, FORMAT, NEW_TOKEN};
use gua_wire::snapshot::Snapshot;
use jiff::SignedDuration;
use serde::Serialize;

use super::contract::{check_live, check_snapshot};
use crate::access::AgentCaller;
use crate::call::{Answer, Call};
use crate::error::Problem;
use crate::request::{parse, read_body};

/// Maximum size of a snapshot or live report: hundreds of GPUs with many processes each.
const MAX_BYTES: usize = 4 << 20;

/// Age at which an agent is asked to replace its token.
const TOKEN_TIME: SignedDuration = SignedDuration::from_hours(24 * 30);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Accepted {
    status: &'static str,
    gpu_slots_seen: usize,
}

/// Receives a snapshot.
pub(crate) async fn observe(call: Call, body: Body) -> Answer {
    let bytes = receive(&call, body).await?;
    let snapshot: Snapshot = parse(&bytes)?;
    let observed_at = check_snapshot(&snapshot)?;
    let report = LiveReport::from_snapshot(&snapshot, observed_at);
    let body = serde_json::to_vec(&snapshot).expect("strings, numbers and lists are always JSON");
    record(&call, Form::Snapshot, report, body).await
}

/// Receives a live report.
pub(crate) async fn live(call: Call, body: Body) -> Answer {
    let bytes = receive(&call, body).await?;
    let report: LiveReport = parse(&bytes)?;
    check_live(&report)?;
    let body = report.body().into_bytes();
    record(&call, Form::Live, report, body).await
}

async fn receive(call: &Call, body: Body) -> Result<Bytes, Problem> {
    let too_many = |retry_after| Problem::TooManyRequests { retry_after };
    let host = &call.extension::<AgentCaller>().host.id;
    call.app.pushes.take(host.clone()).map_err(too_many)?;
    read_body(body, MAX_BYTES).await
}

async fn record(call: &Call, form: Form, report: LiveReport, body: Vec<u8>) -> Answer {
    let (app, agent) = (&call.app, call.extension::<AgentCaller>());
    let received_at = app.now();
    app.machines
        .admit(&agent.host.id, &report, received_at)
        .map_err(|_| {
            Problem::Conflict(
                "another machine reports with this host's token; enrol this one again",
            )
        })?;
    let observation = Observation {
        host: agent.host.id.clone(),
        form,
        observed_at: report.observed_at,
        received_at,
        body,
    };
    app.queue.store(observation).await?;
    let accepted = Accepted {
        status: "accepted",
        gpu_slots_seen: report.gpus.len(),
    };
    app.live.apply(&agent.host.id, form, report, received_at);
    let mut response = (StatusCode::ACCEPTED, Json(accepted)).into_response();
    let headers = response.headers_mut();
    headers.insert(ACCEPTS_HEADER, HeaderValue::from_static(FORMAT));
    if received_at.duration_since(agent.host.token_since) > TOKEN_TIME {
        headers.append(ACCEPTS_HEADER, HeaderValue::from_static(NEW_TOKEN));
    }
    Ok(response)
}
