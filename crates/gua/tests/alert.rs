//! Alerts of a running daemon, and the commands about them.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gua_probe::clock;
use gua_test::webhook::{Behaviour, Webhook};
use gua_test::{Ended, Pty, Sleeper, TestHost, schema, wait_for, wait_until};
use rustix::process::Signal;

use crate::{GUA, OWN_ETC, TWO_GPUS, host};

/// A host whose GPU 0 is held and not used, with these lines in an alert.
fn alerting(sleeper: &Sleeper, lines: &str) -> TestHost {
    let pid = sleeper.pid();
    let host = host(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 0\n[[gpu.process]]\npid = {pid}\nmemory_mib = 2048\n[[gpu]]\nuuid = \"GPU-b\"\n"
    ));
    let text = format!("[[alert]]\nwhen = [\"idle-held\"]\nlonger_than = \"1s\"\n{lines}\n");
    host.write(".gua/config.toml", text);
    host
}

/// An alert that runs a program, which appends its input to a file.
fn recording(sleeper: &Sleeper) -> TestHost {
    let host = alerting(sleeper, "");
    let output = host.path("messages");
    let script = format!("cat >> {0}; echo >> {0}", output.display());
    let command = format!("to = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n");
    let text = host.read(".gua/config.toml") + &command;
    host.write(".gua/config.toml", text);
    host
}

#[test]
fn a_daemon_sends_a_message_about_an_idle_gpu_once() {
    let sleeper = Sleeper::new();
    let host = recording(&sleeper);
    let mut daemon = host.foreground("daemon --foreground --interval 200ms");
    let message = wait_for("the message", || {
        let text = std::fs::read_to_string(host.path("messages")).ok()?;
        text.ends_with('\n').then_some(text)
    });
    wait_until("the delivery is recorded", || {
        host.fine("alert history").contains("sent")
    });
    daemon.stop();
    schema::check("gua.alert.v1", &message);
    let message: serde_json::Value = serde_json::from_str(&message).unwrap();
    assert_eq!(message["when"], "idle-held");
    let detail = message["details"][0].as_str().unwrap();
    assert!(
        detail.starts_with("GPU 0: 2.0 GB held, idle for"),
        "{detail}"
    );
    // The cool-down survives a restart: no second message.
    let mut daemon = host.foreground("daemon --foreground --append --interval 200ms");
    wait_until("some ticks", || daemon.stdout().lines().count() > 15);
    daemon.stop();
    assert_eq!(host.read("messages").lines().count(), 1);
    let json = host.json("alert history --json");
    assert_eq!(json["messages"].as_array().unwrap().len(), 1);
    assert_eq!(json["messages"][0]["status"], "sent");
    let unsent = host.gua("alert list").stderr;
    let expected =
        "gua alert list: no daemon sends the alerts of this user now: the daemon stopped";
    assert!(unsent.starts_with(expected), "{unsent}");
    let status = host.fine("status");
    assert!(status.contains("  alerts: 1\n"), "{status}");
    assert!(
        status.contains("  alert problem: no daemon sends"),
        "{status}"
    );
    let doctor = host.gua("doctor").stdout;
    assert!(
        doctor.contains("no daemon sends the alerts of this user now"),
        "{doctor}"
    );
    let list = host.json("alert list --json");
    assert_eq!(list["alerts"][0]["when"], "idle-held");
    assert_ne!(list["alerts"][0]["last_sent"], serde_json::Value::Null);
}

#[test]
fn the_first_alert_is_read_without_a_restart() {
    let sleeper = Sleeper::new();
    let host = recording(&sleeper);
    let alert = host.read(".gua/config.toml");
    host.write(".gua/config.toml", "");
    let mut daemon = host.foreground("daemon --foreground --interval 200ms");
    wait_until("some ticks", || daemon.stdout().lines().count() > 3);
    assert!(!host.path(".gua/gua.db.alerts.json").exists());
    host.write(".gua/config.toml", alert);
    daemon.signal(Signal::HUP);
    wait_until("the message", || {
        host.read("messages").contains("idle-held")
    });
    daemon.stop();
}

