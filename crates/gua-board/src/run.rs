//! The life of a server: opens the socket, serves until a signal arrives, and does the regular work in between.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gua_model::failure_log::FailureLog;
use jiff::SignedDuration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, interval_at, sleep};
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
    pub reloads: Reloads,
}

/// Parts of a server that SIGHUP reloads.
#[derive(Default)]
pub struct Reloads {
    /// Certificate of a server over TLS. A change of its files loads it again, too.
    pub tls: Option<Arc<Tls>>,
    /// Function that is called on SIGHUP. It must not block.
    pub other: Option<Box<dyn Fn()>>,
}

impl fmt::Debug for Reloads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reloads").finish_non_exhaustive()
    }
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
            reloads: Reloads::default(),
        })
    }

    /// Address that the board listens on.
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
        if let Some(local) = &app.options.local {
            local.load(&app);
        }
        let address = self.address;
        self.runtime.block_on(async move {
            let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
            let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
            // Aborted when the server stops.
            let mut work = JoinSet::new();
            work.spawn(expire(Arc::clone(&app)));
            work.spawn(keep_days(Arc::clone(&app)));
            if let Some(fleet) = fleet {
                work.spawn(fleet.run(Arc::clone(&app)));
            }
            if app.options.local.is_some() {
                work.spawn(watch_host(Arc::clone(&app)));
            }
            let acceptor = self.reloads.tls.as_ref().map(|tls| tls.acceptor.clone());
            let reloads = self.reloads.watch()?;
            started();
            let stop = async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                    () = reloads => {}
                }
                info!("stop requested");
            };
            let served = serve(self.listener, acceptor, app, stop).await;
            served.map_err(|source| RunError::Listen { address, source })
        })
    }
}

impl Reloads {
    /// Returns a future that reloads everything on SIGHUP, and the certificate also when its files have changed. It ends when
    /// the terminal on which the server was started is closed, which also sends SIGHUP. If there is nothing to reload, SIGHUP
    /// ends the process, as it does by default.
    fn watch(self) -> Result<impl Future<Output = ()>, RunError> {
        let is_needed = self.tls.is_some() || self.other.is_some();
        let hangup = is_needed.then(|| signal(SignalKind::hangup()));
        let hangup = hangup.transpose().map_err(RunError::Signals)?;
        let terminals = || {
            [
                io::stdin().is_terminal(),
                io::stdout().is_terminal(),
                io::stderr().is_terminal(),
            ]
        };
        let at_start = terminals();
        Ok(async move {
            let Some(mut hangup) = hangup else {
                return std::future::pending().await;
            };
            let mut period = interval(CERTIFICATE_PERIOD);
            loop {
                tokio::select! {
                    _ = period.tick() => {}
                    _ = hangup.recv() => {
                        if terminals() != at_start {
                            return;
                        }
                        if let Some(reload) = &self.other {
                            reload();
                        }
                    }
                }
                if let Some(tls) = self.tls.clone() {
                    // It reads files, so it runs on a blocking thread. A panic is logged, and the next check tries again.
                    let _ = tokio::task::spawn_blocking(move || tls.reload()).await;
                }
            }
        })
    }
}

/// Repeats work periodically. Slow work delays its next repetition but no request. `log` is called when failures begin, with the
/// error, and when they end, with their number.
async fn repeat<E: fmt::Display, W: Future<Output = Result<(), E>>>(
    mut period: Interval,
    work: impl Fn() -> W,
    log: impl Fn(Result<u64, &E>),
) {
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = FailureLog::default();
    loop {
        period.tick().await;
        if let Some(change) = failures.change(&work().await) {
            log(change);
        }
    }
}

/// Reads the state of the only host again and again.
async fn watch_host(app: Arc<App>) {
    let refresh = |app: &Arc<App>| app.local().map(|local| local.refresh(app));
    let log = |change: Result<_, &_>| match change {
        Ok(failures) => info!(failures, "the host can be read again"),
        Err(error) => warn!(%error, "cannot read the host"),
    };
    repeat(interval(HOST_PERIOD), || app.blocking(refresh), log).await;
}

/// Restores the day strips at the start, and then stores them at intervals.
async fn keep_days(app: Arc<App>) {
    let restored = app.blocking(|app| app.restore_days()).await;
    if let Err(error) = restored {
        warn!(error = %error, "last day not restored");
    }
    let period = interval_at(Instant::now() + DAYS_PERIOD, DAYS_PERIOD);
    let store = || app.blocking(|app| app.store_days());
    let log = |change: Result<_, &_>| match change {
        Ok(failures) => info!(failures, "last day stored again"),
        Err(error) => warn!(%error, "last day not stored"),
    };
    repeat(period, store, log).await;
}

/// Deletes old snapshots from time to time.
async fn expire(app: Arc<App>) {
    let log = |change: Result<_, &_>| match change {
        Ok(failures) => info!(failures, "old snapshots are deleted again"),
        Err(error) => warn!(%error, "old snapshots not deleted"),
    };
    repeat(interval(EXPIRE_PERIOD), || expire_all(&app), log).await;
}

async fn expire_all(app: &Arc<App>) -> Result<(), Problem> {
    let Ok(before) = app.now().saturating_sub(KEEP_SNAPSHOTS) else {
        return Ok(());
    };
    loop {
        let expired = app.blocking(move |app| app.ledger.expire_snapshots(before, EXPIRE_AT_ONCE));
        if expired.await? == 0 {
            return Ok(());
        }
        sleep(EXPIRE_PAUSE).await;
    }
}
