//! A request as its handler sees it: who calls, and what the path, the query and the body say.
//!
//! Most handlers are plain functions of a [`Call`]. They read and write the store, so they run on a thread for blocking work. A
//! [`Task`] reads the body itself.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts as _, Query, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use gua_board_store::registry::{Actor, Change, Host};
use gua_board_store::{AccountId, HostId, Registry, StoreError, WorkspaceId};
use serde::de::DeserializeOwned;

use crate::access::MemberCaller;
use crate::api::session::limit_log_ins;
use crate::app::App;
use crate::error::Problem;
use crate::pages::{View, encode, see_other};
use crate::request::{ClientAddress, parse, read_body};

/// Maximum size of a request body.
const MAX_BYTES: usize = 64 * 1024;
/// Content type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

pub(crate) type Answer = Result<Response, Problem>;

/// Function that answers calls on a thread for blocking work.
#[derive(Clone, Copy)]
pub(crate) struct Handler {
    pub(crate) answer: fn(&Call) -> Answer,
    /// Page to which the browser is redirected after a form has changed something.
    pub(crate) page: Option<&'static str>,
    /// Whether it hashes a password. Concurrent hashes are limited, and so is the rate of each client address.
    pub(crate) hashes_password: bool,
}

/// A request whose caller has been admitted.
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    pub(crate) parts: Parts,
    path: RawPathParams,
    body: Bytes,
}

/// Async function that answers a call as a task of the runtime.
pub(crate) type Task = fn(Call, Body) -> Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Runs the task of a route.
pub(crate) async fn run(State((app, task)): State<(Arc<App>, Task)>, request: Request) -> Answer {
    let (call, body) = Call::begin(app, request).await?;
    task(call, body).await
}

/// Runs the handler of a route. After a form has changed something, the browser is redirected to its page, so that a reload
/// does not repeat the change.
pub(crate) async fn answer(
    State((app, handler)): State<(Arc<App>, Handler)>,
    request: Request,
) -> Answer {
    let (mut call, body) = Call::begin(Arc::clone(&app), request).await?;
    if !call.parts.method.is_safe() {
        call.body = read_body(body, MAX_BYTES).await?;
    }
    let permit = match handler.hashes_password {
        true => {
            // First, so that an address with too many attempts does not wait with the others.
            limit_log_ins(&call)?;
            Some(Arc::clone(&app.hashes).acquire_owned().await)
        }
        false => None,
    };
    let permit = permit.transpose().map_err(|_| Problem::Stopping)?;
    let answered = tokio::task::spawn_blocking(move || {
        // Held until the work has ended, also if the client disconnects before.
        let _permit = permit;
        let answer = (handler.answer)(&call)?;
        Ok(match handler.page {
            Some(page) => see_other(&call.filled(page), answer),
            None => answer,
        })
    });
    // The task fails only if the handler panicked, or while the runtime is shutting down.
    answered.await.map_err(|_| Problem::Stopping)?
}

impl Call {
    /// Splits a request into a call with an empty body, and the body, which is not read yet.
    async fn begin(app: Arc<App>, request: Request) -> Result<(Self, Body), Problem> {
        let (mut parts, body) = request.into_parts();
        let path = RawPathParams::from_request_parts(&mut parts, &()).await;
        let path = path.map_err(|_| Problem::NotFound("path"))?;
        let call = Self {
            app,
            parts,
            path,
            body: Bytes::new(),
        };
        Ok((call, body))
    }

