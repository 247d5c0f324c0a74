//! The server of a board: agents push to it, people and programs read from it.
//!
//! A request passes the limits of its connection, is authenticated by [`access`] as its row in [`routes`] demands, and
//! reaches a handler as a `Call`. Handlers call the store and the in-memory [`live`] state; they contain no SQL and compute no
//! numbers of their own. `error` is the only place that chooses a status code for a failure.
//!
//! - `agent`: the contract with agents: enrolment, observations, archives, stream, live state
//! - [`alert`]: conditions of alerts on the hosts
//! - `api`: the JSON API for pages, programs and `gua` itself
//! - `pages`: the same answers as HTML for people
//! - `availability`: the GPUs of a workspace, filtered and grouped
//! - [`demo`]: the reports of a simulated fleet
//! - `ingest`: batches of observations, one transaction each, acknowledged when stored
//! - [`live`]: the latest state of all hosts with changes since a revision, for pages and event streams
//! - [`local`]: the same pages for one host without accounts, and nvgpu's agent and master
//! - [`oidc`]: log-in at an OpenID Connect provider
//! - [`run`]: the whole life of a server: socket, signals, regular work
//! - [`set_up`]: what commands on the board's host add to its data
//! - [`server`]: connections, time limits and the graceful stop
//! - [`tls`]: the certificate of the server

pub mod access;
mod agent;
pub mod alert;
mod api;
mod app;
mod availability;
mod call;
pub mod demo;
mod error;
mod host_cache;
mod ingest;
mod limits;
pub mod live;
pub mod local;
mod machines;
mod metrics;
pub mod oidc;
mod openapi;
mod operation;
mod pages;
mod request;
pub mod routes;
pub mod run;
pub mod server;
pub mod set_up;
pub mod tls;
mod token_cache;

pub use app::{AlertList, AlertLog, App, AppOptions, Clock};
pub use error::Problem;
pub use request::Proxies;
