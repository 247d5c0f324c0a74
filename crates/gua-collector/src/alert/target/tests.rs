use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use gua_model::server_url::Unencrypted;
use gua_settings::Inputs;
use gua_test::webhook::{Behaviour, Webhook};
use rustix::thread::{
    CapabilitySet, capabilities, capability_is_in_ambient_set, configure_capability_in_ambient_set,
    set_capabilities,
};

use serde_json::json;

use super::*;

pub(super) fn message() -> AlertMessage {
    AlertMessage {
        id: "1c9d03fe".to_owned(),
        at: "2026-10-30T15:00:00Z".parse().unwrap(),
        alert: "lab".to_owned(),
        when: "idle-held".to_owned(),
        host: "lab1".to_owned(),
        host_id: None,
        workspace: None,
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
    gua_test::write_private(&url_file, &webhook.url());
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
    let block = |text: &str, weight: &str| json!({ "type": "TextBlock", "text": text, "weight": weight, "wrap": true });
    let body = [
        block("lab1: ada holds 1 GPU ✓", "bolder"),
        block("- GPU 0: <!channel> & co\n\nbye", "default"),
    ];
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "body": body,
    });
    let attachment = json!({
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": null,
        "content": card,
    });
    let teams = json!({ "type": "message", "attachments": [attachment] });
    assert_eq!(sent(Shape::Teams).text(), teams.to_string());
    let document = json(Shape::Json);
    assert_eq!(document["schema"], "gua.alert.v1");
    assert_eq!(document["details"], json!(["GPU 0: <!channel> & co"]));
    // The token of a protected topic of ntfy is part of the URL.
    gua_test::write_private(&url_file, &format!("{}?auth=QmVhcmVyIHRr", webhook.url()));
    let ntfy = sent(Shape::Ntfy);
    assert_eq!(ntfy.line, "POST /hook/s3cret?auth=QmVhcmVyIHRr");
    assert_eq!(ntfy.text(), message().text);
    assert_eq!(
        ntfy.header("title"),
        Some("=?UTF-8?Q?lab1:_ada_holds_1_GPU_=E2=9C=93?=")
    );
}

#[test]
fn a_header_holds_ascii_as_it_is_and_other_text_as_encoded_words() {
    for (text, expected) in [
        ("", ""),
        ("lab1: 2 GPUs (a_b = 50%?)", "lab1: 2 GPUs (a_b = 50%?)"),
        (
            "café_=? \u{1f9ea}",
            "=?UTF-8?Q?caf=C3=A9=5F=3D=3F_=F0=9F=A7=AA?=",
        ),
        // Text that a reader would decode.
        ("=?UTF-8?Q?a?=", "=?UTF-8?Q?=3D=3FUTF-8=3FQ=3Fa=3F=3D?="),
        ("a\r\nb", "=?UTF-8?Q?a=0D=0Ab?="),
    ] {
        assert_eq!(header_text(text), expected, "{text:?}");
    }
    // This character takes 9 bytes when encoded, so 7 of them fill a word up to the limit of 75.
    let long = header_text(&"✓".repeat(8));
    let full = format!("=?UTF-8?Q?{}?=", "=E2=9C=93".repeat(7));
    assert_eq!(full.len(), 75);
    assert_eq!(long, format!("{full} =?UTF-8?Q?=E2=9C=93?="));
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
        ("s3cret", "does not contain one URL"),
        ("ftp://h/s3cret", "does not contain one URL"),
        // A name that never resolves (RFC 6761), without encryption.
        ("http://host.invalid/s3cret", "host.invalid"),
    ] {
        gua_test::write_private(&url_file, text);
        check(expected);
    }
    gua_test::write_private(&url_file, "https://hooks.example.com/s3cret");
    for (mode, expected) in [(0o644, "readable by every user"), (0o602, "by everyone")] {
        set_mode(&url_file, mode);
        check(expected);
        assert!(problem(&target).unwrap().contains(expected));
    }
    set_mode(&url_file, 0o640);
    assert_eq!(problem(&target), None);
}

fn set_mode(path: &Path, mode: u32) {
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).unwrap();
}

#[test]
fn a_command_that_other_users_can_change_is_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let command = directory.path().join("notify");
    std::fs::write(&command, "#!/bin/sh\nexit 0\n").unwrap();
    let target = Target::Command(vec![command.display().to_string()]);
    let sent = || send(&target, &message(), &options()).map_err(|error| error.message);
    set_mode(&command, 0o755);
    assert_eq!((sent(), problem(&target)), (Ok(()), None));
    set_mode(&command, 0o757);
    let error = sent().unwrap_err();
    assert!(error.ends_with("can be written by everyone"), "{error}");
    assert_eq!(problem(&target), Some(error));
    if !gua_test::runs_as_root("a command of another user") {
        return;
    }
    set_mode(&command, 0o755);
    std::os::unix::fs::chown(&command, Some(65534), None).unwrap();
    let error = sent().unwrap_err();
    assert!(error.ends_with("belongs to user 65534"), "{error}");
}

#[test]
fn a_command_inherits_no_capability() {
    if !gua_test::runs_as_root("ambient capabilities") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("status");
    let words = ["/bin/cp", "/proc/self/status", output.to_str().unwrap()];
    let words = words.map(str::to_owned);
    // On a thread of its own, because the sets belong to the thread.
    let ran = thread::spawn(move || {
        let mut sets = capabilities(None).unwrap();
        sets.inheritable |= CapabilitySet::SYS_PTRACE;
        let is_raised = set_capabilities(None, sets)
            .and_then(|()| configure_capability_in_ambient_set(CapabilitySet::SYS_PTRACE, true));
        if is_raised.is_err() {
            gua_test::not_tested("needs root with CAP_SYS_PTRACE", "ambient capabilities");
            return false;
        }
        run(&words, &message()).unwrap();
        let kept = capability_is_in_ambient_set(CapabilitySet::SYS_PTRACE);
        assert_eq!(kept, Ok(true), "the thread itself keeps it");
        true
    });
    if ran.join().unwrap() {
        let status = std::fs::read_to_string(&output).unwrap();
        let line = status.lines().find(|line| line.starts_with("CapAmb"));
        assert_eq!(line, Some("CapAmb:\t0000000000000000"));
    }
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

/// Waits for a shell that starts `sleep 600` and then runs this script. Returns the result, after `sleep` was killed.
fn waited(script: &str, limit: Duration) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let start = "sleep 600 & echo $! > \"$1.new\"; mv \"$1.new\" \"$1\"";
    let mut child = Command::new("/bin/sh")
        .args(["-c", &format!("{start}; {script}"), "x"])
        .arg(&file)
        .process_group(0)
        .spawn()
        .unwrap();
    gua_test::wait_until("the shell has started its child", || file.exists());
    let sleeper = std::fs::read_to_string(&file).unwrap();
    let result = wait(&mut child, limit);
    let sleeper: u32 = sleeper.trim().parse().unwrap();
    gua_test::wait_until("the child has ended", || !gua_test::is_running(sleeper));
    result
}

#[test]
fn a_command_that_hangs_is_killed_with_its_children() {
    let error = waited("wait", Duration::from_millis(100)).unwrap_err();
    assert!(
        error.starts_with("the command did not end within"),
        "{error}"
    );
}

#[test]
fn processes_that_a_command_leaves_behind_are_killed() {
    let limit = Duration::from_secs(60);
    assert_eq!(waited("exit 0", limit), Ok(()));
    let failed = waited("exit 3", limit).unwrap_err();
    assert!(failed.contains("exit status: 3"), "{failed}");
}
