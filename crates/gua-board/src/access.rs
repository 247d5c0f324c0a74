//! Identifies the caller and checks whether the route allows the request. Runs before every handler, with the access
//! that the route's row names.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use gua_board_store::registry::{
    Account, Actor, ApiToken, FIRST_WORKSPACE, Host, Identity, Join, Membership, Role, Scope,
    Workspace,
};
use gua_board_store::{AccountId, SecretHash, WorkspaceId};

use crate::app::App;
use crate::error::Problem;
use crate::request::{ClientAddress, Peer};

/// Name of the session cookie.
pub const COOKIE: &str = "gua_session";

/// Access requirement of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Public,
    /// Nothing, but the request must come from a page of this board or from a program, not from a foreign page.
    OwnPages,
    /// The token of an enrolled host.
    Agent,
    /// A session or an API token.
    Account,
    /// At least this role in the workspace that the path names.
    Role(Role),
    /// At least the role admin in any workspace.
    Operator,
    /// The token of a screen, in the path.
    Screen,
}

/// The enrolled host that calls, with the hash of its token.
#[derive(Clone, Debug)]
pub struct AgentCaller {
    pub host: Host,
    pub token: SecretHash,
}

/// The account that calls.
#[derive(Clone, Debug)]
pub struct AccountCaller {
    pub id: AccountId,
    pub name: String,
    pub via: Via,
}

impl AccountCaller {
    pub(crate) fn new(Account { id, name, .. }: Account, via: Via) -> Self {
        Self { id, name, via }
    }
}

impl From<ApiToken> for AccountCaller {
    fn from(token: ApiToken) -> Self {
        Self {
            id: token.account,
            name: token.account_name,
            via: Via::ApiToken {
                scope: token.scope,
                workspace: token.workspace,
            },
        }
    }
}

/// Method by which an account was authenticated.
#[derive(Clone, Debug)]
pub enum Via {
    /// Every caller of `gua serve`.
    Local,
    Session(SecretHash),
    /// The header of a trusted proxy.
    Proxy,
    /// An API token, which is for one workspace.
    ApiToken {
        scope: Scope,
        workspace: WorkspaceId,
    },
}

impl Via {
    /// Whether the credentials are valid in a workspace. An API token is for one workspace.
    pub(crate) fn reaches(&self, workspace: &WorkspaceId) -> bool {
        match self {
            Via::ApiToken { workspace: own, .. } => own == workspace,
            Via::Local | Via::Session(_) | Via::Proxy => true,
        }
    }
}

/// An account that is an admin of at least one workspace.
#[derive(Clone, Debug)]
pub(crate) struct OperatorCaller {
    /// Workspaces in which the caller has at least the role admin.
    pub(crate) workspaces: Vec<WorkspaceId>,
}

/// An account that acts in a workspace.
#[derive(Clone, Debug)]
pub struct MemberCaller {
    pub account: AccountCaller,
    pub workspace: Workspace,
    pub role: Role,
    /// Groups for [`Host::is_for`]; `None` if the caller sees all hosts.
    pub groups: Option<Vec<String>>,
}

impl MemberCaller {
    /// Whether the caller may see the names of people and processes on GPUs. A wall screen may not.
    pub fn sees_names(&self) -> bool {
        let is_screen = matches!(
            self.account.via,
            Via::ApiToken {
                scope: Scope::Screen,
                ..
            }
        );
        !is_screen && self.role >= self.workspace.settings.names_from
    }
}

