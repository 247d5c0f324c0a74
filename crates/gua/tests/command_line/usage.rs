//! The command line as scripts see it: exit codes, streams, prefixes, closed pipes.

use std::path::Path;
use std::process::Stdio;

use gua_test::Ended;

use super::program::{Program, gua};

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\n");

#[test]
fn every_form_of_version_prints_only_the_number() {
    for line in [
        "version",
        "--version",
        "-V",
        "doctor --version",
        "config show --version",
        "--vers",
        "version --color always",
    ] {
        let ended = gua(line);
        assert_eq!(
            (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
            (0, VERSION, ""),
            "gua {line}"
        );
    }
}

#[test]
fn help_goes_to_stdout_and_exits_with_0() {
    let cases = [
        ("help", "Usage: gua "),
        ("--help", "Usage: gua "),
        ("-h", "Usage: gua "),
        ("help doctor", "Usage: gua doctor"),
        ("doctor --help", "Usage: gua doctor"),
        ("doctor -h", "Usage: gua doctor"),
        ("help config", "Usage: gua config"),
        ("help config check", "Usage: gua config check"),
        ("config check --help", "Usage: gua config check"),
        ("help help", "Usage: gua help"),
        ("help version", "Usage: gua version"),
        ("help completions", "Usage: gua completions"),
    ];
    for (line, usage) in cases {
        let ended = gua(line);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "gua {line}");
        assert!(ended.stdout.contains(usage), "gua {line}: {}", ended.stdout);
    }
}

#[test]
fn help_fits_the_width_of_the_terminal() {
    for width in [40, 60, 80] {
        let program = Program::new().variable("COLUMNS", &width.to_string());
        for line in ["--help", "-h", "help"] {
            let ended = program.gua([line]);
            let longest = ended.stdout.lines().map(|line| line.chars().count()).max();
            assert!(
                longest <= Some(width),
                "{longest:?} columns, not {width}:\n{}",
                ended.stdout
            );
        }
    }
}

#[test]
fn a_usage_error_goes_to_stderr_with_the_usage_and_exit_code_2() {
    let cases = [
        ("", "Usage: gua "),
        ("--color never", "Usage: gua"),
        ("config", "Usage: gua config"),
        ("frobnicate", "unrecognized subcommand 'frobnicate'"),
        ("doctr", "similar subcommand exists: 'doctor'"),
        ("statu", "similar subcommands exist: 'status',"),
        ("--frobnicate", "unexpected argument '--frobnicate'"),
        ("doctor --frobnicate", "unexpected argument '--frobnicate'"),
        ("doctor extra", "unexpected argument 'extra'"),
        ("doctor --db", "a value is required for '--db <PATH>'"),
        ("doctor --json=yes", "unexpected value 'yes' for '--json'"),
        ("doctor --s", "'--s'"),
        ("version extra", "unexpected argument 'extra'"),
        ("completions", "required arguments were not provided"),
        ("completions tcsh", "invalid value 'tcsh'"),
        ("demo --ticks -1", "-1 is not in 0..=1000000"),
        ("config frobnicate", "unrecognized subcommand 'frobnicate'"),
        ("config check one two", "unexpected argument 'two'"),
        (
            "help frobnicate",
            "no command `frobnicate`; the commands of `gua` are list, available, ",
        ),
        (
            "help config chek",
            "no command `config chek`; the commands of `gua config` are show, check, default, path",
        ),
        (
            "help doctor x",
            "no command `doctor x`; `gua doctor` has no subcommands",
        ),
        ("--color purple version", "invalid value 'purple'"),
        ("claim release", "gua claim release --all-mine"),
        (
            "serve --listen 8091",
            "'--listen <ADDRESS>': expected IP:PORT, such as 127.0.0.1:8080",
        ),
        (
            "runs list --limit x",
            "'--limit <N>': expected a whole number",
        ),
    ];
    for (line, message) in cases {
        let ended = gua(line);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (2, ""),
            "gua {line}: {}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains(message),
            "gua {line}: {}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains("Usage: gua"),
            "gua {line} shows no usage: {}",
            ended.stderr
        );
        assert!(
            !ended.stderr.contains("panicked"),
            "gua {line}: {}",
            ended.stderr
        );
        let more = ended.stderr.find("For more information");
        assert!(
            more.is_none_or(|more| ended.stderr.find("Usage: gua") < Some(more)),
            "gua {line}: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_long_flag_can_be_abbreviated_while_it_is_unambiguous() {
    let whole = gua("config show --json");
    assert_eq!(whole.code, 0);
    assert!(whole.stdout.starts_with('{'), "{}", whole.stdout);
    for line in [
        "config show --js",
        "config show --j",
        "config show --json --color=never",
        "--col never config show --json",
    ] {
        let ended = gua(line);
        assert_eq!(
            (ended.code, ended.stdout.lines().count()),
            (0, whole.stdout.lines().count()),
            "gua {line}"
        );
    }
}

#[test]
fn colour_follows_the_flag_and_is_off_in_a_pipe() {
    let escape = '\u{1b}';
    assert!(!gua("help").stdout.contains(escape));
    assert!(gua("--color always help").stdout.contains(escape));
    assert!(gua("help --color=always").stdout.contains(escape));
    assert!(gua("--col always help").stdout.contains(escape));
    assert!(!gua("--color never help").stdout.contains(escape));
    assert!(gua("--color always frobnicate").stderr.contains(escape));
    let without = Program::new().variable("NO_COLOR", "1");
    assert!(!without.gua(["help"]).stdout.contains(escape));
    let forced = Program::new().variable("CLICOLOR_FORCE", "1");
    assert!(forced.gua(["help"]).stdout.contains(escape));
    assert!(
        !forced
            .gua(["--color", "never", "help"])
            .stdout
            .contains(escape)
    );
}

#[test]
fn force_color_needs_no_terminal_and_yields_to_everything_else() {
    let escape = '\u{1b}';
    let check = |variables: &[(&str, &str)], line: &str, expected: bool| {
        let with = |program: Program, (name, value): &(&str, &str)| program.variable(name, value);
        let program = variables.iter().fold(Program::new(), with);
        let found = program.gua(line.split(' ')).stdout.contains(escape);
        assert_eq!(found, expected, "{variables:?} {line}");
    };
    check(&[("FORCE_COLOR", "1")], "help", true);
    check(&[("FORCE_COLOR", "0")], "help", false);
    check(&[("FORCE_COLOR", "")], "help", false);
    check(&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], "help", false);
    check(&[("FORCE_COLOR", "1")], "help --color never", false);
}

