//! Enrolment: a host presents a key and receives its identity and its token.

use axum::Json;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gua_board_store::registry::HostClaim;
use gua_board_store::{Kind, Secret, SecretHash, StoreError};
use gua_wire::enroll::{MAX_HOSTNAME_LENGTH, MAX_VERSION_LENGTH};
use serde::{Deserialize, Serialize};

use super::contract::{check_text, invalid};
use crate::access::AgentCaller;
use crate::call::Call;
use crate::error::Problem;
use crate::request::{parse, read_body};

const MAX_BYTES: usize = 16 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Claim {
    enrollment_token: String,
    hostname: Option<String>,
    agent_version: Option<String>,
    driver_version: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    host_id: &'a str,
    display_name: &'a str,
    agent_token: &'a str,
    token_prefix: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewToken<'a> {
    agent_token: &'a str,
    token_prefix: &'a str,
}

pub(crate) async fn claim(call: Call, body: Body) -> Result<Response, Problem> {
    let (app, address) = (&call.app, call.address());
    let too_many = |retry_after| Problem::TooManyRequests { retry_after };
    app.claims.take(address).map_err(too_many)?;
    let claim: Claim = parse_claim(&read_body(body, MAX_BYTES).await?)?;
    let token = Secret::generate(Kind::Agent);
    let claim = HostClaim {
        key: SecretHash::of(claim.enrollment_token.trim()),
        token: token.hash(),
        token_prefix: token.prefix(),
        hostname: present(claim.hostname),
        agent_version: present(claim.agent_version),
        driver_version: present(claim.driver_version),
        address: address.map(|address| address.to_string()),
        at: app.now(),
    };
    let claimed = app.blocking(move |app| match app.registry.claim(&claim) {
        Err(StoreError::NotFound(_)) => Ok(Err(Problem::NotEnrolled(None))),
        other => other.map(Ok),
    });
    let host = claimed.await??;
    let answer = Answer {
        host_id: host.id.as_str(),
        display_name: &host.display_name,
        agent_token: token.reveal(),
        token_prefix: &host.token_prefix,
    };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// Issues a new token to an agent. The old one is valid until the agent uses the new one.
pub(crate) fn new_token(call: &Call) -> crate::call::Answer {
    let token = Secret::generate(Kind::Agent);
    let host = &call.extension::<AgentCaller>().host.id;
    let prefix = token.prefix();
    call.app
        .registry
        .rotate_token(host, &token.hash(), &prefix)?;
    let answer = NewToken {
        agent_token: token.reveal(),
        token_prefix: &prefix,
    };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

fn parse_claim(bytes: &[u8]) -> Result<Claim, Problem> {
    let claim: Claim = parse(bytes)?;
    if claim.enrollment_token.trim().is_empty() {
        return Err(invalid("enrollmentToken is blank"));
    }
    for (field, text, longest) in [
        ("hostname", &claim.hostname, MAX_HOSTNAME_LENGTH),
        ("agentVersion", &claim.agent_version, MAX_VERSION_LENGTH),
        ("driverVersion", &claim.driver_version, MAX_VERSION_LENGTH),
    ] {
        check_text(field, text.as_deref(), longest)?;
    }
    Ok(claim)
}

fn present(text: Option<String>) -> Option<String> {
    let text = text?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
