//! Leases on cards, and events, in a directory that the users of a host share. No server and no root.
//!
//! # How two people never get the same card
//!
//! The **shared directory** is one that root owns and everyone may write, with the sticky bit: `/run/lock` or
//! `/dev/shm` on an ordinary host. Nobody but root can remove or rename what another user made there.
//!
//! - **The lock is the directory itself**, `flock`ed through a descriptor that is open for reading. There is no lock
//!   file, so there is none to plant, to replace, or to own. The kernel ends the lock with its process. Who decides
//!   which card to take, and writes it down, does both under this lock.
//! - **Each user has a user directory**: a directory of an unguessable name that only its owner can write. What a user writes
//!   stands in it: claims, places in the queue, events. Others read it. Whose a file is, is told by the kernel (the
//!   owner of the user directory and of the file, which must agree), never by what is written in it.
//! - **Nothing of others is ever removed.** A claim ends by rule (its deadline, its process's end), so whatever is left
//!   of a killed process counts for nothing, and is swept by its owner's next call.
//! - **Offer, second look, hand-over** ([`Offer`]): the driver is never asked under the lock, and no answer rests on a look
//!   from before it.
//!
//! What another user can still do is to deny: hold the lock, fill the file system, claim every card. Each of these is
//! told with the name of who does it. `docs/claims.md` has the whole list.
//!
//! # A process that leases cards for itself
//!
//! ```no_run
//! # use gua_claim::{Answer, ClaimDir, ClaimError, Kernel, Look, Request};
//! # fn lease(dir: &ClaimDir, kernel: &dyn Kernel, request: &Request, look: impl Fn() -> Look) -> Result<(), ClaimError> {
//! // `request.for_process` and `request.asker` are both this process.
//! if let Answer::Offered(offer) = dir.take(request, &look(), kernel)? {
//!     // A new look, after the offer. `None`: somebody came onto a card meanwhile; ask again.
//!     if let Some(grant) = offer.confirm(dir, &look(), kernel) {
//!         let claim = grant.hand_over(dir, kernel)?;
//!         // ... work on claim.cards; if this process is killed, the claim ends with it ...
//!         dir.release(&claim.id)?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! To wait in turn, [`ClaimDir::join`] once and [`ClaimDir::advance`] after each look, with a pause in between.
//!
//! # What this crate refuses to do
//!
//! It asks neither the time nor the processes nor the driver: [`Look`] and [`Kernel`] come from the caller. It prints
//! nothing, starts nothing, and signals nobody.

mod ask;
mod claim;
mod directory;
mod error;
mod event;
mod facts;
mod offer;
mod queue;
mod survey;
mod user_dir;
mod user_dirs;

pub use ask::{Answer, LONGEST_LEASE, LONGEST_WAIT, MOST_CARDS, Request, Short};
pub use claim::{Claim, ClaimId, ClaimedBy, ClaimedCard, LiveClaim};
pub use directory::{ClaimDir, USUAL_PLACES};
pub use error::{ClaimError, OpenError, Problem, Trouble};
pub use event::{BlockingCard, Event, EventId, Outcome, Refusal, Run, TakenIn};
pub use facts::{Kernel, Look, Moment, OnCard, PidNamespace, Session, Standing};
pub use offer::{Grant, Offer};
pub use queue::{PATIENCE, Ticket, Waiter};
pub use survey::Survey;
pub use user_dir::random_word;
