use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use gua_model::server_url::Unencrypted;
use gua_settings::Inputs;
use gua_test::webhook::{Behaviour, Webhook};

use super::*;

pub(super) fn message() -> AlertMessage {
    AlertMessage {
        id: "1c9d03fe".to_owned(),
        at: "2026-10-30T15:00:00Z".parse().unwrap(),
        alert: "lab".to_owned(),
        when: "idle-held".to_owned(),
        host: "lab1".to_owned(),
        host_id: None,
        user: Some("ada".to_owned()),
        title: "lab1: ada holds 1 GPU ✓".to_owned(),
        text: "lab1: ada holds 1 GPU ✓\n- GPU 0: <!channel> & co\nbye".to_owned(),
        details: vec!["GPU 0: <!channel> & co".to_owned()],
    }
}

pub(super) fn options() -> ConnectOptions {
    let inputs = Inputs {
        variables: BTreeMap::new(),
        home: None,
        system_file: PathBuf::from("/nonexistent"),
    };
    ConnectOptions {
        unencrypted: Unencrypted::LoopbackOnly,
        ca_file: None,
        pin: None,
        proxies: inputs.proxies(),
    }
}

#[test]
fn every_service_gets_the_body_that_it_expects() {
    let directory = tempfile::tempdir().unwrap();
    let url_file = directory.path().join("url");
    let webhook = Webhook::start(Behaviour::Answer(202));
    std::fs::write(&url_file, webhook.url()).unwrap();
    let sent = |shape: Shape| {
        let url_file = url_file.clone();
        send(&Target::Webhook { shape, url_file }, &message(), &options()).unwrap();
        webhook.requests().pop().unwrap()
    };
    let json = |shape: Shape| -> serde_json::Value {
        let request = sent(shape);
        assert_eq!(request.line, "POST /hook/s3cret");
        assert_eq!(request.header("content-type"), Some("application/json"));
        serde_json::from_slice(&request.body).unwrap()
    };
    let slack = "lab1: ada holds 1 GPU ✓\n- GPU 0: &lt;!channel&gt; &amp; co\nbye";
    assert_eq!(json(Shape::Slack), json!({ "text": slack }));
    assert_eq!(json(Shape::Mattermost), json!({ "text": message().text }));
    let card = &json(Shape::Teams)["attachments"][0];
    assert_eq!(
        card["contentType"],
        "application/vnd.microsoft.card.adaptive"
    );
    assert_eq!(card["content"]["type"], "AdaptiveCard");
    let blocks = card["content"]["body"].as_array().unwrap();
    assert_eq!(blocks[0]["text"], "lab1: ada holds 1 GPU ✓");
    assert_eq!(blocks[1]["text"], "- GPU 0: <!channel> & co\n\nbye");
    let document = json(Shape::Json);
    assert_eq!(document["schema"], "gua.alert.v1");
    assert_eq!(document["details"], json!(["GPU 0: <!channel> & co"]));
    let ntfy = sent(Shape::Ntfy);
    assert_eq!(ntfy.text(), message().text);
    assert_eq!(ntfy.header("title"), Some("lab1: ada holds 1 GPU ?"));
}

#[test]
fn a_target_that_cannot_be_used_is_explained_without_the_secret() {
    let directory = tempfile::tempdir().unwrap();
    let url_file = directory.path().join("url");
    let target = Target::Webhook {
        shape: Shape::Slack,
        url_file: url_file.clone(),
    };
    let check = |expected: &str| {
        let error = send(&target, &message(), &options()).unwrap_err().message;
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    };
    check("cannot read");
    assert!(problem(&target).unwrap().contains("cannot read"));
    for (text, expected) in [
        ("\n", "is empty"),
        ("s3cret", "contains no URL"),
        ("ftp://h/s3cret", "contains no URL"),
        // A name that never resolves (RFC 6761), without encryption.
        ("http://host.invalid/s3cret", "host.invalid"),
    ] {
        std::fs::write(&url_file, text).unwrap();
        check(expected);
    }
    std::fs::write(&url_file, "https://hooks.example.com/s3cret").unwrap();
    let mode = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&url_file, mode).unwrap();
        problem(&target)
    };
    assert!(mode(0o644).unwrap().contains("readable by every user"));
    assert_eq!(mode(0o640), None);
}

#[test]
fn a_command_receives_the_document() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    let shell = |script: &str| {
        let words = ["/bin/sh", "-c", script, "x", output.to_str().unwrap()];
        run(&words.map(str::to_owned), &message())
    };
    shell("cat > \"$1\"").unwrap();
    let document = std::fs::read(&output).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["user"], "ada");
    let failed = shell("exit 3").unwrap_err();
    assert!(failed.contains("exit status: 3"), "{failed}");
    shell("exec <&-; exit 0").unwrap();
    let absent = run(&["/nonexistent/x".to_owned()], &message()).unwrap_err();
    assert!(absent.contains("/nonexistent/x"), "{absent}");
}

#[test]
fn a_command_that_hangs_is_killed_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let mut child = Command::new("/bin/sh")
        .args([
            "-c",
            "sleep 600 & echo $! > \"$1.new\"; mv \"$1.new\" \"$1\"; wait",
            "x",
        ])
        .arg(&file)
        .process_group(0)
        .spawn()
        .unwrap();
    gua_test::wait_until("the shell has started its child", || file.exists());
    let sleeper = std::fs::read_to_string(&file).unwrap();
    let error = wait(&mut child, Duration::from_millis(100)).unwrap_err();
    assert!(
        error.starts_with("the command did not end within"),
        "{error}"
    );
    let sleeper: u32 = sleeper.trim().parse().unwrap();
    gua_test::wait_until("the child has ended", || !gua_test::is_running(sleeper));
}
