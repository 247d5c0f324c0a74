//! The pages for people: HTML rendered here, complete without JavaScript.
//!
//! A page asks the handler of [`crate::api`] that a program would ask, and turns the answer into HTML. It decides nothing
//! about access: the row in [`crate::routes`] does. A form posts to a route that calls the API handler with the same
//! fields and then redirects. Text from hosts is hostile; maud escapes everything that is put into a template.

pub(crate) mod admin;
pub(crate) mod asset;
pub(crate) mod availability;
pub(crate) mod event;
mod gpu;
mod guide;
pub(crate) mod host;
mod layout;
pub(crate) mod local;
pub(crate) mod person;
pub(crate) mod servers;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod sign_on;
mod text;

pub(crate) use layout::{View, encode, problem, see_other};
