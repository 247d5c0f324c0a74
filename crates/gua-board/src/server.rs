//! Connections: accepts them, limits their number and time, and stops without losing an acknowledged request.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use gua_model::failure_log::FailureLog;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use tracing::{info, warn};

use crate::app::App;
use crate::request::Peer;
use crate::routes::router;

/// Maximum time for the head of a request to arrive, also on a connection that is kept open.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Maximum time for a TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Maximum size of the head of a request.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Maximum number of connections. Further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 20_000;
/// Maximum time to wait for requests in progress when the server stops.
const STOP_TIME: Duration = Duration::from_secs(10);
/// Pause after a failed accept, such as one for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` completes. Then requests in progress are answered, streams are closed, and everything that was
/// accepted is stored.
///
/// # Errors
/// If the listener has no address.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    app: Arc<App>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    info!(address = %address, "board started");
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let service = router(&app);
    let mut stop = pin!(stop);
    let mut failures = FailureLog::default();
    loop {
        let permit = Arc::clone(&connections).acquire_owned();
        let accepted = async {
            let permit = permit.await.expect("the semaphore is never closed");
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        match failures.change(&accepted) {
            Some(Ok(failures)) => info!(failures, "connections are accepted again"),
            Some(Err(error)) => warn!(error = %error, "cannot accept a connection"),
            None => {}
        }
        let Ok((stream, _)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (tls, service, stopping) = (tls.clone(), service.clone(), app.stopping());
        tokio::spawn(async move {
            // The result is not logged: a client that disconnects or violates the protocol is not an error of the board.
            let _ = serve_one(stream, tls, service, stopping).await;
            drop(permit);
        });
    }
    drop(listener);
    app.begin_stop();
    let all = u32::try_from(MAX_CONNECTIONS).expect("the limit is small");
    let ended = timeout(STOP_TIME, connections.acquire_many(all)).await;
    if ended.is_err() {
        warn!("requests in progress were cut off");
    }
    let finished = tokio::task::spawn_blocking(move || app.finish()).await;
    if finished.is_ok() {
        info!("board stopped");
    }
    Ok(())
}

/// Completes when the board stops.
pub(crate) async fn until_stopping(stopping: &mut watch::Receiver<bool>) {
    // The sender lives as long as the board.
    let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
}

/// A socket, with or without TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Serves one connection. When the board stops, the request in progress is still answered. `None` if the connection ended early,
/// for example because the client does not speak TLS.
async fn serve_one(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: axum::Router,
    mut stopping: watch::Receiver<bool>,
) -> Option<()> {
    let peer = stream.peer_addr().ok()?.ip().to_canonical();
    // Answers are small and complete; waiting to fill a packet only delays them.
    stream.set_nodelay(true).ok()?;
    let stream: Box<dyn Stream> = match tls {
        Some(tls) => Box::new(
            timeout(HANDSHAKE_TIME, tls.accept(stream))
                .await
                .ok()?
                .ok()?,
        ),
        None => Box::new(stream),
    };
    let service = router.map_request(move |request: Request<hyper::body::Incoming>| {
        let mut request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(Peer(peer));
        request
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades();
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended.ok(),
        () = until_stopping(&mut stopping) => connection.as_mut().graceful_shutdown(),
    }
    connection.await.ok()
}
