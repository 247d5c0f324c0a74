//! The ledger: what hosts reported. It grows with time and is written in batches.

use gua_model::words;
use jiff::Timestamp;
use jiff::civil::Date;

use crate::error::Result;
use crate::id::HostId;

/// Records of hosts. Every call is one transaction: it is stored as a whole when it returns `Ok`, and survives a crash of
/// the process.
pub trait Ledger: Send + Sync {
    /// Stores a batch of observations. An observation with the host, form and time of a stored one changes nothing.
    fn record(&self, batch: &[Observation]) -> Result<()>;

    /// Returns the newest observation of each host and form. Observations of one host are adjacent.
    fn latest(&self) -> Result<Vec<Observation>>;

    /// Returns the stored snapshots of a host from one time until before another, in order.
    fn snapshots(
        &self,
        host: &HostId,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Observation>>;

    /// Returns host and time of every stored snapshot, without its content.
    fn snapshot_keys(&self) -> Result<Vec<(HostId, Timestamp)>>;

    /// Deletes at most `most` snapshots that were observed before a time, oldest first, and returns their number. The
    /// newest observation of each host stays in [`Ledger::latest`].
    fn expire_snapshots(&self, before: Timestamp, most: u32) -> Result<usize>;

    /// Stores the day strips of the GPUs of some hosts, encoded by the server. Replaces the stored strips of these hosts.
    fn put_days(&self, days: &[(HostId, Vec<u8>)]) -> Result<()>;

    /// Returns the day strips that [`Ledger::put_days`] stored.
    fn days(&self) -> Result<Vec<(HostId, Vec<u8>)>>;

    /// Stores an archive file, replacing one of the same name.
    fn put_archive(
        &self,
        host: &HostId,
        name: &ArchiveName,
        content: &[u8],
        at: Timestamp,
    ) -> Result<()>;

    /// Returns the names of a host's archive files, in order.
    fn archives(&self, host: &HostId) -> Result<Vec<ArchiveName>>;

    /// Deletes a host's daily archive files of days before a date. Files that cover all days stay. Returns their number.
    fn prune_archives(&self, host: &HostId, before: Date) -> Result<usize>;
}

words! {
    /// Form of an observation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Form {
        /// `availability.snapshot.v1`. A history of them is kept.
        Snapshot = "snapshot",
        /// `gua.live.v1`. Only the newest one is kept.
        Live = "live",
    }
}

/// State of a host at one time, as its agent sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub host: HostId,
    pub form: Form,
    /// Time by the host's clock.
    pub observed_at: Timestamp,
    /// Time by the board's clock.
    pub received_at: Timestamp,
    /// The validated JSON document.
    pub body: Vec<u8>,
}

/// Largest difference by which a host's clock may be ahead. A newest observation from further ahead is replaced by the
/// next one, so that a clock that was set back does not freeze the host's state.
pub const MAX_CLOCK_LEAD: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

/// Name of an archive file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArchiveName {
    /// The UTC day; `None` for a file that covers all days.
    pub day: Option<Date>,
    pub table: String,
}

impl ArchiveName {
    /// Text that replaces the day for a file that covers all days.
    pub const FULL: &str = "_full";

    /// Returns the day as text, as it is stored and sent.
    pub fn day_text(&self) -> String {
        self.day
            .map_or_else(|| Self::FULL.to_owned(), |day| day.to_string())
    }
}