/// Checks the access and hands the caller to the handler as an extension of the request.
pub(crate) async fn enforce(
    State((app, access)): State<(Arc<App>, Access)>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    match access {
        Access::Public => {}
        Access::OwnPages => {
            check_origin(&parts.headers, session_cookie(&parts.headers).is_some())?;
        }
        Access::Agent => {
            let agent = agent(&app, &parts.headers).await?;
            parts.extensions.insert(agent);
        }
        Access::Account | Access::Role(_) | Access::Operator | Access::Screen => {
            let path = RawPathParams::from_request_parts(&mut parts, &()).await;
            let path = path.map_err(|_| Problem::NotFound("workspace"))?;
            let admitted = app.blocking(move |app| {
                admit(app, access, &mut parts, &path)?;
                Ok::<_, Problem>(parts)
            });
            parts = admitted.await?;
        }
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// Authenticates a person or program. Blocks.
fn admit(
    app: &App,
    access: Access,
    parts: &mut Parts,
    path: &RawPathParams,
) -> Result<(), Problem> {
    if access == Access::Screen {
        let screen = screen(app, path)?;
        parts.extensions.insert(screen);
        return Ok(());
    }
    let account = account(app, parts)?;
    match access {
        Access::Role(least) => {
            let member = membership(app, &account, path_part(path, "workspace")?)?;
            if member.role < least {
                return Err(Problem::Forbidden("your role does not allow this"));
            }
            let member = MemberCaller {
                account,
                groups: member.host_groups().map(<[String]>::to_vec),
                workspace: member.workspace,
                role: member.role,
            };
            parts.extensions.insert(member);
        }
        Access::Operator => {
            let memberships = app.registry.memberships(&account.id)?.into_iter();
            let reached = memberships.filter(|one| account.via.reaches(&one.workspace.id));
            let admin = reached.filter(|one| one.role >= Role::Admin);
            let workspaces: Vec<WorkspaceId> = admin.map(|one| one.workspace.id).collect();
            if workspaces.is_empty() {
                return Err(Problem::Forbidden("your role does not allow this"));
            }
            parts.extensions.insert(OperatorCaller { workspaces });
        }
        _ => {
            parts.extensions.insert(account);
        }
    }
    Ok(())
}

async fn agent(app: &Arc<App>, headers: &HeaderMap) -> Result<AgentCaller, Problem> {
    const MESSAGE: &str = "the agent token is not valid; enrol this host again";
    let token = bearer(headers).ok_or(Problem::Unauthenticated(MESSAGE))?;
    let token = SecretHash::of(token);
    // Most tokens are cached. Only the others need a thread for blocking work.
    let host = match app.tokens.recent(&token) {
        Some(host) => Some(host),
        None => {
            app.blocking(move |app| app.tokens.host(&*app.registry, &token, app.now()))
                .await?
        }
    };
    let host = host.ok_or(Problem::Unauthenticated(MESSAGE))?;
    if !host.is_approved {
        return Err(Problem::Forbidden(
            "an admin of the board has to approve this host first",
        ));
    }
    Ok(AgentCaller { host, token })
}

/// Authenticates by API token or session. A request with both uses the token.
fn account(app: &App, parts: &Parts) -> Result<AccountCaller, Problem> {
    let headers = &parts.headers;
    if let Some(local) = &app.options.local {
        return local.admit(headers);
    }
    let now = app.now();
    let is_change = !parts.method.is_safe();
    if let Some(token) = bearer(headers) {
        let found = app.registry.api_token(&SecretHash::of(token), now)?;
        // The link of a wall screen opens its page and nothing else.
        let found = found.filter(|token| token.scope > Scope::Screen);
        let token = found.ok_or(Problem::Unauthenticated("the API token is not valid"))?;
        if is_change && token.scope < Scope::Write {
            return Err(Problem::Forbidden("this API token may only read"));
        }
        return Ok(token.into());
    }
    if let Some(user) = proxy_user(app, parts) {
        if is_change {
            check_origin(headers, true)?;
        }
        let person = Identity {
            issuer: PROXY.to_owned(),
            subject: user.to_owned(),
        };
        let address = parts.extensions.get::<ClientAddress>();
        let address = address.and_then(|address| address.0);
        let account = admit_person(app, address, &person, user, None)?;
        return Ok(AccountCaller::new(account, Via::Proxy));
    }
    let session = session_cookie(headers).ok_or(Problem::Unauthenticated("log in first"))?;
    let hash = SecretHash::of(session);
    let found = app.registry.session(&hash, now)?;
    let account = found.ok_or(Problem::Unauthenticated("log in first"))?;
    if is_change {
        check_origin(headers, true)?;
    }
    Ok(AccountCaller::new(account, Via::Session(hash)))
}

/// Issuer of the people whom a proxy names.
const PROXY: &str = "proxy";

/// Returns the user name in the header of a trusted proxy. The header is ignored in requests of other peers.
fn proxy_user<'a>(app: &App, parts: &'a Parts) -> Option<&'a str> {
    let name = app.options.user_header.as_ref()?;
    let peer = parts.extensions.get::<Peer>()?;
    let user = parts.headers.get(name)?.to_str().ok()?.trim();
    let is_trusted = app.options.proxies.trust(peer.0, &parts.headers);
    (is_trusted && !user.is_empty()).then_some(user)
}

/// Returns the account of a person that a provider or a proxy has authenticated. A person without an account joins by
/// invitation, or with the role of `--new-accounts`.
pub(crate) fn admit_person(
    app: &App,
    address: Option<IpAddr>,
    identity: &Identity,
    name: &str,
    link: Option<SecretHash>,
) -> Result<Account, Problem> {
    if link.is_none()
        && let Some(known) = app.registry.account_by_identity(identity)?
    {
        return Ok(known);
    }
    let mut workspaces = app.registry.workspaces()?.into_iter();
    let first = workspaces.find(|one| one.name == FIRST_WORKSPACE);
    let join = match (link, app.options.new_account_role, first) {
        (Some(link), ..) => Join::Link(link),
        (None, Some(role), Some(Workspace { id, .. })) => Join::Role {
            workspace: id,
            role,
        },
        _ => {
            return Err(Problem::Forbidden(
                "you have no account on this board; ask an admin for an invitation",
            ));
        }
    };
    // The store replaces the actor with the account.
    let by = app.change(Actor::Unknown, address);
    Ok(app
        .registry
        .join(&by, identity, &account_name(name), &join)?)
}

