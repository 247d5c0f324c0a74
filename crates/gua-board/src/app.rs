//! State that all handlers share.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderName;
use gua_board_store::ledger::Observation;
use gua_board_store::registry::{Account, Actor, Change, Host, Role};
use gua_board_store::{HostId, Ledger, Registry, SecretHash, StoreError};
use gua_render::alert::{AlertHistoryDocument, AlertsDocument};
use gua_render::metrics::Cost;
use gua_wire::Pin;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Semaphore, watch};

use crate::access::MemberCaller;
use crate::demo::Guest;
use crate::error::Problem;
use crate::host_cache::HostCache;
use crate::ingest::WriteQueue;
use crate::limits::RateLimit;
use crate::live::{HostLive, Interval, LiveState};
use crate::local::Local;
use crate::machines::Machines;
use crate::metrics::Metrics;
use crate::oidc::{Oidc, OidcOptions};
use crate::request::Proxies;
use crate::token_cache::TokenCache;

/// Reads the messages of the board's alerts, the latest first. Blocks. The error is one sentence that is already logged.
pub type AlertLog = Arc<dyn Fn() -> Result<AlertHistoryDocument, String> + Send + Sync>;

/// Reads the board's alerts from its configuration, without errors that name people. Blocks. The error is one sentence, which the
/// function has logged.
pub type AlertList = Arc<dyn Fn() -> Result<AlertsDocument, String> + Send + Sync>;

/// Reads the CPU time and the memory of this process, if the kernel reports them.
pub(crate) type OwnCost = fn() -> Option<Cost>;

/// Source of the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Maximum number of archive files that are received at once: each is held in memory.
const UPLOADS_AT_ONCE: usize = 4;
/// Maximum number of passwords that are hashed at once: each takes 19 MiB and a core.
const HASHES_AT_ONCE: usize = 2;
/// Number of hosts whose last day is stored in one transaction.
const DAYS_AT_ONCE: usize = 500;
/// Maximum number of observations that wait to be stored.
const QUEUE_CAPACITY: usize = 10_000;

/// Configuration of a board.
#[derive(Clone)]
pub struct AppOptions {
    pub registry: Arc<dyn Registry>,
    pub ledger: Arc<dyn Ledger>,
    pub clock: Clock,
    /// URL under which people reach the board, without a trailing slash.
    pub public_url: String,
    /// The board's own certificate, which hosts have to pin.
    pub pin: Option<Pin>,
    /// Whether the board itself serves over TLS.
    pub has_certificate: bool,
    pub proxies: Proxies,
    /// OpenID Connect provider for log-ins.
    pub oidc: Option<OidcOptions>,
    /// Header in which a trusted proxy sends the user name of the caller.
    pub user_header: Option<HeaderName>,
    /// Role of authenticated people without an account; `None` if they need an invitation.
    pub new_account_role: Option<Role>,
    /// Account that may enter without a password; only a demonstration has one.
    pub guest: Option<Guest>,
    /// The only host, for a server without accounts.
    pub local: Option<Local>,
    /// Messages of the board's alerts.
    pub alert_log: Option<AlertLog>,
    pub alert_list: Option<AlertList>,
    pub own_cost: fn() -> Option<Cost>,
}

impl AppOptions {
    /// A board without TLS, proxies and providers, whose data is in one store.
    pub fn new<S: Registry + Ledger + 'static>(
        store: Arc<S>,
        clock: Clock,
        public_url: String,
    ) -> Self {
        Self {
            registry: Arc::clone(&store) as _,
            ledger: store,
            clock,
            public_url,
            pin: None,
            has_certificate: false,
            proxies: Proxies::default(),
            oidc: None,
            user_header: None,
            new_account_role: None,
            guest: None,
            local: None,
            alert_log: None,
            alert_list: None,
            own_cost: || None,
        }
    }
}

/// State of a running board.
pub struct App {
    pub registry: Arc<dyn Registry>,
    pub ledger: Arc<dyn Ledger>,
    pub options: AppOptions,
    pub live: LiveState,
    started: Timestamp,
    pub(crate) queue: WriteQueue,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tokens: TokenCache,
    pub(crate) machines: Machines,
    hosts: HostCache,
    pub(crate) oidc: Option<Oidc>,
    guest: Mutex<Option<Guest>>,
    pub(crate) pushes: RateLimit<HostId>,
    pub(crate) claims: RateLimit<Option<IpAddr>>,
    /// Log-in attempts by account name, and by address.
    pub(crate) account_log_ins: RateLimit<String>,
    pub(crate) address_log_ins: RateLimit<Option<IpAddr>>,
    pub(crate) uploads: Semaphore,
    pub(crate) hashes: Arc<Semaphore>,
    stopping: watch::Sender<bool>,
}

