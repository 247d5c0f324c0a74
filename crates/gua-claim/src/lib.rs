//! Leases on GPUs, and events, in a directory that the users of a host share. It needs no server and no root.
//!
//! # Why two users never get the same GPU
//!
//! The **shared directory** is one that root owns and everyone may write, with the sticky bit: `/run/lock` or
//! `/dev/shm` on an ordinary host. Nobody but root can remove or rename what another user made there.
//!
//! - **The lock is the directory itself**, `flock`ed through a descriptor that is open for reading. There is no lock
//!   file that a user could plant, replace or own. The kernel releases the lock when its process ends. GPUs are chosen
//!   and recorded under this lock.
//! - **Each user has a user directory**: a directory with an unguessable name that only its owner can write. It
//!   contains the user's claims, queue tickets and events, which others read. The owner of a file is what the kernel
//!   reports (the owners of the directory and of the file must agree), never what is written in it.
//! - **Files of other users are never removed.** A claim ends by rule (its deadline, the end of its process), so files
//!   that a killed process left do not count, and the owner's next call removes them.
//! - **Offer, second sample, hand-over** ([`Offer`]): the driver is never read under the lock, and no answer relies on a
//!   sample taken before it.
//!
//! Another user can still deny service: hold the lock, fill the file system, claim every GPU. Each of these is reported with
//! the name of that user. `docs/claims.md` has the whole list.
//!
//! # A process that leases GPUs for itself
//!
//! ```no_run
//! # use gua_claim::{Answer, ClaimDir, ClaimError, Kernel, Observed, Request};
//! # fn lease(dir: &ClaimDir, kernel: &dyn Kernel, request: &Request, observe: impl Fn() -> Observed) -> Result<(), ClaimError> {
//! // `request.for_process` and `request.requester` are both this process.
//! if let Answer::Offered(offer) = dir.take(request, &observe(), kernel)? {
//!     // A new sample, after the offer. `None`: another process has started to use a GPU since; request again.
//!     if let Some(grant) = offer.confirm(dir, &observe(), kernel) {
//!         let claim = grant.hand_over(dir, kernel)?;
//!         // ... work on claim.gpus; if this process is killed, the claim ends with it ...
//!         dir.release(&claim.id)?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! To wait in turn, [`ClaimDir::join`] once and [`ClaimDir::advance`] after each sample, with a pause in between.
//!
//! # What this crate does not do
//!
//! It does not read the time, processes or the driver: [`Observed`] and [`Kernel`] come from the caller. It prints nothing,
//! starts no process and sends no signal.

mod ask;
mod claim;
mod directory;
mod error;
mod event;
mod facts;
mod note;
mod offer;
mod queue;
mod refused;
mod survey;
mod user_dir;
mod user_dirs;

pub use ask::{Answer, MAX_GPUS, MAX_LEASE, MAX_WAIT, Request, Short};
pub use claim::{Claim, ClaimId, ClaimedBy, LeasedGpu, LiveClaim};
pub use directory::{ClaimDir, USUAL_PLACES};
pub use error::{ClaimError, OpenError, Problem, Trouble};
pub use event::{BlockingGpu, Event, EventId, ReadEvents, Refusal, Run};
pub use facts::{Kernel, Life, Moment, Observed, OnGpu, PidNamespace, Session};
pub use gua_model::refusal::RefusalOutcome as Outcome;
pub use note::{Keep, NUDGE_AGE, Nudge};
pub use offer::{Grant, Offer};
pub use queue::{MAX_KEEP_TIME, Ticket, Waiter};
pub use refused::Refused;
pub use survey::Survey;
pub use user_dir::random_word;
