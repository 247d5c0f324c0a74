//! `gua config`, and settings as the real binary resolves them.

use super::program::{Program, gua};

#[test]
fn config_show_names_the_source_of_every_value() {
    let program = Program::new().variable("GUA_ACTIVE_UTIL", "5");
    let file = program.write(
        ".gua/config.toml",
        "[states]\nactive_util = 50\nheld_mb = 7\n",
    );
    let ended = program.gua(["config", "show"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let lines: Vec<String> = ended
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "active_util = 5 # environment GUA_ACTIVE_UTIL",
        &format!("held_mb = 7 # {}:3", file.display()),
        "count_graphics = false # default",
        &format!(
            "db = \"{}/.gua/gua.db\" # default",
            program.home().display()
        ),
    ] {
        assert!(
            lines.iter().any(|shown| shown == line),
            "`{line}` is not in\n{}",
            ended.stdout
        );
    }
}

#[test]
fn config_show_as_json_has_the_same_values() {
    let program = Program::new().variable("GUA_DB", "~/h.db");
    let ended = program.gua(["config", "show", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(shown["schema_version"], 1);
    let db = &shown["settings"]["history"]["db"];
    assert_eq!(db["value"], program.home().join("h.db").to_str().unwrap());
    assert_eq!(
        db["source"],
        serde_json::json!({ "kind": "environment", "name": "GUA_DB" })
    );
    assert_eq!(shown["settings"]["driver"]["deadline"]["value"], "10s");
}

#[test]
fn the_default_file_passes_the_check() {
    let program = Program::new();
    let text = program.gua(["config", "default"]).stdout;
    let file = program.write(".gua/config.toml", &text);
    let ended = program.gua(["config", "check"]);
    assert_eq!(
        (ended.code, ended.stdout),
        (0, format!("fine: {}\n", file.display()))
    );
    assert_eq!(program.gua(["config", "check", ".gua/config.toml"]).code, 0);
}

#[test]
fn config_check_lists_all_problems_and_exits_1() {
    let program = Program::new().variable("GUA_HELD_MB", "lots");
    let file = program.write(
        ".gua/config.toml",
        "[states]\nhold_mb = 1\nactive_util = 0\n[drver]\n",
    );
    let ended = program.gua(["config", "check"]);
    let file = file.display();
    let expected = format!(
        "{file}:2:1: unknown key `hold_mb` in [states]; did you mean `held_mb`?\n\
         {file}:3:15: states.active_util: expected a whole number from 1 to 100, found 0\n\
         {file}:4:2: unknown section [drver]; did you mean [driver]?\n\
         GUA_HELD_MB: expected a whole number of MB, 0 or more, found `lots`\n"
    );
    assert_eq!(
        (ended.code, ended.stdout, ended.stderr),
        (1, expected, String::new())
    );
}

#[test]
fn config_check_warns_about_a_mistyped_variable_and_still_succeeds() {
    let program = Program::new()
        .variable("GUA_HELDMB", "5")
        .variable("GUA_EMPTY", "");
    let ended = program.gua(["config", "check"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (
            0,
            "warning: GUA_HELDMB: unknown variable; did you mean GUA_HELD_MB?\n\
             no configuration file: the defaults apply\n"
        )
    );
    program.write("alone.toml", "");
    let alone = program.gua(["config", "check", "alone.toml"]);
    assert_eq!(
        (alone.code, alone.stdout.as_str()),
        (0, "fine: alone.toml\n")
    );
}

#[test]
fn config_check_without_files_says_so() {
    let ended = gua("config check");
    assert_eq!(ended.code, 0);
    assert_eq!(ended.stdout, "no configuration file: the defaults apply\n");
}

#[test]
fn config_check_of_a_missing_file_is_a_problem() {
    let ended = gua("config check nowhere.toml");
    assert_eq!(ended.code, 1);
    assert_eq!(
        ended.stdout,
        "nowhere.toml: cannot be read: No such file or directory (os error 2)\n"
    );
}

#[test]
fn a_broken_file_stops_a_command_with_one_sentence_and_exit_code_2() {
    let program = Program::new();
    let file = program.write(".gua/config.toml", "[states]\nheld_mb = 'x'\n");
    let ended = program.gua(["config", "show"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    let expected = format!(
        "gua config show: {}:2:11: states.held_mb: expected a whole number of MB, 0 or more, found the string \"x\"\n\
         hint: `gua config check` explains\n",
        file.display()
    );
    assert_eq!(ended.stderr, expected);
}

#[test]
fn an_invalid_flag_value_is_one_sentence_that_does_not_blame_the_files() {
    let program = Program::new();
    let check = || {
        let ended = program.gua(["report", "--held-mb", "x"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
        assert_eq!(
            ended.stderr,
            "gua report: --held-mb: expected a whole number of MB, 0 or more, found `x`\n"
        );
    };
    check();
    program.write(".gua/config.toml", "[states]\nheld_mb = 'x'\n");
    check();
}

#[test]
fn a_broken_file_does_not_stop_commands_that_need_no_settings() {
    let program = Program::new();
    program.write(".gua/config.toml", b"\xff\xfe[[[");
    for line in [
        "version",
        "help",
        "config default",
        "config path",
        "completions bash",
        "--help",
    ] {
        assert_eq!(program.gua(line.split(' ')).code, 0, "gua {line}");
    }
}

#[test]
fn config_path_lists_the_files_in_order_and_whether_they_exist() {
    let program = Program::new();
    let file = program.home().join(".gua/config.toml");
    let ended = program.gua(["config", "path"]);
    let mut lines = ended.stdout.lines();
    assert_eq!(
        lines.next().unwrap(),
        format!("{}  (absent)", file.display())
    );
    let of_host = program.home().join("system.toml");
    assert_eq!(
        lines.next().unwrap(),
        format!("{}  (absent)", of_host.display())
    );
    program.write(".gua/config.toml", "");
    assert!(
        program
            .gua(["config", "path"])
            .stdout
            .starts_with(&format!("{}  (exists)", file.display()))
    );
    let named = Program::new().variable("GUA_CONFIG", "/nowhere/x.toml");
    assert!(
        named
            .gua(["config", "path"])
            .stdout
            .starts_with("/nowhere/x.toml  (absent)\n")
    );
}

#[test]
fn without_home_the_passwd_entry_is_used() {
    let program = Program::new();
    let mut command = program.command(std::path::Path::new(crate::GUA));
    let output = command
        .env_remove("HOME")
        .args(["config", "path"])
        .output()
        .unwrap();
    let first = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned();
    assert!(first.contains("/.gua/config.toml"), "{first}");
    assert!(!first.starts_with(program.home().to_str().unwrap()));
}
