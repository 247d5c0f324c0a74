//! The stream: a WebSocket over which an agent sends one frame per second. Frames are kept in memory only.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use gua_wire::stream::UtilFrame;
use tokio::time::{Instant, interval, timeout};

use crate::access::AgentCaller;
use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::Problem;
use crate::limits::RateLimit;
use crate::server::until_stopping;

/// Maximum number of streams.
const MAX_STREAMS: i64 = 20_000;
/// Maximum size of a frame.
const MAX_BYTES: usize = 256 * 1024;
/// Time without a frame after which a stream is closed.
const SILENCE: Duration = Duration::from_secs(60);
/// Time between two checks that the token is still valid.
const RECHECK: Duration = Duration::from_secs(30);
/// Maximum time to send the close frame.
const CLOSE_TIME: Duration = Duration::from_secs(2);

pub(crate) async fn stream(mut call: Call, _: Body) -> Answer {
    let app = Arc::clone(&call.app);
    let agent = call.extension::<AgentCaller>().clone();
    if *app.stopping().borrow() {
        return Err(Problem::Stopping);
    }
    if app.metrics.streams.load(Ordering::Relaxed) >= MAX_STREAMS {
        return Err(Problem::Overloaded);
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut call.parts, &()).await;
    let upgrade = upgrade.map_err(|error| Problem::Invalid(error.body_text()))?;
    let upgrade = upgrade
        .max_message_size(MAX_BYTES)
        .max_frame_size(MAX_BYTES);
    Ok(upgrade.on_upgrade(async move |mut socket| {
        app.metrics.streams.fetch_add(1, Ordering::Relaxed);
        let end = receive(&app, &agent, &mut socket).await;
        app.metrics.streams.fetch_sub(1, Ordering::Relaxed);
        if let Some((code, reason)) = end {
            let frame = CloseFrame {
                code,
                reason: reason.into(),
            };
            // The agent may be gone already.
            let _ = timeout(CLOSE_TIME, socket.send(Message::Close(Some(frame)))).await;
        }
    }))
}

/// Receives frames until the stream ends. Returns the code and reason with which to close it, unless the agent closed it.
async fn receive(
    app: &Arc<App>,
    agent: &AgentCaller,
    socket: &mut WebSocket,
) -> Option<(u16, &'static str)> {
    // An agent sends one frame per second.
    let rate = RateLimit::new(30, 5.0);
    let mut stopping = app.stopping();
    let mut recheck = interval(RECHECK);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            message = socket.recv() => {
                heard = Instant::now();
                match message {
                    Some(Ok(Message::Text(text))) => {
                        let Ok(frame) = serde_json::from_str::<UtilFrame>(&text) else {
                            return Some((close_code::POLICY, "not a frame of the contract"));
                        };
                        if rate.take(()).is_err() {
                            return Some((close_code::POLICY, "too many frames"));
                        }
                        app.metrics.frames.fetch_add(1, Ordering::Relaxed);
                        app.live.frame(&agent.host.id, &frame, app.now());
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Binary(_))) => {
                        return Some((close_code::UNSUPPORTED, "frames are text"));
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                }
            }
            _ = recheck.tick() => {
                if heard.elapsed() > SILENCE {
                    return Some((close_code::AWAY, "no frame for a minute"));
                }
                let token = agent.token;
                let host = app.blocking(move |app| app.tokens.host(&*app.registry, &token, app.now()));
                if let Ok(None) = host.await {
                    return Some((close_code::POLICY, "the agent token was revoked"));
                }
            }
            () = until_stopping(&mut stopping) => {
                return Some((close_code::RESTART, "the board is stopping"));
            }
        }
    }
}
