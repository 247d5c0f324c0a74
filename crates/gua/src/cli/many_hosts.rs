//! Commands that enrol this host at a board and push data to it.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueHint};
use gua_wire::Pin;

/// Enrol this host at a board with a one-time token.
///
/// The board shows the token. After enrolment, `gua sync-once` and `gua daemon --cloud` push the GPUs with their load
/// and their processes with PID, login user and short name, but never command lines; docs/wire.md lists all fields.
/// Enrolment alone starts no pushes.
///
/// # Notes
///
/// A token on the command line is visible to all users of this host while the command runs. Use `-` to read it from
/// standard input (without echo on a terminal), or set GUA_ENROLLMENT_TOKEN.
///
/// # Examples
///
/// - `gua enroll --server-url https://board.example.com --enrollment-token - < token`
/// - `GUA_ENROLLMENT_TOKEN=... gua enroll --server-url https://board.example.com`
/// - `gua enroll --server-url https://board.lab --ca-file /etc/lab-ca.pem --enrollment-token -`
/// - `gua enroll --server-url http://127.0.0.1:8080 --enrollment-token - --force`
#[derive(Debug, Args)]
pub struct EnrollArgs {
    /// URL of the board; https is required unless the board is on this host [default: setting cloud.url].
    #[arg(id = "cloud.url", long = "server-url", value_name = "URL", value_hint = ValueHint::Url)]
    pub server_url: Option<OsString>,

    /// One-time token, or - to read it from standard input [default: GUA_ENROLLMENT_TOKEN].
    #[arg(long, value_name = "TOKEN")]
    pub enrollment_token: Option<Secret>,

    #[command(flatten)]
    pub enrolment: EnrolmentArgs,

    #[command(flatten)]
    pub way: WayArgs,

    /// The only certificate to accept from the board, as the board's page Servers prints it. The enrolment keeps it.
    #[arg(long, value_name = "sha256:HEX")]
    pub pin: Option<Pin>,

    /// Name of this host on the board [default: the host name].
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,

    /// Agent version to report to the board [default: the version of gua].
    #[arg(long, value_name = "VERSION")]
    pub agent_version: Option<String>,

    /// Driver version to report to the board [default: the version of the installed driver].
    #[arg(long, value_name = "VERSION")]
    pub driver_version: Option<String>,

    /// Replace an existing enrolment.
    #[arg(long)]
    pub force: bool,
}

/// Take one sample, store it in the local history and push it to the board.
///
/// The sample is stored before it is pushed, so an unreachable board never loses local data. If the driver cannot be
/// read, the error is reported to the board.
///
/// # Examples
///
/// - `gua sync-once`: one sample, for a timer or to test the connection
/// - `gua sync-once --fake`: simulated GPUs, stored in a separate file
/// - `gua sync-once --db /data/gpus.db`: store the sample in another history
#[derive(Debug, Args)]
pub struct SyncOnceArgs {
    /// History file to write [default: ~/.gua/gua.db; with --fake, a new file].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    #[command(flatten)]
    pub enrolment: EnrolmentArgs,

    #[command(flatten)]
    pub way: WayArgs,

    /// Push simulated GPUs instead of those of this host.
    #[arg(long)]
    pub fake: bool,

    /// Also upload closed days to the board's archive, unless this was done today.
    #[arg(long, conflicts_with = "fake")]
    pub archive: bool,
}

/// Upload closed days of the local history to the board's archive.
///
/// Each closed UTC day that the board lacks is uploaded as two files with everything that gpu-usage-audit records;
/// docs/wire.md lists every column. The board is then asked to delete days older than the retention. The local history
/// is not changed. Uploaded days are not sent again: after a failure, run the command again.
///
/// # Notes
///
/// The setting cloud.users controls user names in the archive: plain, hash or omit.
///
/// # Examples
///
/// - `gua sync-archive`: upload missing days of the last 30
/// - `gua sync-archive --retention-days 90`: upload the last 90 days; delete older ones there
/// - `gua sync-archive --db /data/gpus.db`: from another history, or one of gpu-usage-audit
#[derive(Debug, Args)]
pub struct SyncArchiveArgs {
    /// History file to read [default: the user's own or the host's].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// Retention of the archive in days [default: 30].
    #[arg(
        id = "cloud.archive_days",
        long = "retention-days",
        value_name = "DAYS"
    )]
    pub retention_days: Option<OsString>,

    #[command(flatten)]
    pub enrolment: EnrolmentArgs,

    #[command(flatten)]
    pub way: WayArgs,
}

/// Location of the enrolment.
#[derive(Debug, Args)]
pub struct EnrolmentArgs {
    /// Enrolment file [default: ~/.gua/cloud.json].
    #[arg(id = "cloud.config", long = "config", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// Connection options for the board.
#[derive(Debug, Args)]
pub struct WayArgs {
    /// PEM file with CA certificates to trust in addition to those of the system.
    #[arg(id = "cloud.ca_file", long = "ca-file", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub ca_file: Option<PathBuf>,

    /// Allow unencrypted HTTP to another host; the secret can then be read on the network.
    #[arg(id = "cloud.allow_http", long = "allow-http")]
    pub allow_http: bool,
}

/// Secret string; its `Debug` output and error messages never contain the value.
#[derive(Clone)]
pub struct Secret(pub String);

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret([hidden])")
    }
}
