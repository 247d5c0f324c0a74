//! User names that members prove with `gua board link`. A host can confirm user names on itself only.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use gua_board_store::SecretHash;
use gua_board_store::registry::{Actor, MAX_USER_NAME_LENGTH};
use serde::{Deserialize, Serialize};

use super::contract::{check_text, invalid};
use crate::access::AgentCaller;
use crate::app::App;
use crate::call::Call;
use crate::error::Problem;
use crate::request::{parse, read_body};

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

pub(crate) async fn prove_name(call: Call, body: Body) -> Result<Json<Linked>, Problem> {
    if call.app.claims.take(call.address()).is_err() {
        return Err(Problem::TooManyRequests { retry_after: 1 });
    }
    let proof: Proof = parse(&read_body(body, MAX_BYTES).await?)?;
    check_text("user", Some(&proof.user), MAX_USER_NAME_LENGTH)?;
    if proof.user.is_empty() {
        return Err(invalid("user is empty"));
    }
    let host = call.extension::<AgentCaller>().host.clone();
    let change = call.change_by(Actor::Host(host.display_name.clone()));
    let code = SecretHash::of(proof.code.trim());
    let prove = move |app: &Arc<App>| app.registry.prove_name(&change, &code, &host, &proof.user);
    let account = call.app.blocking(prove).await?;
    Ok(Json(Linked { account }))
}
