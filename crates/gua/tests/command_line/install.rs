//! scripts/install and scripts/uninstall: which files they create, and that none is left.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use gua_test::Ended;

use super::program::Program;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\n");

/// An installation prefix in a temporary home directory.
struct Prefix {
    program: Program,
}

impl Prefix {
    fn new() -> Self {
        let prefix = Self {
            program: Program::new(),
        };
        fs::create_dir(prefix.path()).expect("a prefix");
        prefix
    }

    fn path(&self) -> PathBuf {
        self.program.home().join("prefix")
    }

    fn install(&self, flags: &[&str]) -> Ended {
        let path = self.path();
        let binary = ["--binary", crate::GUA, path.to_str().expect("a text")];
        self.script("install", &[flags, &binary].concat())
    }

    fn uninstall(&self) -> Ended {
        self.script("uninstall", &[self.path().to_str().expect("a text")])
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Ended {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../scripts")
            .join(name);
        self.program.run(&script, arguments)
    }

    /// Every file, link and directory below the prefix, with its content.
    fn tree(&self) -> BTreeMap<PathBuf, String> {
        fn walk(directory: &Path, tree: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                let content = if let Ok(target) = fs::read_link(&path) {
                    format!("link to {}", target.display())
                } else if path.is_dir() {
                    walk(&path, tree);
                    "directory".to_owned()
                } else {
                    let file = path.metadata().expect("a file");
                    format!("{} bytes, mode {:o}", file.len(), file.permissions().mode())
                };
                tree.insert(path, content);
            }
        }
        let mut tree = BTreeMap::new();
        walk(&self.path(), &mut tree);
        tree
    }
}

#[test]
fn installing_and_uninstalling_restores_the_prefix() {
    let prefix = Prefix::new();
    fs::create_dir_all(prefix.path().join("share/man/man1")).unwrap();
    fs::write(
        prefix.path().join("share/man/man1/other.1"),
        "another program's",
    )
    .unwrap();
    prefix.program.write(".gua/gua.db", "history");
    let before = prefix.tree();

    let installed = prefix.install(&[]);
    assert_eq!(
        (installed.code, installed.stderr.as_str()),
        (0, ""),
        "{}",
        installed.stdout
    );
    for file in [
        "bin/gua",
        "share/bash-completion/completions/gua",
        "share/zsh/site-functions/_gua",
        "share/fish/vendor_completions.d/gua.fish",
        "share/man/man1/gua.1",
        "share/man/man1/gua-doctor.1",
        "share/man/man1/nvgpu.1",
        "share/bash-completion/completions/nvl",
        "share/fish/vendor_completions.d/gpu-usage-audit.fish",
        "share/zsh/site-functions/_gua_names",
    ] {
        assert!(
            prefix.path().join(file).metadata().unwrap().len() > 0,
            "{file}"
        );
    }
    for name in ["gua", "gpu-usage-audit"] {
        assert_eq!(
            prefix
                .program
                .run(&prefix.path().join("bin").join(name), ["version"])
                .stdout,
            VERSION
        );
    }
    let names = |link: &str| fs::read_link(prefix.path().join("bin").join(link)).unwrap();
    assert!(
        ["gpu-usage-audit", "nvgpu", "nvl", "gpu_stats"]
            .iter()
            .all(|link| names(link) == Path::new("gua"))
    );

    let after_first = prefix.tree();
    assert_eq!(prefix.install(&[]).code, 0, "running it again is an update");
    assert_eq!(prefix.tree(), after_first);

    let removed = prefix.uninstall();
    assert_eq!((removed.code, removed.stderr.as_str()), (0, ""));
    let data = prefix.program.home().join(".gua");
    assert!(
        removed
            .stdout
            .contains(&format!("history: {}", data.display())),
        "{}",
        removed.stdout
    );
    assert_eq!(prefix.tree(), before);
    assert!(
        prefix.program.home().join(".gua/gua.db").exists(),
        "data is kept"
    );
}

