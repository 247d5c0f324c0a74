//! `gua serve install` and `gua board install` on an image: what they write and link, and what they refuse.

use std::fs;
use std::path::Path;

use gua_test::Ended;

use crate::without_driver;

fn gua(image: &Path, line: &str) -> Ended {
    let (command, options) = line.split_once(" -- ").unwrap_or((line, ""));
    let host = without_driver();
    let mut gua = host.gua_command(command);
    gua.arg("--root").arg(image);
    if !options.is_empty() {
        gua.arg("--").args(options.split(' '));
    }
    gua.output().unwrap().into()
}

#[track_caller]
fn fine(image: &Path, line: &str) -> String {
    let ended = gua(image, line);
    assert_eq!(ended.code, 0, "{line}: {}", ended.stderr);
    ended.stdout
}

/// Names of the units of an image.
fn units(image: &Path) -> Vec<String> {
    let directory = fs::read_dir(image.join("etc/systemd/system"));
    let names = directory.into_iter().flatten();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".service"))
        .collect();
    names.sort();
    names
}

#[test]
fn both_servers_are_installed_changed_and_removed() {
    for (command, names) in [
        ("serve", &["gua-serve.service", "nvgpu-agent.service"][..]),
        ("board", &["gua-board.service"][..]),
    ] {
        let image = tempfile::tempdir().unwrap();
        let said = fine(image.path(), &format!("{command} install"));
        assert!(said.contains("the image needs the program at"), "{said}");
        assert_eq!(units(image.path()), names);
        let changed = format!("{command} install -- --listen 127.0.0.1:9000");
        fine(image.path(), &changed);
        let unit = image.path().join("etc/systemd/system").join(names[0]);
        let text = fs::read_to_string(&unit).unwrap();
        assert!(text.contains(" --listen 127.0.0.1:9000\n"), "{text}");
        if let [name, alias] = names {
            let link = fs::read_link(unit.with_file_name(alias)).unwrap();
            assert_eq!(link.file_name().unwrap().to_str(), Some(*name));
        }
        fine(image.path(), &format!("{command} uninstall"));
        assert_eq!(units(image.path()), Vec::<String>::new());
        let again = fine(image.path(), &format!("{command} uninstall"));
        assert!(again.contains("not installed"), "{again}");
    }
}

#[test]
fn wrong_options_and_foreign_units_are_refused_before_anything_is_written() {
    let image = tempfile::tempdir().unwrap();
    for (line, reason) in [
        ("serve install -- --listen 0.0.0.0:1080", "--token-file"),
        ("serve install -- --no-such", "--no-such"),
        ("board install -- --listen nowhere", "nowhere"),
        ("board install -- --data /srv", "/var/lib/gua-board"),
    ] {
        let refused = gua(image.path(), line);
        assert_eq!(refused.code, 2, "{line}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(reason),
            "{line}: {}",
            refused.stderr
        );
    }
    assert_eq!(units(image.path()), Vec::<String>::new());

    let directory = image.path().join("etc/systemd/system");
    fs::create_dir_all(&directory).unwrap();
    let foreign = directory.join("nvgpu-agent.service");
    fs::write(&foreign, "[Service]\nExecStart=/opt/nvgpu/agent\n").unwrap();
    let refused = gua(image.path(), "serve install");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("was not written by gua"),
        "{}",
        refused.stderr
    );
    assert_eq!(units(image.path()), ["nvgpu-agent.service"]);
    fine(image.path(), "serve install --force");
    assert!(fs::read_link(&foreign).is_ok());
}

#[test]
fn everyone_may_print_the_units() {
    let host = without_driver();
    for (line, exec) in [
        ("serve install --print", " serve\n"),
        (
            "board install --print",
            " board serve --data /var/lib/gua-board\n",
        ),
    ] {
        let printed = host.fine(line);
        assert!(
            printed.contains("ExecStart=") && printed.contains(exec),
            "{printed}"
        );
    }
}
