//! Every route, called by every kind of caller, compared with the table that the code enforces.

use gua_board::access::Access;
use gua_board::routes::board_routes;
use gua_board_store::registry::{Role, Scope};

use crate::Board;

/// A kind of caller, with the headers that authenticate it.
#[derive(Clone, Debug)]
enum Caller {
    Nobody,
    Forged,
    Agent,
    Session(Role),
    Token(Role, Scope),
    /// Owner of another workspace.
    Stranger,
    StrangersToken,
}

/// Status with which access is refused; `None` if it is allowed.
fn refused(access: Access, method: &str, caller: &Caller) -> Option<u16> {
    let is_read = method == "GET";
    let may_write = |scope: Scope| is_read || scope == Scope::Write;
    match (access, caller) {
        // Its token is in the path: what else the caller has does not matter.
        (Access::Screen, _) => Some(404),
        (Access::Public | Access::OwnPages, _) | (Access::Agent, Caller::Agent) => None,
        (Access::Agent, _) => Some(401),
        (_, Caller::Nobody | Caller::Forged | Caller::Agent) => Some(401),
        // The token of a screen is for its page, not for the API.
        (_, Caller::Token(_, Scope::Screen)) => Some(401),
        (_, Caller::Token(_, scope)) if !may_write(*scope) => Some(403),
        (Access::Account, _) => None,
        (Access::Operator, Caller::Stranger | Caller::StrangersToken) => None,
        (Access::Role(_), Caller::Stranger | Caller::StrangersToken) => Some(404),
        (Access::Role(least), Caller::Session(role) | Caller::Token(role, _)) => {
            (*role < least).then_some(403)
        }
        (Access::Operator, Caller::Session(role) | Caller::Token(role, _)) => {
            (*role < Role::Admin).then_some(403)
        }
    }
}

fn callers() -> Vec<Caller> {
    let mut all = vec![
        Caller::Nobody,
        Caller::Forged,
        Caller::Agent,
        Caller::Stranger,
        Caller::StrangersToken,
    ];
    for role in Role::ALL {
        all.push(Caller::Session(role));
        all.extend(Scope::ALL.map(|scope| Caller::Token(role, scope)));
    }
    all
}

async fn headers(board: &Board, caller: &Caller, number: usize) -> Vec<(&'static str, String)> {
    let workspace = board.workspace();
    let name = format!("account {number}");
    let session = |cookie: String| {
        vec![
            ("cookie", cookie),
            ("sec-fetch-site", "same-origin".to_owned()),
        ]
    };
    match caller {
        Caller::Nobody => vec![],
        Caller::Forged => vec![
            ("authorization", "Bearer gua_api_forged".to_owned()),
            ("cookie", "gua_session=forged".to_owned()),
            ("sec-fetch-site", "same-origin".to_owned()),
        ],
        Caller::Agent => vec![("authorization", board.enrol(&workspace, "gpu").await.1)],
        Caller::Session(role) => session(board.session(&board.account(&name, &workspace, *role))),
        Caller::Token(role, scope) => {
            let account = board.account(&name, &workspace, *role);
            vec![(
                "authorization",
                board.api_token(&account, &workspace, *scope),
            )]
        }
        Caller::Stranger | Caller::StrangersToken => {
            let other = board
                .app
                .registry
                .add_workspace(&board.change(), &name)
                .unwrap();
            let account = board.account(&name, &other, Role::Owner);
            match caller {
                Caller::Stranger => session(board.session(&account)),
                _ => vec![(
                    "authorization",
                    board.api_token(&account, &other, Scope::Write),
                )],
            }
        }
    }
}

#[tokio::test]
async fn every_route_admits_exactly_the_callers_of_its_row() {
    let board = Board::start();
    // So that the last owner is never the one that a call removes.
    board.account("founder", &board.workspace(), Role::Owner);
    let mut known = Vec::new();
    for (number, caller) in callers().into_iter().enumerate() {
        let headers = headers(&board, &caller, number).await;
        known.push((caller, headers));
    }
    let mut wrong = Vec::new();
    // Logging out ends the sessions of the callers, so it comes last.
    let (last, first): (Vec<_>, Vec<_>) =
        board_routes().partition(|route| route.path.ends_with("/logout"));
    for route in first.into_iter().chain(last) {
        for (caller, headers) in &known {
            let headers: Vec<(&str, &str)> = headers
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let path = route
                .path
                .replace("{workspace}", "default")
                .replace("{host}", "host_x")
                .replace("{key}", "key_x")
                .replace("{account}", "acc_x")
                .replace("{token}", "tok_x")
                .replace("{gpu}", "GPU-x");
            let line = format!("{} {path}", route.method);
            let answer = board.call(&line, &headers, "").await;
            let expected = refused(route.access, route.method, caller);
            let detail = answer.body["detail"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let is_right = match expected {
                Some(status) => answer.status == status,
                // The empty body or the unknown object is refused by the handler, after the access was granted.
                None => match answer.status {
                    401 | 403 => false,
                    404 => detail != "no such workspace",
                    _ => true,
                },
            };
            if !is_right {
                wrong.push(format!(
                    "{route:?} as {caller:?}: {} {detail}, expected {expected:?}",
                    answer.status
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_changing_request_with_a_cookie_must_come_from_an_own_page() {
    let board = Board::start();
    let account = board.account("ada", &board.workspace(), Role::Owner);
    let cookie = board.session(&account);
    for route in
        board_routes().filter(|route| route.method != "GET" && route.access != Access::Agent)
    {
        if route.access == Access::Public {
            continue;
        }
        let path = route.path.replace("{workspace}", "default");
        let line = format!("{} {path}", route.method);
        for foreign in [
            ("sec-fetch-site", "cross-site"),
            ("origin", "https://evil.example.com"),
        ] {
            let answer = board.call(&line, &[("cookie", &cookie), foreign], "").await;
            assert_eq!(answer.status, 403, "{line} {foreign:?}");
        }
    }
}
