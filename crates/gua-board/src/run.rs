//! The life of a server: opens the socket, serves until a signal arrives, and does the regular work in between.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

use crate::app::App;
use crate::demo::Fleet;
use crate::error::Problem;
use crate::server::serve;
use crate::tls::Tls;

/// Time for which snapshots are kept. The newest one of each host stays for longer.
pub(crate) const KEEP_SNAPSHOTS: SignedDuration = SignedDuration::from_hours(48);
/// Number of snapshots that one transaction deletes: pushes wait for it.
const EXPIRE_AT_ONCE: u32 = 2000;
/// Pause between two such transactions.
const EXPIRE_PAUSE: Duration = Duration::from_millis(100);
/// Time between two deletions of old snapshots.
const EXPIRE_PERIOD: Duration = Duration::from_secs(15 * 60);

/// Interval at which the day strips are stored.
const DAYS_PERIOD: Duration = Duration::from_secs(5 * 60);

/// Time between two readings of the only host of a server without accounts.
const HOST_PERIOD: Duration = Duration::from_secs(2);

/// Interval at which the certificate's files are checked for changes.
const CERTIFICATE_PERIOD: Duration = Duration::from_secs(30);

/// Reason a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    #[error("cannot handle signals")]
    Signals(#[source] io::Error),
}

/// A board that listens and is ready to serve.
#[derive(Debug)]
pub struct Board {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
}

impl Board {
    /// Opens the socket. Port 0 selects a free port.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn bind(address: SocketAddr) -> Result<Self, RunError> {
        let runtime = Runtime::new().map_err(RunError::Runtime)?;
        let as_listen_error = |source| RunError::Listen { address, source };
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(as_listen_error)?;
        let address = listener.local_addr().map_err(as_listen_error)?;
        Ok(Self {
            runtime,
            listener,
            address,
            tls: None,
        })
    }

    /// Serves over TLS. SIGHUP, or a change of its files, loads the certificate again.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls.map(Arc::new);
        self
    }

    /// Address that the board listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until SIGTERM or SIGINT, with a simulated fleet or with real hosts. `started` is called when both signals
    /// are handled.
    ///
    /// # Errors
    /// If signals cannot be handled or the socket fails.
    pub fn run(
        self,
        app: Arc<App>,
        fleet: Option<Fleet>,
        started: impl FnOnce(),
    ) -> Result<(), RunError> {
        if let Some(fleet) = &fleet {
            fleet.catch_up(&app);
        }
        // A page that is opened at once shows the GPUs and their last day.
        if let Some(local) = &app.local {
            local.load(&app);
        }
        let address = self.address;
        self.runtime.block_on(async move {
            let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
            let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
            let expiry = tokio::spawn(expire(Arc::clone(&app)));
            let days = tokio::spawn(keep_days(Arc::clone(&app)));
            let fleet = fleet.map(|fleet| tokio::spawn(fleet.run(Arc::clone(&app))));
            let host = app
                .local
                .is_some()
                .then(|| tokio::spawn(watch_host(Arc::clone(&app))));
            let acceptor = self.tls.as_ref().map(|tls| tls.acceptor());
            // Without a certificate, SIGHUP ends the server as it ends every program whose terminal is closed.
            let reload = match self.tls {
                Some(tls) => {
                    let hangup = signal(SignalKind::hangup()).map_err(RunError::Signals)?;
                    Some(tokio::spawn(watch_certificate(tls, hangup)))
                }
                None => None,
            };
            started();
            let stop = async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                info!("stop requested");
            };
            let served = serve(self.listener, acceptor, app, stop).await;
            drop(reload.inspect(tokio::task::JoinHandle::abort));
            expiry.abort();
            days.abort();
            drop(fleet.inspect(tokio::task::JoinHandle::abort));
            drop(host.inspect(tokio::task::JoinHandle::abort));
            served.map_err(|source| RunError::Listen { address, source })
        })
    }
}

/// Loads the certificate again on SIGHUP and when its files have changed.
async fn watch_certificate(tls: Arc<Tls>, mut hangup: Signal) {
    let mut period = interval(CERTIFICATE_PERIOD);
    loop {
        tokio::select! {
            _ = period.tick() => {}
            _ = hangup.recv() => {}
        }
        let tls = Arc::clone(&tls);
        // It reads files, so it runs on a blocking thread. A panic is logged, and the next check tries again.
        let _ = tokio::task::spawn_blocking(move || tls.reload()).await;
    }
}

/// Reads the state of the only host again and again. A slow driver delays the next reading, and no request.
async fn watch_host(app: Arc<App>) {
    let mut period = interval(HOST_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        period.tick().await;
        let watched = Arc::clone(&app);
        let refreshed = app.local(move |local| local.refresh(&watched)).await;
        if let Err(error) = refreshed {
            warn!(error = %error, "host not read");
        }
    }
}

/// Restores the day strips at the start, and then stores them at intervals.
async fn keep_days(app: Arc<App>) {
    let restored = app.store(App::restore_days).await;
    if let Err(error) = restored {
        warn!(error = %error, "last day not restored");
    }
    let mut period = interval(DAYS_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    period.tick().await;
    loop {
        period.tick().await;
        if let Err(error) = app.store(App::store_days).await {
            warn!(error = %error, "last day not stored");
        }
    }
}

/// Deletes old snapshots from time to time.
async fn expire(app: Arc<App>) {
    let mut period = interval(EXPIRE_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        period.tick().await;
        if let Err(error) = expire_all(&app).await {
            warn!(error = %error, "old snapshots not deleted");
        }
    }
}

async fn expire_all(app: &Arc<App>) -> Result<(), Problem> {
    let Ok(before) = app.now().saturating_sub(KEEP_SNAPSHOTS) else {
        return Ok(());
    };
    loop {
        let expired = app.store(move |app| app.ledger.expire_snapshots(before, EXPIRE_AT_ONCE));
        if expired.await? == 0 {
            return Ok(());
        }
        sleep(EXPIRE_PAUSE).await;
    }
}
