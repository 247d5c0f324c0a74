//! `gua service` on an image: what it writes, what it links, and that it leaves nothing behind.

use gua_test::runs_as_root;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn gua(image: &Path, arguments: &[&str]) -> Output {
    crate::without_driver()
        .variable("HOME", "/home/nobody-has-this")
        .command(crate::GUA)
        .env_remove("GUA_SERVICE_DB")
        .arg("service")
        .args(arguments)
        .arg("--root")
        .arg(image)
        .output()
        .unwrap()
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Every file and link below a directory, sorted.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path().display().to_string());
        }
    }
    found.sort();
    found
}

#[test]
fn installing_twice_and_removing_leaves_nothing() {
    for (scope, directory) in [
        ("--system", "etc/systemd/system"),
        ("--user", "etc/systemd/user"),
    ] {
        let image = tempfile::tempdir().unwrap();
        let output = done(&gua(image.path(), &["install", scope]));
        assert!(
            output.contains(" the image ") && !output.contains("systemctl"),
            "of the image, not of this system: {output}"
        );
        let first = files(image.path());
        done(&gua(image.path(), &["install", scope, "--interval", "10s"]));
        assert_eq!(files(image.path()), first);
        let unit = image.path().join(directory).join("gua.service");
        let text = fs::read_to_string(&unit).unwrap();
        assert!(text.contains(" daemon --foreground --append "), "{text}");
        assert!(text.contains(" --interval 10s\n"), "{text}");
        let alias =
            fs::read_link(image.path().join(directory).join("gpu-usage-audit.service")).unwrap();
        assert_eq!(alias.file_name().unwrap(), "gua.service");
        assert!(done(&gua(image.path(), &["status", scope])).contains("installed at"));
        let output = done(&gua(image.path(), &["uninstall", scope]));
        assert!(!output.contains("history at /var"), "{output}");
        assert_eq!(files(image.path()), Vec::<String>::new());
        assert!(done(&gua(image.path(), &["uninstall", scope])).contains("not installed"));
    }
}

#[test]
fn a_history_that_is_there_already_is_taken_over_or_refused_before_anything_is_installed() {
    let image = tempfile::tempdir().unwrap();
    let directory = image.path().join("var/lib/gua");
    fs::create_dir_all(&directory).unwrap();
    let db = directory.join("gua.db");
    fs::write(&db, "not a database").unwrap();
    let before = files(image.path());
    let refused = gua(image.path(), &["install", "--system"]);
    assert_eq!(refused.status.code(), Some(2));
    let output = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        output.contains("not a history of gua") && output.contains("`mv "),
        "{output}"
    );
    assert_eq!(files(image.path()), before);

    fs::remove_file(&db).unwrap();
    let shape = gua_test::old_history::Shape {
        gpus: 1,
        ticks: 2,
        interval_seconds: 30,
        process_rows: 2,
    };
    let end = jiff::Timestamp::from_second(1_790_000_000).unwrap();
    gua_test::old_history::write(&db, &shape, end).unwrap();
    let output = done(&gua(image.path(), &["install", "--system"]));
    assert!(
        output.contains("the collector imports it when it starts"),
        "{output}"
    );
    // The collector would refuse it at another path.
    let elsewhere = image.path().join("srv");
    fs::create_dir(&elsewhere).unwrap();
    fs::copy(&db, elsewhere.join("gua.db")).unwrap();
    let refused = gua(
        image.path(),
        &["install", "--system", "--db", "/srv/gua.db"],
    );
    assert_eq!(refused.status.code(), Some(2));
    let output = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(output.contains("`gua import "), "{output}");
}

#[test]
fn a_history_at_another_path_is_kept_by_later_installs() {
    let image = tempfile::tempdir().unwrap();
    let arguments = ["install", "--system", "--db", "/srv/gpu/gua.db"];
    let refused = gua(image.path(), &arguments);
    assert_eq!(refused.status.code(), Some(2));
    let output = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(output.contains("`mkdir -p "), "{output}");
    fs::create_dir_all(image.path().join("srv/gpu")).unwrap();
    let output = done(&gua(image.path(), &arguments));
    assert!(
        output.contains("service_db = \"/srv/gpu/gua.db\""),
        "{output}"
    );
    done(&gua(
        image.path(),
        &["install", "--system", "--interval", "10s"],
    ));
    let unit = image.path().join("etc/systemd/system/gua.service");
    let text = fs::read_to_string(unit).unwrap();
    assert!(
        text.contains(" --db /srv/gpu/gua.db --interval 10s\n"),
        "{text}"
    );
    let shown = image.path().join("srv/gpu/gua.db").display().to_string();
    let status = done(&gua(image.path(), &["status", "--system"]));
    assert!(
        status.contains(&format!("  history: {shown}\n")),
        "{status}"
    );
    let output = done(&gua(image.path(), &["uninstall", "--system"]));
    assert!(output.contains(&shown), "{output}");
}