#[test]
fn a_test_message_says_whether_the_target_accepted_it() {
    let sleeper = Sleeper::new();
    let webhook = Webhook::start(Behaviour::Answer(200));
    let host = alerting(&sleeper, "");
    let url = gua_test::write_private(&host.path("slack.url"), &webhook.url());
    let lines = format!(
        "name = \"lab\"\nto = \"slack\"\nurl_file = \"{}\"\n",
        url.display()
    );
    host.write(
        ".gua/config.toml",
        format!("[[alert]]\nwhen = [\"lost\"]\n{lines}"),
    );
    assert_eq!(host.fine("alert test"), "lab: sent to slack\n");
    let request = &webhook.requests()[0];
    assert!(
        request.text().contains("test of the alert lab"),
        "{request:?}"
    );
    webhook.set(Behaviour::Answer(404));
    let refused = host.gua("alert test lab");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("HTTP status 404"), "{refused:?}");
    let unknown = host.gua("alert test lob");
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("did you mean `lab`?"),
        "{unknown:?}"
    );
    // The secret is in the file alone.
    for command in [
        "config show",
        "config show --json",
        "alert list",
        "alert list --csv",
    ] {
        let text = host.fine(command);
        assert!(text.contains("lab") && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_daemon_whose_target_hangs_keeps_its_ticks() {
    let sleeper = Sleeper::new();
    let webhook = Webhook::start(Behaviour::Hang);
    let host = alerting(&sleeper, "");
    let url = gua_test::write_private(&host.path("url"), &webhook.url());
    let lines = format!("to = \"webhook\"\nurl_file = \"{}\"\n", url.display());
    let text = host.read(".gua/config.toml") + &lines;
    host.write(".gua/config.toml", text);
    let mut daemon = host.foreground("daemon --foreground --interval 100ms");
    wait_until("the target has the message", || {
        !webhook.requests().is_empty()
    });
    let (before, asked) = (daemon.stdout().lines().count(), clock::monotonic());
    wait_until("two seconds of ticks", || {
        daemon.stdout().lines().count() >= before + 20
    });
    // The daemon waits 10 s for an answer.
    let passed = clock::monotonic() - asked;
    assert!(passed < Duration::from_secs(9), "{passed:?}");
    assert_eq!(webhook.requests().len(), 1);
    assert!(host.fine("alert history").contains("waiting"));
    daemon.stop();
    webhook.set(Behaviour::Answer(200));
    let mut daemon = host.foreground("daemon --foreground --append --interval 100ms");
    wait_until("the message is delivered after the restart", || {
        host.fine("alert history").contains("sent")
    });
    daemon.stop();
    let requests = webhook.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body);
}

#[test]
fn without_alerts_the_commands_explain_how_to_get_them() {
    let host = crate::without_driver();
    assert!(
        host.fine("alert list")
            .starts_with("no alerts are configured\n")
    );
    assert_eq!(host.fine("alert history"), "no messages yet\n");
    let test = host.gua("alert test");
    assert_eq!(test.code, 2);
    assert!(test.stderr.contains("docs/alerts.md"), "{test:?}");
    let list = host.fine("board alert list");
    assert!(
        list.starts_with("no alerts are configured with by = \"board\"\n"),
        "{list}"
    );
    assert!(list.contains("silent") && !list.contains("nudge"), "{list}");
    // A limit of 0 is refused: it would show no messages even if there are some.
    assert_eq!(host.gua("alert history --limit 0").code, 2);
}

#[test]
fn a_kept_gpu_is_shown_everywhere_and_ends() {
    let sleeper = Sleeper::new();
    let host = alerting(&sleeper, "to = \"command\"\ncommand = [\"/bin/true\"]");
    assert_eq!(host.fine("keep --end"), "you keep no GPU\n");
    let kept = host
        .gua_command("keep 2h --why")
        .arg("long evaluation\u{1b}")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&kept.stdout).into_owned();
    assert!(
        said.starts_with("kept until ") && said.ends_with(": GPU 0\n"),
        "{kept:?}"
    );
    let list = host.fine("list");
    assert!(
        list.contains("GPU 0 is kept by ") && list.contains(": long evaluation"),
        "{list}"
    );
    assert!(!list.contains('\u{1b}'), "{list}");
    let json = host.json("list --json");
    schema::check("gua.list.v1", &json.to_string());
    let why = json["gpus"][0]["keeps"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("long evaluation"), "{why}");
    assert_eq!(json["gpus"][1]["keeps"], serde_json::json!([]));
    assert!(
        host.fine("list --csv")
            .lines()
            .next()
            .unwrap()
            .ends_with("keep_until,keep_why")
    );
    assert!(host.fine("explain 0").contains("Kept by "));
    let explained = host.json("explain 0 --json");
    schema::check("gua.explain.v1", &explained.to_string());
    assert_eq!(explained["keeps"][0]["why"], why);
    assert!(host.fine("me").contains("kept until "));
    let me = host.json("me --json");
    schema::check("gua.me.v1", &me.to_string());
    assert_eq!(me["gpus"][0]["kept_why"], why);
    assert_eq!(me["releasable"], serde_json::json!([]));
    assert_eq!(host.fine("keep --end"), "your keep has ended\n");
    assert!(!host.fine("list").contains("kept"));
    for (line, code) in [("keep 8d --why x", 2), ("keep 2h", 2), ("keep", 2)] {
        assert_eq!(host.gua(line).code, code, "{line}");
    }
    let free = crate::host(TWO_GPUS).gua("keep 1h --why x");
    assert_eq!(
        (free.code, free.stderr.contains("you hold no GPU")),
        (1, true),
        "{free:?}"
    );
}

