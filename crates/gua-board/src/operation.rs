//! Health and metrics, for supervisors and monitoring.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gua_render::metrics::Form;

use crate::app::App;
use crate::error::Problem;
use crate::metrics::PerHost;

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

/// Metrics in the format that the caller accepts. With the query `hosts`, each host has its own samples.
pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    let form = Form::accepted(accept.unwrap_or_default());
    let per_host = match query.as_deref() {
        Some("hosts" | "hosts=" | "hosts=1") => PerHost::Yes,
        _ => PerHost::No,
    };
    let text = app.metrics.text(&app.live, app.now(), (form, per_host));
    let content_type = [(header::CONTENT_TYPE, form.content_type())];
    (StatusCode::OK, content_type, text).into_response()
}
