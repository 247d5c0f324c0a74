//! Hosts that only members of a group see.

use gua_board_store::HostId;
use gua_board_store::registry::{KeyLimits, Role, Scope};
use gua_board_store::{Kind, Secret};
use serde_json::{Value, json};

use crate::pages::text;
use crate::{Board, snapshot};

const WORKSPACE: &str = "/api/v1/workspaces/default";
const HOSTS: [&str; 3] = ["open", "vision-1", "nlp-1"];

/// A board with a host for everyone, and two for one group each.
struct Lab {
    board: Board,
    hosts: Vec<String>,
    admin: String,
}

impl Lab {
    async fn new() -> Self {
        let board = Board::start();
        let workspace = board.workspace();
        let mut hosts = Vec::new();
        for name in HOSTS {
            let (id, token) = board.enrol(&workspace, name).await;
            let mut body = snapshot(0, "ada");
            body["gpus"][0]["uuid"] = json!(format!("GPU-{name}"));
            let auth = [("authorization", token.as_str())];
            let line = "POST /agent/v1/observations";
            let answer = board.call(line, &auth, body.to_string()).await;
            assert_eq!(answer.status, 202, "{}", answer.body);
            hosts.push(id);
        }
        let admin = board.account("admin", &workspace, Role::Admin);
        let admin = board.api_token(&admin, &workspace, Scope::Write);
        let lab = Self {
            board,
            hosts,
            admin,
        };
        lab.set(&format!("hosts/{}", lab.hosts[1]), "Vision").await;
        lab.set(&format!("hosts/{}", lab.hosts[2]), "nlp, speech")
            .await;
        lab
    }

    /// Sets the groups of a host or member.
    async fn set(&self, object: &str, groups: &str) {
        let body = json!({"groups": groups}).to_string();
        let line = format!("PUT {WORKSPACE}/{object}/groups");
        let auth = [("authorization", self.admin.as_str())];
        let answer = self.board.call(&line, &auth, body).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
    }

    /// Authorization of a new member of some groups.
    async fn member(&self, name: &str, role: Role, groups: &str) -> String {
        let workspace = self.board.workspace();
        let account = self.board.account(name, &workspace, role);
        if !groups.is_empty() {
            self.set(&format!("members/{account}"), groups).await;
        }
        self.board.api_token(&account, &workspace, Scope::Read)
    }