#[test]
fn alerts_leave_a_holder_alone_who_keeps_the_gpu() {
    let sleeper = Sleeper::new();
    let host = recording(&sleeper);
    host.fine("keep 1h --why evaluation");
    let mut daemon = host.foreground("daemon --foreground --interval 200ms");
    // Several evaluations later, nothing was sent.
    wait_until("some ticks", || daemon.stdout().lines().count() > 30);
    assert_eq!(host.read("messages"), "");
    host.fine("keep --end");
    wait_until("the message", || {
        host.read("messages").contains("idle-held")
    });
    daemon.stop();
}

#[test]
fn a_nudge_needs_a_holder_of_gpus_that_have_been_idle_for_long() {
    let sleeper = Sleeper::new();
    let host = alerting(&sleeper, "to = \"command\"\ncommand = [\"/bin/true\"]");
    let unknown = host.gua("nudge nobody-at-all");
    assert_eq!(unknown.code, 2);
    let expected = "unknown user `nobody-at-all`";
    assert!(unknown.stderr.contains(expected), "{unknown:?}");
    let nobody = host.gua("nudge nobody");
    assert_eq!(nobody.code, 1);
    // The user's own alerts do not shorten the time, except those of root.
    let is_root = gua_test::runs_as_root("alerts of root");
    let length = if is_root { "1s" } else { "10m" };
    let expected = format!("nobody holds no GPU that has been idle for {length} or longer");
    assert!(nobody.stderr.contains(&expected), "{nobody:?}");
    if !is_root {
        return;
    }
    let mut daemon = host.foreground("daemon --foreground --interval 200ms");
    let me = host.json("me --json")["user"].as_str().unwrap().to_owned();
    let own = wait_for("the GPU has been idle for a second", || {
        let own = host.gua(&format!("nudge {me}"));
        (!own.stderr.contains("holds no GPU")).then_some(own)
    });
    daemon.stop();
    assert_eq!(own.code, 2);
    assert!(own.stderr.contains("you cannot nudge yourself"), "{own:?}");
}