#[test]
fn a_unit_from_another_source_is_left_alone() {
    for name in ["gua.service", "gpu-usage-audit.service"] {
        let image = tempfile::tempdir().unwrap();
        let directory = image.path().join("etc/systemd/system");
        fs::create_dir_all(&directory).unwrap();
        let theirs = "[Service]\nExecStart=/bin/true\n";
        fs::write(directory.join(name), theirs).unwrap();
        let refused = gua(image.path(), &["install", "--system"]);
        assert_eq!(refused.status.code(), Some(1));
        let output = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            output.contains("was not written by gua") && output.contains("--root="),
            "{output}"
        );
        assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), theirs);
        done(&gua(image.path(), &["install", "--system", "--force"]));
    }
}

#[test]
fn the_sync_once_timer_is_installed_and_removed_beside_the_collector() {
    for (scope, directory) in [
        ("--system", "etc/systemd/system"),
        ("--user", "etc/systemd/user"),
    ] {
        let image = tempfile::tempdir().unwrap();
        done(&gua(image.path(), &["install", scope]));
        let before = files(image.path());
        let status = done(&gua(image.path(), &["status", scope]));
        assert!(!status.contains("sync-once"), "{status}");
        let install = [
            "install",
            scope,
            "--sync-once",
            "--every",
            "10m",
            "--archive",
        ];
        done(&gua(image.path(), &install));
        done(&gua(image.path(), &install));
        let read = |name| fs::read_to_string(image.path().join(directory).join(name)).unwrap();
        assert!(read("gua-sync.timer").contains("OnCalendar=*:0/10\n"));
        let service = read("gua-sync.service");
        assert!(
            service.contains(" sync-once ") && service.contains(" --archive\n"),
            "{service}"
        );
        let status = done(&gua(image.path(), &["status", scope]));
        assert!(status.contains("timer of sync-once at "), "{status}");
        done(&gua(image.path(), &["uninstall", scope, "--sync-once"]));
        assert_eq!(files(image.path()), before);
        let again = done(&gua(image.path(), &["uninstall", scope, "--sync-once"]));
        assert!(again.contains("not installed"), "{again}");
    }
}

/// Runs `gua service` for the user with this home directory, with an otherwise empty environment.
fn at_home(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(crate::GUA)
        .arg("service")
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home)
        .env("GUA_TEST_SYSTEM_CONFIG", "/nonexistent")
        .envs(variables.iter().copied())
        .current_dir(home)
        .output()
        .unwrap()
}

fn enrol(home: &Path) {
    fs::create_dir_all(home.join(".gua")).unwrap();
    let enrolment = r#"{"serverUrl":"https://b","hostId":"h","displayName":"lab","agentToken":"secret","tokenPrefix":"s"}"#;
    fs::write(home.join(".gua/cloud.json"), enrolment).unwrap();
}

#[test]
fn a_host_without_an_enrolment_gets_no_unit_that_pushes() {
    for what in ["--sync-once", "--cloud"] {
        let home = tempfile::tempdir().unwrap();
        let refused = at_home(home.path(), &["install", "--user", what], &[]);
        assert_eq!(refused.status.code(), Some(2));
        let output = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(output.contains("gua enroll"), "{output}");
        assert_eq!(files(home.path()), Vec::<String>::new());
    }
}

#[test]
fn an_enrolment_of_another_user_is_refused() {
    if !runs_as_root("an enrolment of another user") {
        return;
    }
    for what in ["--sync-once", "--cloud"] {
        let home = tempfile::tempdir().unwrap();
        enrol(home.path());
        let file = home.path().join(".gua/cloud.json");
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        let before = files(home.path());
        let refused = at_home(home.path(), &["install", "--user", what], &[]);
        assert_eq!(refused.status.code(), Some(2));
        let output = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(output.contains("belongs to user 65534"), "{output}");
        assert_eq!(files(home.path()), before);
    }
}

