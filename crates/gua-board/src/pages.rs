//! The pages for people: HTML rendered here, complete without JavaScript.
//!
//! A page asks the handler of [`crate::api`] that a program would ask, and turns the answer into HTML. It decides nothing
//! about access: the row in [`crate::routes`] does. A form posts to a route that calls the API handler with the same
//! fields and then redirects. Text from hosts is hostile; maud escapes everything that is put into a template.

mod admin;
mod asset;
mod availability;
mod event;
mod gpu;
mod guide;
mod host;
mod layout;
mod local;
mod person;
mod servers;
mod session;
mod settings;
mod sign_on;
mod text;

pub(crate) use admin::{add_token, audit, invite, members, reset_member, tokens};
pub(crate) use asset::asset;
pub(crate) use availability::{availability, screen};
pub(crate) use event::events;
pub(crate) use host::{gpu, host};
pub(crate) use layout::{View, encode, problem, see_other};
pub(crate) use local::{overview, people, person, report};
pub(crate) use person::{add_name_code, me, member};
pub(crate) use servers::{add_key, servers};
pub(crate) use session::{enter_demo, home, join_form, log_in, log_in_form, reset_form};
pub(crate) use settings::settings;
pub(crate) use sign_on::{begin_sign_on, finish_sign_on, join_by_sign_on};