/// Returns the name of a new account, of which the provider's name is a suggestion: people must be able to read it, and the
/// audit log writes everything that is not an account in brackets.
fn account_name(suggested: &str) -> String {
    let name: String = gua_model::text::sanitize(suggested)
        .chars()
        .take(90)
        .collect();
    let name = name.trim_start_matches(|one: char| one == '[' || one.is_whitespace());
    match name.trim_end() {
        "" => "member".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns the caller's membership in a workspace. A workspace of others looks like one that does not exist.
fn membership(app: &App, account: &AccountCaller, name: &str) -> Result<Membership, Problem> {
    let mut memberships = app.registry.memberships(&account.id)?.into_iter();
    let found = memberships.find(|one| one.workspace.name == name);
    let found = found.filter(|one| account.via.reaches(&one.workspace.id));
    found.ok_or(Problem::NotFound("workspace"))
}

/// Returns a named part of the path.
fn path_part<'a>(path: &'a RawPathParams, wanted: &'static str) -> Result<&'a str, Problem> {
    let found = path.iter().find(|(name, _)| *name == wanted);
    found
        .map(|(_, value)| value)
        .ok_or(Problem::NotFound(wanted))
}

/// Authenticates a wall screen by the token in its path. It has the rights of a viewer, and shows the hosts that the person who
/// made it sees.
fn screen(app: &App, path: &RawPathParams) -> Result<MemberCaller, Problem> {
    const NONE: Problem = Problem::NotFound("screen; its link may have expired");
    let token = SecretHash::of(path_part(path, "screen")?);
    let found = app.registry.api_token(&token, app.now())?;
    let found = found.filter(|token| token.scope == Scope::Screen);
    let token = found.ok_or(NONE)?;
    let mut memberships = app.registry.memberships(&token.account)?.into_iter();
    let member = memberships.find(|one| one.workspace.id == token.workspace);
    let member = member.ok_or(NONE)?;
    Ok(MemberCaller {
        account: token.into(),
        groups: member.host_groups().map(<[String]>::to_vec),
        workspace: member.workspace,
        role: Role::Viewer,
    })
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the session cookie.
pub(crate) fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    cookie(headers, COOKIE)
}

/// Returns the value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let values = headers.get_all(header::COOKIE).iter();
    let pairs = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == wanted)
        .map(|(_, value)| value)
}

/// Refuses a request that a page of another site made. Browsers state where a request comes from in `Sec-Fetch-Site`, and
/// older ones in `Origin`; a page cannot change either. Programs send neither, and have no credentials that a page could
/// misuse: no cookie, and no proxy that adds a user.
fn check_origin(headers: &HeaderMap, has_credentials: bool) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_own = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some() && host == text("host")
        }
        (None, None) => !has_credentials,
    };
    is_own
        .then_some(())
        .ok_or(Problem::Forbidden("the request comes from another site"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn requests_of_foreign_pages_are_refused() {
        let check = |pairs: &[(&'static str, &str)], expected: bool| {
            let headers = headers(pairs);
            let is_own = check_origin(&headers, session_cookie(&headers).is_some()).is_ok();
            assert_eq!(is_own, expected, "{pairs:?}");
        };
        let cookie = ("cookie", "gua_session=x");
        check(&[], true);
        check(&[cookie], false);
        check(&[cookie, ("sec-fetch-site", "same-origin")], true);
        check(&[cookie, ("sec-fetch-site", "cross-site")], false);
        check(&[cookie, ("sec-fetch-site", "same-site")], false);
        check(&[("sec-fetch-site", "cross-site")], false);
        check(&[cookie, ("host", "b:1"), ("origin", "http://b:1")], true);
        check(&[cookie, ("host", "b:1"), ("origin", "http://b:2")], false);
        check(&[cookie, ("origin", "null")], false);
    }

    #[test]
    fn no_account_name_begins_with_a_bracket() {
        for (suggested, expected) in [
            ("ada", "ada"),
            (" [host] ada ", "host] ada"),
            ("[ [host] gpu1", "host] gpu1"),
            ("\u{2003}[\u{2003}[x", "x"),
            ("[ [", "member"),
            ("", "member"),
        ] {
            assert_eq!(account_name(suggested), expected, "{suggested:?}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let found = |value: &str| session_cookie(&headers(&[("cookie", value)])).map(str::to_owned);
        assert_eq!(found("a=1; gua_session=x; b=2").as_deref(), Some("x"));
        assert_eq!(found("xgua_session=1"), None);
        assert_eq!(found(""), None);
    }
}
