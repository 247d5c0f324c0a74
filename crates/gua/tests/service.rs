//! `gua service` on an image: what it writes, what it links, and that it leaves nothing behind.
#![cfg(test)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn gua(image: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gua"))
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
        let said = done(&gua(image.path(), &["install", scope]));
        assert!(
            said.contains(" the image ") && !said.contains("systemctl"),
            "of the image, not of this system: {said}"
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
        let said = done(&gua(image.path(), &["uninstall", scope]));
        assert!(!said.contains("history at /var"), "{said}");
        assert_eq!(files(image.path()), Vec::<String>::new());
        assert!(done(&gua(image.path(), &["uninstall", scope])).contains("not installed"));
    }
}

#[test]
fn a_unit_of_somebody_else_is_left_alone() {
    for name in ["gua.service", "gpu-usage-audit.service"] {
        let image = tempfile::tempdir().unwrap();
        let directory = image.path().join("etc/systemd/system");
        fs::create_dir_all(&directory).unwrap();
        let theirs = "[Service]\nExecStart=/bin/true\n";
        fs::write(directory.join(name), theirs).unwrap();
        let refused = gua(image.path(), &["install", "--system"]);
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            said.contains("was not written by gua") && said.contains("--root="),
            "{said}"
        );
        assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), theirs);
        done(&gua(image.path(), &["install", "--system", "--force"]));
    }
}

#[test]
fn the_timer_of_sync_once_comes_and_goes_beside_the_collector() {
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

#[test]
fn a_host_that_is_not_enrolled_gets_no_timer() {
    let home = tempfile::tempdir().unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_gua"))
        .args(["service", "install", "--user", "--sync-once"])
        .env("HOME", home.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("gua enroll"), "{said}");
    assert_eq!(files(home.path()), Vec::<String>::new());
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
fn nonsense_is_refused_as_wrong_use() {
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
