//! What can be typed to report to a board.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueHint};

use crate::config::FlagValue;

/// Enrol this host at a board, with the one-time token that the board has shown.
///
/// What `gua sync-once` and `gua daemon --cloud` send from then on is told by docs/wire.md: the cards with their load, and
/// the processes on them with pid, login user and short name; never command lines. Nothing is sent by itself.
#[derive(Debug, Args)]
#[command(
    after_help = "A token on the command line can be read by every user of this host while the command runs;\n\
                  `-` reads it from standard input, unseen on a terminal, and GUA_ENROLLMENT_TOKEN gives it as well.\n\n\
                  Examples:\n  \
                  gua enroll --server-url https://board.example.com --enrollment-token - < token\n  \
                  GUA_ENROLLMENT_TOKEN=... gua enroll --server-url https://board.example.com\n  \
                  gua enroll --server-url https://board.lab --ca-file /etc/lab-ca.pem --enrollment-token -\n  \
                  gua enroll --server-url http://127.0.0.1:8080 --enrollment-token - --force"
)]
pub struct EnrollArgs {
    /// The board's address; https, unless it is on this machine [default: cloud.url of the configuration].
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub server_url: Option<OsString>,

    /// The one-time token, or - for standard input [default: the variable GUA_ENROLLMENT_TOKEN].
    #[arg(long, value_name = "TOKEN")]
    pub enrollment_token: Option<Secret>,

    #[command(flatten)]
    pub enrolment: EnrolmentArgs,

    #[command(flatten)]
    pub way: WayArgs,

    /// The name under which the board is to show this host [default: the host's name].
    #[arg(long, value_name = "NAME")]
    pub hostname: Option<String>,

    /// The version that the board is told [default: this gua's].
    #[arg(long, value_name = "VERSION")]
    pub agent_version: Option<String>,

    /// The driver's version that the board is told [default: what the driver says, if there is one].
    #[arg(long, value_name = "VERSION")]
    pub driver_version: Option<String>,

    /// Replace an enrolment that is there already.
    #[arg(long)]
    pub force: bool,
}

/// Forget the board: remove this host's enrolment with its secret.
///
/// The board is not asked and keeps what it has; remove the host there as well, so that its token is worth nothing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gua unenroll")]
pub struct UnenrollArgs {
    #[command(flatten)]
    pub enrolment: EnrolmentArgs,
}

/// Look at the cards once, keep what was seen in the local history, and send it to the board.
///
/// The local history is written before anything is sent; a board that is away costs nothing but its own copy. A driver
/// that cannot be read is told to the board as well.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  gua sync-once                        one look, for a timer or a test of the link\n  \
                  gua sync-once --fake                 made-up cards, kept in a file of their own\n  \
                  gua sync-once --db /data/gpus.db     into another history")]
pub struct SyncOnceArgs {
    /// The history file to write [default: ~/.gua/gua.db; with --fake a new file].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    #[command(flatten)]
    pub enrolment: EnrolmentArgs,

    #[command(flatten)]
    pub way: WayArgs,

    /// Send made-up cards instead of this host's.
    #[arg(long)]
    pub fake: bool,

    /// Send the closed days of the history to the board's archive too, unless that was done today.
    #[arg(long, conflicts_with = "fake")]
    pub archive: bool,
}

/// Send the closed days of the local history to the board's archive.
///
/// Each day in UTC that is over and that the board lacks goes there as two files, with all that gpu-usage-audit records:
/// docs/wire.md tells every column. The board is then asked to delete days that are older than the retention. Nothing
/// changes here, and what was sent is not sent again: after a failure, run it once more.
#[derive(Debug, Args)]
#[command(
    after_help = "How users are named there is the setting cloud.users: plain, hash or omit.\n\n\
                  Examples:\n  \
                  gua sync-archive                        the last 30 days, as far as the board lacks them\n  \
                  gua sync-archive --retention-days 90    of the last 90, and delete older ones there\n  \
                  gua sync-archive --db /data/gpus.db     of another history, one of gpu-usage-audit too"
)]
pub struct SyncArchiveArgs {
    /// The history file to read [default: your own or the host's].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// How many days the archive keeps [default: 30].
    #[arg(long, value_name = "DAYS")]
    pub retention_days: Option<OsString>,

    #[command(flatten)]
    pub enrolment: EnrolmentArgs,

    #[command(flatten)]
    pub way: WayArgs,
}

/// Where the enrolment is.
#[derive(Debug, Args)]
pub struct EnrolmentArgs {
    /// The file of the enrolment [default: ~/.gua/cloud.json].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// How the board is reached.
#[derive(Debug, Args)]
pub struct WayArgs {
    /// A file with certificate authorities (PEM) to believe beside the system's.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub ca_file: Option<PathBuf>,

    /// Send the secret unencrypted to another machine, where everyone on the way can read it.
    #[arg(long)]
    pub allow_http: bool,
}

impl EnrollArgs {
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let url = self.server_url.as_ref();
        let url = FlagValue::of("--server-url", "cloud", "url", url);
        let mut flags = [self.enrolment.settings(), self.way.settings()].concat();
        flags.extend(url);
        flags
    }
}

impl SyncOnceArgs {
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let mut flags = [self.enrolment.settings(), self.way.settings()].concat();
        flags.extend(FlagValue::of("--db", "history", "db", self.db.as_ref()));
        flags
    }
}

impl SyncArchiveArgs {
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let mut flags = [self.enrolment.settings(), self.way.settings()].concat();
        flags.extend(FlagValue::of("--db", "history", "db", self.db.as_ref()));
        let days = self.retention_days.as_ref();
        let days = FlagValue::of("--retention-days", "cloud", "archive_days", days);
        flags.extend(days);
        flags
    }
}

impl EnrolmentArgs {
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let config = FlagValue::of("--config", "cloud", "config", self.config.as_ref());
        config.into_iter().collect()
    }
}

impl WayArgs {
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let ca_file = FlagValue::of("--ca-file", "cloud", "ca_file", self.ca_file.as_ref());
        let allow_http = self.allow_http.then_some("true");
        let allow_http = FlagValue::of("--allow-http", "cloud", "allow_http", allow_http);
        ca_file.into_iter().chain(allow_http).collect()
    }
}

/// A text that is not to be shown, whatever is wrong with it.
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