#[test]
fn created_directories_are_removed_again() {
    let prefix = Prefix::new();
    let made = prefix.path().join("opt/deep/gua");
    let binary = crate::GUA;
    for _ in ["new", "update"] {
        let installed = prefix.script("install", &["--binary", binary, made.to_str().unwrap()]);
        assert_eq!(installed.code, 0, "{}", installed.stderr);
    }
    let removed = prefix.script("uninstall", &[made.to_str().unwrap()]);
    assert_eq!((removed.code, removed.stderr.as_str()), (0, ""));
    assert!(prefix.tree().is_empty(), "{:?}", prefix.tree());
    assert!(prefix.path().exists(), "it was there before");
    assert!(
        !removed.stdout.contains(".gua"),
        "nothing was there to keep: {}",
        removed.stdout
    );
}

#[test]
fn what_cannot_be_installed_is_refused_before_anything_is_written() {
    let prefix = Prefix::new();
    prefix.program.write("file", "");
    let target = prefix.path();
    let target = target.to_str().unwrap();
    let cases: [(&[&str], &str); 5] = [
        (
            &["--binary", "/bin/true", target],
            "/bin/true is not gua: `true version` does not print a version",
        ),
        (&["--binary", "/bin/echo", target], "/bin/echo is not gua"),
        (
            &["--binary", "/nowhere/gua", target],
            "there is no program at /nowhere/gua",
        ),
        (&["file/below"], "/file; choose another PREFIX"),
        // Left out below if the PATH of these tests has a cargo.
        (
            &[target],
            "then `sudo scripts/install --binary target/dist/gua`",
        ),
    ];
    for (arguments, message) in cases {
        if message.contains("sudo") && Path::new("/usr/bin/cargo").exists() {
            continue;
        }
        let refused = prefix.script("install", arguments);
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (1, ""),
            "{arguments:?}"
        );
        assert!(refused.stderr.contains(message), "{}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    }
    assert!(prefix.tree().is_empty(), "{:?}", prefix.tree());
}

#[test]
fn an_update_removes_files_that_the_new_version_no_longer_has() {
    let prefix = Prefix::new();
    assert_eq!(prefix.install(&[]).code, 0);
    let page = prefix.path().join("share/man/man1/gua-old.1");
    fs::write(&page, "of an older version").unwrap();
    let manifest = prefix.path().join("share/gua/installed");
    let list = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, format!("{list}share/man/man1/gua-old.1\n")).unwrap();
    assert_eq!(prefix.install(&[]).code, 0);
    assert!(!page.exists());
    assert_eq!(prefix.uninstall().code, 0);
    assert!(prefix.tree().is_empty(), "{:?}", prefix.tree());
}

#[test]
fn foreign_files_are_named_and_kept_without_force() {
    let prefix = Prefix::new();
    let bin = prefix.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("gua"), "#!/usr/bin/python3\n").unwrap();
    fs::write(bin.join("nvgpu"), "#!/usr/bin/python3\n").unwrap();
    symlink("elsewhere", bin.join("nvl")).unwrap();
    let before = prefix.tree();

    let refused = prefix.install(&[]);
    assert_eq!(refused.code, 1);
    for word in [
        "bin/gua: not our program",
        "bin/nvgpu: another program",
        "bin/nvl: a link to elsewhere",
        "--force",
    ] {
        assert!(
            refused.stderr.contains(word),
            "{word} is not in {}",
            refused.stderr
        );
    }
    assert_eq!(prefix.tree(), before);

    let forced = prefix.install(&["--force"]);
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    assert_eq!(
        prefix
            .program
            .run(&bin.join("gpu-usage-audit"), ["version"])
            .stdout,
        VERSION
    );
    assert_eq!(fs::read_link(bin.join("nvgpu")).unwrap(), Path::new("gua"));
}

