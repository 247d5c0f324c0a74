//! One host without accounts (`gua serve`): the pages of a board over the host's own live state and history, and the
//! addresses of nvgpu's agent and master.
//!
//! The server is a board with one host and one account, which every caller has. Reports and nvgpu's documents come from
//! [`LocalHost`], which the program implements: this crate reads no history and no driver.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, header};
use data_encoding::BASE64;
use gua_board_store::ledger::Form;
use gua_board_store::registry::{FIRST_WORKSPACE, Role, Settings, Workspace};
use gua_board_store::{HostId, SecretHash};
use gua_model::GpuUuid;
use gua_model::server_url::names_this_host;
use gua_model::table::Table;
use gua_render::chart::Language;
use gua_wire::LiveReport;
use gua_wire::nvgpu::{AgentReport, ClusterEntry};

use crate::access::{AccountCaller, MemberCaller, Via, bearer};
use crate::app::App;
use crate::call::Call;
use crate::error::Problem;
use crate::live::Since;
use crate::set_up::{KeyRequest, SetUp, SetUpError};

/// Name of the only account.
const ACCOUNT: &str = "local";

/// Facts about the host that the server runs on. Calls block.
pub trait LocalHost: Send + Sync {
    /// The live state of the host now.
    fn live(&self) -> LiveReport;

    /// Calls `put` with live states that the history has of the last day, oldest first.
    fn recorded(&self, put: &mut dyn FnMut(LiveReport));

    /// Start times of the current states of the GPUs, as far as the history has them.
    fn since(&self) -> Vec<(GpuUuid, Since)>;

    /// This host as nvgpu's agent reports it, or why it cannot be read.
    fn gpu_status(&self) -> Result<AgentReport, String>;

    /// All configured agents, in their order, each asked at the same time.
    fn cluster(&self) -> Vec<Agent>;

    /// The report page for a window such as `7d`. A wrong question is [`Problem::Invalid`]; a history that does not exist or cannot
    /// be read is [`Problem::NoHistory`].
    fn report(&self, since: &str, language: Language) -> Result<String, Problem>;

    /// The table of `gua report --by user` for a window such as `7d`; names are in its first column.
    fn people(&self, since: &str) -> Result<Table, Problem>;

    /// The statement page of a person for the current month.
    fn person(&self, name: &str) -> Result<String, Problem>;
}

/// One configured agent of nvgpu's master.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The agent as it is configured: a URL, or `self`.
    pub name: String,
    pub entry: ClusterEntry,
    /// Titles of nvgpu's table. The index has none there and is called `GPU` here.
    pub titles: Vec<&'static str>,
    /// Rows of nvgpu's table, each with the class of its state.
    pub rows: Vec<(&'static str, Vec<String>)>,
}

/// Callers that the server accepts.
#[derive(Clone, Debug)]
pub enum Gate {
    /// Programs and browsers on this host. A name that an attacker lets resolve to this host is refused.
    ThisHost,
    /// Everyone who reaches the server.
    Everyone,
    /// Callers with this token, as a bearer token or as the password of HTTP basic authentication.
    Token(SecretHash),
}

/// The host that a server is for.
#[derive(Clone)]
pub struct Local {
    pub host: Arc<dyn LocalHost>,
    pub(crate) id: HostId,
    /// Every caller.
    pub(crate) caller: MemberCaller,
    gate: Gate,
}

impl Local {
    /// Enrols the host in new data.
    ///
    /// # Errors
    /// If the data cannot be written.
    pub fn enrol(
        set_up: SetUp<'_>,
        hostname: &str,
        host: Arc<dyn LocalHost>,
        gate: Gate,
    ) -> Result<Self, SetUpError> {
        let by = set_up.change();
        let workspace = set_up.workspace(FIRST_WORKSPACE)?;
        let account = set_up.add_user(FIRST_WORKSPACE, ACCOUNT, Role::Member, None)?;
        // The pages are about this host, so its name is their heading.
        let settings = Settings {
            title: Some(hostname.to_owned()),
            ..workspace.settings
        };
        set_up
            .registry
            .set_settings(&by, &workspace.id, &settings)?;
        let workspace = Workspace {
            settings,
            ..workspace
        };
        let wanted = KeyRequest {
            uses: 1,
            ..KeyRequest::default()
        };
        let key = set_up.add_enrolment_key(FIRST_WORKSPACE, wanted)?;
        let id = set_up.enrol(&key, hostname.to_owned(), None)?;
        Ok(Self {
            host,
            id,
            caller: MemberCaller {
                account: AccountCaller::new(account, Via::Local),
                workspace,
                role: Role::Member,
                groups: None,
            },
            gate,
        })
    }

    /// Admits a request or refuses it.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<AccountCaller, Problem> {
        let is_admitted = match &self.gate {
            Gate::Everyone => true,
            Gate::ThisHost => {
                let host = headers.get(header::HOST);
                let host = host.and_then(|host| host.to_str().ok());
                host.is_some_and(names_this_host)
            }
            Gate::Token(token) => {
                sent_token(headers).is_some_and(|sent| SecretHash::of(&sent) == *token)
            }
        };
        match (&self.gate, is_admitted) {
            (_, true) => Ok(self.caller.account.clone()),
            (Gate::Token(_), false) => Err(Problem::PasswordNeeded),
            (_, false) => Err(Problem::Forbidden(
                "use the address of this server, or localhost, in the URL",
            )),
        }
    }

    /// Loads the last day from the history, and the state of the host now. Blocks.
    pub(crate) fn load(&self, app: &App) {
        self.host.recorded(&mut |report| {
            let at = report.observed_at;
            app.live.apply(&self.id, Form::Live, report, at);
        });
        self.refresh(app);
        app.live.extend_since(&self.id, self.host.since());
    }

    /// Reads the state of the host and makes it the live state of the pages. Blocks.
    pub(crate) fn refresh(&self, app: &App) {
        let report = self.host.live();
        app.live.apply(&self.id, Form::Live, report, app.now());
    }
}

fn sent_token(headers: &HeaderMap) -> Option<String> {
    if let Some(token) = bearer(headers) {
        return Some(token.to_owned());
    }
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64.decode(encoded.trim().as_bytes()).ok()?).ok()?;
    let (_, password) = decoded.split_once(':')?;
    Some(password.to_owned())
}

/// `GET /gpu_status`
pub(crate) fn gpu_status(call: &Call) -> Result<Json<AgentReport>, Problem> {
    let report = call.app.local()?.host.gpu_status();
    Ok(Json(report.map_err(Problem::NoDriver)?))
}

/// `GET /cluster_status`
pub(crate) fn cluster_status(call: &Call) -> Result<Json<Vec<ClusterEntry>>, Problem> {
    let agents = call.app.local()?.host.cluster();
    Ok(Json(agents.into_iter().map(|agent| agent.entry).collect()))
}

impl fmt::Debug for Local {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Local")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn a_token_is_a_bearer_token_or_a_password() {
        let sent = |value: &str| sent_token(&headers(header::AUTHORIZATION, value));
        assert_eq!(sent("Bearer abc").as_deref(), Some("abc"));
        // `x:abc`
        assert_eq!(sent("Basic eDphYmM=").as_deref(), Some("abc"));
        assert_eq!(sent("basic eDphYmM=").as_deref(), Some("abc"));
        for wrong in ["", "abc", "Basic !", "Basic YWJj", "Digest x"] {
            assert_eq!(sent(wrong), None, "{wrong}");
        }
    }
}
