//! The real board and our own agents that push to it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use gua_test::{Running, Sleeper, TestHost, wait_for};
use serde_json::Value;

use crate::{TWO_GPUS, host, without_driver};

pub(crate) const PASSWORD: &str = "correct horse battery";

/// A board in a home of its own, with an owner and an API token.
pub(crate) struct Served {
    home: TestHost,
    running: Running,
    pub(crate) url: String,
    token: String,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::in_home(without_driver())
    }

    /// Starts a board with this configuration, which may name files of its home.
    pub(crate) fn with_config(config: impl FnOnce(&TestHost) -> String) -> Self {
        let home = without_driver();
        home.write(".gua/config.toml", config(&home));
        Self::in_home(home)
    }

    fn in_home(home: TestHost) -> Self {
        let mut add = home.gua_command("board user add ada --role owner --password-stdin");
        let mut child = add.stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(PASSWORD.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
        let token = home.fine("board api-token --user ada --scope write");
        let running = home.foreground("board serve --listen 127.0.0.1:0");
        let url = url(&running);
        Self {
            home,
            running,
            url,
            token: token.trim().to_owned(),
        }
    }

    /// Kills the board and starts it again on the same data and port.
    pub(crate) fn restart(&mut self) {
        self.running.child.kill().unwrap();
        self.running.child.wait().unwrap();
        let port = self.url.rsplit_once(':').unwrap().1;
        self.running = self
            .home
            .foreground(&format!("board serve --listen 127.0.0.1:{port}"));
        assert_eq!(url(&self.running), self.url);
    }

    pub(crate) fn enrolment_token(&self, name: &str) -> String {
        let token = self.home.fine(&format!("board enroll-token --name {name}"));
        assert_eq!(token.lines().count(), 1, "{token}");
        token.trim().to_owned()
    }

    /// Enrols a host with our own agent.
    pub(crate) fn enrol(&self, host: TestHost, name: &str) -> TestHost {
        let token = self.enrolment_token(name);
        let url = &self.url;
        let said = host.fine(&format!(
            "enroll --server-url {url} --enrollment-token {token}"
        ));
        assert!(
            said.contains(&format!("connected host {name} (host_")),
            "{said}"
        );
        host
    }

    pub(crate) fn request(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, Value) {
        let (status, body) = answer(&self.url, line, headers, body);
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Log of the board so far.
    pub(crate) fn log(&self) -> String {
        self.running.stderr()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.child.id()
    }

    pub(crate) fn home(&self) -> &TestHost {
        &self.home
    }

    /// The header of requests with the owner's API token.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// Number of frames that arrived over streams.
    pub(crate) fn frames(&self) -> u64 {
        let bearer = self.bearer();
        let (status, text) = answer(
            &self.url,
            "GET /metrics",
            &[("Authorization", &bearer)],
            b"",
        );
        assert_eq!(status, 200, "{text}");
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("gua_board_stream_frames_total "));
        count.unwrap().parse().unwrap()
    }

    /// Live state of the hosts, by the API.
    pub(crate) fn live(&self) -> Value {
        let bearer = self.bearer();
        let path = "GET /api/v1/workspaces/default/live";
        let (status, body) = self.request(path, &[("Authorization", &bearer)], b"");
        assert_eq!(status, 200, "{body}");
        body["hosts"].clone()
    }
}