#[test]
fn a_directory_in_the_way_is_renamed_with_force() {
    let prefix = Prefix::new();
    let bin = prefix.path().join("bin");
    for name in ["gua", "nvgpu"] {
        fs::create_dir_all(bin.join(name)).unwrap();
        fs::write(bin.join(name).join("theirs"), "kept").unwrap();
    }
    let refused = prefix.install(&[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("bin/gua: a directory"),
        "{refused:?}"
    );
    let forced = prefix.install(&["--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    for name in ["gua", "nvgpu"] {
        let kept = bin.join(format!("{name}.before-gua/theirs"));
        assert_eq!(fs::read_to_string(kept).unwrap(), "kept");
    }
    assert_eq!(
        prefix.program.run(&bin.join("gua"), ["version"]).stdout,
        VERSION
    );
    assert_eq!(fs::read_link(bin.join("nvgpu")).unwrap(), Path::new("gua"));
}

#[test]
fn completions_of_the_other_names_offer_only_what_they_accept() {
    let prefix = Prefix::new();
    assert_eq!(prefix.install(&[]).code, 0);
    for (link, commands) in [
        ("gpu-usage-audit", "daemon report demo help version"),
        ("nvgpu", "available list help version"),
        ("nvl", "--help --version"),
        ("gpu_stats", "--help --version"),
    ] {
        let script = prefix
            .path()
            .join("share/bash-completion/completions")
            .join(link);
        let script = fs::read_to_string(script).unwrap();
        assert_eq!(script, format!("complete -W '{commands}' {link}\n"));
        for word in commands.split(' ') {
            let is_flag = word.starts_with("--") || ["help", "version"].contains(&word);
            let arguments = if is_flag {
                vec![word]
            } else {
                vec![word, "--help"]
            };
            let ended = prefix
                .program
                .run(&prefix.path().join("bin").join(link), arguments);
            assert_eq!(ended.code, 0, "{link} {word}: {ended:?}");
        }
    }
    let pages = prefix.path().join("share/man/man1/gpu_stats.1");
    assert!(pages.exists());
}

#[test]
fn a_link_that_was_redirected_is_not_removed() {
    let prefix = Prefix::new();
    assert_eq!(prefix.install(&[]).code, 0);
    let link = prefix.path().join("bin/nvl");
    fs::remove_file(&link).unwrap();
    fs::write(&link, "another program's").unwrap();
    let removed = prefix.uninstall();
    assert_eq!(removed.code, 0);
    assert!(
        removed.stdout.contains("kept, no longer ours"),
        "{}",
        removed.stdout
    );
    let left: Vec<PathBuf> = prefix.tree().into_keys().collect();
    assert_eq!(left, [prefix.path().join("bin"), link]);
}

#[test]
fn a_packager_can_install_below_another_root() {
    let mut prefix = Prefix::new();
    let root = prefix.program.home().join("package");
    prefix.program = prefix.program.variable("DESTDIR", root.to_str().unwrap());
    let binary = crate::GUA;
    let installed = prefix.script("install", &["--binary", binary, "/usr"]);
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert!(root.join("usr/bin/gua").exists());
    assert_eq!(prefix.script("uninstall", &["/usr"]).code, 0);
    assert!(!root.join("usr/bin").exists());
}

#[test]
fn the_scripts_print_help_and_refuse_unknown_flags() {
    let prefix = Prefix::new();
    for script in ["install", "uninstall", "test", "fuzz"] {
        let helped = prefix.script(script, &["--help"]);
        assert_eq!(helped.code, 0, "{script}");
        assert!(
            helped
                .stdout
                .starts_with(&format!("usage: scripts/{script}")),
            "{}",
            helped.stdout
        );
    }
    assert_eq!(prefix.script("install", &["--frobnicate"]).code, 2);
    assert_eq!(prefix.script("uninstall", &["--frobnicate"]).code, 2);
    assert_eq!(prefix.script("test", &["frobnicate"]).code, 2);
    assert_eq!(prefix.script("fuzz", &["soon"]).code, 2);
    let nothing = prefix.uninstall();
    assert_eq!(nothing.code, 1);
    assert!(
        nothing.stderr.contains("gua is not installed below"),
        "{}",
        nothing.stderr
    );
}
