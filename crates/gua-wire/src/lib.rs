//! Formats that others own or have frozen: what an agent and a board say to each other, and the files they exchange.
//!
//! This crate makes and reads bytes. It opens no socket and no file, asks no clock and reads no setting: callers bring
//! samples, times and answers. Released forms are kept for good, each with its golden file under `tests/golden`; a new
//! form is added beside them. `docs/wire.md` says which facts leave a host.
//!
//! - [`cloud`]: the file that an enrolled host keeps; [`server_url`] and [`token`] are its parts
//! - [`enroll`]: the claim by which a host is enrolled
//! - [`snapshot`]: the state of a host, as sent after a tick
//! - [`stream`]: utilisation, each second
//! - [`archive`]: closed days as compressed CSV
//! - [`users`]: how much of a user's name may leave the host
//! - [`refusal`]: what a board's error answer says
//! - [`run`]: the files of a watched job

pub mod archive;
pub mod cloud;
pub mod enroll;
mod fields;
pub mod refusal;
pub mod run;
pub mod server_url;
pub mod snapshot;
pub mod stream;
pub mod token;
pub mod users;

pub use cloud::CloudConfig;
pub use enroll::{ClaimAnswer, ClaimRequest};
pub use fields::FieldsError;
pub use server_url::ServerUrl;
pub use snapshot::{Form, Snapshot};
pub use token::Token;
pub use users::UserPolicy;
