//! The JSON API: `/api/v1`. Everything that a page shows or changes goes through these handlers or the same traits.

mod hosts;
mod members;
mod session;
mod tokens;
pub mod visibility;

use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Problem;
use crate::request::{parse, read_body};

pub(crate) use hosts::{
    add_enrolment_key, enrolment_keys, hosts, live, rename_host, revoke_enrolment_key, revoke_host,
};
pub(crate) use members::{audit_log, invite, members, remove_member, set_role};
pub(crate) use session::{join, log_in, log_out, me};
pub(crate) use tokens::{add_api_token, api_tokens, revoke_api_token};

/// Maximum size of a request body.
const MOST_BYTES: usize = 64 * 1024;
/// Maximum length of a name that people choose, in characters.
const LONGEST_NAME: usize = 100;

/// A list in an answer. An object can get more fields later; an array cannot.
#[derive(Serialize)]
pub(crate) struct List<T> {
    items: Vec<T>,
}

/// An object that was added, with the secret that is shown this once.
#[derive(Serialize)]
pub(crate) struct WithSecret<T> {
    #[serde(flatten)]
    object: T,
    secret: String,
}

/// Reads a JSON request body.
async fn body<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    parse(&read_body(body, MOST_BYTES).await?)
}

fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    match query {
        Ok(Query(values)) => Ok(values),
        Err(error) => Err(Problem::Invalid(error.body_text())),
    }
}

/// Checks a name that people choose: trimmed, visible, not too long.
pub(crate) fn checked_name(text: &str) -> Result<String, Problem> {
    let name = text.trim();
    let is_visible = !name.contains(gua_model::text::is_harmful);
    if name.is_empty() || !is_visible || name.chars().count() > LONGEST_NAME {
        return Err(Problem::Invalid(format!(
            "a name has 1 to {LONGEST_NAME} visible characters"
        )));
    }
    Ok(name.to_owned())
}