    async fn get(&self, path: &str, auth: &str) -> Value {
        let line = format!("GET {path}");
        let answer = self.board.call(&line, &[("authorization", auth)], "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Checks which hosts a caller finds, by every way that leads to one.
    async fn check(&self, auth: &str, expected: &[&str]) {
        let names = |list: &Value, field: &str| {
            let items = list.as_array().unwrap().iter();
            let mut names: Vec<String> = items
                .map(|item| item[field].as_str().unwrap().to_owned())
                .collect();
            names.sort();
            names
        };
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        let hosts = self.get(&format!("{WORKSPACE}/hosts"), auth).await;
        assert_eq!(names(&hosts["items"], "displayName"), expected);
        let live = self.get(&format!("{WORKSPACE}/live"), auth).await;
        assert_eq!(names(&live["hosts"], "displayName"), expected);
        let gpus = self.get(&format!("{WORKSPACE}/availability"), auth).await;
        assert_eq!(names(&gpus["rows"], "hostName"), expected);
        for path in ["/w/default", "/w/default?form=compact"] {
            let headers = [("authorization", auth), ("accept", "text/html")];
            let page = self.board.call(&format!("GET {path}"), &headers, "").await;
            for name in HOSTS {
                assert_eq!(
                    text(&page).contains(name),
                    expected.contains(&name),
                    "{path} {name}"
                );
            }
        }
        for (id, name) in self.hosts.iter().zip(HOSTS) {
            let status = if expected.contains(&name) { 200 } else { 404 };
            for path in [
                format!("{WORKSPACE}/hosts/{id}"),
                format!("/w/default/hosts/{id}"),
                format!("/w/default/hosts/{id}/gpus/GPU-{name}"),
            ] {
                let line = format!("GET {path}");
                let answer = self.board.call(&line, &[("authorization", auth)], "").await;
                assert_eq!(answer.status, status, "{path}");
            }
        }
    }
}

#[tokio::test]
async fn a_member_finds_only_hosts_that_their_groups_may_use() {
    let lab = Lab::new().await;
    lab.check(&lab.admin, &HOSTS).await;
    let owner = lab.member("owner", Role::Owner, "").await;
    lab.check(&owner, &HOSTS).await;
    let nobody = lab.member("nobody", Role::Member, "").await;
    lab.check(&nobody, &["open"]).await;
    let vision = lab.member("vision", Role::Viewer, "robots, VISION").await;
    lab.check(&vision, &["open", "vision-1"]).await;
    let both = lab.member("both", Role::Member, "vision,speech").await;
    lab.check(&both, &HOSTS).await;
    // A host without groups is for everyone again.
    lab.set(&format!("hosts/{}", lab.hosts[2]), " ,").await;
    lab.check(&vision, &HOSTS).await;
}

#[tokio::test]
async fn the_page_of_a_person_has_only_those_hosts() {
    let lab = Lab::new().await;
    let workspace = lab.board.workspace();
    let account = lab.board.account("ada", &workspace, Role::Member);
    let names = format!("POST {WORKSPACE}/members/{account}/names");
    let auth = [("authorization", lab.admin.as_str())];
    let body = json!({"name": "ada"}).to_string();
    let linked = lab.board.call(&names, &auth, body).await;
    assert_eq!(linked.status, 204, "{}", linked.body);
    let ada = lab.board.api_token(&account, &workspace, Scope::Read);
    let path = format!("{WORKSPACE}/members/{account}");
    let own = lab.get(&path, &ada).await;
    let of_admin = lab.get(&path, &lab.admin).await;
    let count = |person: &Value| person["gpus"].as_array().unwrap().len();
    assert_eq!((count(&own), count(&of_admin)), (1, 3));
    assert_eq!(own["gpus"][0]["hostName"], "open");
}

#[tokio::test]
async fn a_wall_screen_shows_the_hosts_of_the_person_who_made_it() {
    let lab = Lab::new().await;
    let workspace = lab.board.workspace();
    for (name, role, groups, expected) in [
        ("ada", Role::Member, "vision", 2),
        ("grace", Role::Admin, "speech", 3),
    ] {
        let account = lab.board.account(name, &workspace, role);
        lab.set(&format!("members/{account}"), groups).await;
        let token = lab.board.api_token(&account, &workspace, Scope::Screen);
        let token = token.strip_prefix("Bearer ").unwrap();
        let line = format!("GET /screen/{token}");
        let page = lab.board.call(&line, &[("accept", "text/html")], "").await;
        assert_eq!(page.status, 200);
        let idle = format!("data-idle=\"{expected}\"");
        assert!(text(&page).contains(&idle), "{name}: {}", page.body);
    }
}

#[tokio::test]
async fn an_enrolment_key_gives_its_hosts_groups() {
    let board = Board::start();
    let secret = Secret::generate(Kind::Enrolment);
    let tags = ["a100", "group: Vision", "group:"].map(str::to_owned);
    let key = gua_board_store::registry::NewEnrolmentKey {
        hash: secret.hash(),
        prefix: secret.prefix(),
        workspace: board.workspace().id,
        name: None,
        limits: KeyLimits {
            tags: tags.to_vec(),
            ..KeyLimits::default()
        },
        uses: 1,
        expires: None,
    };
    board
        .app
        .registry
        .add_enrolment_key(&board.change(), &key)
        .unwrap();
    let claim = json!({"enrollmentToken": secret.reveal(), "hostname": "gpu1"}).to_string();
    let line = "POST /agent/v1/enrollments/claim";
    let id = board.call(line, &[], claim).await.body["hostId"].clone();
    let hosts = board.app.registry.hosts(None).unwrap();
    assert_eq!(json!(hosts[0].id), id);
    assert_eq!(hosts[0].tags, ["a100"]);
    assert_eq!(hosts[0].groups, ["vision"]);
}

#[tokio::test]
async fn groups_are_set_on_the_pages_and_logged() {
    let lab = Lab::new().await;
    let board = &lab.board;
    let cookie = board.session_of(Role::Owner);
    let ada = board.account("ada", &board.workspace(), Role::Member);
    let open = &lab.hosts[0];
    for (path, form) in [
        (
            format!("/w/default/servers/{open}/groups"),
            "groups=Robots%2C+nlp",
        ),
        (format!("/w/default/members/{ada}/groups"), "groups=robots"),
    ] {
        let answer = board.submit(&path, &cookie, form).await;
        assert_eq!(answer.status, 303, "{path}: {}", answer.body);
    }
    let servers = board.page("/w/default/servers", &cookie).await;
    assert!(text(&servers).contains("only for nlp, robots"));
    let members = board.page("/w/default/members", &cookie).await;
    assert!(text(&members).contains("value=\"robots\""));
    let hosts = board.app.registry.hosts(None).unwrap();
    let host = hosts.iter().find(|host| host.id == HostId(open.clone()));
    assert_eq!(host.unwrap().groups, ["nlp", "robots"]);
    let log = board.page("/w/default/audit", &cookie).await;
    for entry in ["member-groups-set", "ada: robots", "open: nlp, robots"] {
        assert!(text(&log).contains(entry), "{entry}: {}", log.body);
    }
    // An empty field removes the groups.
    let path = format!("/w/default/servers/{open}/groups");
    assert_eq!(board.submit(&path, &cookie, "groups=").await.status, 303);
    let hosts = board.app.registry.hosts(None).unwrap();
    let host = hosts.iter().find(|host| host.id == HostId(open.clone()));
    assert!(host.unwrap().groups.is_empty());
}