#[test]
fn a_unit_that_pushes_has_the_settings_of_the_installing_user() {
    let home = tempfile::tempdir().unwrap();
    enrol(home.path());
    let variables = [
        ("GUA_CLOUD_USERS", "omit"),
        ("GUA_CA_FILE", "lab ca.pem"),
        ("GUA_CLOUD_ARCHIVE_DAYS", "90"),
        ("GUA_ALLOW_HTTP", "true"),
        ("GUA_CONFIG", "~/other.toml"),
        ("HTTPS_PROXY", "http://proxy:3128"),
        ("http_proxy", "http://me:pa55word@proxy:3128"),
        ("no_proxy", "localhost,.lab"),
        ("GUA_DB", "/not/for/a/board.db"),
        ("GUA_ENROLLMENT_TOKEN", "gua_enroll_once"),
    ];
    fs::write(home.path().join("other.toml"), "").unwrap();
    let here = home.path().display();
    for what in ["--sync-once", "--cloud"] {
        let line = ["install", "--user", what, "--archive", "--print"];
        let printed = at_home(home.path(), &line, &variables);
        let unit = done(&printed);
        let output = String::from_utf8_lossy(&printed.stderr).into_owned();
        assert!(
            output.contains("http_proxy contains a password") && !output.contains("pa55word"),
            "{output}"
        );
        let carried: Vec<&str> = unit
            .lines()
            .filter_map(|line| line.strip_prefix("Environment="))
            .collect();
        let expected = vec![
            "\"GUA_CLOUD_USERS=omit\"".to_owned(),
            format!("\"GUA_CA_FILE={here}/lab ca.pem\""),
            "\"GUA_ALLOW_HTTP=true\"".to_owned(),
            "\"GUA_CLOUD_ARCHIVE_DAYS=90\"".to_owned(),
            format!("\"GUA_CONFIG={here}/other.toml\""),
            "\"https_proxy=http://proxy:3128\"".to_owned(),
            "\"no_proxy=localhost,.lab\"".to_owned(),
        ];
        assert_eq!(carried, expected, "{unit}");
        assert!(!unit.contains("pa55word") && !unit.contains("gua_enroll_once"));
        assert!(unit.contains(" --archive"), "{unit}");
        // For an image, the proxies and files of this system do not apply.
        let image = tempfile::tempdir().unwrap();
        let root = image.path().to_str().unwrap();
        let line = [&line[..], &["--root", root]].concat();
        let unit = done(&at_home(home.path(), &line, &variables));
        assert_eq!(unit.matches("Environment=").count(), 4, "{unit}");
        // The host's service cannot read the home directory, so systemd copies the file with the pseudonym salt.
        let line = ["install", "--system", what, "--print", "--root", root];
        let hash = [("GUA_CLOUD_USERS", "hash")];
        let unit = done(&at_home(home.path(), &line, &hash));
        let salt = format!("LoadCredential=cloud.salt:{here}/.gua/cloud.salt\n");
        assert!(unit.contains(&salt), "{unit}");
    }
}

#[test]
fn the_history_is_private_and_the_socket_keeps_who_may_ask() {
    let image = tempfile::tempdir().unwrap();
    let read = |name| fs::read_to_string(image.path().join("etc/systemd/system").join(name));
    let group = ["install", "--system", "--readable-by", "group:root"];
    let output = done(&gua(image.path(), &group));
    assert!(output.contains("may ask: group:root"), "{output}");
    done(&gua(image.path(), &["install", "--system", "--sync-once"]));
    let lines = "UMask=0027\nStateDirectory=gua\nStateDirectoryMode=0750\n";
    for name in ["gua.service", "gua-sync.service"] {
        let unit = read(name).unwrap();
        assert!(unit.contains(lines), "{unit}");
    }
    let user = fs::read_to_string(image.path().join("etc/sysusers.d/gua.conf")).unwrap();
    assert!(user.contains("\nu gua - "), "{user}");
    // The same when the collector is installed again for another reason.
    done(&gua(
        image.path(),
        &["install", "--system", "--interval", "10s"],
    ));
    let socket = read("gua.socket").unwrap();
    assert!(
        socket.contains("SocketMode=0660\nSocketGroup=root\n"),
        "{socket}"
    );
    let other = ["install", "--sync-once", "--readable-by", "root"];
    assert_eq!(gua(image.path(), &other).status.code(), Some(2));
}

#[test]
fn a_collector_that_pushes_can_be_installed() {
    let image = tempfile::tempdir().unwrap();
    done(&gua(image.path(), &["install", "--system", "--cloud"]));
    let unit = image.path().join("etc/systemd/system/gua.service");
    let text = fs::read_to_string(unit).unwrap();
    assert!(text.contains("LoadCredential=cloud.json:/"), "{text}");
    assert!(text.contains("network-online.target"), "{text}");
    assert!(text.contains("User=gua\n"), "{text}");
    for wrong in [
        &["install", "--system", "--archive"][..],
        &["install", "--system", "--cloud", "--sync-once"],
    ] {
        assert_eq!(gua(image.path(), wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn printing_changes_nothing() {
    let image = tempfile::tempdir().unwrap();
    let text = done(&gua(image.path(), &["install", "--system", "--print"]));
    assert!(
        text.contains("Type=notify\n") && text.contains("Alias=gpu-usage-audit.service\n"),
        "{text}"
    );
    assert_eq!(files(image.path()), Vec::<String>::new());
}

#[test]
fn the_unit_serves_metrics_on_the_address_of_the_settings() {
    let host = crate::without_driver().variable("GUA_METRICS_LISTEN", "127.0.0.1:19411");
    let unit = |more: &str| host.fine(&format!("service install --system --print --root / {more}"));
    let text = unit("");
    for part in [" --metrics 127.0.0.1:19411\n", "IPAddressAllow=localhost\n"] {
        assert!(text.contains(part), "{part}{text}");
    }
    let text = unit("--metrics 127.0.0.1:19412");
    assert!(text.contains(" --metrics 127.0.0.1:19412\n"), "{text}");
}

#[test]
fn invalid_arguments_are_usage_errors() {
    let image = tempfile::tempdir().unwrap();
    for arguments in [
        &["install", "--system", "--user"][..],
        &["install", "--readable-by", "nobody in particular"],
        &["install", "--interval", "often"],
        &["reinstall"],
    ] {
        assert_eq!(
            gua(image.path(), arguments).status.code(),
            Some(2),
            "{arguments:?}"
        );
    }
    assert_eq!(files(image.path()), Vec::<String>::new());
}
