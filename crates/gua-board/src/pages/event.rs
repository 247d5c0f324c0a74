//! The event stream that makes open pages live.
//!
//! An event says that something changed and carries no data: the script then loads its page again, with the same access
//! check as the first time. A session that ended therefore shows nothing new, whatever stream it left open.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::IntoResponse as _;
use futures_util::stream::unfold;
use tokio::time::{Instant, sleep, timeout_at};

use crate::call::{Answer, Call};
use crate::server::until_stopping;

/// Minimum time between two events.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum time without an event. Proxies close a connection that looks dead.
const HEARTBEAT: Duration = Duration::from_secs(25);
/// Lifetime of a stream. The browser opens the next one by itself, and its access is checked again.
const LIFETIME: Duration = Duration::from_secs(600);

pub(crate) async fn events(call: Call, _: Body) -> Answer {
    let end = Instant::now() + LIFETIME;
    let state = (call.app.live.watch(), call.app.stopping());
    let stream = unfold(state, move |(mut revisions, mut stopping)| async move {
        let next = async {
            sleep(PAUSE).await;
            match tokio::time::timeout(HEARTBEAT, revisions.changed()).await {
                Ok(_) => "event: change\ndata: \n\n",
                Err(_) => ": heartbeat\n\n",
            }
        };
        let text = tokio::select! {
            text = timeout_at(end, next) => text.ok()?,
            () = until_stopping(&mut stopping) => return None,
        };
        let item = Ok::<_, Infallible>(Bytes::from_static(text.as_bytes()));
        Some((item, (revisions, stopping)))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((headers, Body::from_stream(stream)).into_response())
}
