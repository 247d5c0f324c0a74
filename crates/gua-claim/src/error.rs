//! Errors, and problems with entries of user directories.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use gua_model::Uid;
use gua_model::claim::MAX_LEASE;
use gua_model::text::sanitize;
use rustix::io::Errno;

use crate::claim::ClaimId;

/// Why a directory cannot be the shared one.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open the claims directory `{}`", path.display())]
    Open { path: PathBuf, source: Errno },
    #[error("the claims directory `{}` is a link or not a directory", path.display())]
    NoDirectory { path: PathBuf },
    #[error(
        "the claims directory `{}` belongs to uid {owner}, who could remove other people's claims",
        path.display()
    )]
    Foreign { path: PathBuf, owner: Uid },
    #[error(
        "the claims directory `{}` can be written by others and has no sticky bit, so anyone could remove a claim",
        path.display()
    )]
    NotSticky { path: PathBuf },
    #[error("none of {} can be written by every user", list(tried))]
    NoPlace { tried: Vec<PathBuf> },
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

/// Why a claim, a release or an event could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error(
        "the claims directory `{}` has been locked by another process for over {} s",
        path.display(),
        waited.as_secs()
    )]
    Busy { path: PathBuf, waited: Duration },
    /// `what` is the operation.
    #[error("cannot {what} `{}`", path.display())]
    Directory {
        what: &'static str,
        path: PathBuf,
        source: Errno,
    },
    #[error("uid {owner} has too many {what} in the claims directory")]
    TooMany { owner: Uid, what: &'static str },
    #[error("a claim can last {} s at most", MAX_LEASE.as_secs())]
    TooLong,
    #[error("{wanted} GPUs were requested, but this host has {gpus}")]
    Impossible { wanted: usize, gpus: usize },
    #[error("a claim needs at least one GPU")]
    NoGpus,
    #[error("the process that the claim is for has ended")]
    ProcessEnded,
    #[error("the lease of claim {0} expired before it could be handed over")]
    TooLate(ClaimId),
    #[error("no claim {0}")]
    NoSuchClaim(ClaimId),
    #[error("claim {id} belongs to uid {owner}")]
    NotYours { id: ClaimId, owner: Uid },
}

/// An entry of a user directory that does not count, and why. It affects nobody but its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Owner according to the kernel.
    pub owner: Uid,
    /// Name of the entry, sanitized for display.
    pub name: String,
    pub trouble: Trouble,
}

impl Problem {
    pub(crate) fn new(owner: Uid, name: &str, trouble: Trouble) -> Self {
        Self {
            owner,
            name: sanitize(name),
            trouble,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "`{}` of uid {} {}",
            self.name, self.owner, self.trouble
        )
    }
}

/// Why an entry does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A link, no directory, another file system, or not readable by us.
    #[error("cannot be opened: {0}")]
    Closed(Errno),
    /// A user directory that others than its owner can write.
    #[error("can be written by users other than its owner")]
    Shared,
    #[error("is not a regular file")]
    NoFile,
    #[error("belongs to uid {0}, not to the owner of its directory")]
    Foreign(Uid),
    #[error("is too large")]
    TooLarge,
    #[error("is damaged")]
    Garbled,
    /// A lease or a wait longer than the format allows.
    #[error("lasts longer than allowed")]
    TooLong,
    /// More entries than one user may have; the rest was not read.
    #[error("has more entries than a user may have")]
    TooMany,
}
