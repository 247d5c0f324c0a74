//! scripts/package without building packages: which files deb, rpm and tar.gz have, and what their metadata says. scripts/test-packages
//! builds and installs them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::program::Program;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file and link below a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn packages_have_the_units_that_the_program_writes() {
    let program = Program::new();
    let tree = program.home().join("tree");
    let (root, package) = (tree.to_str().unwrap(), repository().join("scripts/package"));
    let laid_out = program.run(&package, ["--tree", root, "--binary", crate::GUA]);
    assert_eq!((laid_out.code, laid_out.stderr.as_str()), (0, ""));

    let gua = tree.join("usr/bin/gua");
    let options = "service install --system --readable-by everyone --print --root";
    let printed = program.run(&gua, options.split(' ').chain([root])).stdout;
    let units = tree.join("usr/lib/systemd/system");
    let texts: Vec<String> = ["gua.socket", "gua-reader.service", "gua.service"]
        .iter()
        .map(|name| {
            format!(
                "# {name}\n{}",
                fs::read_to_string(units.join(name)).unwrap()
            )
        })
        .collect();
    assert_eq!(texts.join("\n"), printed);
    assert!(
        printed.contains(
            "ExecStart=/usr/bin/gua daemon --foreground --append --db /var/lib/gua/gua.db\n"
        ),
        "{printed}"
    );
    let user = fs::read_to_string(tree.join("usr/lib/sysusers.d/gua.conf")).unwrap();
    assert!(user.contains("\nu gua - "), "{user}");

    let below = |name: &str| {
        let files = files(&tree.join(name)).into_iter();
        let files = files.map(|file| file.strip_prefix(&tree).unwrap().display().to_string());
        files.collect::<Vec<_>>()
    };
    assert_eq!(below("usr/lib").len(), 4, "{:?}", below("usr/lib"));
    for file in [
        "usr/bin/nvgpu",
        "usr/share/man/man1/gua.1.gz",
        "usr/share/bash-completion/completions/gua",
        "usr/share/doc/gua/LICENSE",
    ] {
        assert!(below("usr").contains(&file.to_owned()), "{file}");
    }
    assert_eq!(below("usr"), below(""), "files outside /usr");
    let status = program.run(&gua, ["service", "status", "--system", "--root", root]);
    let shown = units.join("gua.service");
    assert!(
        status
            .stdout
            .contains(&format!("installed at {}", shown.display())),
        "{}",
        status.stdout
    );
    let kept = program.run(&gua, ["service", "uninstall", "--system", "--root", root]);
    assert!(
        kept.stdout.contains("belongs to a package"),
        "{}",
        kept.stdout
    );
    assert!(shown.exists());
}

/// Lines that `contrib/package/prerm remove` runs on a host with this unit in /etc.
fn removal(unit: Option<&str>) -> String {
    let program = Program::new();
    let root = program.home().join("root");
    let log = root.join("log");
    let command = |name: &str| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let script = format!("#!/bin/sh\necho {name} \"$@\" >> {}\n", log.display());
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    command("usr/bin/gua");
    command("fake/systemctl");
    fs::create_dir_all(root.join("run/systemd/system")).unwrap();
    let units = root.join("etc/systemd/system");
    fs::create_dir_all(&units).unwrap();
    if let Some(exec) = unit {
        let text = format!("[Service]\nExecStart={exec} daemon --foreground\n");
        fs::write(units.join("gua.service"), text).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", root.join("fake").display());
    let ended = std::process::Command::new("/bin/sh")
        .arg(repository().join("contrib/package/prerm"))
        .arg("remove")
        .env("PATH", path)
        .env("DPKG_ROOT", &root)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    fs::read_to_string(&log).unwrap_or_default()
}

#[test]
fn removing_a_package_leaves_the_service_of_another_installation_alone() {
    let stop = "systemctl stop gua.service gua.socket gua-reader.service\n\
                systemctl --quiet disable gua.service gua.socket\n";
    assert_eq!(removal(None), stop);
    let own = removal(Some("/usr/bin/gua"));
    assert_eq!(own, format!("gua service uninstall\n{stop}"));
    assert_eq!(removal(Some("/usr/local/bin/gua")), "");
}

#[test]
fn a_release_needs_the_tag_of_the_version() {
    let release = |tag: &str| Program::new().run(&repository().join("scripts/release"), [tag]);
    let wrong = release("v99.0.0");
    assert_eq!(wrong.code, 1);
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("the tag v99.0.0 is not v{version}");
    assert!(wrong.stderr.contains(&expected), "{}", wrong.stderr);
    assert_eq!(release("99.0.0").code, 2, "a tag begins with v");
}
