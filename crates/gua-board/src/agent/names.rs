//! User names that members prove with `gua board link`. A host can confirm user names on itself only.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use gua_board_store::SecretHash;
use gua_board_store::registry::{Actor, MAX_USER_NAME_LENGTH};
use serde::{Deserialize, Serialize};

use super::contract::{check_text, invalid};
use crate::access::AgentCaller;
use crate::app::App;
use crate::error::Problem;
use crate::request::{ClientAddress, parse, read_body};

const MAX_BYTES: usize = 16 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    code: String,
    user: String,
}

#[derive(Serialize)]
pub(crate) struct Linked {
    account: String,
}

pub(crate) async fn prove_name(
    State(app): State<Arc<App>>,
    Extension(agent): Extension<AgentCaller>,
    Extension(address): Extension<ClientAddress>,
    body: Body,
) -> Result<Json<Linked>, Problem> {
    if app.claims.take(address.0).is_err() {
        return Err(Problem::TooManyRequests { retry_after: 1 });
    }
    let proof: Proof = parse(&read_body(body, MAX_BYTES).await?)?;
    check_text("user", Some(&proof.user), MAX_USER_NAME_LENGTH)?;
    if proof.user.is_empty() {
        return Err(invalid("user is empty"));
    }
    let change = app.change(Actor::host(&agent.host.display_name), address.0);
    let code = SecretHash::of(proof.code.trim());
    let account = app
        .blocking(move |app| {
            app.registry
                .prove_name(&change, &code, &agent.host, &proof.user)
        })
        .await?;
    Ok(Json(Linked {
        account: account.name,
    }))
}
