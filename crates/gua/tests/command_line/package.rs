//! scripts/package without building packages: which files deb, rpm and tar.gz have, and what their metadata says. scripts/test-packages
//! builds and installs them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use gua_test::not_tested;

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

/// A root directory with systemd, and scripts that log their calls in place of the programs.
struct Root {
    program: Program,
}

impl Root {
    /// A host with this program in the units in /etc.
    fn new(units: &[&str], exec: &str) -> Self {
        let root = Self {
            program: Program::new(),
        };
        fs::create_dir_all(root.path("run/systemd/system")).unwrap();
        for name in ["usr/bin/gua", "fake/systemctl", "fake/systemd-sysusers"] {
            let log = root.path("log");
            let script = format!("#!/bin/sh\necho {name} \"$@\" >> {}\n", log.display());
            root.command(name, &script);
        }
        for unit in units {
            let text = format!("[Service]\nExecStart={exec} daemon --foreground\n");
            root.program
                .write(&format!("root/etc/systemd/system/{unit}.service"), text);
        }
        for file in ["var/lib/gua/gua.db", "etc/gua/config.toml"] {
            root.program.write(&format!("root/{file}"), "");
        }
        root
    }

    fn path(&self, name: &str) -> PathBuf {
        self.program.home().join("root").join(name)
    }

