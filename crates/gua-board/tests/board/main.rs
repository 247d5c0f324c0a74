//! The board with a real SQLite file, called in memory or over loopback.
#![cfg(test)]

mod agents;
mod alerts;
mod enrolment;
mod fleet;
mod groups;
mod matrix;
mod pages;
mod people;
mod random;
mod security;
mod settings;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use gua_board::oidc::OidcOptions;
use gua_board::{App, AppOptions};
use gua_board_store::password::PasswordHash;
use gua_board_store::registry::{
    Actor, Change, FIRST_WORKSPACE, KeyLimits, NewAccount, NewApiToken, NewEnrolmentKey,
    NewSession, Role, Scope, Workspace,
};
use gua_board_store::{AccountId, Kind, Secret, SqliteStore};
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Start of the tests' calendar: 2026-09-21.
const START: i64 = 1_790_000_000;

/// A board in a temporary directory, with a clock that the test moves.
struct Board {
    app: Arc<App>,
    store: Arc<SqliteStore>,
    seconds: Arc<AtomicI64>,
    _directory: tempfile::TempDir,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Board {
    fn start() -> Self {
        Self::with_provider(None)
    }

    fn with_provider(oidc: Option<OidcOptions>) -> Self {
        Self::with_options(|options| AppOptions { oidc, ..options })
    }

    fn with_options(change: impl FnOnce(AppOptions) -> AppOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(directory.path()).unwrap());
        let seconds = Arc::new(AtomicI64::new(START));
        let app = App::start(change(Self::options(&store, &seconds)));
        Self {
            app: app.unwrap(),
            store,
            seconds,
            _directory: directory,
        }
    }

    fn options(store: &Arc<SqliteStore>, seconds: &Arc<AtomicI64>) -> AppOptions {
        let seconds = Arc::clone(seconds);
        let clock = move || Timestamp::from_second(seconds.load(Ordering::Relaxed)).unwrap();
        let url = "https://board.example.com".to_owned();
        AppOptions {
            has_certificate: true,
            ..AppOptions::new(Arc::clone(store), Arc::new(clock), url)
        }
    }

    /// Starts the board again with its data, after so many seconds.
    fn restart(&mut self, seconds: i64) {
        self.app.finish();
        self.pass(seconds);
        self.app = App::start(Self::options(&self.store, &self.seconds)).unwrap();
    }

    fn pass(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    fn change(&self) -> Change {
        Change {
            actor: Actor::Account("test".to_owned()),
            address: None,
            at: self.app.now(),
        }
    }

    fn workspace(&self) -> Workspace {
        let all = self.app.registry.workspaces().unwrap();
        all.into_iter()
            .find(|one| one.name == FIRST_WORKSPACE)
            .unwrap()
    }

    fn account(&self, name: &str, workspace: &Workspace, role: Role) -> AccountId {
        let account = NewAccount {
            name: name.to_owned(),
            password: None,
            workspace: workspace.id.clone(),
            role,
        };
        self.app
            .registry
            .add_account(&self.change(), &account)
            .unwrap()
            .id
    }

    fn with_password(&self, name: &str, password: &str, role: Role) {
        let account = NewAccount {
            name: name.to_owned(),
            password: Some(PasswordHash::of(password).unwrap()),
            workspace: self.workspace().id,
            role,
        };
        self.app
            .registry
            .add_account(&self.change(), &account)
            .unwrap();
    }

    /// Header of a new session.
    fn session(&self, account: &AccountId) -> String {
        let secret = Secret::generate(Kind::Session);
        let session = NewSession {
            hash: secret.hash(),
            account: account.clone(),
            expires: Timestamp::MAX,
        };
        self.app
            .registry
            .add_session(&self.change(), &session)
            .unwrap();
        format!("gua_session={}", secret.reveal())
    }

    /// Authorization of a new API token.
    fn api_token(&self, account: &AccountId, workspace: &Workspace, scope: Scope) -> String {
        let secret = Secret::generate(Kind::Api);
        let token = NewApiToken {
            hash: secret.hash(),
            prefix: secret.prefix(),
            workspace: workspace.id.clone(),
            account: account.clone(),
            scope,
            expires: None,
        };
        self.app
            .registry
            .add_api_token(&self.change(), &token)
            .unwrap();
        format!("Bearer {}", secret.reveal())
    }

    fn enrolment_key(&self, workspace: &Workspace, uses: u32) -> String {
        let secret = Secret::generate(Kind::Enrolment);
        let key = NewEnrolmentKey {
            hash: secret.hash(),
            prefix: secret.prefix(),
            workspace: workspace.id.clone(),
            name: None,
            limits: KeyLimits::default(),
            uses,
            expires: None,
        };
        self.app
            .registry
            .add_enrolment_key(&self.change(), &key)
            .unwrap();
        secret.reveal().to_owned()
    }

    /// Calls the router in memory.
    async fn call(&self, line: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let router = gua_board::routes::router(&self.app);
        let response = router.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        // An event stream has no end.
        let is_stream = headers
            .get("content-type")
            .is_some_and(|kind| kind == "text/event-stream");
        let body = match is_stream {
            true => Body::empty(),
            false => response.into_body(),
        };
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer {
            status,
            headers,
            body,
        }
    }

    /// Enrols a host and returns its authorization.
    async fn enrol(&self, workspace: &Workspace, hostname: &str) -> (String, String) {
        let key = self.enrolment_key(workspace, 1);
        let claim = json!({"enrollmentToken": key, "hostname": hostname}).to_string();
        let answer = self
            .call("POST /agent/v1/enrollments/claim", &[], claim)
            .await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let text = |name: &str| answer.body[name].as_str().unwrap().to_owned();
        (text("hostId"), format!("Bearer {}", text("agentToken")))
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.app.finish();
    }
}

/// A snapshot with one GPU that `user` holds.
fn snapshot(second: i64, user: &str) -> Value {
    let at = Timestamp::from_second(START + second).unwrap().to_string();
    json!({
        "schemaVersion": "availability.snapshot.v1",
        "collectionStatus": "ok",
        "observedAt": at.replace('Z', "+00:00"),
        "host": {"hostname": "h", "agentVersion": "1.8.0", "driverVersion": "560"},
        "gpus": [{
            "index": 0, "uuid": "GPU-a", "name": "A100", "memoryTotalMb": 40000, "utilPct": 3, "memoryUsedMb": 9000,
            "temperatureC": 40, "powerW": null, "usageState": "idle_held",
            "processes": [{"pid": 7, "linuxUser": user, "name": "python", "type": "compute", "memoryUsedMb": 8000}],
        }],
        "errors": [],
    })
}