impl App {
    /// Loads the live state and starts the write queue.
    ///
    /// # Errors
    /// If the ledger cannot be read or the thread cannot be started.
    pub fn start(options: AppOptions) -> Result<Arc<Self>, StartError> {
        let metrics = Arc::<Metrics>::default();
        let ledger = Arc::clone(&options.ledger);
        let record = move |batch: &[Observation]| ledger.record(batch);
        let provider = options.oidc.clone();
        let oidc = provider.map(|provider| Oidc::new(provider, &options.public_url));
        Ok(Arc::new(Self {
            live: LiveState::load(&options.ledger.latest()?),
            queue: WriteQueue::start(record, Arc::clone(&metrics), QUEUE_CAPACITY)?,
            started: (options.clock)(),
            metrics,
            tokens: TokenCache::default(),
            machines: Machines::default(),
            hosts: HostCache::default(),
            oidc,
            guest: Mutex::new(options.guest.clone()),
            // A host that was offline sends its spool as fast as the board takes it.
            pushes: RateLimit::new(200, 20.0),
            claims: RateLimit::new(100, 1.0),
            account_log_ins: RateLimit::new(5, 0.1),
            address_log_ins: RateLimit::new(20, 0.5),
            uploads: Semaphore::new(UPLOADS_AT_ONCE),
            hashes: Arc::new(Semaphore::new(HASHES_AT_ONCE)),
            stopping: watch::Sender::new(false),
            registry: Arc::clone(&options.registry),
            ledger: Arc::clone(&options.ledger),
            options,
        }))
    }

    pub fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    /// Whether the agent of a host has sent nothing for this time; by default for three of its own intervals. Reports
    /// that were sent while the board was down did not arrive, so silence counts from the start of the board at the earliest. For
    /// a host without a report, it counts from the time at which its token became valid, because it cannot report earlier.
    pub(crate) fn is_silent(
        &self,
        host: &Host,
        live: Option<&HostLive>,
        longest: Option<SignedDuration>,
        now: Timestamp,
    ) -> bool {
        let last = live.map_or(host.token_since, |live| live.received_at);
        let interval = live.map_or_else(Interval::default, |live| live.interval);
        let longest = longest.unwrap_or_else(|| interval.silent_after());
        host.is_approved && now.duration_since(last.max(self.started)) > longest
    }

    /// Returns the guest of a demonstration to the first caller that has its link.
    pub(crate) fn take_guest(&self, link: &SecretHash) -> Option<Account> {
        let mut guest = self.guest.lock().unwrap_or_else(PoisonError::into_inner);
        let found = guest.take_if(|guest| guest.link == *link)?;
        Some(found.account)
    }

    /// Runs a call on a thread for blocking work.
    pub async fn blocking<T: Send + 'static, E: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Arc<Self>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        Problem: From<E>,
    {
        let app = Arc::clone(self);
        let result = tokio::task::spawn_blocking(move || call(&app)).await;
        // The task fails only if the call panicked, or while the runtime is shutting down.
        Ok(result.map_err(|_| Problem::Stopping)??)
    }

    /// Returns the enrolled hosts that a caller sees, by display name: those of the workspace that the caller's groups may
    /// use. Every list, page and document of hosts starts from it. Blocks.
    pub(crate) fn hosts(&self, caller: &MemberCaller) -> Result<Arc<Vec<Host>>, Problem> {
        let (workspace, groups) = (caller.workspace.id.clone(), caller.groups.clone());
        Ok(self.hosts.hosts(&*self.registry, workspace, groups)?)
    }

    /// Returns the only host of a server without accounts.
    pub(crate) fn local(&self) -> Result<&Local, Problem> {
        let local = self.options.local.as_ref();
        local.ok_or(Problem::NotFound("path"))
    }

    /// Describes a change.
    pub fn change(&self, actor: Actor, address: Option<IpAddr>) -> Change {
        Change {
            actor,
            address: address.map(|address| address.to_string()),
            at: self.now(),
        }
    }

    /// Ends streams and refuses new ones. The server calls it when it stops to accept connections.
    pub(crate) fn begin_stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Stores everything that was accepted. Blocks.
    pub fn finish(&self) {
        self.begin_stop();
        self.queue.stop();
        // The strips are for display only: without the stored ones, the board starts with shorter strips.
        let _ = self.store_days();
    }

    /// Stores the day strips of all GPUs. Blocks.
    pub(crate) fn store_days(&self) -> Result<(), StoreError> {
        // Pushes wait for each transaction, so it is short.
        for part in self.live.days().chunks(DAYS_AT_ONCE) {
            self.ledger.put_days(part)?;
        }
        Ok(())
    }

    /// Restores the day strips that [`App::store_days`] stored before the start. Blocks.
    pub(crate) fn restore_days(&self) -> Result<(), StoreError> {
        for (host, stored) in self.ledger.days()? {
            self.live.restore_day(&host, &stored);
        }
        Ok(())
    }
}

/// Reason a board cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot load the latest state of the hosts")]
    Ledger(#[from] StoreError),
    #[error("cannot start a thread")]
    Thread(#[from] io::Error),
}

impl fmt::Debug for App {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("App")
    }
}

impl fmt::Debug for AppOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AppOptions")
            .field("public_url", &self.public_url)
            .finish_non_exhaustive()
    }
}
