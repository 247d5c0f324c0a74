//! Generated files, as other programs read them: completion scripts in shells, manual pages in groff.

use std::path::Path;
use std::process::Command;

use super::program::{Program, gua};

#[test]
fn a_shell_accepts_its_completion_script() {
    let checks: [(&str, &[&str]); 3] = [
        ("bash", &["-n"]),
        ("zsh", &["-n"]),
        ("fish", &["--no-execute"]),
    ];
    for (shell, flags) in checks {
        let program = Program::new();
        let ended = program.gua(["completions", shell]);
        assert_eq!(ended.code, 0);
        let script = program.write("script", &ended.stdout);
        // Scripts for shells that are not installed are only generated; scripts/test installs bash, zsh and fish.
        if let Ok(output) = Command::new(shell).args(flags).arg(&script).output() {
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.success() && complaint.is_empty(),
                "{shell}: {complaint}"
            );
        }
    }
    for shell in ["elvish", "powershell"] {
        assert!(
            gua(&format!("completions {shell}"))
                .stdout
                .contains("doctor"),
            "{shell}"
        );
    }
}

#[test]
fn bash_completes_commands_flags_and_values_but_nothing_hidden() {
    let cases = [
        ("gua do", "doctor"),
        ("gua config ch", "check"),
        ("gua doctor --str", "--strict"),
        ("gua --color al", "always"),
        ("gua completions z", "zsh"),
        ("gua help conf", "config"),
        ("gua help sho", ""),
        ("gua help config sho", "show"),
        ("gua ma", ""),
        ("gua __r", ""),
    ];
    let program = Program::new();
    let script = program.write("gua.bash", program.gua(["completions", "bash"]).stdout);
    for (typed, completed) in cases {
        let words: Vec<&str> = typed.split(' ').collect();
        let (last, previous) = (words[words.len() - 1], words[words.len() - 2]);
        let ask = format!(
            "source {}; COMP_WORDS=({typed}); COMP_CWORD={}; _gua gua '{last}' '{previous}'; echo \"${{COMPREPLY[*]}}\"",
            script.display(),
            words.len() - 1
        );
        let ended = program.run(Path::new("/bin/bash"), ["-c", &ask]);
        assert_eq!(
            (ended.stdout.trim(), ended.stderr.as_str()),
            (completed, ""),
            "{typed}"
        );
    }
}

#[test]
fn every_manual_page_renders_without_a_warning() {
    let program = Program::new();
    let ended = program.gua(["man", "--dir", "pages/man1"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (0, "", "")
    );
    let mut pages: Vec<_> = std::fs::read_dir(program.home().join("pages/man1"))
        .unwrap()
        .map(|page| page.unwrap().path())
        .collect();
    pages.sort();
    let names: Vec<&str> = pages
        .iter()
        .map(|page| page.file_name().unwrap().to_str().unwrap())
        .collect();
    for name in ["gua.1", "gua-doctor.1", "gua-config-check.1"] {
        assert!(names.contains(&name), "{name} is missing from {names:?}");
    }
    assert!(
        !names.contains(&"gua-man.1"),
        "a hidden command has no page"
    );
    for page in pages {
        let rendered = Command::new("groff")
            .args(["-man", "-ww", "-Tutf8"])
            .arg(&page)
            .output();
        let rendered = rendered.expect("groff is needed for this test; scripts/test installs it");
        let complaint = String::from_utf8_lossy(&rendered.stderr);
        assert!(
            rendered.status.success() && complaint.is_empty(),
            "{}: {complaint}",
            page.display()
        );
        assert!(!rendered.stdout.is_empty());
        let source = std::fs::read_to_string(&page).unwrap();
        for (flaw, what) in [
            (".br\n\n.br", "a doubled line break"),
            ("OPTIONS\n.TP\n[", "an argument among the options"),
            ("Example", "examples outside their section"),
        ] {
            assert!(!source.contains(flaw), "{}: {what}", page.display());
        }
    }
    let rendered = Command::new("groff")
        .args(["-man", "-Tascii", "-P-cbou"])
        .arg(program.home().join("pages/man1/gua-config-check.1"))
        .output()
        .unwrap();
    let rendered = String::from_utf8(rendered.stdout).unwrap();
    assert!(
        rendered.contains("ARGUMENTS\n       [PATH]")
            && rendered.contains(
                "EXAMPLES\n       gua config check\n       gua config check ./config.toml\n"
            ),
        "{rendered}"
    );
    assert!(rendered.contains("gua manual"), "{rendered}");
    assert!(gua("man doctor").stdout.contains("gua\\-doctor"));
    assert_eq!(gua("man frobnicate").code, 2);
}