#[test]
fn a_repeated_flag_takes_its_last_value() {
    for (line, code) in [
        ("config show --json --json", 0),
        ("config show --color always --color never", 0),
        ("help --color=always --color=never", 0),
        // Only the last value counts, here an invalid one.
        ("report --since 1h --since soon --db nowhere.db", 2),
    ] {
        let ended = gua(line);
        assert_eq!(ended.code, code, "gua {line}: {ended:?}");
        assert!(!ended.stderr.contains("multiple times"), "{ended:?}");
        assert!(!ended.stdout.contains('\u{1b}'), "gua {line}");
    }
    let ended = gua("report --since soon --since 1h --db nowhere.db");
    assert!(ended.stderr.contains("nowhere.db"), "{ended:?}");
    // A flag that can be repeated keeps all of its values.
    let ended = gua("report --gpu 0 --gpu 1 --gpu 1 --db nowhere.db");
    assert!(ended.stderr.contains("nowhere.db"), "{ended:?}");
}

#[test]
fn a_misspelled_command_gets_a_suggestion() {
    for (line, near) in [
        ("help reprot", "did you mean `report`?"),
        ("help db chek", "did you mean `check`?"),
        ("lits", "'list'"),
        ("report --frmat json", "'--format'"),
        ("report --by usr", "'user'"),
    ] {
        let ended = gua(line);
        assert_eq!(ended.code, 2, "gua {line}");
        assert!(ended.stderr.contains(near), "gua {line}: {}", ended.stderr);
    }
}

#[test]
fn a_date_that_does_not_exist_is_named_as_such() {
    let ended = gua("report --since 2026-11-31");
    assert_eq!(ended.code, 2);
    let sentence = "gua report: --since: no such date: `2026-11-31`\n";
    assert!(ended.stderr.contains(sentence), "{ended:?}");
}

#[test]
fn writing_to_a_closed_pipe_is_success_without_a_message() {
    for line in [
        "help",
        "--help",
        "version",
        "--version",
        "config default",
        "config show",
        "config path",
        "completions bash",
        "man",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let program = Program::new();
        let mut command = program.command(Path::new(crate::GUA));
        let output = command
            .args(line.split_whitespace())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let ended = Ended::from(output);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "gua {line}");
    }
}

#[test]
fn a_full_disk_is_a_failure_with_one_sentence() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let program = Program::new();
    let mut command = program.command(Path::new(crate::GUA));
    let ended = Ended::from(command.arg("version").stdout(full).output().unwrap());
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .stderr
            .starts_with("gua version: cannot write to stdout: "),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_non_utf_8_argument_is_a_usage_error_and_not_a_crash() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let junk = OsStr::from_bytes(b"\xff\xfe");
    for arguments in [
        vec![junk],
        vec![OsStr::new("help"), junk],
        vec![OsStr::new("completions"), junk],
    ] {
        let host = crate::without_driver();
        let output = host.command(crate::GUA).args(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn the_reader_child_exits_when_its_parent_is_gone() {
    let program = Program::new();
    let mut command = program.command(Path::new(crate::GUA));
    let ended = Ended::from(
        command
            .arg("__reader")
            .stdin(Stdio::null())
            .output()
            .unwrap(),
    );
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (0, "", "")
    );
}

#[test]
fn a_broken_configuration_is_a_finding_of_doctor_and_does_not_stop_it() {
    let program = Program::new();
    program.write(".gua/config.toml", "[states]\nheld_mb = 'x'\n");
    let ended = program.gua(["doctor"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert!(
        ended.stdout.contains("config.toml:2:11: states.held_mb"),
        "{}",
        ended.stdout
    );
}

#[test]
fn the_host_of_a_test_has_no_path_of_the_machine_in_its_settings() {
    let host = crate::without_driver();
    let shown = host.json("config show --json");
    let outside = ["/run", "/var", "/etc", "/dev", "/tmp/gua"];
    let mut paths = Vec::new();
    let mut rest = vec![&shown];
    while let Some(value) = rest.pop() {
        match value {
            serde_json::Value::String(text) => paths.push(text.as_str()),
            serde_json::Value::Array(items) => rest.extend(items),
            serde_json::Value::Object(items) => rest.extend(items.values()),
            _ => {}
        }
    }
    assert!(paths.len() > 10, "{shown}");
    paths.retain(|path| outside.iter().any(|root| path.starts_with(root)));
    assert_eq!(paths, Vec::<&str>::new());
}
