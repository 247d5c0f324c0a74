//! The enrolment of a running daemon: reloaded when its file changes, missing when the file is removed.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gua_files::FileError;
use gua_model::chain::chain;
use gua_model::failure_log::FailureLog;
use gua_wire::CloudConfig;
use gua_wire::cloud::CloudError;
use tracing::{info, warn};

use super::client::CallError;
use super::cloud_file::{self, CloudFile};
use super::endpoint::{ConnectOptions, Endpoint, EndpointError};
use crate::{lock, service};

/// An enrolment file, which may not exist, and the connection options.
#[derive(Clone, Debug)]
pub struct Enrolment {
    pub file: CloudFile,
    options: ConnectOptions,
    known: Option<(Stamp, Arc<Enrolled>)>,
    /// Failed replacements of the token, including those before the enrolment was reloaded.
    token_failures: Arc<Mutex<FailureLog>>,
}

/// A loaded enrolment with the endpoint of its board.
#[derive(Debug)]
pub struct Enrolled {
    pub config: CloudConfig,
    pub endpoint: Endpoint,
    file: CloudFile,
    token_failures: Arc<Mutex<FailureLog>>,
}

/// Reason the token of this host was not replaced.
#[derive(Debug, thiserror::Error)]
enum TokenError {
    #[error("cannot save the enrolment")]
    Save(#[from] io::Error),
    #[error("the board did not answer with a new token")]
    Call(#[from] CallError),
}

impl Enrolled {
    /// Pushes an encoded snapshot, and the live report if the board accepts one. The token is replaced when the board asks
    /// for it; if that fails, the present one stays valid.
    ///
    /// # Errors
    /// If the board did not accept the push.
    pub fn push(&self, body: &str, live: impl FnOnce() -> Option<String>) -> Result<(), CallError> {
        let replaced = match self.post(body, live)? {
            true => self.replace_token(),
            false => Ok(false),
        };
        match lock(&self.token_failures).change(&replaced) {
            Some(Ok(failures)) => info!(failures, "the token was replaced"),
            Some(Err(error)) => {
                warn!(error = %chain(error), "cannot replace the token; the current one stays valid");
            }
            None => {}
        }
        if replaced.is_ok_and(|is_replaced| is_replaced) {
            info!("token replaced");
        }
        Ok(())
    }

    /// Replaces the token in the enrolment file; returns whether that was this process's task. A copy of the file that a
    /// service has would become invalid, so such a file keeps its token.
    fn replace_token(&self) -> Result<bool, TokenError> {
        if service::has_copy_of(self.file.path()) {
            return Ok(false);
        }
        // Two processes at once could save a token that the board has replaced already.
        let Some(_lock) = self.file.try_lock()? else {
            return Ok(false);
        };
        let is_current = || self.file.load().ok().as_ref() == Some(&self.config);
        if !is_current() {
            return Ok(false);
        }
        // A token that cannot be saved would be lost.
        let prepared = self.file.prepare()?;
        let config = self.new_token()?;
        // The host may have been enrolled elsewhere or unenrolled meanwhile.
        if !is_current() {
            return Ok(false);
        }
        cloud_file::save(prepared, &config)?;
        Ok(true)
    }
}

/// Why the enrolment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EnrolmentError {
    #[error("no enrolment at `{}`", .0.display())]
    Missing(PathBuf),
    #[error(transparent)]
    Unreadable(FileError),
    #[error("`{}` is not a valid enrolment", path.display())]
    Invalid { path: PathBuf, source: CloudError },
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl EnrolmentError {
    /// Whether this host is not enrolled at all.
    pub fn is_missing(&self) -> bool {
        matches!(self, EnrolmentError::Missing(_))
    }
}

/// Inode, length and change time of a file: attributes that change when it is replaced.
type Stamp = (u64, u64, (i64, i64));

impl Enrolment {
    pub fn new(file: CloudFile, options: ConnectOptions) -> Self {
        Self {
            file,
            options,
            known: None,
            token_failures: Arc::default(),
        }
    }

    /// The current enrolment. The file is only read again when it has changed; nothing is contacted.
    ///
    /// # Errors
    /// If there is no enrolment, or it cannot be used.
    pub fn current(&mut self) -> Result<Arc<Enrolled>, EnrolmentError> {
        let stamp = std::fs::metadata(self.file.path()).ok().map(|facts| {
            let changed = (facts.ctime(), facts.ctime_nsec());
            (facts.ino(), facts.len(), changed)
        });
        if let (Some((known, enrolled)), Some(stamp)) = (&self.known, stamp)
            && *known == stamp
        {
            return Ok(Arc::clone(enrolled));
        }
        self.known = None;
        let config = self.file.load()?;
        let options = ConnectOptions {
            pin: config.pin,
            ..self.options.clone()
        };
        let endpoint = Endpoint::new(&config.server_url, &options)?;
        let enrolled = Arc::new(Enrolled {
            config,
            endpoint,
            file: self.file.clone(),
            token_failures: Arc::clone(&self.token_failures),
        });
        if let Some(stamp) = stamp {
            self.known = Some((stamp, Arc::clone(&enrolled)));
        }
        Ok(enrolled)
    }
}
