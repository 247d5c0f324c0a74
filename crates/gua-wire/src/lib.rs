//! Formats that another project owns or that are frozen: the protocol between an agent and a board, and the files they
//! exchange.
//!
//! This crate serializes and parses bytes. It opens no sockets or files and reads no clock or settings: callers pass
//! samples, times and responses. Released formats are kept permanently, each with its golden file under `tests/golden`;
//! a new format is added beside them. `docs/wire.md` lists the facts that leave a host.
//!
//! - [`cloud`]: the file that an enrolled host keeps; [`server_url`] and [`token`] are its parts
//! - [`pin`]: the certificate that an enrolled host accepts
//! - [`enroll`]: the claim that enrols a host
//! - [`snapshot`]: the state of a host, sent after a tick
//! - [`live`]: the live state with everything that a snapshot has no place for
//! - [`nvgpu`]: the reports of nvgpu's agent and master
//! - [`stream`]: utilisation, once per second
//! - [`archive`]: closed days as compressed CSV
//! - [`users`]: plain, pseudonymous or omitted user names
//! - [`refusal`]: error messages from a board's response
//! - [`run`]: the files of a watched job

pub mod archive;
pub mod cloud;
pub mod enroll;
mod fields;
pub mod live;
pub mod nvgpu;
pub mod pin;
mod python;
pub mod refusal;
pub mod run;
pub mod server_url;
pub mod snapshot;
pub mod stream;
pub mod token;
pub mod users;

pub use cloud::CloudConfig;
pub use enroll::ClaimRequest;
pub use fields::FieldsError;
pub use live::LiveReport;
pub use pin::Pin;
pub use server_url::ServerUrl;
pub use snapshot::{Form, Snapshot};
pub use token::Token;
pub use users::UserPolicy;
