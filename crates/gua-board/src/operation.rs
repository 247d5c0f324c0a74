//! Health and metrics, for supervisors and monitoring.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::error::Problem;
use crate::metrics::CONTENT_TYPE;

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

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let (hosts, gpus) = app.live.size();
    let text = app.metrics.text(&[
        ("hosts", "Hosts with a known state.", hosts as u64),
        ("gpus", "GPUs of these hosts.", gpus as u64),
    ]);
    (StatusCode::OK, [(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}
