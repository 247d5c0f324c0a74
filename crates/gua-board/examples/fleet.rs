//! A board with a simulated fleet, for a look at the pages: `cargo run -p gua-board --example fleet -- 127.0.0.1:8099`.
//!
//! Prints the session cookie of each role. Everything is in a temporary directory.
#![expect(clippy::print_stdout, reason = "an example prints what it is for")]

use std::sync::Arc;
use std::time::Duration;

use gua_board::demo::{HOSTS, host_name, report};
use gua_board::{App, AppOptions};
use gua_board_store::ledger::Form;
use gua_board_store::password::PasswordHash;
use gua_board_store::registry::{Change, HostClaim, NewAccount, NewEnrolmentKey, NewSession, Role};
use gua_board_store::{HostId, Kind, Registry as _, Secret, SqliteStore};
use jiff::{SignedDuration, Timestamp};

#[expect(clippy::disallowed_methods, reason = "there is no probe to ask")]
fn now() -> Timestamp {
    Timestamp::now()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or("127.0.0.1:8099".to_owned());
    let directory = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(directory.path())?);
    let hosts = fill(&store)?;
    let app = App::start(AppOptions {
        registry: Arc::clone(&store) as _,
        ledger: store,
        clock: Arc::new(now),
        public_url: format!("http://{address}"),
        trusted_proxies: Vec::new(),
    })?;
    // The last hour, so that curves and durations are there from the beginning. The last host stopped reporting.
    for step in (0..=240).rev() {
        let at = now() - SignedDuration::from_secs(step * 15);
        for (host, id) in (0..).zip(&hosts) {
            if host + 1 < HOSTS || step > 100 {
                app.live.apply(id, Form::Live, report(host, at), at);
            }
        }
    }
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(&address).await?;
        let fed = Arc::clone(&app);
        tokio::spawn(async move {
            loop {
                for (host, id) in (0..HOSTS - 1).zip(&hosts) {
                    fed.live.apply(id, Form::Live, report(host, now()), now());
                }
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
        gua_board::server::serve(listener, app, std::future::pending()).await
    })?;
    Ok(())
}

fn fill(store: &SqliteStore) -> Result<Vec<HostId>, Box<dyn std::error::Error>> {
    let change = Change {
        actor: "example".to_owned(),
        address: None,
        at: now(),
    };
    let workspace = store.workspaces()?.remove(0);
    for role in Role::ALL {
        let account = NewAccount {
            name: role.as_str().to_owned(),
            password: Some(PasswordHash::of("a long password")?),
            workspace: workspace.id.clone(),
            role,
        };
        let account = store.add_account(&change, &account)?;
        let secret = Secret::generate(Kind::Session);
        let session = NewSession {
            hash: secret.hash(),
            account: account.id,
            expires: Timestamp::MAX,
        };
        store.add_session(&change, &session)?;
        println!("{role} gua_session={}", secret.reveal());
    }
    let mut hosts = Vec::new();
    for host in 0..HOSTS {
        let (key, token) = (
            Secret::generate(Kind::Enrolment),
            Secret::generate(Kind::Agent),
        );
        let new = NewEnrolmentKey {
            hash: key.hash(),
            prefix: key.prefix(),
            workspace: workspace.id.clone(),
            name: None,
            uses: 1,
            expires: None,
        };
        store.add_enrolment_key(&change, &new)?;
        let claim = HostClaim {
            key: key.hash(),
            token: token.hash(),
            token_prefix: token.prefix(),
            hostname: Some(host_name(host)),
            agent_version: Some("2.0.0".to_owned()),
            driver_version: None,
            address: None,
            at: now(),
        };
        hosts.push(store.claim(&claim)?.id);
    }
    Ok(hosts)
}