    fn command(&self, name: &str, script: &str) {
        let path = self.program.write(&format!("root/{name}"), script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a script of the package. Returns the lines of the log, and the messages.
    fn run(&self, script: &str, argument: &str) -> (String, String) {
        let path = format!("{}:/usr/bin:/bin", self.path("fake").display());
        let ended = std::process::Command::new("/bin/sh")
            .arg(repository().join("contrib/package").join(script))
            .arg(argument)
            .env("PATH", path)
            .env("DPKG_ROOT", self.path(""))
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let log = log.replace("usr/bin/", "").replace("fake/", "");
        (log, String::from_utf8(ended.stderr).unwrap())
    }

    fn has_data(&self) -> bool {
        let files = ["var/lib/gua/gua.db", "etc/gua/config.toml"];
        let there = files.map(|file| self.path(file).exists());
        assert_eq!(there[0], there[1], "one of {files:?} is deleted");
        there[0]
    }
}

#[test]
fn removing_a_package_leaves_the_service_of_another_installation_alone() {
    let stop = "systemctl stop gua.service gua.socket gua-reader.service\n\
                systemctl --quiet disable gua.service gua.socket\n";
    let removal = |units: &[&str], exec: &str| Root::new(units, exec).run("prerm", "remove").0;
    assert_eq!(removal(&[], ""), stop);
    let own = removal(&["gua"], "/usr/bin/gua");
    assert_eq!(own, format!("gua service uninstall\n{stop}"));
    assert_eq!(removal(&["gua"], "/usr/local/bin/gua"), "");
}

#[test]
fn installing_a_package_restarts_its_services_and_not_those_of_another_installation() {
    const NAMES: [&str; 4] = ["gua", "gua-reader", "gua-serve", "gua-board"];
    // Log of a host on which these units run.
    let check = |root: &Root, restarted: &[&str]| {
        let root_option = format!("--root={}", root.path("").display());
        let mut expected =
            format!("systemd-sysusers {root_option} gua.conf\nsystemctl daemon-reload\n");
        for name in restarted {
            expected.push_str(&format!("systemctl --quiet is-active {name}.service\n"));
            expected.push_str(&format!("systemctl restart {name}.service\n"));
        }
        let (log, messages) = root.run("postinst", "configure");
        assert_eq!(log, expected);
        messages
    };
    assert_eq!(check(&Root::new(&[], ""), &NAMES), "");
    assert_eq!(check(&Root::new(&NAMES, "/usr/bin/gua"), &NAMES), "");
    assert_eq!(check(&Root::new(&NAMES, "/usr/local/bin/gua"), &[]), "");
    let mixed = Root::new(&["gua-serve"], "/opt/gua/bin/gua");
    check(&mixed, &["gua", "gua-reader", "gua-board"]);

    let fake = |root: &Root, word: &str| {
        let log = root.path("log");
        let script = format!(
            "#!/bin/sh\necho systemctl \"$@\" >> {}\ncase \"$*\" in *{word}*) exit 1 ;; esac\n",
            log.display()
        );
        root.command("fake/systemctl", &script);
    };
    // A service that cannot be restarted does not fail the installation.
    let broken = Root::new(&[], "");
    fake(&broken, "restart");
    let messages = check(&broken, &NAMES);
    let message =
        "gua: gua-board.service did not restart; see `systemctl status gua-board.service`";
    assert!(messages.contains(message), "{messages}");
    // A unit that does not run is not started.
    let idle = Root::new(&[], "");
    fake(&idle, "is-active");
    let (log, _) = idle.run("postinst", "configure");
    assert!(log.contains("is-active gua.service"), "{log}");
    assert!(!log.contains("restart"), "{log}");
    // An image is not a running system.
    let image = Root::new(&[], "");
    fs::remove_dir(image.path("run/systemd/system")).unwrap();
    let (log, _) = image.run("postinst", "configure");
    assert!(!log.contains("systemctl"), "{log}");
}

#[test]
fn a_purge_deletes_the_history_unless_another_installation_uses_it() {
    for (units, exec, is_deleted) in [
        (&[][..], "", true),
        (&["gua"], "/usr/bin/gua", true),
        (&["gua"], "/usr/local/bin/gua", false),
        (&["gua-sync"], "/usr/local/bin/gua", false),
        (&["gua-csv"], "/usr/local/bin/gua", true),
    ] {
        let root = Root::new(units, exec);
        for argument in ["remove", "upgrade", "0", "1"] {
            let (log, messages) = root.run("postrm", argument);
            assert!(log.ends_with("systemctl daemon-reload\n"), "{log}");
            assert_eq!(
                (root.has_data(), messages.as_str()),
                (true, ""),
                "{argument}"
            );
        }
        let (_, messages) = root.run("postrm", "purge");
        assert_eq!(root.has_data(), !is_deleted, "{units:?} {exec}");
        assert_eq!(messages.is_empty(), is_deleted, "{messages}");
    }
}

#[test]
fn a_package_makes_the_directory_of_the_settings_and_removes_it_if_it_is_empty() {
    let root = Root::new(&[], "");
    let directory = root.path("etc/gua");
    fs::remove_dir_all(&directory).unwrap();
    for (removal, upgrade) in [("remove", "upgrade"), ("0", "1")] {
        root.run("postinst", "configure");
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        root.run("postrm", upgrade);
        assert!(directory.exists(), "{upgrade}");
        root.program.write("root/etc/gua/slack.url", "");
        root.run("postrm", removal);
        assert!(directory.join("slack.url").exists(), "{removal}");
        fs::remove_file(directory.join("slack.url")).unwrap();
        root.run("postrm", removal);
        assert!(!directory.exists(), "{removal}");
    }
}

/// A repository with scripts/release, in which scripts/package writes its arguments to a file in dist.
struct Repository {
    program: Program,
}

impl Repository {
    /// `None` without git.
    fn new() -> Option<Self> {
        if !Path::new("/usr/bin/git").exists() {
            not_tested("no git", "scripts/release");
            return None;
        }
        let program = Program::new()
            .variable("GIT_CONFIG_GLOBAL", "/dev/null")
            .variable("GIT_CONFIG_SYSTEM", "/dev/null");
        program.write(
            "Cargo.toml",
            "[workspace]\n[workspace.package]\nversion = \"1.2.3\"\n",
        );
        program.write("CHANGELOG.md", "# Changes\n\n## 1.2.3 (2026-01-01)\n");
        program.write(".gitignore", "/dist\n");
        let package = "#!/bin/sh\nmkdir -p dist\necho \"$@\" >dist/arguments\n";
        let package = program.write("scripts/package", package);
        fs::set_permissions(package, fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(
            repository().join("scripts/release"),
            program.home().join("scripts/release"),
        )
        .unwrap();
        let repository = Self { program };
        repository.git("init --quiet");
        repository.commit();
        repository.git("tag v1.2.3");
        repository.program.write("dist/of-an-earlier-release", "");
        Some(repository)
    }

    fn git(&self, line: &str) {
        let who = ["-c", "user.name=ada", "-c", "user.email=ada@example.com"];
        let words = who.into_iter().chain(line.split(' '));
        let ended = self.program.run(Path::new("git"), words);
        assert_eq!(ended.code, 0, "git {line}: {ended:?}");
    }

    fn commit(&self) {
        self.git("add --all");
        self.git("commit --quiet --message change");
    }

    /// The exit code and the message of a release.
    fn release(&self, line: &str) -> (i32, String) {
        let script = self.program.home().join("scripts/release");
        let ended = self.program.run(&script, line.split(' '));
        (ended.code, ended.stderr)
    }

    #[track_caller]
    fn refuses(&self, tag: &str, why: &str) {
        let (code, message) = self.release(tag);
        assert_eq!((code, message), (1, format!("scripts/release: {why}\n")));
        let dist = self.program.home().join("dist");
        assert_eq!(files(&dist), [dist.join("of-an-earlier-release")]);
    }
}

#[test]
fn a_release_empties_dist_and_makes_all_packages() {
    let Some(repository) = Repository::new() else {
        return;
    };
    assert_eq!(repository.release("v1.2.3"), (0, String::new()));
    let dist = repository.program.home().join("dist");
    let arguments = dist.join("arguments");
    assert_eq!(fs::read_to_string(&arguments).unwrap(), "--out dist\n");
    assert_eq!(files(&dist), [arguments]);
}

#[test]
fn a_release_refuses_what_would_change_the_packages() {
    let Some(repository) = Repository::new() else {
        return;
    };
    for argument in ["deb", "--profile dev", "--binary gua", "--version 2.0.0"] {
        let (code, message) = repository.release(&format!("v1.2.3 {argument}"));
        assert_eq!(code, 2, "{argument}");
        assert!(
            message.starts_with("usage: scripts/release TAG\n"),
            "{message}"
        );
        let dist = repository.program.home().join("dist");
        assert_eq!(files(&dist), [dist.join("of-an-earlier-release")]);
    }
}

#[test]
fn a_release_needs_the_tag_of_the_version_checked_out_without_changes() {
    let Some(repository) = Repository::new() else {
        return;
    };
    assert_eq!(repository.release("1.2.3").0, 2, "a tag begins with v");
    repository.refuses(
        "v99.0.0",
        "the tag v99.0.0 is not v1.2.3, the version in Cargo.toml",
    );
    let file = repository.program.write("new", "");
    repository.refuses("v1.2.3", "the checkout has changes");
    repository.commit();
    repository.refuses("v1.2.3", "the checked-out commit is not v1.2.3");
    fs::remove_file(file).unwrap();
    repository.git("tag --delete v1.2.3");
    repository.refuses("v1.2.3", "there is no tag v1.2.3");
    repository
        .program
        .write("CHANGELOG.md", "# Changes\n\n## 1.2.30\n## 1x2.3\n");
    repository.refuses("v1.2.3", "CHANGELOG.md has no section `## 1.2.3`");
}

/// The version of this repository is found as in the other.
#[test]
fn a_release_of_this_repository_needs_its_version() {
    let release = |tag: &str| Program::new().run(&repository().join("scripts/release"), [tag]);
    let wrong = release("v99.0.0");
    assert_eq!(wrong.code, 1);
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("the tag v99.0.0 is not v{version}");
    assert!(wrong.stderr.contains(&expected), "{}", wrong.stderr);
}
