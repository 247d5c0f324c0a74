//! Alerts on the pages and in the API of a board: keeps, messages and the command of a nudge, by what the reader may see.

use gua_board::AppOptions;
use gua_board_store::registry::{Role, Settings};
use gua_render::alert::{AlertHistoryDocument, AlertMessage, DeliveryRow, DeliveryStatus};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Stage, held};
use crate::{Board, START};

#[tokio::test]
async fn a_keep_is_shown_without_its_reason_to_those_who_see_no_names() {
    let stage = Stage::new().await;
    let until = Timestamp::from_second(START + 3600).unwrap();
    let mut gpu = held("GPU-a");
    gpu["keeps"] = json!([{"owner": "ada", "until": until, "why": "<i>evaluation</i>"}]);
    stage.push(json!([gpu.clone()]), json!([])).await;
    for (role, sees_names) in [(Role::Viewer, false), (Role::Member, true)] {
        let cookie = stage.session(role);
        let headers = [("cookie", cookie.as_str())];
        let (host, api) = (&stage.host, "GET /api/v1/workspaces/default");
        for (line, place) in [
            (format!("{api}/availability"), "/rows/0/keeps/0"),
            (format!("{api}/hosts/{host}"), "/gpus/0/keeps/0"),
            (format!("{api}/live"), "/hosts/0/gpus/0/keeps/0"),
        ] {
            let shown = stage.board.call(&line, &headers, "").await.body;
            let keep = shown.pointer(place).unwrap();
            assert_eq!(keep["until"], json!(until), "{line}");
            assert_eq!(keep["why"].is_string(), sees_names, "{line}");
            assert_eq!(keep["owner"].is_string(), sees_names, "{line}");
        }
        for line in [
            "GET /w/default".to_owned(),
            format!("GET /w/default/hosts/{host}"),
            format!("GET /w/default/hosts/{host}/gpus/GPU-a"),
        ] {
            let page = stage.board.call(&line, &headers, "").await.body;
            let page = page.as_str().unwrap();
            assert!(page.contains("kept until 2026-09-21 15:13 UTC"), "{page}");
            let escaped = "UTC: &lt;i&gt;evaluation&lt;/i&gt;";
            assert_eq!(page.contains(escaped), sees_names, "{line}");
            assert!(!page.contains("<i>evaluation"), "{line}");
        }
    }
    gpu["keeps"][0]["why"] = json!("x".repeat(201));
    let body = json!({
        "schemaVersion": "gua.live.v1", "observedAt": stage.board.app.now(), "gpus": [gpu], "waiting": 0, "problems": [],
        "host": {"hostname": "lab1", "agentVersion": "1", "driverVersion": null},
    });
    let headers = [("authorization", stage.token.as_str())];
    let line = "POST /agent/v1/live";
    let refused = stage.board.call(line, &headers, body.to_string()).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
}

/// A message about a person on a host of a workspace; without an id, on several hosts.
fn message(workspace: &str, host_id: &str, status: DeliveryStatus) -> DeliveryRow {
    let at = Timestamp::from_second(START).unwrap();
    let message = AlertMessage {
        id: "1c9d03fe".to_owned(),
        at,
        alert: "lab".to_owned(),
        when: "idle-held".to_owned(),
        host: "lab1".to_owned(),
        host_id: (!host_id.is_empty()).then(|| host_id.to_owned()),
        workspace: Some(workspace.to_owned()),
        user: Some("ada".to_owned()),
        title: "lab1: ada <b>holds 1 GPU".to_owned(),
        text: String::new(),
        details: Vec::new(),
    };
    DeliveryRow::new(&message, "email".to_owned(), status, at, 1)
}

#[tokio::test]
async fn admins_see_the_messages_about_hosts_of_their_workspace() {
    let rows = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = std::sync::Arc::clone(&rows);
    let board = Board::with_options(|options| AppOptions {
        alert_log: Some(std::sync::Arc::new(move || {
            Ok(AlertHistoryDocument::new(log.lock().unwrap().clone()))
        })),
        ..options
    });
    let stage = Stage::of(board).await;
    let refused = "550 no mailbox ada@example.com".to_owned();
    let workspace = stage.board.workspace().id;
    let workspace = workspace.as_str();
    *rows.lock().unwrap() = vec![
        message("another", &stage.host, DeliveryStatus::Sent),
        message(workspace, &stage.host, DeliveryStatus::Sent),
        message(workspace, "", DeliveryStatus::Failed(refused.clone())),
        message(workspace, "revoked", DeliveryStatus::Sent),
    ];
    let cookie = stage.session(Role::Admin);
    let headers = [("cookie", cookie.as_str())];
    let shown = |line: &'static str| stage.board.call(line, &headers, "");
    let api = "GET /api/v1/workspaces/default/alerts";
    let found = shown(api).await.body;
    let items = found["items"].as_array().unwrap();
    assert_eq!(items.len(), 3, "{found}");
    let hosts: Vec<&Value> = items.iter().map(|item| &item["host"]).collect();
    assert_eq!(hosts, [&json!(stage.host), &Value::Null, &Value::Null]);
    assert_eq!(
        (&items[0]["user"], &items[0]["status"]),
        (&json!("ada"), &json!("sent"))
    );
    assert_eq!(items[1]["error"], json!(refused));
    let page = shown("GET /w/default/servers").await.body;
    let page = page.as_str().unwrap();
    assert!(page.contains("lab1: ada &lt;b&gt;holds 1 GPU"), "{page}");
    let alerts = page
        .split("<table")
        .find(|table| table.contains("idle-held"));
    assert_eq!(alerts.unwrap().matches("<a ").count(), 1, "{page}");
    // Only owners may see names.
    let settings = Settings {
        names_from: Role::Owner,
        ..Settings::default()
    };
    let (change, workspace) = (stage.board.change(), stage.board.workspace().id);
    let store = &stage.board.app.registry;
    store.set_settings(&change, &workspace, &settings).unwrap();
    let found = shown(api).await.body;
    assert!(!found.to_string().contains("ada"), "{found}");
    let page = shown("GET /w/default/servers").await.body;
    let page = page.as_str().unwrap();
    assert!(!page.contains("holds 1 GPU"), "{page}");
    assert!(!page.contains("ada@example.com"), "{page}");
}

#[tokio::test]
async fn only_those_who_see_names_can_copy_a_command_that_asks_the_holder() {
    let stage = Stage::new().await;
    let mut gpus = ["GPU-a", "GPU-b", "GPU-c", "GPU-d"].map(held);
    for (gpu, owner) in
        gpus.iter_mut()
            .zip(["ada", "container:web", "user-0123456789abcdef", "$(id)"])
    {
        gpu["processes"][0]["owner"] = json!(owner);
    }
    stage.push(json!(gpus), json!([])).await;
    for (role, expected) in [(Role::Member, 1), (Role::Viewer, 0)] {
        let cookie = stage.session(role);
        for path in [String::new(), format!("/hosts/{}/gpus/GPU-a", stage.host)] {
            let line = format!("GET /w/default{path}");
            let page = stage.board.call(&line, &[("cookie", &cookie)], "").await;
            let page = page.body.as_str().unwrap();
            assert_eq!(page.matches("gua nudge").count(), expected, "{page}");
            assert_eq!(
                page.matches("ssh lab1 gua nudge ada").count(),
                expected,
                "{page}"
            );
        }
    }
}
