//! The enrolment as a daemon sees it: read again when its file changes, gone when the file is gone.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use gua_wire::CloudConfig;

use super::client::Client;
use super::cloud_file::{CloudFile, LoadError};
use super::endpoint::{ConnectOptions, Endpoint, EndpointError};

/// A file that may hold an enrolment, and how boards are reached.
#[derive(Clone, Debug)]
pub struct Enrolment {
    file: CloudFile,
    options: ConnectOptions,
    known: Option<(Stamp, Arc<Enrolled>)>,
}

/// A host that is enrolled, and the way to its board.
#[derive(Debug)]
pub struct Enrolled {
    pub config: CloudConfig,
    pub client: Client,
}

/// Why there is nobody to speak to.
#[derive(Debug, thiserror::Error)]
pub enum EnrolmentError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl EnrolmentError {
    /// Whether this host is enrolled nowhere, which no mending changes.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, EnrolmentError::Load(LoadError::Missing(_)))
    }
}

/// What changes when a file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Enrolment {
    #[must_use]
    pub fn new(file: CloudFile, options: ConnectOptions) -> Self {
        Self {
            file,
            options,
            known: None,
        }
    }

    #[must_use]
    pub fn file(&self) -> &CloudFile {
        &self.file
    }

    /// The enrolment as it is now. It is read anew only when the file is another.
    ///
    /// # Errors
    /// When there is none, or none that can be used. Nothing is contacted.
    pub fn current(&mut self) -> Result<Arc<Enrolled>, EnrolmentError> {
        let stamp = std::fs::metadata(self.file.path()).ok().map(|facts| Stamp {
            inode: facts.ino(),
            length: facts.len(),
            changed: (facts.ctime(), facts.ctime_nsec()),
        });
        if let (Some((known, enrolled)), Some(stamp)) = (&self.known, stamp)
            && *known == stamp
        {
            return Ok(Arc::clone(enrolled));
        }
        self.known = None;
        let config = self.file.load()?;
        let client = Client::new(Endpoint::to(&config.server_url, &self.options)?);
        let enrolled = Arc::new(Enrolled { config, client });
        if let Some(stamp) = stamp {
            self.known = Some((stamp, Arc::clone(&enrolled)));
        }
        Ok(enrolled)
    }
}
