//! Health and metrics, for supervisors and monitoring.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use gua_render::metrics::Form;

use crate::access::OperatorCaller;
use crate::call::{Answer, Call};
use crate::error::Problem;

/// The process runs.
pub(crate) async fn health(_: Call, _: Body) -> Result<&'static str, Problem> {
    Ok("ok\n")
}

/// The board can serve: it is not stopping, and the storage answers.
pub(crate) fn ready(call: &Call) -> Result<&'static str, Problem> {
    if *call.app.stopping().borrow() {
        return Err(Problem::Stopping);
    }
    call.app.registry.revision()?;
    Ok("ready\n")
}

/// Metrics in the format that the caller accepts. With the query `hosts`, each host of a workspace that the caller administers
/// has its own samples.
pub(crate) fn metrics(call: &Call) -> Answer {
    let app = &call.app;
    let accept = call.headers().get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    let form = Form::accepted(accept.unwrap_or_default());
    let mut hosts = Vec::new();
    if let Some("hosts" | "hosts=" | "hosts=1") = call.parts.uri.query() {
        for workspace in &call.extension::<OperatorCaller>().workspaces {
            hosts.extend(app.registry.hosts(Some(workspace))?);
        }
    }
    let text = app
        .metrics
        .text(&app.live, app.now(), app.options.own_cost, (form, &hosts));
    let content_type = [(header::CONTENT_TYPE, form.content_type())];
    Ok((StatusCode::OK, content_type, text).into_response())
}