/// Status and body of the answer to a request such as `GET /`.
pub(crate) fn answer(
    url: &str,
    line: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> (u16, String) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let mut head = format!(
        "{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    if headers.iter().all(|(name, _)| *name != "Host") {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// URL that `gua board serve` or `gua serve` has printed.
pub(crate) fn url(running: &Running) -> String {
    wait_for("the server's URL", || {
        let said = running.stdout();
        let line = said.lines().next()?;
        let (_, url) = line.split_once(": serving ")?;
        said.ends_with('\n').then(|| url.to_owned())
    })
}

#[test]
fn our_agent_enrols_pushes_streams_and_archives() {
    let mut board = Served::start();
    let host = board.enrol(host(TWO_GPUS), "lab-a100");
    let said = host.fine("sync-once");
    assert!(said.contains("pushed 2 GPUs to lab-a100"), "{said}");
    let live = board.live();
    assert_eq!(live[0]["displayName"], "lab-a100");
    assert_eq!(live[0]["gpus"][0]["utilPercent"], 50);
    assert_eq!(live[0]["gpus"][1]["obstacle"], Value::Null);

    let mut daemon = host.foreground("daemon --foreground --cloud --interval 200ms");
    wait_for("frames of the stream", || {
        (board.frames() >= 2).then_some(())
    });
    daemon.stop();
    drop(daemon);

    host.fine("demo --db old.db --ticks 100 --interval 1h");
    let said = host.fine("sync-archive --db old.db");
    assert!(!said.contains("uploaded 0"), "{said}");
    let said = host.fine("sync-archive --db old.db");
    assert!(said.contains("uploaded 0 missing object(s)"), "{said}");
    board.running.stop();
    let log = board.running.stderr();
    assert!(
        log.contains("board started") && log.contains("board stopped"),
        "{log}"
    );
    for secret in ["gua_agent_", "gua_enroll_", "gua_api_", PASSWORD] {
        assert!(!log.contains(secret), "{log}");
    }
    assert_eq!(
        board.home.fine("board check"),
        "gua board check: no errors\n"
    );
}

/// GPUs of every kind: the UUID, its lines in the scenario, and what keeps it from being free. Most of them have no place
/// in a snapshot.
const EVERY_KIND: &[(&str, &str, Option<&str>)] = &[
    ("MIG-free", "[[gpu]]\n[[gpu.mig]]\nuuid = \"UUID\"", None),
    (
        "MIG-held",
        "[[gpu.mig]]\nuuid = \"UUID\"\n[[gpu.mig.process]]\npid = HOLDER\nmemory_mib = 512",
        Some("held"),
    ),
    (
        "GPU-unified",
        "[[gpu]]\nuuid = \"UUID\"\nunified_memory = true",
        None,
    ),
    (
        "GPU-unified-held",
        "[[gpu]]\nuuid = \"UUID\"\nunified_memory = true\n[[gpu.process]]\npid = HOLDER\nmemory_mib = 512",
        Some("held"),
    ),
    (
        "GPU-errors",
        "[[gpu]]\nuuid = \"UUID\"\necc = true\necc_corrected = 0\necc_uncorrected = 2",
        Some("unhealthy"),
    ),
    (
        "GPU-remap",
        "[[gpu]]\nuuid = \"UUID\"\nremap_pending = 0\nremap_failed = 1",
        Some("unhealthy"),
    ),
    ("GPU-sick", "[[gpu]]\nuuid = \"UUID\"", None),
    (
        "GPU-full",
        "[[gpu]]\nuuid = \"UUID\"\nmemory_used_mib = 70000",
        Some("memory-used"),
    ),
    (
        "GPU-held",
        "[[gpu]]\nuuid = \"UUID\"\n[[gpu.process]]\npid = HOLDER\nmemory_mib = 9000",
        Some("held"),
    ),
    (
        "GPU-claimed",
        "[[gpu]]\nuuid = \"UUID\"\nname = \"claim me\"",
        Some("claimed"),
    ),
    (
        "GPU-ghost",
        "[[gpu]]\nuuid = \"UUID\"\nutil = 90",
        Some("busy"),
    ),
    ("GPU-free", "[[gpu]]\nuuid = \"UUID\"", None),
];

/// UUIDs of the GPUs that the board calls free.
pub(crate) fn free_on_board(board: &Served) -> Vec<String> {
    let live = board.live();
    let gpus = live[0]["gpus"].as_array().cloned().unwrap_or_default();
    let free = gpus.iter().filter(|gpu| gpu["obstacle"].is_null());
    let mut free: Vec<String> = free
        .map(|gpu| gpu["uuid"].as_str().unwrap().to_owned())
        .collect();
    free.sort();
    free
}

/// UUIDs of the GPUs that `gua available` offers.
pub(crate) fn free_here(host: &TestHost) -> Vec<String> {
    let said = host.gua("available --uuid --json").stdout;
    let document: Value = serde_json::from_str(&said).unwrap();
    let free = document["available"].as_array().unwrap().iter();
    let mut free: Vec<String> = free
        .map(|gpu| gpu["uuid"].as_str().unwrap().to_owned())
        .collect();
    free.sort();
    free
}

/// UUIDs that the availability page groups as free.
fn free_on_the_page(board: &Served) -> Vec<String> {
    let bearer = format!("Bearer {}", board.token);
    let path = "GET /api/v1/workspaces/default/availability";
    let (status, found) = board.request(path, &[("Authorization", &bearer)], b"");
    assert_eq!(status, 200, "{found}");
    let rows = found["rows"].as_array().unwrap().iter();
    let mut free: Vec<String> = rows
        .filter(|row| row["group"] == "free")
        .map(|row| row["uuid"].as_str().unwrap().to_owned())
        .collect();
    free.sort();
    free
}

#[test]
fn free_on_the_board_is_free_in_gua_available() {
    let board = Served::start();
    let (holder, claimer) = (Sleeper::new(), Sleeper::new());
    let pid = holder.pid().to_string();
    let gpus = EVERY_KIND.iter();
    let gpus: Vec<String> = gpus
        .map(|(uuid, lines, _)| lines.replace("UUID", uuid).replace("HOLDER", &pid))
        .collect();
    let scenario = gpus.join("\n") + "\n";
    let host = board.enrol(host(&scenario), "mixed");
    host.fine(&format!(
        "available --gpu-model claim --claim 10m --for {}",
        claimer.pid()
    ));
    let free = EVERY_KIND
        .iter()
        .filter(|(.., obstacle)| obstacle.is_none());
    let mut expected: Vec<&str> = free.map(|(uuid, ..)| *uuid).collect();
    expected.sort_unstable();
    assert_eq!(free_here(&host), expected);
    host.gua("sync-once");
    assert_eq!(free_on_board(&board), expected);
    assert_eq!(free_on_the_page(&board), expected);
    let live = board.live();
    let gpu = |uuid: &str| {
        let gpus = live[0]["gpus"].as_array().unwrap();
        gpus.iter().find(|gpu| gpu["uuid"] == uuid).unwrap().clone()
    };
    for (uuid, _, obstacle) in EVERY_KIND {
        assert_eq!(gpu(uuid)["obstacle"].as_str(), *obstacle, "{uuid}");
    }
    assert!(gpu("GPU-claimed")["claim"]["owner"].is_string());
    assert!(gpu("MIG-held")["instance"]["parent"].is_string());

    let pushed = board.live()[0]["observedAt"].clone();
    // A daemon's history shows that a GPU was in use a moment ago, here and there.
    let mut daemon = host.foreground("daemon --foreground --cloud --interval 200ms");
    wait_for("a tick of the daemon", || {
        (board.live()[0]["observedAt"] != pushed).then_some(())
    });
    let sick = "uuid = \"GPU-sick\"\nlost = [[0, inf]]";
    let later = scenario.replace("util = 90", "util = 0");
    assert_eq!(free_on_board(&board), expected);
    host.play(&later.replace("uuid = \"GPU-sick\"", sick));
    wait_for("the end of the utilisation and the loss of a GPU", || {
        let live = board.live();
        let gpus = live[0]["gpus"].as_array()?;
        let gpu = |uuid: &str| gpus.iter().find(|gpu| gpu["uuid"] == uuid);
        let is_over = gpu("GPU-ghost")?["obstacle"] == "used-recently";
        (is_over && gpu("GPU-sick")?["health"][0] == "lost").then_some(())
    });
    expected.retain(|uuid| *uuid != "GPU-sick");
    assert_eq!(free_here(&host), expected);
    assert_eq!(free_on_board(&board), expected);
    assert_eq!(free_on_the_page(&board), expected);

    // A driver that fails leaves nothing that looks free.
    daemon.stop();
    host.play("[driver]\ninit_code = \"DRIVER_NOT_LOADED\"\n");
    assert_eq!(host.gua("sync-once").code, 1);
    assert_eq!(board.live()[0]["gpus"], Value::Array(Vec::new()));
}

#[test]
fn list_and_available_read_the_fleet_from_a_board() {
    let board = Served::start();
    let first = board.enrol(host(TWO_GPUS), "lab-1");
    let second = board.enrol(host(TWO_GPUS), "lab-2");
    first.fine("sync-once");
    second.fine("sync-once");
    let url = &board.url;
    let mut person = without_driver();
    let refused = person.gua(&format!("list --board {url}"));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("gua board login"), "{refused:?}");

    let mut login = person.gua_command(&format!("board login {url}"));
    let mut child = login
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let token = format!("{}\n", board.token);
    child
        .stdin
        .take()
        .unwrap()
        .write_all(token.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success());
    let list = person.fine(&format!("list --board {url}"));
    assert_eq!(list.lines().count(), 5, "{list}");
    let mut lines = list.lines().filter(|line| line.starts_with("lab-2"));
    assert!(
        lines.any(|line| line.split_whitespace().nth(2) == Some("free")),
        "{list}"
    );
    let free = person.fine(&format!("available --board {url} --min-free-memory 40GB"));
    assert_eq!(free, "lab-1:1\nlab-2:1\n");
    let list = person.fine(&format!("list --board {url} --json"));
    let free = person.fine(&format!("available --board {url} --uuid -l 1 --json"));
    gua_test::schema::check_all(&[
        ("gua.board-list.v1", "list", &list),
        ("gua.board-list.v1", "available", &free),
    ]);
    let free: Value = serde_json::from_str(&free).unwrap();
    assert_eq!(free[0]["uuid"], "GPU-b");
    assert_eq!(
        person
            .gua(&format!("available --board {url} --min-free-memory 90GB"))
            .code,
        3
    );
    assert_eq!(
        person
            .gua(&format!("available --board {url} --count 3"))
            .code,
        3
    );
    person.set("GUA_BOARD_TOKEN", "gua_api_wrong");
    let refused = person.gua(&format!("available --board {url}"));
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("the API token is not valid"),
        "{refused:?}"
    );
}