#[test]
fn a_person_is_nudged_once_a_day_sees_it_and_can_answer() {
    if !gua_test::runs_as_root("nudging another user") {
        return;
    }
    const NOBODY: u32 = 65534;
    let mut holder = Command::new("sleep")
        .arg("600")
        .uid(NOBODY)
        .spawn()
        .unwrap();
    let pid = holder.id();
    let host = host(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 0\n[[gpu.process]]\npid = {pid}\nmemory_mib = 2048\n"
    ));
    let output = host.path("messages");
    let script = format!("cat >> {}", output.display());
    host.write(
        ".gua/config.toml",
        format!("[[alert]]\nwhen = [\"nudge\"]\nlonger_than = \"1s\"\nto = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n"),
    );
    host.open_to_users();
    let theirs = |line: &str| {
        let mut command = host.command(host.path("gua"));
        command.args(line.split_whitespace());
        Ended::from(command.uid(NOBODY).gid(NOBODY).output().unwrap())
    };
    let mut daemon = host.foreground("daemon --foreground --interval 200ms");
    assert_eq!(theirs("keep 1h --why busy").code, 0);
    let refused = wait_for("the GPU has been idle for a second", || {
        let asked = host.gua(&format!("nudge {NOBODY}"));
        (!asked.stderr.contains("holds no GPU")).then_some(asked)
    });
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("still needs the GPUs until"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains(": busy"), "{refused:?}");
    assert_eq!(theirs("keep --end").code, 0);
    let asked = host.fine(&format!("nudge {NOBODY}"));
    assert!(asked.contains("do you still need 1 GPU on"), "{asked}");
    assert!(asked.contains("- GPU 0: 2.0 GB held, idle for"), "{asked}");
    let again = host.gua(&format!("nudge {NOBODY}"));
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("at most once a day"), "{again:?}");
    let me = theirs("me");
    assert!(
        me.stdout.contains("asks whether you still need GPU 0"),
        "{me:?}"
    );
    let json = theirs("me --json").stdout;
    schema::check("gua.me.v1", &json);
    wait_until("the daemon sends the question", || {
        host.read("messages").contains("\"when\":\"nudge\"")
    });
    daemon.stop();
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn a_user_nudges_through_the_service_and_the_holder_sees_it_on_the_terminal() {
    if !gua_test::runs_as_root("the service and two other users") {
        return;
    }
    const NOBODY: u32 = 65534;
    const ADA: u32 = 2294;
    let mut holder = Command::new("sleep")
        .arg("600")
        .uid(NOBODY)
        .spawn()
        .unwrap();
    let pid = holder.id();
    let host = host(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 0\n[[gpu.process]]\npid = {pid}\nmemory_mib = 2048\n"
    ));
    host.write(
        "system.toml",
        "[[alert]]\nwhen = [\"nudge\"]\nlonger_than = \"1s\"\nto = \"write\"\n",
    );
    host.open_to_users();
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    // A private history, like that of the service. A daemon that runs as root answers questions about it.
    let db = host.path("service/gua.db");
    std::fs::create_dir(host.path("service")).unwrap();
    set_mode(&host.path("service"), 0o700);
    let program = host.write(
        "bin/write",
        "#!/bin/sh\n(echo \"$*\"; cat) >\"$HOME/written\"\n",
    );
    set_mode(&program, 0o755);
    let home = host.path("ada");
    std::fs::create_dir(&home).unwrap();
    chown(&home, Some(ADA), None).unwrap();
    let nudge = || {
        let mut command = host.command(host.path("gua"));
        let path = format!("{}:/usr/bin:/bin", host.path("bin").display());
        command.args(["nudge", "nobody"]);
        command.env("HOME", &home).env("PATH", path);
        Ended::from(command.uid(ADA).gid(ADA).output().unwrap())
    };
    let unanswered = nudge();
    assert_eq!(unanswered.code, 1, "{unanswered:?}");
    let line = format!("daemon --foreground --interval 200ms --db {}", db.display());
    let mut daemon = host.foreground(&line);
    let terminal = Pty::new();
    chown(&terminal.name, Some(NOBODY), None).unwrap();
    set_mode(Path::new(&terminal.name), 0o620);
    let asked = wait_for("the GPU has been idle for a second", || {
        let asked = nudge();
        (!asked.stderr.contains("holds no GPU")).then_some(asked)
    });
    assert_eq!(asked.code, 0, "{asked:?}");
    let place = "This is shown to nobody on their terminal, by `gua me` and at their next log-in.";
    assert!(asked.stdout.contains(place), "{asked:?}");
    let written = host.read("ada/written");
    let question = "nobody\nHello nobody, do you still need 1 GPU on ";
    assert!(written.starts_with(question), "{written}");
    assert!(
        written.contains("- GPU 0: 2.0 GB held, idle for"),
        "{written}"
    );
    assert!(written.contains("(uid 2294 asked"), "{written}");
    // The daemon's own message.
    let seen = terminal.until("gua keep");
    assert!(seen.contains("Message from gua:"), "{seen}");
    assert!(seen.contains("GPU 0: 2.0 GB held, idle for"), "{seen}");
    daemon.stop();
    holder.kill().unwrap();
    holder.wait().unwrap();
}

