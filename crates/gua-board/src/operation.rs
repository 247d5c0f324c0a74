//! Health and metrics, for supervisors and monitoring.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gua_render::metrics::Form;

use crate::access::OperatorCaller;
use crate::app::App;
use crate::error::Problem;

/// The process runs.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// The board can serve: it is not stopping, and the storage answers.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<&'static str, Problem> {
    if *app.stopping().borrow() {
        return Err(Problem::Stopping);
    }
    app.store(|app| app.registry.revision()).await?;
    Ok("ready\n")
}

/// Metrics in the format that the caller accepts. With the query `hosts`, each host of a workspace that the caller administers
/// has its own samples.
pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<OperatorCaller>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    let form = Form::accepted(accept.unwrap_or_default());
    let workspaces = match query.as_deref() {
        Some("hosts" | "hosts=" | "hosts=1") => caller.workspaces,
        _ => Vec::new(),
    };
    let hosts = app.store(move |app| {
        let mut hosts = Vec::new();
        for workspace in &workspaces {
            hosts.extend(app.registry.hosts(Some(workspace))?);
        }
        Ok(hosts)
    });
    let hosts = hosts.await?;
    let text = app.metrics.text(&app.live, app.now(), (form, &hosts));
    let content_type = [(header::CONTENT_TYPE, form.content_type())];
    Ok((StatusCode::OK, content_type, text).into_response())
}