#[test]
fn a_used_token_and_a_revoked_host_are_refused_in_words() {
    let board = Served::start();
    let token = board.enrolment_token("one");
    let url = &board.url;
    let line = format!("enroll --server-url {url} --enrollment-token {token}");
    let first = host(TWO_GPUS);
    first.fine(&line);
    let second = host(TWO_GPUS).gua(&line);
    assert_eq!(second.code, 1);
    assert!(
        second
            .stderr
            .contains("HTTP 401: the enrolment token is not valid"),
        "{second:?}"
    );
    assert_eq!(board.live(), Value::Array(Vec::new()));
    first.fine("sync-once");
    let id = board.live()[0]["id"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {}", board.token);
    let path = format!("DELETE /api/v1/workspaces/default/hosts/{id}");
    assert_eq!(
        board.request(&path, &[("Authorization", &bearer)], b"").0,
        204
    );
    wait_for("the end of the token", || {
        let ended = first.gua("sync-once");
        ended
            .stderr
            .contains("HTTP 401: the agent token is not valid")
            .then_some(())
    });
    assert_eq!(board.live(), Value::Array(Vec::new()));
}

#[test]
fn nothing_acknowledged_is_lost_when_the_board_is_killed() {
    let mut board = Served::start();
    let host = board.enrol(host(TWO_GPUS), "lab");
    host.fine("sync-once");
    let pushed = board.live()[0]["observedAt"].clone();
    board.restart();
    assert_eq!(board.live()[0]["observedAt"], pushed);
    // The agent continues without an error.
    host.fine("sync-once");
    assert_ne!(board.live()[0]["observedAt"], pushed);
}

#[test]
fn a_second_board_on_the_same_data_is_refused() {
    let board = Served::start();
    let second = board.home.gua("board serve --listen 127.0.0.1:0");
    assert_eq!(second.code, 1);
    assert!(
        second
            .stderr
            .contains("another server uses the data directory"),
        "{second:?}"
    );
}

#[test]
fn the_first_start_prints_the_set_up_link() {
    let home = without_driver();
    let running =
        home.foreground("board serve --listen 127.0.0.1:0 --url https://board.example.com/");
    assert_eq!(url(&running), "https://board.example.com");
    let said = running.stdout();
    let link = "  create the first account: https://board.example.com/join#gua_link_";
    assert!(said.contains(link), "{said}");
    assert!(
        !running.stderr().contains("gua_link_"),
        "{}",
        running.stderr()
    );
}