/// Runs commands with a copy of /etc that has gua's group.
const RECIPES: &str = r#"
grep -q ^gua: /etc/group || echo gua:x:20778: >>/etc/group
sudo() { "$@"; }
sudoedit() { echo https://hooks.example.com/s3cret >"$1"; }
umask 022
eval "$LINES"
"$PROGRAM" alert list --json
"#;

#[test]
fn the_documented_commands_make_files_with_secrets_that_are_accepted() {
    if !gua_test::can_mount("the commands of the documentation") {
        return;
    }
    let document = include_str!("../../../docs/alerts.md");
    let lines = document.lines().filter(|line| {
        let is_command = ["sudo", "printf"].iter().any(|word| line.starts_with(word));
        is_command && line.contains("/etc/gua/")
    });
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    let host = host(TWO_GPUS);
    let table = |to: &str| {
        format!("[[alert]]\nwhen = [\"lost\"]\nto = \"{to}\"\nurl_file = \"/etc/gua/{to}.url\"\n")
    };
    host.write("system.toml", table("slack") + &table("ntfy"));
    let output = host
        .command("/usr/bin/unshare")
        .args(["--mount", "/bin/sh", "-ec", &(OWN_ETC.to_owned() + RECIPES)])
        .env("LINES", lines.join("\n"))
        .env("PROGRAM", GUA)
        .output()
        .unwrap();
    let list = Ended::from(output);
    let list: serde_json::Value =
        serde_json::from_str(&list.stdout).unwrap_or_else(|_| panic!("{list:?}"));
    let alerts = list["alerts"].as_array().unwrap();
    assert_eq!(alerts.len(), 2);
    for alert in alerts {
        assert_eq!(alert["problem"], serde_json::Value::Null, "{alert}");
    }
}

#[test]
fn a_gpu_that_becomes_free_is_announced() {
    let webhook = Webhook::start(Behaviour::Answer(200));
    let sleeper = Sleeper::new();
    let host = alerting(&sleeper, "");
    let desktop = host.write(
        "bin/notify-send",
        "#!/bin/sh\necho \"$*\" > \"${0%/*}/shown\"\n",
    );
    std::fs::set_permissions(desktop, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", host.path("bin").display());
    let busy = |pid: u32| {
        let card = |uuid: &str| {
            format!(
                "[[gpu]]\nuuid = \"{uuid}\"\nutil = 90\n[[gpu.process]]\npid = {pid}\nmemory_mib = 2048\n"
            )
        };
        card("GPU-a") + &card("GPU-b")
    };
    host.play(&busy(sleeper.pid()));
    let url = gua_test::write_private(&host.path("url"), &webhook.url());
    let lines = format!("to = \"webhook\"\nurl_file = \"{}\"\n", url.display());
    host.write(
        ".gua/config.toml",
        format!("[[alert]]\nwhen = [\"free\"]\n{lines}"),
    );
    let pty = Pty::new();
    let mut command = host.gua_command("available --notify --free-for 0s");
    let mut waiting = pty.start(command.env("PATH", path));
    pty.until("waiting");
    assert_eq!(waiting.try_wait().unwrap(), None);
    assert!(webhook.requests().is_empty());
    // GPU 1 becomes free.
    let gpus = busy(sleeper.pid());
    let (held, _) = gpus.rsplit_once("[[gpu.process]]").unwrap();
    host.play(&held.replace("GPU-b\"\nutil = 90", "GPU-b\"\nutil = 0"));
    let status = waiting.wait().unwrap();
    assert!(status.success(), "{status}");
    pty.until("\u{7}");
    let request = &webhook.requests()[0];
    let expected = "GPU 1 is free, and leased for you until ";
    assert!(request.text().contains(expected), "{request:?}");
    let shown = host.read("bin/shown");
    assert!(
        shown.starts_with("gua ") && shown.contains(expected),
        "{shown}"
    );
}