    /// Returns a value that the server or the access check of the route has attached to the request.
    pub(crate) fn extension<T: Send + Sync + 'static>(&self) -> &T {
        let found = self.parts.extensions.get();
        found.expect("the access in the route's row provides it")
    }

    /// The member that calls.
    pub(crate) fn caller(&self) -> &MemberCaller {
        self.extension()
    }

    /// Workspace of the member that calls.
    pub(crate) fn workspace(&self) -> &WorkspaceId {
        &self.caller().workspace.id
    }

    /// Describes a change by the member that calls.
    pub(crate) fn change(&self) -> Change {
        self.change_by(Actor::Account(self.caller().account.name.clone()))
    }

    /// Runs a registry change in the caller's workspace.
    pub(crate) fn store<T>(
        &self,
        change: impl FnOnce(&dyn Registry, &Change, &WorkspaceId) -> Result<T, StoreError>,
    ) -> Result<T, Problem> {
        Ok(change(
            &*self.app.registry,
            &self.change(),
            self.workspace(),
        )?)
    }

    /// Describes a change from the address of the client.
    pub(crate) fn change_by(&self, actor: Actor) -> Change {
        self.app.change(actor, self.address())
    }

    /// Returns the enrolled hosts that the member that calls sees, by display name.
    pub(crate) fn hosts(&self) -> Result<Arc<Vec<Host>>, Problem> {
        self.app.hosts(self.caller())
    }

    /// Address of the client.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.extension::<ClientAddress>().0
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Returns a named part of the path.
    pub(crate) fn path(&self, wanted: &str) -> &str {
        let mut parts = self.path.iter();
        let found = parts.find(|(name, _)| *name == wanted);
        found.expect("the route's path has this part").1
    }

    /// Fills the named parts of a path of this board from the path of the request.
    fn filled(&self, page: &str) -> String {
        let parts = self.path.iter();
        parts.fold(page.to_owned(), |page, (name, value)| {
            page.replace(&format!("{{{name}}}"), &encode(value))
        })
    }

    /// The host that the path names.
    pub(crate) fn host(&self) -> HostId {
        HostId(self.path("host").to_owned())
    }

    /// The account that the path names.
    pub(crate) fn account(&self) -> AccountId {
        AccountId(self.path("account").to_owned())
    }

    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        match Query::try_from_uri(&self.parts.uri) {
            Ok(Query(values)) => Ok(values),
            Err(error) => Err(Problem::Invalid(error.body_text())),
        }
    }

    /// Reads the body: JSON, or the form of a page. Both reach the same handler.
    pub(crate) fn input<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let kind = self.headers().get(header::CONTENT_TYPE);
        let is_form = kind.is_some_and(|kind| kind.as_bytes().starts_with(FORM.as_bytes()));
        if !is_form {
            // serde reads an array as the fields of an object, too.
            if self.body.trim_ascii_start().first() == Some(&b'[') {
                return Err(Problem::Invalid("the body is not an object".to_owned()));
            }
            return parse(&self.body);
        }
        // A browser sends a field that was left blank; the handlers expect it to be absent.
        let fields = self.body.split(|byte| *byte == b'&');
        let filled: Vec<&[u8]> = fields.filter(|field| !field.ends_with(b"=")).collect();
        let values = serde_urlencoded::from_bytes(&filled.join(&b'&'));
        values.map_err(|error| Problem::Invalid(error.to_string()))
    }

    /// Returns how the page is displayed, from the URL and the headers of the request.
    pub(crate) fn view(&self) -> View {
        View::new(&self.parts.uri, self.headers(), self.app.oidc.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use axum::Router;
    use axum::response::IntoResponse as _;
    use axum::routing::get;
    use gua_board_store::SqliteStore;
    use jiff::Timestamp;
    use tower::ServiceExt as _;

    use super::*;
    use crate::app::AppOptions;

    static BARRIER: Barrier = Barrier::new(2);

    #[tokio::test]
    async fn a_client_that_disconnects_does_not_let_others_hash_more_passwords_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(directory.path()).unwrap());
        let clock = Arc::new(|| Timestamp::UNIX_EPOCH);
        let app = App::start(AppOptions::new(store, clock, String::new())).unwrap();
        let handler = Handler {
            answer: |_| {
                BARRIER.wait();
                Ok("".into_response())
            },
            page: None,
            hashes_password: true,
        };
        let state = (Arc::clone(&app), handler);
        let router = Router::new().route("/", get(answer)).with_state(state);
        let free = app.hashes.available_permits();
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(ClientAddress(None));
        let request = tokio::spawn(router.oneshot(request));
        while app.hashes.available_permits() == free {
            assert!(!request.is_finished(), "the handler waits");
            tokio::task::yield_now().await;
        }
        request.abort();
        assert!(request.await.is_err());
        let left = app.hashes.available_permits();
        // Before the assertion, so that a failure does not leave the handler waiting.
        let release = tokio::task::spawn_blocking(|| BARRIER.wait());
        release.await.unwrap();
        assert_eq!(left, free - 1);
        while app.hashes.available_permits() < free {
            tokio::task::yield_now().await;
        }
        app.finish();
    }
}
