//! The JSON API: `/api/v1`. Everything that a page shows or changes goes through these handlers or the same traits.

mod hosts;
mod keys;
mod members;
mod people;
mod session;
mod tokens;
pub mod visibility;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, Query, Request};
use axum::http::header;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Deserializer, Serialize};

use crate::error::Problem;
use crate::request::{parse, read_body};

pub(crate) use hosts::{
    HostDetail, HostDocument, Rename, Replace, SetMaintenance, Since, approve_host, availability,
    document, end_maintenance, host, hosts, live, rename_host, replace_host, revoke_host,
    same_gpus, set_maintenance,
};
pub(crate) use keys::{
    AddKey, add_enrolment_key, checked_limits, enrolment_keys, enrolment_refusals,
    revoke_enrolment_key,
};
pub(crate) use members::{
    Before, Invitation, RoleBody, audit_log, invite, members, remove_member, reset_member, set_role,
};
pub(crate) use people::{NameCode, Person, add_name_code, link_name, person, unlink_name};
pub(crate) use session::{
    Credentials, Join, Me, NewPassword, Reset, change_password, join, link_hash, log_in, log_out,
    me, reset, secret_cookie, start_session,
};
pub(crate) use tokens::{AddToken, add_api_token, api_tokens, revoke_api_token};

/// Maximum size of a request body.
const MOST_BYTES: usize = 64 * 1024;
/// Content type of a form.
const FORM: &str = "application/x-www-form-urlencoded";
/// Maximum length of a name that people choose, in characters.
const LONGEST_NAME: usize = 100;

/// A list in an answer. An object can get more fields later; an array cannot.
#[derive(Serialize, JsonSchema)]
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
}

/// An object that was added, with the secret that is shown this once.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WithSecret<T> {
    #[serde(flatten)]
    pub(crate) object: T,
    pub(crate) secret: String,
}

/// Reads a whole number. JSON Schema calls `7.0` an integer, too.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    let whole = number.map(|number| number.to_string().parse());
    whole.transpose().map_err(serde::de::Error::custom)
}

/// Body of a request: JSON, or the form of a page. Both reach the same handler.
pub(crate) struct Input<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let is_form = kind.is_some_and(|kind| kind.as_bytes().starts_with(FORM.as_bytes()));
        let bytes = read_body(request.into_body(), MOST_BYTES).await?;
        if !is_form {
            // serde reads an array as the fields of an object, too.
            if bytes.trim_ascii_start().first() == Some(&b'[') {
                return Err(Problem::Invalid("the body is not an object".to_owned()));
            }
            return parse(&bytes).map(Input);
        }
        // A browser sends a field that was left blank; the handlers expect it to be absent.
        let fields = bytes.split(|byte| *byte == b'&');
        let filled: Vec<&[u8]> = fields.filter(|field| !field.ends_with(b"=")).collect();
        let values = serde_urlencoded::from_bytes(&filled.join(&b'&'));
        values
            .map(Input)
            .map_err(|error| Problem::Invalid(error.to_string()))
    }
}

pub(crate) fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    match query {
        Ok(Query(values)) => Ok(values),
        Err(error) => Err(Problem::Invalid(error.body_text())),
    }
}

/// What [`checked_name`] accepts, besides the length: something visible, and no character of `is_harmful`.
const NAME_PATTERN: &str = r"^[^\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*[^\s\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff][^\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*$";

/// Checks a name that people choose: visible, not too long. Returns it without the spaces around it.
pub(crate) fn checked_name(text: &str) -> Result<String, Problem> {
    let name = text.trim();
    let is_visible = !text.contains(gua_model::text::is_harmful);
    if name.is_empty() || !is_visible || text.chars().count() > LONGEST_NAME {
        return Err(Problem::Invalid(format!(
            "a name has 1 to {LONGEST_NAME} visible characters"
        )));
    }
    Ok(name.to_owned())
}
